"""What a guard reads of a node: its attributes and inputs, by the constants and the text of its code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from onnx import NodeProto, defs

from onnx_sparse.converters.rewriting.rule import Rule

#: Where what a guard calls may read a node.
_MODULES = ("onnx_sparse.converters.onnxruntime", "onnx_sparse.converters.windows")
#: An input by its place.
_INPUT = re.compile(r"node\.input\[(\d)\]")


def functions_of(rule: type[Rule[Any]]) -> list[FunctionType]:
    """The methods of a rule, and the functions that these call, and so on."""
    waiting = [each for kind in rule.__mro__ for each in vars(kind).values() if isinstance(each, FunctionType)]
    found: dict[FunctionType, None] = {}
    while waiting:
        function = waiting.pop()
        if function not in found and function.__module__.startswith(_MODULES):
            found[function] = None
            called = (function.__globals__.get(name) for code in _codes(function.__code__) for name in code.co_names)
            unwrapped = (inspect.unwrap(each) for each in called if callable(each))
            waiting += [each for each in unwrapped if isinstance(each, FunctionType)]
    return [*found]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _texts(constant: Any) -> Iterator[str]:
    if isinstance(constant, str):
        yield constant
    elif isinstance(constant, tuple | frozenset):
        for each in constant:
            yield from _texts(each)


def attributes_read(rule: type[Rule[Any]], anchor: str, opset: int) -> set[str]:
    """The attributes that an operator has up to an opset, and that a rule may read: its code has their names."""
    codes = [code for function in functions_of(rule) for code in _codes(function.__code__)]
    texts = {text for code in codes for constant in code.co_consts for text in _texts(constant)}
    return texts & set(defs.get_schema(anchor, opset).attributes)


def inputs_read(rule: type[Rule[Any]], anchor: str, opset: int) -> set[int]:
    """The places of the inputs that an operator has up to an opset, and that a rule reads."""
    read = {int(place) for function in functions_of(rule) for place in _INPUT.findall(inspect.getsource(function))}
    return {place for place in read if place < defs.get_schema(anchor, opset).max_input}


def said(node: NodeProto, opset: int) -> set[str]:
    """The attributes of a node whose value is not their default."""
    declared = defs.get_schema(node.op_type, opset).attributes
    written = {given.name: given for given in node.attribute}
    return {name for name, given in written.items() if name in declared and given != declared[name].default_value}
