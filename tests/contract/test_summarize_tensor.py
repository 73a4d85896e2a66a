"""SummarizeTensor writes what TensorFlow's StringFormat writes: the reference, and the native kernel."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from contract.backends import BACKENDS, Call

from onnx_sparse.schemas import OPS
from onnx_sparse.schemas.declaration import element_type, numpy_dtype

tf = pytest.importorskip("tensorflow")

OP = OPS["SummarizeTensor"]
DTYPES = [numpy_dtype(dtype) for dtype in OP.types["T"]]
SHAPES = ((), (0,), (1,), (7,), (3, 0), (0, 3), (5, 1), (2, 0, 2), (2, 3, 4), (2, 1, 2, 3))
BYTES = [b"", b"\0", bytes(range(256)), 'say "日本"\r\n'.encode(), b"it's\\n\t\x7f", b"\xff\xc3", b"\x001"]

on_both_kernels = pytest.mark.parametrize("backend", [name for name in ("reference", "ORT native") if name in BACKENDS])


def random_tensor(dtype: np.dtype[Any], count: int) -> np.ndarray[Any, Any]:
    """Random memory, and numbers of few digits: of all magnitudes, subnormal ones, infinities and NaN among them."""
    random = np.random.default_rng(0)
    if dtype.kind == "O":
        return np.array([BYTES[k] for k in random.integers(0, len(BYTES), count)], object)
    if dtype.kind == "b":
        return random.integers(0, 2, count).astype(bool)
    memory = np.frombuffer(random.bytes(count * dtype.itemsize), dtype).copy()
    if dtype.kind not in "iu":
        powers = 10.0 ** random.integers(-10, 20, count)
        with np.errstate(over="ignore"):
            round_numbers = (random.integers(-(10**6), 10**6, count) * powers).astype(dtype)
        memory[::2] = round_numbers[::2]
        limits = ml_dtypes.finfo(dtype)
        some = [0, np.inf, np.nan, limits.max, limits.tiny, limits.smallest_subnormal, float(limits.tiny) * 0.75]
        special = np.array([float(number) for number in some]).astype(dtype)
        memory[: 2 * len(some)] = np.concatenate([special, np.copysign(special, np.array(-1, dtype))])[:count]
    return memory


def texts(backend: str, tensor: np.ndarray[Any, Any], summarize: int) -> tuple[bytes, bytes]:
    """Ours and TensorFlow's."""
    strings = np.vectorize(lambda text: text.decode("utf-8", "surrogateescape"), otypes=[object])
    given = strings(tensor) if tensor.dtype == object and tensor.size else tensor
    inputs = {"input": given, "summarize": np.array(summarize)}
    call = Call.of(OP, {"T": element_type(tensor.dtype)}, {}, inputs)
    (got,) = BACKENDS[backend](call, inputs)
    wanted = tf.raw_ops.StringFormat(
        inputs=[tf.constant(tensor, tf.string if tensor.dtype == object else tensor.dtype)],
        template="%s",
        summarize=summarize,
    )
    text = got.item()
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"), wanted.numpy()


@on_both_kernels
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_elements_of_all_kinds_equal_tensorflows(dtype: np.dtype[Any], backend: str) -> None:
    ours, theirs = texts(backend, random_tensor(dtype, 2_000), -1)
    assert ours == theirs


@on_both_kernels
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_brackets_spaces_and_dots_equal_tensorflows(shape: tuple[int, ...], backend: str) -> None:
    for summarize in (-5, -1, 0, 1, 2, 3, 100, 2**31 - 1):
        for dtype in DTYPES:
            if dtype.kind != "O":
                tensor = (np.arange(np.prod(shape, dtype=int)) % 100).astype(dtype).reshape(shape)
            else:
                tensor = np.full(shape, b"a", object)
            ours, theirs = texts(backend, tensor, summarize)
            assert ours == theirs, (summarize, dtype)
