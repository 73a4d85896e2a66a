"""Element types without a kernel."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from onnx import TensorProto, parser

from onnx_sparse import InferenceSession, fuse

DTYPES = {"float": np.float32, "double": np.float64}


@pytest.mark.parametrize("kind", ["uint32", "uint64", "int64", "double"])
def test_numbers_that_are_moved_are_not_rounded(kind: str) -> None:
    """Of a rank that is not known, elements cannot be gathered; the floats that have a kernel do not hold them."""
    model = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 18]>
        g (x) => ({kind}[a, b] y) <int64[2] sizes = {{2, 5}}> {{
          y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric"> (x, , , sizes)
        }}"""
    )
    tensor = model.graph.input[0].type.tensor_type
    tensor.elem_type = TensorProto.DataType.Value(kind.upper())
    with pytest.warns(UserWarning, match="'x' is"):
        fuse(model)


@pytest.mark.parametrize(
    ("node", "sizes", "types"),
    [
        ("GridSample (a, b)", ["[1, 1, 4, 4]", "[1, 2, 2, 2]"], ["double", "float"]),
        ("GridSample (a, b)", ["[1, 1, 4, 4]", "[1, 2, 2, 2]"], ["float", "double"]),
        *(
            ("BatchNormalization (a, b, c, d, e)", ["[3, 2]", *["[2]"] * 4], [first, *[second] * 2, *[third] * 2])
            for first, second, third in itertools.product(("float", "double"), repeat=3)
            if len({first, second, third}) > 1
        ),
    ],
)
def test_floats_beside_doubles_are_computed_as_doubles(node: str, sizes: list[str], types: list[str]) -> None:
    """Results are those of operands that are all doubles, rounded once."""
    rng = np.random.default_rng(3)
    names = "abcde"[: len(sizes)]
    text = ", ".join(f"{kind}{size} {name}" for kind, size, name in zip(types, sizes, names, strict=True))
    feeds = {
        name: rng.random(json.loads(size)).astype(DTYPES[kind])
        for kind, size, name in zip(types, sizes, names, strict=True)
    }
    head = '<ir_version: 10, opset_import: ["" : 20]>'
    mixed = fuse(parser.parse_model(f"{head} g ({text}) => ({types[0]} y) {{ y = {node} }}"))
    (made,) = InferenceSession(mixed).run(None, feeds)
    all_doubles = parser.parse_model(f"{head} g ({text.replace('float', 'double')}) => (double y) {{ y = {node} }}")
    (wanted,) = InferenceSession(all_doubles).run(None, {name: each.astype(float) for name, each in feeds.items()})
    assert made.tolist() == wanted.astype(DTYPES[types[0]]).tolist()
