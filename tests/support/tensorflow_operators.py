"""The table of TensorFlow's operators that the converter reads, from an installed TensorFlow.

`python -m tests.support.tensorflow_operators` writes it anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

#: The fields of messages by the types of attributes, where these differ.
_FIELDS = {"int": "i", "float": "f", "bool": "b", "string": "s"}
_FIELDS |= {f"list({kind})": f"list.{_FIELDS.get(kind, kind)}" for kind in (*_FIELDS, "shape", "func")}
TABLE = Path(__file__).parents[2] / "converters" / "tensorflow" / "reading" / "operators.txt"


def lines() -> list[str]:
    """The lines of the table, for the operators that are read or converted."""
    from tensorflow.core.framework.op_def_pb2 import OpList
    from tensorflow.python.client import pywrap_tf_session

    from onnx_sparse.converters.tensorflow.handlers import known_operators

    listed = OpList.FromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    known = known_operators()
    return [_line(op) for op in sorted(listed.op, key=lambda op: op.name) if op.name in known]


def _line(op: Any) -> str:
    inputs = [arg.name + "*" * bool(arg.number_attr or arg.type_list_attr) for arg in op.input_arg]
    attributes = [text for attr in op.attr if (text := _attribute(attr))]
    outputs = ", ".join(map(_output, op.output_arg))
    line = f"{op.name}({', '.join(inputs)}) -> {outputs}".rstrip()
    return " | ".join([line, " ".join(attributes)] if attributes else [line])


def _output(arg: Any) -> str:
    if arg.type_list_attr:
        return f"{arg.name}:**{arg.type_list_attr}"
    dtype = arg.type_attr or _type(arg.type)
    return f"{arg.name}:{dtype}" + (f"*{arg.number_attr}" if arg.number_attr else "")


def _type(number: int) -> str:
    from onnx_sparse.converters.tensorflow.reading.element_types import type_name

    return type_name(number)


def _attribute(attr: Any) -> str:
    if attr.type in ("type", "list(type)"):
        if attr.default_value.WhichOneof("value") == "list" and not attr.default_value.list.type:
            return f"{attr.name}=[]"
        return f"{attr.name}:{_type(attr.default_value.type)}" if attr.default_value.type else ""
    if not attr.HasField("default_value"):
        return "" if attr.type == "func" else f"{attr.name}~{_FIELDS.get(attr.type, attr.type)}"
    text = json.dumps(_value(attr.default_value), separators=(",", ":"))
    assert " " not in text, (attr.name, text)
    return f"{attr.name}={text}"


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "list":
        return [*(s.decode() for s in value.list.s), *value.list.i, *value.list.f, *value.list.b]
    if kind == "s":
        return value.s.decode()
    if kind == "shape":
        return None if value.shape.unknown_rank else [dim.size for dim in value.shape.dim]
    return getattr(value, kind)


if __name__ == "__main__":
    TABLE.write_text("".join(f"{line}\n" for line in lines()), "utf-8")
