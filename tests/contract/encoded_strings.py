"""Encoded strings: drawing legal inputs of the operators that read them, and the oracles, by Python's own modules.

Strings that are not text have all the same number of bytes, so that sessions in Python take them.
"""

from __future__ import annotations

import base64
import gzip
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
from contract.expected import Expected, Inputs, elements
from onnx import TensorProto

from onnx_sparse.converters.tensorflow.reading import messages
from onnx_sparse.converters.tensorflow.reading.element_types import NAMES, NUMBERS
from onnx_sparse.schemas.declaration import numpy_dtype

Array = np.ndarray[Any, Any]

SHAPES: tuple[tuple[int, ...], ...] = ((2,), (), (0,), (9,), (3, 2), (2, 0))
TEXTS = ("", "a", "ab", "日本語", "x" * 50, "?>~ß")

#: struct's letters of numpy's types.
_LETTERS = {"float16": "e", "float32": "f", "float64": "d", "bool": "?", "bfloat16": "H"} | {
    f"{sign}int{size}": (letter.lower() if not sign else letter)
    for sign in ("", "u")
    for size, letter in ((8, "B"), (16, "H"), (32, "I"), (64, "Q"))
}


def _filled(random: np.random.Generator, texts: list[Any]) -> Array:
    shape = SHAPES[random.integers(len(SHAPES))]
    made = np.empty(shape, object)
    for position in np.ndindex(*shape):
        made[position] = texts[random.integers(len(texts))]
    return made


def legal_base64(random: np.random.Generator) -> dict[str, Array]:
    encoded = [base64.urlsafe_b64encode(text.encode()).decode() for text in TEXTS]
    return {"input": _filled(random, [*encoded, *(text.rstrip("=") for text in encoded)])}


def legal_raw(random: np.random.Generator, dtype: np.dtype[Any]) -> dict[str, Array]:
    """Strings of ASCII, which are numbers of every type."""
    count = int(random.choice([1, 2, 5])) * dtype.itemsize
    fixed = int(random.choice([-1, dtype.itemsize, 3 * dtype.itemsize]))
    lengths = [count] if fixed == -1 else [0, 1, count, 2 * count + 1]
    texts = ["".join(map(chr, random.integers(32, 127, random.choice(lengths)))) for _ in range(5)]
    return {"input": _filled(random, texts), "fixed_length": np.array(fixed), "like": np.zeros((), dtype)}


def legal_compressed(random: np.random.Generator, compression: str) -> dict[str, Array]:
    """Streams of one length: of texts of one length, stored as they are, or one that is compressed."""
    stored = [bytes(random.integers(32, 127, 20).astype(np.uint8)) for _ in range(3)]
    texts, level = (stored, 0) if random.random() < 0.5 else ([b"compressed " * 20_000], 9)
    compress = zlib.compress if compression == "ZLIB" else gzip.compress
    return {"input": _filled(random, [compress(text, level) for text in texts])}


def _list_of(name: str) -> str:
    """The list in a TensorProto that has the values of a type."""
    own = {"float32": "float", "float64": "double", "float16": "half", "bfloat16": "half"}
    names = ("string", "int64", "bool", "uint32", "uint64")
    return f"{own.get(name, name if name in names else 'int')}_val"


def legal_tensor(random: np.random.Generator, dtype: int) -> dict[str, Array]:
    """A TensorProto with its values as bytes or in a list, of which the last may be repeated."""
    shape = SHAPES[random.integers(len(SHAPES))]
    like = np.array("" if dtype == TensorProto.STRING else 0, numpy_dtype(dtype))
    name = "string" if dtype == TensorProto.STRING else like.dtype.name
    message = messages.message("TensorProto")(dtype=NUMBERS[name])
    message.tensor_shape.SetInParent()
    for size in shape:
        message.tensor_shape.dim.add(size=size)
    count = int(np.prod(shape))
    if random.random() < 0.4 and dtype != TensorProto.STRING and count:
        memory = random.integers(0, 2, count).astype(np.uint8) if like.dtype == bool else random.integers(0, 100, count)
        message.tensor_content = memory.astype(like.dtype).tobytes()
    else:
        given = int(random.integers(0, count + 2))
        values: Any = random.integers(0, 2**31, given).tolist()
        if dtype == TensorProto.STRING:
            values = [TEXTS[k % len(TEXTS)].encode() for k in values]
        getattr(message, _list_of(name)).extend(values)
    return {"serialized": np.array(message.SerializeToString(), object), "like": like}


def decode_base64(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    texts = inputs["input"]
    decoded = [base64.b64decode(text + "=" * (-len(text) % 4), b"-_").decode() for text in texts.reshape(-1)]
    return {"output": Expected.exactly(object, texts.shape, decoded)}


def encode_base64(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    texts = inputs["input"]
    encoded = [base64.b64encode(text.encode(), b"-_").decode() for text in texts.reshape(-1)]
    if attributes["padding"] == "NONE":
        encoded = [text.replace("=", "") for text in encoded]
    return {"output": Expected.exactly(object, texts.shape, encoded)}


def decode_raw(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    """By struct."""
    texts, dtype, fixed = inputs["input"], inputs["like"].dtype, int(inputs["fixed_length"])
    length = fixed if fixed >= 0 else len(texts.reshape(-1)[0]) if texts.size else 0
    count = length // dtype.itemsize
    order = "<" if attributes["byte_order"] == "LITTLE" else ">"
    numbers: list[Any] = []
    for text in texts.reshape(-1):
        memory = bytearray(length)
        memory[: len(text[:length])] = text.encode()[:length]
        numbers += struct.unpack(f"{order}{count}{_LETTERS[dtype.name]}", memory)
    if dtype.name == "bfloat16":
        numbers = np.array(numbers, np.uint16).view(ml_dtypes.bfloat16).astype(float).tolist()
    return {"output": Expected.exactly(dtype, (*texts.shape, count), numbers)}


def decode_compressed(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    decompress = zlib.decompress if attributes["compression"] == "ZLIB" else gzip.decompress
    texts = [decompress(text).decode() for text in inputs["input"].reshape(-1)]
    return {"output": Expected.exactly(object, inputs["input"].shape, texts)}


def parse_tensor(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    """By protobuf."""
    message = messages.message("TensorProto").FromString(inputs["serialized"].item())
    shape, dtype = [dim.size for dim in message.tensor_shape.dim], inputs["like"].dtype
    count = int(np.prod(shape))
    if message.tensor_content:
        values = elements(np.frombuffer(message.tensor_content, dtype))
    else:
        held = list(getattr(message, _list_of(NAMES[message.dtype])))[:count]
        held += (held[-1:] or [b"" if dtype.kind == "O" else 0]) * (count - len(held))
        if dtype.kind == "O":
            values = [value.decode() for value in held]
        elif message.half_val:
            values = elements(np.array(held).astype(np.uint16).view(dtype))
        else:
            values = elements(np.array(held).astype(dtype))
    return {"output": Expected.exactly(dtype, shape, values)}
