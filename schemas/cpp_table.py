"""The declarations as a C++ table, by which the native kernels are registered and check their inputs.

`python docs/generate.py` writes it to `onnx_sparse/native/abi/declarations.inc`, and its limits to `limits.inc`: every
kernel is compiled with these, and only the registration with the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from onnx_sparse.schemas import OPS
from onnx_sparse.schemas.declaration import Attribute, DType, Input, Op, Output, is_group, shape_items
from onnx_sparse.schemas.element_types import dtype_name

_HEAD = """\
// From the operators' declarations. Written by docs/generate.py; do not edit.
"""


def table() -> str:
    """The C++ text: one constant `k<name>` of type `Declaration` for each operator, and a list of all operators."""
    types = "".join(
        _array("OrtElementType", name, [f"ORT_{dtype_name(t).upper()}" for t in types])
        for types, name in _type_sets().items()
    )
    return f"{_HEAD}\n{types}" + "".join(f"\n{_declaration(op)}" for op in OPS.values()) + f"\n{_operators()}"


@cache
def _type_sets() -> dict[tuple[DType, ...], str]:
    """The C++ names of the sets of element types that type variables have; many variables share one."""
    found = dict.fromkeys(tuple(types) for op in OPS.values() for types in op.types.values())
    return {types: f"kElementTypes{k}" for k, types in enumerate(found)}


def kernel_name(op: Op) -> str:
    """The C++ function that computes an operator: `segment_sum` for SegmentSum, `decode_csv` for DecodeCSV."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", op.name).lower()


def limits() -> str:
    """The C++ text of the largest numbers of inputs, attributes and others that an operator has."""
    most = {
        "Inputs": max(len(op.inputs) for op in OPS.values()),
        "Attributes": max(len(op.attributes) for op in OPS.values()),
        "TypeVariables": max(len(op.types) for op in OPS.values()),
        "ShapeItems": max(len(_numbers(op)) for op in OPS.values()),
    }
    return _HEAD + "".join(f"inline constexpr size_t kMost{what} = {count};\n" for what, count in most.items())


def _operators() -> str:
    lines = "".join(f" \\\n  X({op.name}, {kernel_name(op)})" for op in OPS.values())
    return f"// Every operator with the function that computes it.\n#define ONNX_SPARSE_OPERATORS(X){lines}\n"


def _declaration(op: Op) -> str:
    arrays = [
        *(
            _array("ShapeItem", f"k{op.name}_{i.name}", [_shape_item(op, item) for item in shape_items(i.shape)])
            for i in op.inputs
        ),
        *(_array("std::string_view", f"k{op.name}_{a.name}", [_text(c) for c in a.choices]) for a in op.attributes),
        _array("Input", f"k{op.name}_inputs", [_input(op, i) for i in op.inputs]),
        _array("Output", f"k{op.name}_outputs", [_output(op, o) for o in op.outputs]),
        _array("Attribute", f"k{op.name}_attributes", [_attribute(op, a) for a in op.attributes]),
        _array(
            "TypeVariable",
            f"k{op.name}_types",
            [
                f"{{{_text(v)}, {_type_sets()[tuple(types)]}, {_bool(any(o.type == v for o in op.outputs))}}}"
                for v, types in op.types.items()
            ],
        ),
    ]
    lists = ", ".join(
        f"k{op.name}_{part}" if given else "{}"
        for part, given in (
            ("inputs", op.inputs),
            ("outputs", op.outputs),
            ("attributes", op.attributes),
            ("types", op.types),
        )
    )
    return "".join(arrays) + f'inline constexpr Declaration k{op.name} = {{"{op.name}", {lists}}};\n'


def _array(element: str, name: str, values: Iterable[str]) -> str:
    written = list(values)
    if not written:
        return ""
    line = f"inline constexpr {element} {name}[] = {{{', '.join(written)}}};\n"
    if len(line) <= 120:
        return line
    return f"inline constexpr {element} {name}[] = {{\n" + "".join(f"    {value},\n" for value in written) + "};\n"


def _numbers(op: Op) -> dict[str, int]:
    """The items of its inputs' shapes, each with a number."""
    return {item: n for n, item in enumerate(dict.fromkeys(item for i in op.inputs for item in shape_items(i.shape)))}


def _shape_item(op: Op, item: str) -> str:
    return f"{{{_text(item)}, {_numbers(op)[item]}, {_bool(is_group(item))}}}"


def _input(op: Op, declared: Input) -> str:
    shape = f"k{op.name}_{declared.name}" if declared.shape else "{}"
    sentinel = "none" if declared.sentinel is None else "empty" if declared.sentinel == () else "minus_one"
    size = declared.values.kind == "size"
    fields = [
        _text(declared.name),
        _text(declared.type),
        _element_type(op, declared.type),
        str(list(op.types).index(declared.type) if declared.type in op.types else 0),
        _text(declared.shape),
        shape,
        str(sum(map(is_group, shape_items(declared.shape)))),
        f"Sentinel::{sentinel}",
        _bool(declared.broadcasts),
        _bool(size),
        str(declared.values.low if size else 0),
        _bool(declared.sparsely_read),
    ]
    return "{" + ", ".join(fields) + "}"


def _output(op: Op, declared: Output) -> str:
    return f"{{{_text(declared.name)}, {_text(declared.type)}, {_element_type(op, declared.type)}, " + (
        f"{_bool(declared.optional)}}}"
    )


def _attribute(op: Op, declared: Attribute) -> str:
    default = -1 if declared.default is None else declared.choices.index(declared.default)
    return f"{{{_text(declared.name)}, k{op.name}_{declared.name}, {default}, {_text(str(declared.choices))}}}"


def _element_type(op: Op, type_name: str) -> str:
    """The element type of a type that is not a variable."""
    return "ORT_UNDEFINED" if type_name in op.types else f"ORT_{type_name.upper()}"


def _text(text: str) -> str:
    return f'"{text}"'


def _bool(value: bool) -> str:
    return "true" if value else "false"
