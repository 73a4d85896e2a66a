"""The messages of GE's graph files (ge_ir.proto), as far as a converter needs them, and how to parse them.

The descriptors are built here, for which protobuf needs no generated file. Undeclared fields are skipped. A map is
declared as a list of entries, its form on the wire and in text.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message,
    message_factory,
    text_format,
)

from onnx_sparse.converters.ascend.wire import check_fields

_PACKAGE = "onnx_sparse.ge"

#: ge.proto.DataType, by number.
DATA_TYPES = (
    "DT_UNDEFINED", "DT_FLOAT", "DT_FLOAT16", "DT_INT8", "DT_UINT8", "DT_INT16", "DT_UINT16", "DT_INT32", "DT_INT64",
    "DT_UINT32", "DT_UINT64", "DT_BOOL", "DT_DOUBLE", "DT_STRING", "DT_DUAL_SUB_INT8", "DT_DUAL_SUB_UINT8",
    "DT_COMPLEX64", "DT_COMPLEX128", "DT_QINT8", "DT_QINT16", "DT_QINT32", "DT_QUINT8", "DT_QUINT16", "DT_RESOURCE",
    "DT_STRING_REF", "DT_DUAL", "DT_VARIANT", "DT_BF16", "DT_INT4", "DT_UINT1", "DT_INT2", "DT_UINT2", "DT_COMPLEX32",
    "DT_HIFLOAT8", "DT_FLOAT8_E5M2", "DT_FLOAT8_E4M3FN", "DT_FLOAT8_E8M0", "DT_FLOAT6_E3M2", "DT_FLOAT6_E2M3",
    "DT_FLOAT4_E2M1", "DT_FLOAT4_E1M2",
)  # fmt: skip

#: Each message's fields: name, number, type. `*` is a repeated field, a capital another message, `|` part of the oneof.
_MESSAGES = {
    "ShapeDef": ("dim 1 *int64",),
    "TensorDescriptor": ("name 1 string", "dtype 2 DataType", "shape 3 ShapeDef", "layout 4 string"),
    "TensorDef": ("desc 1 TensorDescriptor", "data 2 bytes"),
    "ListValue": ("s 2 *bytes", "i 3 *int64", "f 4 *float", "b 5 *bool", "dt 11 *int64"),
    "AttrDef": (
        "list 1 |ListValue", "s 2 |bytes", "i 3 |int64", "f 4 |float", "b 5 |bool", "td 11 |TensorDescriptor",
        "t 12 |TensorDef", "dt 15 |int64",
    ),
    "AttrEntry": ("key 1 string", "value 2 AttrDef"),
    "OpDef": (
        "name 1 string", "type 2 string", "input 5 *string", "attr 10 *AttrEntry", "input_desc 33 *TensorDescriptor",
        "output_desc 34 *TensorDescriptor",
    ),
    "GraphDef": ("name 1 string", "input 4 *string", "output 5 *string", "op 6 *OpDef"),
    "ModelDef": ("name 1 string", "graph 7 *GraphDef"),
}  # fmt: skip


def new(kind: str) -> Any:
    """An empty message of a kind."""
    return _CLASSES[kind]()


def to_text(content: Any) -> str:
    """A message in protobuf's text format."""
    return str(text_format.MessageToString(content))


def parse_binary(kind: str, data: bytes) -> Any:
    """Parse a message of a kind (`ModelDef`, `GraphDef`) from bytes.

    Raises:
        ValueError: The bytes are not such a message.
    """
    result = new(kind)
    check_fields(data, result.DESCRIPTOR)
    try:
        result.ParseFromString(data)
    except (message.DecodeError, RuntimeError) as error:
        raise ValueError(str(error) or "not this message") from error
    return result


def parse_text(kind: str, text: str) -> Any:
    """Parse a message of a kind from protobuf's text format.

    Raises:
        ValueError: The text is not such a message.
    """
    return parse_text_into(new(kind), text)


def parse_text_into(result: Any, text: str) -> Any:
    """Parse protobuf's text format into a message; undeclared fields are skipped.

    Raises:
        ValueError: The text is not such a message.
    """
    try:
        return text_format.Parse(text, result, allow_unknown_field=True)
    except (text_format.ParseError, RecursionError, UnicodeError) as error:
        raise ValueError(" ".join(str(error).split())[:200] or "nested too deeply") from error


def _file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="onnx_sparse/ge.proto", package=_PACKAGE, syntax="proto3")
    enum = file.enum_type.add(name="DataType")
    for number, name in enumerate(DATA_TYPES):
        enum.value.add(name=name, number=number)
    for name, fields in _MESSAGES.items():
        declared = file.message_type.add(name=name)
        if any("|" in field for field in fields):
            declared.oneof_decl.add(name="value")
        for text in fields:
            _add_field(declared, text)
    return file


def _add_field(declared: Any, text: str) -> None:
    name, number, kind = text.split()
    field = declared.field.add(name=name, number=int(number))
    field.label = field.LABEL_REPEATED if kind.startswith("*") else field.LABEL_OPTIONAL
    if kind.startswith("|"):
        field.oneof_index = 0
    plain = kind.lstrip("*|")
    if plain == "DataType":
        field.type, field.type_name = field.TYPE_ENUM, f".{_PACKAGE}.{plain}"
    elif plain[0].isupper():
        field.type, field.type_name = field.TYPE_MESSAGE, f".{_PACKAGE}.{plain}"
    else:
        field.type = getattr(field, f"TYPE_{plain.upper()}")


def _classes() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()  # a private pool: its names cannot clash with others
    pool.AddSerializedFile(_file().SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
    }


_CLASSES = _classes()
