"""Protocol buffer messages from declarations of one line each, made by google.protobuf alone.

They stand in a pool of their own, next to the same messages of other packages in the default pool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf import (  # type: ignore[import-untyped]  # a package of stubs would be needed for it alone
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)

_Field = descriptor_pb2.FieldDescriptorProto


def declare_messages(
    package: str, declarations: str, enums: Mapping[str, Mapping[str, int]] | None = None
) -> Callable[[str], Any]:
    """Declare messages.

    Args:
        package: The package of the messages.
        declarations: One line per message, or several that begin with blanks: its fields as name=number:type, with `*`
            after the type of a repeated field. `{Type}` is a map from strings, `<Type>` from numbers; fields with `|`
            are those of the only oneof.
        enums: The values of enumerations by name.

    Returns:
        A function from the name of a message to its class.
    """
    enums = enums or {}
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package.replace('.', '/')}.proto", package=package, syntax="proto3"
    )
    for name, values in enums.items():
        made = file.enum_type.add(name=name)
        for value, number in values.items():
            made.value.add(name=value, number=number)
    for line in declarations.strip().replace("\n  ", " ").splitlines():
        name, *fields = line.split()
        message = file.message_type.add(name=name)
        for text in fields:
            _add_field(package, message, text, enums)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))


def _add_field(
    package: str, message: descriptor_pb2.DescriptorProto, text: str, enums: Mapping[str, Mapping[str, int]]
) -> None:
    name, _, rest = text.lstrip("|").partition("=")
    number, _, kind = rest.partition(":")
    field = message.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
    if text.startswith("|"):
        if not message.oneof_decl:
            message.oneof_decl.add(name="value")
        field.oneof_index = 0
    if kind[0] in "{<":
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _add_field(package, entry, "key=1:string" if kind[0] == "{" else "key=1:uint32", enums)
        _add_field(package, entry, f"value=2:{kind[1:-1]}", enums)
        field.label, field.type = _Field.LABEL_REPEATED, _Field.TYPE_MESSAGE
        field.type_name = f".{package}.{message.name}.{entry.name}"
        return
    if kind.endswith("*"):
        field.label = _Field.LABEL_REPEATED
    kind = kind.rstrip("*")
    if kind[0].islower():
        field.type = getattr(_Field, f"TYPE_{kind.upper()}")
    else:
        field.type = _Field.TYPE_ENUM if kind in enums else _Field.TYPE_MESSAGE
        field.type_name = f".{package}.{kind}"
