"""Synthetic GE graphs for the tests, in text and binary form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.ascend_graphs import run

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.ascend import convert
from onnx_sparse.converters.ascend.ge import schema

GE_NUMBERS = {
    "float32": 1,
    "float16": 2,
    "int8": 3,
    "uint8": 4,
    "int16": 5,
    "uint16": 6,
    "int32": 7,
    "int64": 8,
    "uint32": 9,
    "uint64": 10,
    "bool": 11,
    "float64": 12,
    "bfloat16": 27,
}
_STRING = 13
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, I32, I64 = np.float16, np.float32, np.int32, np.int64
#: The second input is a constant.
AT = {"constants": (1,)}


def c(*values: int) -> np.ndarray:
    """Sizes, axes or places."""
    return np.array(values, I64)


def n(value: int) -> np.ndarray:
    """A number."""
    return np.array(value, I32)


#: How a graph describes the shape of a tensor: whole, without its rows, without its sizes, or without its rank.
SAID = {
    "all": lambda shape: shape,
    "no rows": lambda shape: (-1, *shape[1:]) if shape else shape,
    "no sizes": lambda shape: (-1,) * len(shape),
    "no rank": lambda shape: (-2,),
}


def described(desc: Any, dtype: object, shape: tuple[int, ...], layout: str = "ND") -> None:
    """Fill in a TensorDescriptor."""
    desc.dtype, desc.layout = _STRING if np.dtype(dtype).kind == "O" else GE_NUMBERS[str(np.dtype(dtype))], layout
    desc.shape.dim.extend(shape)


def attribute(op: Any, name: str, value: Any) -> None:
    entry = op.attr.add(key=name)
    if isinstance(value, bool):
        entry.value.b = value
    elif isinstance(value, int):
        entry.value.i = value
    elif isinstance(value, float):
        entry.value.f = value
    elif isinstance(value, str):
        entry.value.s = value.encode()
    elif isinstance(value, list):
        entry.value.list.i.extend(value)
    else:
        described(entry.value.t.desc, value.dtype, value.shape)
        entry.value.t.data = value.tobytes()


class Graph:
    """A graph under construction; `data(...)`, `const(...)` and `op(...)` add a node and return its name."""

    def __init__(self) -> None:
        self.model = schema.new("ModelDef")
        self.model.name = "model"
        self.graph = self.model.graph.add(name="graph_1")
        self._data = 0

    def node(self, name: str, op_type: str, inputs: list[str], **attributes: Any) -> Any:
        op = self.graph.op.add(name=name, type=op_type)
        op.input.extend(source if ":" in source or not source else f"{source}:0" for source in inputs)
        for key, value in attributes.items():
            attribute(op, key, value)
        return op

    def data(self, name: str, dtype: object, shape: tuple[int, ...]) -> str:
        op = self.node(name, "Data", [""], index=self._data)
        described(op.output_desc.add(), dtype, shape)
        self._data += 1
        return name

    def const(self, name: str, array: np.ndarray) -> str:
        op = self.node(name, "Const", [], value=array)
        described(op.output_desc.add(), array.dtype, array.shape)
        return name

    def op(self, op_type: str, *inputs: str, name: str = "", result: Any = None, **attributes: Any) -> str:
        """An operator; `result` is (dtype, shape) of its first result."""
        label = name or f"{op_type}_{len(self.graph.op)}"
        op = self.node(label, op_type, list(inputs), **attributes)
        if result is not None:
            described(op.output_desc.add(), *result)
        return label

    def output(self, *sources: str) -> Graph:
        self.node("NetOutput", "NetOutput", list(sources))
        return self

    def write(self, folder: Path, name: str = "graph.air") -> Path:
        path = folder / name
        if name.endswith(".air"):
            path.write_bytes(self.model.SerializeToString())
        else:
            path.write_text(schema.to_text(self.graph if name.startswith("dynamo") else self.model))
        return path


def evaluate(
    folder: Path,
    run: Callable[..., list[np.ndarray]],
    op_type: str,
    inputs: list[np.ndarray | None],
    constants: tuple[int, ...] = (),
    results: int = 1,
    result: Any = None,
    said: str = "all",
    **attributes: Any,
) -> list[np.ndarray]:
    """The results of one operator; some inputs are constants of the graph, and `said` is what it says of the others."""
    graph = Graph()
    names, feeds = [], []
    for index, array in enumerate(inputs):
        if array is None:
            names.append("")
        elif index in constants:
            names.append(graph.const(f"c{index}", array))
        else:
            names.append(graph.data(f"d{index}", array.dtype, SAID[said](array.shape)))
            feeds.append(array)
    made = graph.op(op_type, *names, name="made", result=result, **attributes)
    graph.output(*(f"{made}:{position}" for position in range(results)))
    return run(convert(graph.write(folder)), *feeds)


#: (operator, inputs, options of evaluate, expected results)
Case = tuple[str, list[Any], dict[str, Any], list[Any]]
#: Operators that need more of a shape than one axis, by what is said.
_NEEDS = {
    "no sizes": {"QuantBatchMatmulV3"},
    "no rank": {
        *("MatMulV2", "MatMul", "BatchMatMulV2", "BatchMatMul", "LayerNormV3", "RmsNorm", "SparseToDense"),
        *("FlattenV2", "Flatten", "AddRmsNorm", "QuantBatchMatmulV3", "DynamicPartition", "DynamicStitch", "PRelu"),
        *("ParallelDynamicStitch", "UniqueExt2", "UniqueWithCountsExt2", "IndexByTensor", "Index"),
        *("IndexPutV2", "InplaceIndexAdd", "SearchSorted", "MatMulV3", "BatchMatMulV3", "LayerNorm", "GroupNormV2"),
        *("GroupNorm", "GroupNormSilu", "ReverseSequence", "SpaceToDepth", "DepthToSpace", "SpaceToBatchND"),
        *("BatchToSpaceND", "Cumprod", "CumulativeLogsumexp"),
    },
}


def every_way(cases: list[Case]) -> list[Any]:
    """Each case with whole shapes and without rows, and the first of each operator also without sizes or rank."""
    first = {case[0]: id(case) for case in reversed(cases)}
    return [
        pytest.param(case, said, id=f"{case[0]}, {said}")
        for case in cases
        for said in SAID
        if said in ("all", "no rows") or first[case[0]] == id(case)
    ]


def check_case(folder: Path, case: Case, said: str) -> None:
    """Whether an operator's results are right up to a few roundings, whatever the graph says of its inputs' shapes."""
    op_type, inputs, options, expected = case
    arrays = [np.array(array, order="C") for array in inputs]
    if op_type in _NEEDS.get(said, ()):
        with pytest.raises(ConversionError, match=r"the rank of|unknown number of terms"):
            evaluate(folder, run, op_type, arrays, said=said, **options)
        return
    results = evaluate(folder, run, op_type, arrays, said=said, **options)
    for result, wanted in zip(results, map(np.asarray, expected), strict=False):
        assert result.shape == wanted.shape
        if wanted.dtype.kind != "f":
            assert result.dtype == wanted.dtype
            np.testing.assert_array_equal(result, wanted)
        else:
            assert result.dtype in (wanted.dtype, np.dtype(np.float32))
            np.testing.assert_allclose(result.astype(np.float64), wanted, 2e-5, 2e-6)
