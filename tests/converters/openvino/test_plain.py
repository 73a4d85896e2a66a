"""OpenVINO reads lowered models without our extensions, and computes the same."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from contract.arguments import Arguments
from contract.backends import PlainSession
from contract.test_lowered import WITH_BODIES, example_inputs, example_model
from onnx import ModelProto
from support.openvino_runs import FLOAT32, outputs_of

import onnx_sparse
from onnx_sparse.schemas import OPS, Op

ov = pytest.importorskip("openvino")


def compare(m: ModelProto, inputs: Arguments, folder: Path) -> None:
    """Run a model in OpenVINO and in ONNX Runtime."""
    onnx.save(m, folder / "plain.onnx")
    core = ov.Core()
    compiled = core.compile_model(core.read_model(folder / "plain.onnx"), "CPU", FLOAT32)
    for got, expected in zip(outputs_of(compiled, inputs), PlainSession(m).run(None, inputs), strict=True):
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def cases(ops: Iterable[Op]) -> list[Any]:
    """The operators, with what OpenVINO is known to compute otherwise."""
    reason = "OpenVINO computes 64-bit integers in 32 bits: the key 2^62 is 0"
    marks = {"FindKeys": [pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason)]}
    return [pytest.param(op, marks=marks.get(op.name, ()), id=op.name) for op in ops]


@pytest.mark.parametrize("op", cases(WITH_BODIES))
def test_every_operator(op: Op, tmp_path: Path) -> None:
    compare(onnx_sparse.lower(example_model(op)), example_inputs(op)[2], tmp_path)


@pytest.mark.parametrize("op", cases(op for op in WITH_BODIES if any(i.optional for i in op.inputs)))
def test_sentinels(op: Op, tmp_path: Path) -> None:
    """Its frontend takes no empty constants."""
    optional = tuple(i.name for i in op.inputs if i.optional)
    m = onnx_sparse.canonicalize(example_model(op, without=optional))
    inputs = {name: value for name, value in example_inputs(op)[2].items() if name not in optional}
    compare(onnx_sparse.lower(m), inputs, tmp_path)


@pytest.mark.parametrize("order", ["row_major", "row_stable"])
def test_rows_keep_their_order(order: str, tmp_path: Path) -> None:
    """Its TopK does not keep the order of equal keys."""
    random = np.random.default_rng(0)
    count = 200
    indices = np.stack([random.integers(0, 50, count), random.permutation(count)], axis=1)
    fed: dict[str, Any] = {
        "values": np.arange(count, dtype=np.float32),
        "dense_shape": np.array([60, count]),
        "indices": indices,
        "default_value": np.array(-1, np.float32),
    }
    m = example_model(OPS["SparseFillEmptyRows"])
    next(n for n in m.graph.node if n.domain == onnx_sparse.DOMAIN).attribute[0].s = order.encode()
    compare(onnx_sparse.lower(m), fed, tmp_path)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("SegmentSum", ""),
        ("SegmentMax", '<fill_mode = "ZERO">'),
        ("UnsortedSegmentMean", ""),
        ("UnsortedSegmentMin", ""),
    ],
)
def test_many_rows(op: str, attributes: str, tmp_path: Path) -> None:
    """These are reduced in blocks, of segments that are empty, short and long."""
    rng = np.random.default_rng(0)
    ids = np.sort(np.concatenate([rng.integers(0, 300, 900), np.full(200, 7)]))
    m = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
    g (float[k, 64] rows, int64[k] ids, int64 size) => (float[s, 64] y) {{
        y = onnx_sparse.{op} {attributes} (rows, ids, size)
    }}""")
    given = ids if op.startswith("Segment") else rng.permutation(ids)
    inputs = {"rows": rng.standard_normal((len(ids), 64)).astype(np.float32), "ids": given, "size": np.array(310)}
    compare(onnx_sparse.lower(m), inputs, tmp_path)
