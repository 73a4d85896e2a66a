"""Scatters of files that keep only the last of the rows with equal ids: named, and repaired where that is asked for."""

from __future__ import annotations

import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, parser
from support.fused_models import TEXT_TYPES

import onnx_sparse
from onnx_sparse.converters.rewriting.rules.lost_rows import lost_rows

_AT: dict[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def elements(dtype: str = "float32", *, opset: int = 18, axis: int = 0) -> str:
    """Elements that are put to places of their own along an axis."""
    element = TEXT_TYPES.get(dtype, dtype)
    return f"""
    <ir_version: 8, opset_import: ["" : {opset}]>
    g ({element}[s, w] start, int64[k, v] ids, {element}[k, v] rows) => ({element}[s, w] output)
    {{ output = ScatterElements <axis = {axis}> (start, ids, rows) }}"""


def slices(dtype: str = "float32", *, opset: int = 18) -> str:
    """Rows that are put to others."""
    element = TEXT_TYPES.get(dtype, dtype)
    return f"""
    <ir_version: 8, opset_import: ["" : {opset}]>
    g ({element}[s, 3] start, int64[k, 1] ids, {element}[k, 3] rows) => ({element}[s, 3] output)
    {{ output = ScatterND (start, ids, rows) }}"""


def added(scatter: str = "ScatterElements") -> str:
    """What torch's TorchScript exporter writes for index_add, or for index_put(accumulate=True)."""
    columns = "indices = Expand (columns, shape)" if scatter == "ScatterElements" else "indices = Identity (columns)"
    return f"""
    <ir_version: 8, opset_import: ["" : 13], producer_name: "pytorch">
    g (float[s, 3] x, int64[k] ids, float[k, 3] rows) => (float[s, 3] output)
    <int64[1] axis = {{1}}>
    {{
      sizes = Shape (x)
      zeros = ConstantOfShape (sizes)
      shape = Shape (rows)
      columns = Unsqueeze (ids, axis)
      {columns}
      sums = {scatter} (zeros, indices, rows)
      output = Add (x, sums)
    }}"""


def repaired(model: ModelProto, repairs: Any) -> ModelProto:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what was repaired is not warned of
        return onnx_sparse.fuse(model, repair_scatter=repairs)


def result(model: ModelProto, **feeds: Any) -> Any:
    return onnx_sparse.InferenceSession(model).run(None, feeds)[0]


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("reduction", _AT)
@pytest.mark.parametrize("axis", [0, 1])
def test_elements(axis: int, reduction: str, dtype: str, opset: int):
    model = repaired(parser.parse_model(elements(dtype, opset=opset, axis=axis)), f"ScatterElements_output={reduction}")
    rng = np.random.default_rng(axis)
    start, rows = (rng.integers(-3, 4, shape).astype(dtype) for shape in ((3, 4), (3, 4)))
    ids = rng.integers(0, 3, (3, 4))
    want = start.copy()
    others = np.indices(ids.shape)
    _AT[reduction].at(want, (ids, others[1]) if axis == 0 else (others[0], ids), rows)
    np.testing.assert_array_equal(result(model, start=start, ids=ids, rows=rows), want)


@pytest.mark.parametrize("reduction", [*_AT, "mean"])
@given(st.lists(st.integers(-4, 3), max_size=9))
def test_slices(reduction: str, drawn: list[int]):
    """Rows that are there take part; negative ids count from the end, as in the file before."""
    model = repaired(parser.parse_model(slices()), f"ScatterND_output={reduction}")
    rng = np.random.default_rng(len(drawn))
    start, rows = (rng.integers(-3, 4, (size, 3)).astype(np.float32) for size in (4, len(drawn)))
    ids, want = np.array(drawn, np.int64), start.copy()
    if reduction == "mean":
        np.add.at(want, ids, rows)
        want /= 1 + np.bincount(ids % 4, minlength=4)[:, None].astype(np.float32)
    else:
        _AT[reduction].at(want, ids, rows)
    np.testing.assert_allclose(result(model, start=start, ids=ids[:, None], rows=rows), want, rtol=1e-6)


@pytest.mark.parametrize("scatter", ["ScatterElements", "ScatterND"])
def test_sum(scatter: str):
    """Named and left by default; a sum by one operator of the domain on request."""
    old = parser.parse_model(added(scatter))
    feeds = {"x": np.zeros((3, 3), np.float32), "ids": np.array([2, 2, 0]), "rows": np.ones((3, 3), np.float32)}
    with pytest.warns(UserWarning, match=f"{scatter}_sums: {scatter} of opset 13 keeps the last.*--repair-scatter add"):
        kept = onnx_sparse.fuse(old)
    assert kept == old
    new = repaired(old, "add")
    assert [node.op_type for node in new.graph.node if node.domain] == ["UnsortedSegmentSum"]
    assert result(new, **feeds)[:, 0].tolist() == [1, 0, 2]


@pytest.mark.parametrize("producer", ["pytorch", "tf2onnx"])
@pytest.mark.parametrize("start", ["start", "zeros"])
@pytest.mark.parametrize("is_added", [True, False])
def test_equal_rows(is_added: bool, start: str, producer: str):
    """They count where they are summed; where they are assigned, the last one is any one."""
    model = parser.parse_model(
        f"""
        <ir_version: 8, opset_import: ["" : 13], producer_name: "{producer}">
        g (float[s, 1] start, int64[k, 1] ids) => (float[s, 1] output)
        <float one = {{1}}>
        {{
          sizes = Shape (start)
          zeros = ConstantOfShape (sizes)
          shape = Shape (ids)
          ones = Expand (one, shape)
          placed = ScatterND ({start}, ids, ones)
          output = {"Add (start, placed)" if is_added else "Identity (placed)"}
        }}"""
    )
    is_sum = start == "zeros" and (is_added or producer == "tf2onnx")
    assert [node for node, _ in lost_rows(model)] == (["ScatterND_placed"] if is_sum else [])
    if is_sum:
        feeds = {"start": np.zeros((3, 1), np.float32), "ids": np.array([[2], [2], [0], [-1]])}
        assert result(repaired(model, "add"), **feeds)[:, 0].tolist() == [1, 0, 3]


def test_an_id_out_of_range_stays_an_error():
    model = repaired(parser.parse_model(added()), "add")
    feeds = {"x": np.zeros((3, 3), np.float32), "rows": np.ones((1, 3), np.float32)}
    for beyond in (3, -4):
        with pytest.raises(Exception, match="out of"):
            result(model, **feeds, ids=np.array([beyond]))


_DISTINCT = {
    "constant": ("int64[2, 1] at = {0, 2}", ""),
    "positions": ("", "count = Shape (rows)\n first = Gather (count, zero)\n numbers = Range (zero, first, one)"),
    "mask": ("", "chosen = Greater (x, x)\n found = NonZero (chosen)\n numbers = Gather (found, zero)"),
    "order": ("", "ends = Shape (rows)\n most = Slice (ends, zeros, ones)\n best, numbers = TopK (x, most)"),
}


@pytest.mark.parametrize("kind", _DISTINCT)
def test_ids_that_differ_are_not_named(kind: str):
    constants, nodes = _DISTINCT[kind]
    at = "at" if constants else "column"
    column = "" if constants else "column = Unsqueeze (numbers, ones)"
    more = f", {constants}" if constants else ""
    model = parser.parse_model(f"""
    <ir_version: 8, opset_import: ["" : 18], producer_name: "pytorch">
    g (float[s] x, float[k] rows) => (float[s] output)
    <int64 zero = {{0}}, int64 one = {{1}}, int64[1] zeros = {{0}}, int64[1] ones = {{1}}{more}>
    {{
      {nodes}
      {column}
      sizes = Shape (x)
      start = ConstantOfShape (sizes)
      put = ScatterND (start, {at}, rows)
      output = Add (x, put)
    }}""")
    assert lost_rows(onnx.shape_inference.infer_shapes(model)) == []


def test_constant_ids_of_both_signs_may_be_one_place():
    text = added().replace("int64[k] ids, ", "").replace("{1}>", "{1}, int64[2] ids = {-1, 2}>")
    assert len(lost_rows(parser.parse_model(text))) == 1


@pytest.mark.parametrize("producer", ["pytorch", "tf2onnx"])
def test_slices_in_zeros(producer: str):
    """tf.scatter_nd adds, torch's index_put assigns."""
    model = parser.parse_model(
        slices().replace("start, ids", "zeros, ids").replace("{ out", "{ n = Shape (start)\nout")
    )
    model.producer_name = producer
    model.graph.node.insert(1, onnx.helper.make_node("ConstantOfShape", ["n"], ["zeros"]))
    assert [node for node, _ in lost_rows(model)] == (["ScatterND_output"] if producer == "tf2onnx" else [])


def test_wrong_requests():
    model = parser.parse_model(added())
    with pytest.raises(ValueError, match="'avg' repairs no scatter; add, mul, max, min, mean do"):
        onnx_sparse.fuse(model, repair_scatter="avg")
    with pytest.raises(ValueError, match="nothing is not a scatter that loses rows"):
        onnx_sparse.fuse(model, repair_scatter="nothing=add")


def _old_file(call: Any, arguments: tuple[Any, ...], path: Path, opset: int | None) -> ModelProto:
    import torch

    class Module(torch.nn.Module):
        def forward(self, x: Any, ids: Any) -> Any:
            return call(x, ids)

    many = torch.export.Dim.DYNAMIC
    options: dict[str, Any] = {"dynamo": True, "dynamic_shapes": ({0: many}, {0: many}), "external_data": False}
    if opset is not None:
        axes = {"x": {0: "n"}, "ids": {0: "m"}}
        options = {"dynamo": False, "opset_version": opset, "input_names": ["x", "ids"], "dynamic_axes": axes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(Module(), arguments, path, **options)
    return onnx.load(path)


def _column(ids: Any, x: Any) -> Any:
    return ids.view(-1, 1).expand(-1, x.shape[1])


def _pooled(x: Any, ids: Any, reduction: str) -> Any:
    scatter = pytest.importorskip("torch_geometric.utils").scatter
    return scatter(x, ids, dim=0, dim_size=x.shape[0], reduce=reduction)


def _reduced(reduction: str) -> Any:
    return lambda x, ids: x.new_zeros(x.shape).scatter_reduce(0, _column(ids, x), x, reduction, include_self=False)


#: What is written wrongly: the call, the request that repairs it, the opsets (None: torch.onnx.export(dynamo=True)).
_WRONG = {
    "scatter_add": (lambda x, ids: x.new_zeros(x.shape).scatter_add(0, _column(ids, x), x), "add", [9, 11, 15]),
    "index_add": (lambda x, ids: x.index_add(0, ids, 2 * x), "add", [9, 13, 18]),
    "index_put": (lambda x, ids: x.index_put((ids,), 2 * x, accumulate=True), "add", [11, 13, 18]),
    "index_put_of_elements": (lambda x, ids: x.index_put((ids, ids % 3), x[:, 0], accumulate=True), "add", [11, 16]),
    "counts_by_index_add": (lambda x, ids: x[:, 0].index_add(0, ids, x.new_ones(ids.shape[0])), "add", [9, 13, 18]),
    "counts_by_scatter_add": (
        lambda x, ids: x.new_zeros(x.shape[0]).scatter_add(0, ids, x.new_ones(ids.shape[0])),
        "add",
        [9, 15],
    ),
    "counts_by_index_put": (
        lambda x, ids: x.new_zeros(x.shape[0]).index_put((ids,), x.new_ones(()), accumulate=True),
        "add",
        [11, 13, 18],
    ),
    "mean": (_reduced("mean"), "mean", [None]),
    "mean_with_self": (
        lambda x, ids: x.scatter_reduce(0, _column(ids, x), 2 * x, "mean"),
        "node_scatter_reduce=mean",
        [None],
    ),
    "largest": (lambda x, ids: _pooled(x, ids, "max"), "max", [16, 18]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _WRONG)
def test_old_files(name: str, tmp_path: Path):
    """What torch's exporters write wrongly is named, and equal to torch when it is repaired."""
    torch = pytest.importorskip("torch")
    call, request, opsets = _WRONG[name]
    for opset in opsets:
        arguments = torch.randn(4, 3), torch.tensor([2, 2, 0, 1])
        old = _old_file(call, arguments, tmp_path / "old.onnx", opset)
        named = lost_rows(onnx.shape_inference.infer_shapes(old, data_prop=True))
        assert len(named) == 1, (opset, named)
        assert "--repair-scatter" in named[0][1]
        new = repaired(old, request)
        for ids in ([2, 2, 0, 1], [1, 1, 1, 1, 1, 0]):
            x = -torch.rand(len(ids), 3)
            feeds = dict(zip([value.name for value in old.graph.input], (x.numpy(), np.array(ids)), strict=True))
            want = call(x, torch.tensor(ids))
            np.testing.assert_allclose(result(new, **feeds), want.numpy(), rtol=1e-5, err_msg=f"opset {opset}")


def in_functions(calls: int = 1, nested: bool = False, name: str = "") -> ModelProto:
    """`added`, in a function of the model, as torch's exporters wrote their operators and modules."""
    whole = parser.parse_model(added())
    nodes = list(whole.graph.node)
    for node in nodes:
        node.name = name and f"{name}_{node.op_type}"
    axis = onnx.helper.make_node("Constant", [], ["axis"], value_ints=[1])
    opsets = list(whole.opset_import)
    inner = onnx.helper.make_function(
        "pkg.torch", "index_add", ["x", "ids", "rows"], ["output"], [axis, *nodes], opsets
    )
    whole.functions.append(inner)
    whole.opset_import.add(domain="pkg.torch", version=1)
    called = "index_add"
    if nested:
        opsets = list(whole.opset_import)
        call = onnx.helper.make_node("index_add", ["x", "ids", "rows"], ["output"], domain="pkg.torch")
        outer = onnx.helper.make_function("pkg.torch", "layer", ["x", "ids", "rows"], ["output"], [call], opsets)
        whole.functions.append(outer)
        called = "layer"
    del whole.graph.node[:], whole.graph.initializer[:]
    names = ["x", *(f"sum{k}" for k in range(1, calls)), "output"]
    for before, after in pairwise(names):
        whole.graph.node.add(op_type=called, domain="pkg.torch", input=[before, "ids", "rows"], output=[after])
    onnx.checker.check_model(whole)
    return whole


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("name", ["", "sum"])
def test_scatters_in_functions(name: str, calls: int, nested: bool):
    """They are found, one for each call, and repaired."""
    model = in_functions(calls, nested, name)
    assert len(lost_rows(model)) == calls
    x, ids, rows = np.zeros((4, 3), np.float32), np.array([1, 3, 1]), np.ones((3, 3), np.float32)
    whole = repaired(model, "add")
    np.add.at(x, ids, calls * rows)
    np.testing.assert_array_equal(result(whole, x=np.zeros_like(x), ids=ids, rows=rows), x)
    assert not lost_rows(whole)


def test_a_function_that_cannot_be_inlined_stays():
    """It reads what it does not have: that is said by the checker, and nothing is said of its scatter."""
    model = in_functions()
    model.functions[0].node[1].input[0] = "missing"
    assert lost_rows(model) == []
