"""tf.Example and tf.SequenceExample messages: writing them byte by byte, drawing legal inputs of the operators that
parse them, and reading by protobuf.

The messages that are drawn have neither zero bytes nor bytes beyond ASCII, so that every backend sees them whole.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from onnx import TensorProto

Array = np.ndarray[Any, Any]

FLOAT, INT64, STRING = int(TensorProto.FLOAT), int(TensorProto.INT64), int(TensorProto.STRING)

#: The tags of the lists in a feature.
LISTS = {STRING: 0x0A, FLOAT: 0x12, INT64: 0x1A}


def varint(value: int) -> bytes:
    """An unsigned integer."""
    head = b""
    while value >= 0x80:
        head, value = head + bytes([value & 0x7F | 0x80]), value >> 7
    return head + bytes([value])


def field(tag: int, content: bytes) -> bytes:
    """A field with its length."""
    return bytes([tag]) + varint(len(content)) + content


def feature(dtype: int, values: Sequence[bytes], packed: bool = True) -> bytes:
    """A feature with a list of values: strings, four bytes of each float, or varints."""
    if dtype == STRING:
        return field(LISTS[dtype], b"".join(field(0x0A, value) for value in values))
    tag = b"\x0d" if dtype == FLOAT else b"\x08"
    content = field(0x0A, b"".join(values)) if packed and values else b"".join(tag + value for value in values)
    return field(LISTS[dtype], content)


def entry(key: bytes, feature: bytes) -> bytes:
    """An entry of the map of features."""
    return field(0x0A, field(0x0A, key) + field(0x12, feature))


def message(*entries: bytes) -> bytes:
    """A message with these entries."""
    return field(0x0A, b"".join(entries))


def legal_inputs(random: np.random.Generator, count: int | None = None, batch: int | None = None) -> dict[str, Array]:
    """Legal inputs of ParseExample, with so many features and messages."""
    count = int(random.choice([3, 1, 5, 0])) if count is None else count
    batch = int(random.choice([2, 1, 7, 0])) if batch is None else batch
    keys = [f"key {f}" for f in range(count)]
    types = random.choice([FLOAT, INT64, STRING], count).astype(np.int64)
    sizes = random.choice([1, 2, 0, -1, -2], count).astype(np.int64)
    required = random.random(count) < 0.3
    required &= sizes != 0  # an empty list would have a zero byte
    with_defaults = ~required & (sizes >= 0)
    needed = {dtype: int(sizes[with_defaults & (types == dtype)].sum()) for dtype in LISTS}
    messages = [_legal_message(random, keys, types, sizes, required) for _ in range(batch)]
    return {
        "serialized": np.array([m.decode() for m in messages], object),
        "keys": np.array(keys, object),
        "types": types,
        "sizes": sizes,
        "required": required,
        "unset_is_empty": (sizes <= 0) & (random.random(count) < 0.5) & ~required,
        "sparse": random.random(count) < 0.5,
        "float_defaults": random.standard_normal(needed[FLOAT]).astype(np.float32),
        "int64_defaults": random.integers(-(2**63), 2**63 - 1, needed[INT64]),
        "string_defaults": random.choice(np.array(["", "a", "ß" * 40], object), needed[STRING]),
    }


def legal_sequence_inputs(random: np.random.Generator, count: int | None = None, batch: int | None = None) -> Any:
    """Legal inputs of ParseSequenceExample, with so many features and messages."""
    inputs = legal_inputs(random, count, 0)
    del inputs["unset_is_empty"], inputs["sparse"]
    keys, types, sizes, required = (inputs[name] for name in ("keys", "types", "sizes", "required"))
    batch = int(random.choice([2, 1, 7, 0])) if batch is None else batch
    in_lists = random.random(len(keys)) < 0.5
    in_lists[-1:] = in_lists[:1]  # with another's key, the last one is illegal
    messages = [_legal_sequence(random, keys.tolist(), types, sizes, required, in_lists) for _ in range(batch)]
    with_defaults = ~required & (sizes >= 0) & ~in_lists
    for dtype, name in {FLOAT: "float", INT64: "int64", STRING: "string"}.items():
        needed = int(sizes[with_defaults & (types == dtype)].sum())
        inputs[f"{name}_defaults"] = inputs[f"{name}_defaults"][:needed]
    return {
        "serialized": np.array([m.decode() for m in messages], object),
        **{name: inputs[name] for name in ("keys", "types", "sizes", "required")},
        "in_lists": in_lists,
        **{name: value for name, value in inputs.items() if name.endswith("defaults")},
    }


def _legal_sequence(
    random: np.random.Generator, keys: Sequence[str], types: Array, sizes: Array, required: Array, in_lists: Array
) -> bytes:
    fields = []
    for f in random.permutation(len(keys)):
        dtype, size = int(types[f]), int(sizes[f])
        if not required[f] and (size == 0 or random.random() < 0.2):
            continue
        for _ in range(int(random.integers(1, 3))):  # the last one counts
            features = []
            for _ in range(int(random.integers(1, 3)) if in_lists[f] else 1):
                length = size if size > 0 else -size * int(random.integers(1, 3))
                values = [_ascii_value(random, dtype) for _ in range(length)]
                features.append(feature(dtype, values, bool(random.random() < 0.5)))
            content = b"".join(field(0x0A, each) for each in features) if in_lists[f] else features[0]
            fields.append(field(0x12 if in_lists[f] else 0x0A, entry(keys[f].encode(), content)))
    if random.random() < 0.3:
        fields.insert(int(random.integers(len(fields) + 1)), b"\x1a\x03any" if random.random() < 0.5 else b"\x10\x07")
    return b"".join(fields)


def _legal_message(
    random: np.random.Generator, keys: Sequence[str], types: Array, sizes: Array, required: Array
) -> bytes:
    entries = []
    for f in random.permutation(len(keys)):
        key, dtype, size = keys[f].encode(), int(types[f]), int(sizes[f])
        if not required[f] and (size == 0 or random.random() < 0.2):
            if random.random() < 0.3:
                entries.append(field(0x0A, field(0x0A, key) * 2))  # an entry with no feature is unset
            continue
        lengths = [size] if size > 0 else [-size * int(k) for k in random.integers(1, 4, 2)]
        for length in lengths[: int(random.integers(1, 3))]:  # the last one counts
            values = [_ascii_value(random, dtype) for _ in range(length)]
            entries.append(entry(key, feature(dtype, values, bool(random.random() < 0.5))))
    if random.random() < 0.3:
        entries.insert(0, entry(b"another key", feature(INT64, [b"\x07"])))
    fields = [message(each) for each in entries]  # each is short enough for a length of one byte
    if random.random() < 0.3:
        fields.insert(int(random.integers(len(fields) + 1)), b"\x12\x03any" if random.random() < 0.5 else b"\x10\x07")
    return b"".join(fields)


def _ascii_value(random: np.random.Generator, dtype: int) -> bytes:
    count = {FLOAT: 4, INT64: 1, STRING: int(random.integers(1, 5))}[dtype]
    return bytes(random.integers(1, 128, count).astype(np.uint8))


def any_message(random: np.random.Generator, inputs: dict[str, Array]) -> bytes:
    """A message for a parser with these inputs, in which every feature may be at fault, in any of its entries.

    The faults are those that have an error of their own, so that one message may deserve several.
    """
    in_lists = inputs.get("in_lists")  # of ParseSequenceExample
    fields = []
    for f in random.permutation(len(inputs["keys"])):
        key, dtype, size = inputs["keys"][f].encode(), int(inputs["types"][f]), int(inputs["sizes"][f])
        is_list = in_lists is not None and bool(in_lists[f])
        for _ in range(int(random.choice([1, 1, 1, 2, 0]))):
            features = [_any_feature(random, dtype, size) for _ in range(int(random.integers(1, 3)) if is_list else 1)]
            content = b"".join(field(0x0A, each) for each in features) if is_list else features[0]
            fields.append(field(0x12 if is_list else 0x0A, entry(key, content)))
    return b"".join(fields[k] for k in random.permutation(len(fields)))


def _any_feature(random: np.random.Generator, dtype: int, size: int) -> bytes:
    """A feature that is right more often than not, or has one of the faults that it can have."""
    length = size if size >= 0 else -size * int(random.integers(3))
    match random.choice(["count", "type", "no type", "unset", "damaged", *["right"] * 7]):
        case "count":
            length += int(random.integers(1, 3))
        case "type":
            dtype = int(random.choice(list(LISTS)))
        case "no type":
            return field(int(random.choice([0x22, 0x08, 0x7F, 0x01])), b"")
        case "unset":
            return b""
        case "damaged":
            return field(LISTS[dtype], field(0x0A, b"\x80")[: int(random.integers(1, 4))] + b"\x80")
    return feature(dtype, [random_value(random, dtype) for _ in range(length)], bool(random.random() < 0.5))


def random_value(random: np.random.Generator, dtype: int) -> bytes:
    """A value as `feature` takes it."""
    if dtype == FLOAT:
        return random.bytes(4)
    if dtype == INT64:
        return varint(int(random.choice([0, 1, 300, 2**31, 2**64 - 1])))
    return random.choice([b"", b"word", "naïve".encode(), b"x" * 130])


def mutated(random: np.random.Generator, content: bytes) -> bytes:
    """A message with one or two bytes changed, lost or added, or cut off."""
    changed = bytearray(content)
    for _ in range(random.integers(1, 3)):
        at, byte = (
            int(random.integers(len(changed) + 1)),
            int(random.choice([*b"\0\x08\x0a\x0d\x12\x1a\x7f\x80\xff", 1])),
        )
        kind = random.integers(5)
        if kind == 0:
            changed[at : at + 1] = bytes([byte])
        elif kind == 1:
            del changed[at : at + 1]
        elif kind == 2:
            changed.insert(at, byte)
        elif kind == 3:
            del changed[at:]
        else:
            changed[at : at + 1] = bytes((b + int(random.choice([-1, 1]))) % 256 for b in changed[at : at + 1])
    return bytes(changed)


def example_class() -> Any:
    """protobuf's class for tf.Example messages."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName("contract.Example"))


def sequence_example_class() -> Any:
    """protobuf's class for tf.SequenceExample messages."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName("contract.SequenceExample"))


@functools.cache
def _pool() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="contract", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto

    def add(message: Any, name: str, number: int, kind: int, type_name: str = "", *, repeated: bool = False) -> Any:
        label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
        return message.field.add(name=name, number=number, type=kind, label=label, type_name=type_name or None)

    lists = (("BytesList", kinds.TYPE_BYTES), ("FloatList", kinds.TYPE_FLOAT), ("Int64List", kinds.TYPE_INT64))
    whole = file.message_type.add(name="Feature")
    whole.oneof_decl.add(name="kind")
    for number, (name, kind) in enumerate(lists, 1):
        add(file.message_type.add(name=name), "value", 1, kind, repeated=True)
        add(whole, name, number, kinds.TYPE_MESSAGE, f".contract.{name}").oneof_index = 0
    steps = file.message_type.add(name="FeatureList")
    add(steps, "feature", 1, kinds.TYPE_MESSAGE, ".contract.Feature", repeated=True)
    for name, held, value in (("Features", "feature", "Feature"), ("FeatureLists", "feature_list", "FeatureList")):
        features = file.message_type.add(name=name)
        pair = features.nested_type.add(name=f"{value}Entry")
        pair.options.map_entry = True
        add(pair, "key", 1, kinds.TYPE_STRING)
        add(pair, "value", 2, kinds.TYPE_MESSAGE, f".contract.{value}")
        add(features, held, 1, kinds.TYPE_MESSAGE, f".contract.{name}.{value}Entry", repeated=True)
    add(file.message_type.add(name="Example"), "features", 1, kinds.TYPE_MESSAGE, ".contract.Features")
    sequence = file.message_type.add(name="SequenceExample")
    add(sequence, "context", 1, kinds.TYPE_MESSAGE, ".contract.Features")
    add(sequence, "feature_lists", 2, kinds.TYPE_MESSAGE, ".contract.FeatureLists")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool
