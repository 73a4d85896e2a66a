"""Arrays at any address: a caller may pass a part of a buffer, and a file of tensors aligns them as it likes.

The results are the same on any machine; the build with sanitizers also sees a load that the language does not allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from contract.arguments import Arguments, calls
from contract.models import SEGMENT_SUM
from hypothesis import given
from native.sessions import Array, run, session_for
from native.sized_inputs import segment

from onnx_sparse import InferenceSession
from onnx_sparse.schemas import OPS, Op


def displaced(array: Array) -> Array:
    """A copy that begins one byte after an aligned address."""
    if array.dtype == object:
        return array
    memory = np.zeros(array.nbytes + 65, np.uint8)
    start = -memory.ctypes.data % 64 + 1
    copy = np.frombuffer(memory.data, array.dtype, array.size, start).reshape(array.shape)
    copy[...] = array
    return copy


def bindings(op: Op) -> Iterator[dict[str, int]]:
    """Each type of each variable once."""
    longest = max((len(types) for types in op.types.values()), default=1)
    for k in range(longest):
        yield {variable: types[k % len(types)] for variable, types in op.types.items()}


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_inputs_at_odd_addresses(op: Op) -> None:
    for binding in bindings(op):

        @given(calls(op, binding))
        def check_drawn(call: tuple[Arguments, dict[str, str]]) -> None:
            check(op.name, *call)

        check_drawn()


@pytest.mark.parametrize("op", [op for op in OPS if "Segment" in op and not op.startswith("Quantized")])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int64"])
def test_long_inputs_at_odd_addresses(op: str, dtype: str) -> None:
    attributes = {a.name: a.choices[0] for a in OPS[op].attributes}
    if dtype == "int64" and op.startswith("Embedding") and not op.endswith("Sum"):
        return
    for sizes in ((30_000, 3, 5), (30_000, 20_000, 40), (500, 100_000, 1)):
        inputs = segment(op, *sizes, dtype)
        for index in (np.int32, np.int64):
            indices = {n: a.astype(index) for n, a in inputs.items() if n not in ("data", "emb_table")}
            check(op, inputs | indices, attributes)


def check(op: str, inputs: Mapping[str, Array], attributes: Mapping[str, str]) -> None:
    expected = run(op, inputs, **attributes)
    got = run(op, {name: displaced(array) for name, array in inputs.items()}, **attributes)
    for one, other in zip(got, expected, strict=True):
        assert one.tolist() == other.tolist() if one.dtype == object else one.tobytes() == other.tobytes()
    if all(array.dtype.kind in "fiub" for array in (*inputs.values(), *expected)):  # others are not bound by address
        for one, other in zip(run_in_used_memory(op, inputs, expected, attributes), expected, strict=True):
            assert one.tobytes() == other.tobytes()


def run_in_used_memory(
    op: str, inputs: Mapping[str, Array], outputs: Sequence[Array], attributes: Mapping[str, str]
) -> list[Array]:
    """Run an operator whose empty inputs are at address 0, and whose outputs are in memory that is not zero."""
    session = session_for(op, inputs, **attributes)
    binding = session.io_binding()
    contiguous = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
    for name, array in contiguous.items():
        address = array.ctypes.data if array.size else 0
        binding.bind_input(name, "cpu", 0, array.dtype.type, inputs[name].shape, address)
    used = [np.frombuffer(b"\x5a" * array.nbytes, array.dtype).reshape(array.shape).copy() for array in outputs]
    for value, array in zip(session.get_outputs(), used, strict=True):
        binding.bind_output(value.name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
    session.run_with_iobinding(binding)
    return used


def test_an_output_at_an_odd_address() -> None:
    feeds: dict[str, Any] = {"data": np.array([[1, 2], [3, 4], [5, 6]], np.float32), "ids": np.array([0, 0, 2])}
    session = InferenceSession(SEGMENT_SUM, backend="native")
    output = displaced(np.zeros((3, 2), np.float32))
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(displaced(array)))
    binding.bind_output("y", "cpu", 0, np.float32, output.shape, output.ctypes.data)
    session.run_with_iobinding(binding)
    assert output.tolist() == [[4, 6], [0, 0], [5, 6]]


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("op", [op for op in OPS if op.startswith("Embedding")])
def test_empty_inputs_that_a_node_has_computed(op: str, index: str) -> None:
    """Their address is null."""
    bags = "offsets" in {declared.name for declared in OPS[op].inputs}
    text = f"""
    <ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
    g (float[v, 4] table, {index}[k] given, {index}[b] groups, {index} count, int64[1] kept) => (float[s, 4] output)
    <int64[1] zero = {{0}}>
    {{
      indices = Slice (given, zero, kept)
      output = onnx_sparse.{op} (table, indices, groups{"" if bags else ", count"})
    }}"""
    session = InferenceSession(onnx.parser.parse_model(text), backend="native")
    full = {"table": np.ones((3, 4), np.float32), "given": np.array([0, 1, 2, 2], index), "count": np.array(3, index)}
    groups = np.array([0, 1, 3] if bags else [0, 0, 1, 2], index)
    for _ in range(3):  # the memory of the first result is used again
        (result,) = session.run(None, {**full, "groups": groups, "kept": np.array([4])})
        assert result.all()
        del result
        none = np.zeros(3 if bags else 0, index)
        (result,) = session.run(None, {**full, "groups": none, "kept": np.array([0])})
        assert result.shape == (3, 4)
        assert not result.any()
