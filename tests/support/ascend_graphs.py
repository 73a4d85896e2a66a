"""Synthetic files in the formats of Ascend's tools, for the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from onnx import ModelProto

import onnx_sparse
from onnx_sparse.converters.ascend import convert

ACL_NUMBERS = {
    "float32": 0,
    "float16": 1,
    "int8": 2,
    "int32": 3,
    "uint8": 4,
    "uint32": 8,
    "int64": 9,
    "bool": 12,
    "bfloat16": 27,
}
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
ADD, MUL, NEG = {"elewiseType": 8}, {"elewiseType": 9}, {"elewiseType": 5}
X = np.array([1, 2, 3], np.float16)
Y = np.array([4, 5, 6], np.float16)


def operation(op_type: str, inputs: list[str], outputs: list[str], param: Any = "", name: str = "") -> dict[str, Any]:
    """A node of a topo file; empty lists are left out, as in the tools' files."""
    node = {"opName": name or f"{op_type}_0_{'_'.join(outputs or inputs)}", "opType": op_type, "param": param}
    if inputs:
        node["inTensors"] = inputs
    if outputs:
        node["outTensors"] = outputs
    return node


def layer(inputs: list[str], outputs: list[str], nodes: list[dict[str, Any]], name: str = "Layer_0") -> dict[str, Any]:
    """The topo file of a layer."""
    graph = {"opName": name, "opType": name.rpartition("_")[0], "param": "", "outTensors": outputs, "nodes": nodes}
    if inputs:
        graph["inTensors"] = inputs
    return graph


def write(folder: Path, document: Any, name: str = "layer.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def spec(array: np.ndarray) -> tuple[str, tuple[int, ...]]:
    return str(array.dtype), array.shape


def one_operation(
    folder: Path, op_type: str, param: Any, arrays: list[np.ndarray], results: int = 1, **options: Any
) -> Any:
    """The model of a layer with one operation."""
    names = [f"in{i}" for i in range(len(arrays))]
    outputs = [f"out{i}" for i in range(results)]
    path = write(folder, layer(names, outputs or names[:1], [operation(op_type, names, outputs, param)]))
    return convert(path, inputs={n: spec(a) for n, a in zip(names, arrays, strict=True)}, **options)


def run(model: Any, *arrays: np.ndarray, backend: str = "auto") -> list[np.ndarray]:
    """The outputs of a model, after a check that they have the shapes and element types that the model declares."""
    session = onnx_sparse.InferenceSession(model, backend=backend)
    names = [value.name for value in session.get_inputs()]
    results = session.run(None, dict(zip(names, arrays, strict=True)))
    values = model.graph.output if isinstance(model, ModelProto) else ()
    unranked = {value.name for value in values if not value.type.tensor_type.HasField("shape")}
    for declared, result in zip(session.get_outputs(), results, strict=True):
        if declared.name in unranked:  # which ONNX Runtime shows as a scalar
            continue
        shape = [dim if isinstance(dim, int) else size for dim, size in zip(declared.shape, result.shape, strict=True)]
        assert shape == list(result.shape), declared.name
    return results


def evaluate(folder: Path, op_type: str, param: Any, *arrays: np.ndarray, results: int = 1, **options: Any) -> Any:
    """The results of one operation."""
    return run(one_operation(folder, op_type, param, list(arrays), results, **options), *arrays)


def bin_bytes(array: np.ndarray, *, fields: dict[str, str] | None = None, layout: int = 2) -> bytes:
    """A tensor as ATB's dump tools write it."""
    data = array.tobytes()
    head = {
        "$Version": "1.0",
        "$Object.Count": "1",
        "$Object.Length": str(len(data)),
        "format": str(layout),
        "dtype": str(ACL_NUMBERS[str(array.dtype)]),
        "dims": ",".join(map(str, array.shape)),
        "$Object.data": f"0,{len(data)}",
        **(fields or {}),
    }
    lines = [f"{key}={value}\n" for key, value in head.items() if value is not None]
    return "".join([*lines, "$End=1\n"]).encode() + data


def write_tensors(folder: Path, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
    """Write the folder of one operation: the tensors that it read and wrote."""
    for when, side, arrays in (("before", "in", inputs), ("after", "out", outputs)):
        (folder / when).mkdir(parents=True, exist_ok=True)
        for index, array in enumerate(arrays):
            (folder / when / f"{side}tensor{index}.bin").write_bytes(bin_bytes(array))


def random(rng: np.random.Generator, dtype: Any, shape: tuple[int, ...], scale: float = 2.0) -> np.ndarray:
    kind = np.dtype(dtype)
    if kind.name in ("bool", "int8"):
        return np.asarray(rng.integers(0, 2, shape)).astype(kind)
    if kind.kind in "iu":
        return np.asarray(rng.integers(0, 10, shape)).astype(kind)
    return np.asarray(rng.standard_normal(shape) * scale).astype(kind)


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


def close(actual: np.ndarray, expected: np.ndarray, dtype: object = None) -> None:
    """Assert equality up to two units in the last place of the element type, as for results rounded from float32."""
    dtype = np.dtype(dtype if dtype is not None else actual.dtype)
    assert actual.dtype == dtype
    assert actual.shape == expected.shape
    tolerance = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-6}[dtype.name]
    np.testing.assert_allclose(actual.astype(np.float64), expected.astype(np.float64), tolerance, tolerance)


def fill(value: float) -> dict[str, object]:
    return {"withMask": True, "value": [value], "outDim": []}


def converted(tmp_path, graph, **inputs):
    return convert(write(tmp_path, graph), inputs={name: spec(array) for name, array in inputs.items()})
