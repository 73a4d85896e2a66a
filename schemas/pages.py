"""The documentation page of an operator, in Markdown, derived from its declaration."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from onnx_sparse.schemas.declaration import Example, Family, Input, Op, Output
from onnx_sparse.schemas.element_types import FLOATS, NUMBERS, DType, dtype_name
from onnx_sparse.schemas.function_body import BODY_OPSET


def page(op: Op) -> str:
    """The page of one operator."""
    sections = [
        f"# {op.name}",
        op.summary,
        f"```\n{_wrapped(signature(op))}\n```",
        "## Semantics",
        op.semantics,
        f"Source: {op.source}.",
        "## Inputs",
        _parameter_table(op.inputs),
        "## Outputs",
        _parameter_table(op.outputs),
    ]
    if op.attributes:
        rows = [(f"`{a.name}`", _choices(a.choices), _default(a.default), a.doc) for a in op.attributes]
        sections += ["## Attributes", table(("name", "values", "default", "meaning"), rows)]
    if op.types:
        types = [(variable, element_types(legal)) for variable, legal in op.types.items()]
        sections += ["## Types", table(("variable", "element types"), types)]
    sections += ["## Function body", _portable(op)]
    if op.no_python_kernels:
        sections += ["## Python kernels", f"None: {op.no_python_kernels}."]
    sections.append("## Examples")
    for example in op.examples:
        sections += [f"**{_sentence(example.name)}**", f"```\n{example_text(op, example)}\n```"]
    return "\n\n".join(sections) + "\n"


def index(families: Sequence[Family]) -> str:
    """The page that lists the operators, first by family."""
    origins = [(", ".join(f"[{op.name}]({op.name}.md)" for op in f.ops), f.origin) for f in families]
    summaries = [(f"[{op.name}]({op.name}.md)", op.summary) for family in families for op in family.ops]
    intro = (
        "# Operators\n\nDomain `onnx_sparse`, opset 1. The pages are generated from the declarations in `schemas/`. "
        "Each page states the operator's semantics: empty segments, zero rows, NaN, duplicates, and which inputs are "
        "errors.\n\n"
        "For every operator: integer sums and products wrap. float16 and bfloat16 are computed in float32 and rounded "
        "once. A scalar input has shape []; shape [1] is an error. Inputs of size zero are legal. An error names the "
        "operator, input, position and value; function bodies cannot report errors and assume legal input.\n\n"
    )
    return (
        intro
        + table(("operators", "from"), origins)
        + "\n\n## What each operator does\n\n"
        + table(("operator", "what it does"), summaries)
        + "\n"
    )


#: A line of code that a page shows in a window of 1280 pixels, without its button that copies.
_CODE_WIDTH = 80


def _wrapped(signature: str) -> str:
    """A signature in the lines of a page: a long one has its inputs in lines of their own."""
    if len(signature) <= _CODE_WIDTH:
        return signature
    head, _, inputs = signature.removesuffix(")").rpartition(" (")
    name, _, attributes = head.removesuffix(">").partition(" <")
    parts = [(f"{head} (", inputs)]
    if attributes and len(head) + 2 > _CODE_WIDTH:
        parts = [(f"{name} <", attributes), ("> (", inputs)]
    indent = " " * 4
    lines = []
    for begin, listed in parts:
        lines.append(begin if len(begin) <= _CODE_WIDTH else begin.replace(" = ", f" =\n{indent}"))
        lines.append(textwrap.fill(listed, _CODE_WIDTH, initial_indent=indent, subsequent_indent=indent))
    return "\n".join([*lines, ")"])


def signature(op: Op) -> str:
    """The operator as it is written in a graph: `output = SegmentMax<fill_mode>(data, segment_ids, num_segments?)`."""
    outputs = ", ".join(o.name + ("?" if o.optional else "") for o in op.outputs)
    attributes = f" <{', '.join(a.name for a in op.attributes)}>" if op.attributes else ""
    inputs = ", ".join(i.name + ("?" if i.optional else "") for i in op.inputs)
    return f"{outputs} = onnx_sparse.{op.name}{attributes} ({inputs})"


def element_types(types: Iterable[DType]) -> str:
    """A set of element types as text."""
    types = tuple(types)
    for named in (NUMBERS, FLOATS):
        if types[: len(named)] == named:
            return ", ".join(dtype_name(t) for t in named) + "".join(f", {dtype_name(t)}" for t in types[len(named) :])
    return ", ".join(map(dtype_name, types))


def example_text(op: Op, example: Example) -> str:
    """An example as lines of `name = value`."""
    given = [f"{name} = {_value(value)}" for name, value in example.inputs.items()]
    attributes = [f"{name} = {value}" for name, value in example.attributes.items()]
    results = [f"{o.name} -> {_value(example.outputs[o.name])}" for o in op.outputs if o.name in example.outputs]
    return "\n".join([*given, *attributes, *results])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _parameter_table(parameters: Iterable[Input | Output]) -> str:
    rows = []
    for declared in parameters:
        name = f"`{declared.name}`" + (" (optional)" if declared.optional else "")
        shape = f"[{declared.shape}]"
        if isinstance(declared, Output):
            for attribute, value in declared.items_under:
                shape += f"; with {attribute} `{value}` [{declared.shape_with({attribute: value})}]"
        elif declared.broadcasts:
            shape += ", broadcast"
        rows.append((name, declared.type, shape, declared.doc))
    return table(("name", "type", "shape", "meaning"), rows)


def _portable(op: Op) -> str:
    if op.body is None:
        return f"None: standard ONNX cannot express it. {op.body_notes}".strip()
    text = f"Standard ONNX of opset {BODY_OPSET}, for every element type above. It does not report errors."
    return f"{text} {op.body_notes}".strip()


def _choices(choices: Iterable[str]) -> str:
    return ", ".join(f"`{choice}`" for choice in choices)


def _default(default: str | None) -> str:
    return "required" if default is None else f"`{default}`"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value) if isinstance(value, str) else f"{value:.8g}" if isinstance(value, float) else str(value)
