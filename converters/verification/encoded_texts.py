"""Texts for inputs that a model decodes: lines of CSV, base64, compressed data, the memory of numbers, tensors."""

from __future__ import annotations

import base64
import gzip
import math
import zlib
from collections.abc import Iterator

import numpy as np
from onnx import NodeProto, TensorProto

from onnx_sparse.converters.verification.dataflow import Dataflow, Origin
from onnx_sparse.schemas import DOMAIN, OPS
from onnx_sparse.schemas.declaration import DType, element_type
from onnx_sparse.schemas.encodings import TENSOR_TYPES

#: How many texts an input has to be drawn from.
_COUNT = 12
#: How many numbers a string holds where nothing tells.
_NUMBERS = 8
#: How many nodes behind a decoder are looked at.
_DEPTH = 8

#: What stands in columns of each type; every number is exact in every type.
_CELLS: dict[DType, tuple[str, ...]] = {
    TensorProto.FLOAT: ("1.5", "0", "-2.25", "3"),
    TensorProto.DOUBLE: ("0.5", "7", "-1.25"),
    TensorProto.INT32: ("7", "0", "1", "2"),
    TensorProto.INT64: ("3", "0", "1", "2"),
    TensorProto.STRING: ("a", "b c", "word"),
}
#: Operators that hand strings on.
_HANDED_ON = frozenset({"Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "StringStrip"})

#: The most significant byte of ASCII with which floating-point numbers are between 2^-9 and 1.
_TOP = {"float16": "8", "bfloat16": "?", "float32": "?", "float64": "?"}


def encoded_texts(flow: Dataflow) -> dict[Origin, list[str]]:
    """Legal texts for each input that is decoded; a surrogate stands for a byte that is not UTF-8."""
    found = {}
    for name in sorted(flow.inputs):
        texts = _texts(flow, name, 0)
        if texts:
            found[Origin(name)] = [text.decode("utf-8", "surrogateescape") for text in texts]
    return found


def _texts(flow: Dataflow, name: str, depth: int) -> list[bytes] | None:
    """What a tensor of strings may hold; None where it is not decoded."""
    for node in flow.readers(name) if depth < _DEPTH else ():
        if name != node.input[0]:
            continue
        if node.op_type in _HANDED_ON:
            texts = _texts(flow, node.output[0], depth + 1)
        elif node.domain == DOMAIN:
            texts = _decoded(flow, node, depth)
        else:
            continue
        if texts is not None:
            return texts
    return None


def _decoded(flow: Dataflow, node: NodeProto, depth: int) -> list[bytes] | None:
    """What a decoder reads."""
    if node.op_type == "DecodeCSV":
        return _lines(flow, node)
    if node.op_type == "DecodeRaw":
        return _memory(flow, node)
    if node.op_type == "ParseTensor":
        return _tensors(flow, node)
    if node.op_type not in ("DecodeBase64", "DecodeCompressed"):
        return None
    inner = _texts(flow, node.output[0], depth + 1) or [b"", b"a", b"two words", "日本".encode() * 5]
    if node.op_type == "DecodeBase64":
        return [base64.urlsafe_b64encode(text) for text in inner]
    compression = next(attribute.s for attribute in node.attribute if attribute.name == "compression")
    return [zlib.compress(text) if compression == b"ZLIB" else gzip.compress(text, mtime=0) for text in inner]


def _lines(flow: Dataflow, node: NodeProto) -> list[bytes] | None:
    names = [declared.name for declared in OPS["DecodeCSV"].inputs]
    inputs = {name: flow.constant(given) for name, given in zip(names, node.input, strict=True)}
    types, required, delimiter, missing = (inputs[name] for name in ("types", "required", "delimiter", "na_value"))
    columns = inputs["columns"]
    if types is None or required is None or delimiter is None or missing is None or columns is None:
        return None
    places = columns.tolist() or list(range(types.size))
    quotes = all(attribute.s != b"NONE" for attribute in node.attribute)
    lines = []
    for k in range(_COUNT):
        cells = ["x"] * (places[-1] + 1 if places else 0)
        for f, place in enumerate(places):
            choices = _CELLS[int(types[f])]
            cells[place] = choices[(k + f) % len(choices)]
            if not required[f] and k % 4 == f % 4:
                cells[place] = str(missing.item()) if k % 8 < 4 else ""
        if cells == [""]:
            cells = ['""' if quotes else _CELLS[int(types[0])][0]]
        if quotes and k % 3 == 0:
            cells = [f'"{cell}"' for cell in cells]
        lines.append(str(delimiter.item()).join(cells).encode())
    return lines


def _memory(flow: Dataflow, node: NodeProto) -> list[bytes] | None:
    """Strings of ASCII that are numbers of ordinary sizes."""
    like, fixed = flow.constant(node.input[2]), flow.constant(node.input[1])
    if like is None:
        return None
    size = like.dtype.itemsize
    count = _row(flow, node.output[0]) or _NUMBERS
    if fixed is not None and fixed.item() > 0:
        count = int(fixed.item()) // size
    is_big = any(attribute.s == b"BIG" for attribute in node.attribute)
    texts = []
    for k in range(_COUNT):
        letters = np.frombuffer(bytes(0x60 + (k + 3 * j) % 30 for j in range(count * size)), np.uint8).copy()
        numbers = letters.reshape(count, size)
        if like.dtype.name in _TOP:
            numbers[:, -1] = ord(_TOP[like.dtype.name])
        texts.append((numbers[:, ::-1] if is_big else numbers).tobytes())
    return texts


def _row(flow: Dataflow, name: str) -> int:
    """How many numbers a row has by the first Reshape behind a tensor; 0 where there is none."""
    for _ in range(_DEPTH):
        readers = flow.readers(name)
        if not readers:
            return 0
        shape = flow.constant(readers[0].input[1]) if readers[0].op_type == "Reshape" else None
        if shape is not None:
            return abs(math.prod(int(size) for size in shape.reshape(-1)[1:]))
        name = readers[0].output[0]
    return 0


def _tensors(flow: Dataflow, node: NodeProto) -> list[bytes] | None:
    like = flow.constant(node.input[1])
    if like is None:
        return None
    number, *_ = TENSOR_TYPES[element_type(like.dtype)]
    return [bytes(text) for text in _messages(number, like.dtype, _row(flow, node.output[0]))]


def _messages(number: int, dtype: np.dtype[np.generic], row: int) -> Iterator[bytes]:
    """Tensors of one dimension: TensorProto messages."""
    for count in (row,) if row else (3, 1, 4):
        dim = b"\x08" + _varint(count)
        shape = b"\x12" + _varint(len(dim)) + dim
        head = b"\x08" + bytes([number]) + b"\x12" + _varint(len(shape)) + shape
        if dtype.kind in "OU":
            yield head + b"\x42\x04word" * count
        else:
            content = (np.arange(count) % 2).astype(dtype).tobytes()
            yield head + b"\x22" + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + _varint(value >> 7)
