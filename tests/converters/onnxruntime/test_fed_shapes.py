"""A Reshape to a shape that is an input: of a tensor without elements, ONNX Runtime infers no size beside one of 0."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnx_sparse
from onnx_sparse.converters.onnxruntime.guards import guard

#: What is fed, and the sizes of a tensor [rows, 3, 4] after it.
SHAPES = {
    (0, -1): lambda rows: (rows, 12),
    (0, 3, -1): lambda rows: (rows, 3, 4),
    (-1, 12): lambda rows: (rows, 12),
    (0, 12, 1): lambda rows: (rows, 12, 1),
    (-1,): lambda rows: (12 * rows,),
}

#: How the shape gets to the Reshape, whose input it is or what is made from it.
FORMS = {
    "shape": "y = Reshape (x, shape)",
    "cast": "s = Cast <to = 7> (shape) y = Reshape (x, s)",
    "vector": "n = Constant <value_ints = [-1]> () s = Reshape (shape, n) y = Reshape (x, s)",
}


@pytest.mark.parametrize("rows", [0, 2])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
def test_a_size_is_inferred(form: str, shape: tuple[int, ...], rows: int) -> None:
    dtype = "int32" if form == "cast" else "int64"
    graph = onnx.parser.parse_graph(
        f"g (float[rows, 3, 4] x, {dtype}[{len(shape)}] shape) => (float y) {{ {FORMS[form]} }}"
    )
    graph.output[0].type.tensor_type.ClearField("shape")
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    guard(model)
    x = np.arange(12 * rows, dtype=np.float32).reshape(rows, 3, 4)
    (got,) = onnx_sparse.InferenceSession(model).run(None, {"x": x, "shape": np.array(shape, dtype)})
    assert got.shape == SHAPES[shape](rows)
    assert (got.ravel() == x.ravel()).all()
