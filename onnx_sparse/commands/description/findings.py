"""What is wrong with a model before it runs."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_sparse.errors import CommandError, about_data, one_line, printable

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

    from onnx_sparse.schemas import Op

_ERROR, _WARNING = "error", "warning"
_MODEL = "model"
#: The message of onnx's checker for an input or output without a shape; it does not say which one.
_NO_SHAPE = "Field 'shape' of 'type' is required but missing."


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        level: `error` or `warning`.
        where: The node, or `model` for the whole model.
        message: What is wrong, and what to do.
    """

    level: str
    where: str
    message: str


def find(model: ModelProto, path: Path) -> Iterator[Finding]:
    """Everything that is wrong with a model.

    Args:
        model: The model, without its external data.
        path: Its file; the checker looks for external data beside it.
    """
    yield from _runtime_errors(model)
    yield from _opset_errors(model)
    unknown = list(_unknown_operators(model))
    violations = list(_violations(model))
    rankless = list(_unknown_ranks(model))
    yield from (*unknown, *violations, *rankless)
    said = {f.message for f in violations} | ({_NO_SHAPE} if rankless else set())
    yield from _checker(model, path, said, unknown_operators=bool(unknown))
    yield from _external_data(model, path)
    yield from _keyed_tables(model, path)
    yield from _canonical_form(model)
    yield from _lost_rows(model)


def refuse_domain_errors(model: ModelProto, path: Path) -> None:
    """Refuse nodes of our domain that this version does not know; ONNX Runtime's own error is less clear, or missing.

    Raises:
        CommandError: The model is of another opset, or has operators or attributes that do not exist.
    """
    for finding in (*_opset_errors(model), *_unknown_operators(model), *_illegal_attributes(model)):
        node = "" if finding.where == _MODEL else f", node {finding.where}"
        raise CommandError(f"{path}{node}: {finding.message}")


def _runtime_errors(model: ModelProto) -> Iterator[Finding]:
    """Versions beyond those that the installed ONNX Runtime takes."""
    from onnx_sparse.commands.description.ort_limits import find_limits
    from onnx_sparse.commands.inputs.model_graph import opset_imports

    limits = find_limits()
    if model.ir_version > limits.ir_version:
        yield Finding(
            _ERROR,
            _MODEL,
            f"IR version {model.ir_version}; the installed ONNX Runtime takes {limits.ir_version} at most",
        )
    opsets = opset_imports(model)
    if opsets.get("ai.onnx", 0) > limits.opset:
        yield Finding(
            _ERROR, _MODEL, f"opset {opsets['ai.onnx']}; the installed ONNX Runtime takes {limits.opset} at most"
        )


def _opset_errors(model: ModelProto) -> Iterator[Finding]:
    from onnx_sparse.commands.inputs.model_graph import opset_imports
    from onnx_sparse.models.domain_nodes import UNSPECIFIED_OPSET, unknown_opset
    from onnx_sparse.models.graphs import all_nodes
    from onnx_sparse.schemas import DOMAIN, OPSET_VERSION

    opsets = opset_imports(model)
    if DOMAIN in opsets:
        if opsets[DOMAIN] not in (OPSET_VERSION, UNSPECIFIED_OPSET):
            yield Finding(_ERROR, _MODEL, unknown_opset(opsets[DOMAIN]))
    elif any(node.domain == DOMAIN for node in all_nodes(model.graph.node)):  # functions import for themselves
        yield Finding(_ERROR, _MODEL, f"nodes of domain {DOMAIN}, but the model does not import its opset")


def _unknown_operators(model: ModelProto) -> Iterator[Finding]:
    from onnx_sparse.commands.description.operators import suggestion
    from onnx_sparse.commands.inputs.model_graph import nodes
    from onnx_sparse.schemas import DOMAIN

    functions = {function.name for function in model.functions if function.domain == DOMAIN}
    for placed in nodes(model):
        if placed.is_ours and placed.op is None and placed.node.op_type not in functions:
            name = printable(placed.node.op_type)
            yield Finding(_ERROR, placed.label, f"domain {DOMAIN} has no operator {name}{suggestion(name)}")


def _violations(model: ModelProto) -> Iterator[Finding]:
    """Attributes and element types that a declaration rules out. Inference finds the same, but stops at the first."""
    from onnx_sparse.commands.inputs.model_graph import infer_types, nodes
    from onnx_sparse.schemas.validation import KernelError, bind_types

    for placed in nodes(infer_types(model)):
        op = placed.op
        if op is None:
            continue
        try:
            _check_attributes(op, placed.node)
            bind_types(op, placed.input_types(op))
        except KernelError as error:
            yield Finding(_ERROR, placed.label, printable(f"{op.name}: {error}"))


def _illegal_attributes(model: ModelProto) -> Iterator[Finding]:
    from onnx_sparse.commands.inputs.model_graph import nodes
    from onnx_sparse.schemas.validation import KernelError

    for placed in nodes(model):
        if placed.op is not None:
            try:
                _check_attributes(placed.op, placed.node)
            except KernelError as error:
                yield Finding(_ERROR, placed.label, printable(f"{placed.op.name}: {error}"))


def _check_attributes(op: Op, node: NodeProto) -> None:
    from onnx_sparse.schemas.validation import attribute_value, check_attributes

    values: dict[str, object] = {a.name: attribute_value(a) for a in node.attribute}
    # A node in a function may refer to an attribute of the function, whose value each caller gives.
    passed_on = {a.name for a in node.attribute if a.ref_attr_name}
    values.update({a.name: a.choices[0] for a in op.attributes if a.name in passed_on})
    check_attributes(op, values)


def _unknown_ranks(model: ModelProto) -> Iterator[Finding]:
    """Inputs and outputs without a shape, which ONNX Runtime accepts and onnx's checker refuses."""
    for kind, values in (("input", model.graph.input), ("output", model.graph.output)):
        for value in values:
            if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape"):
                yield Finding(
                    _WARNING,
                    printable(value.name),
                    f"the rank of this {kind} is not known; ONNX requires it, ONNX Runtime does not",
                )


def _checker(model: ModelProto, path: Path, said: set[str], *, unknown_operators: bool) -> Iterator[Finding]:
    """onnx's errors beyond those in `said`; each of its functions stops at the first error."""
    from onnx_sparse.models.tools.onnx_tools import check_model, infer_shapes

    steps = (
        lambda: check_model(_checked(model, path)),
        lambda: infer_shapes(model, check_type=True, strict_mode=True, data_prop=True),
    )
    for step in steps:
        try:
            step()
        except Exception as error:  # the bindings raise exceptions of their own, and UnicodeDecodeError on bad names
            message = about_data(_clean(str(error)))
            if message not in said and not (unknown_operators and "No Op registered" in message):
                yield Finding(_ERROR, _MODEL, message)
                said.add(message)


def _checked(model: ModelProto, path: Path) -> ModelProto | Path:
    """What the checker takes: the path, beside which it finds external data, or a model whose data need not be read."""
    from onnx import ModelProto

    from onnx_sparse.models.data.references import is_reference
    from onnx_sparse.models.files.large_models import resolve
    from onnx_sparse.models.files.model_files import is_read_by_libraries
    from onnx_sparse.models.graphs import all_tensors

    if is_read_by_libraries(path) and not any(map(is_reference, all_tensors(model))):
        return path
    whole = ModelProto()
    whole.CopyFrom(model)
    resolve(whole, path)
    return whole


def _external_data(model: ModelProto, path: Path) -> Iterator[Finding]:
    """Tensors that are cut short in the files beside the model; onnx's checker tests only that those files exist."""
    from onnx.external_data_helper import ExternalDataInfo

    from onnx_sparse.models.graphs import all_tensors

    for tensor in all_tensors(model):
        if not tensor.external_data:
            continue
        where = f"tensor {printable(tensor.name)}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of keys that onnx does not know
                data = ExternalDataInfo(tensor)
        except ValueError as error:  # an offset or length that is no number
            yield Finding(_ERROR, where, one_line(error))
            continue
        file, end = path.parent / data.location, (data.offset or 0) + (data.length or 0)
        if file.is_file() and file.stat().st_size < end:
            message = f"its data end at byte {end} of {file}, which has {file.stat().st_size} bytes"
            yield Finding(_ERROR, where, one_line(message))


def _keyed_tables(model: ModelProto, path: Path) -> Iterator[Finding]:
    """Duplicates among constant keys, and indexes of other keys. A session reads too few keys to find these."""
    from onnx_sparse.keyed_tables import require_index
    from onnx_sparse.models.files.large_models import load
    from onnx_sparse.models.graphs import all_nodes
    from onnx_sparse.models.tables.constant_keys import constant_keys
    from onnx_sparse.schemas.keyed_tables import FIND_KEYS, FIND_STRINGS
    from onnx_sparse.schemas.validation import KernelError

    if not any(node.op_type in (FIND_KEYS.name, FIND_STRINGS.name) for node in all_nodes(model.graph.node)):
        return
    try:
        placed = list(constant_keys(load(path)))
    except (OSError, ValueError):  # which are findings already
        return
    for lookup in placed:
        try:
            require_index(lookup.index, *lookup.keys)
        except KernelError as error:
            node = lookup.found.node
            message = str(error).removeprefix(f"Index{node.op_type.removeprefix('Find')}: ")
            yield Finding(_ERROR, printable(node.name or node.output[0]), printable(message))


def _clean(message: str) -> str:
    """onnx's message without the trace of the C++ functions that it came through."""
    message = re.sub(r"==> Context:.*", "", message, flags=re.DOTALL)
    message = re.sub(r"\[(ShapeInferenceError|TypeInferenceError)\]|Inference error\(s\):", "", message)
    return one_line(message)


def _lost_rows(model: ModelProto) -> Iterator[Finding]:
    """Scatters that lose rows, which no checker finds: they are legal, and the answers wrong."""
    from onnx_sparse.commands.inputs.model_graph import infer_types
    from onnx_sparse.converters.rewriting.rules.lost_rows import lost_rows

    for node, how in lost_rows(infer_types(model)):
        yield Finding(_WARNING, printable(node), printable(how))


def _canonical_form(model: ModelProto) -> Iterator[Finding]:
    from onnx_sparse.commands.inputs.model_graph import nodes
    from onnx_sparse.models.forms.canonical import canonical_gaps

    for placed in nodes(model):
        if placed.op and (gaps := canonical_gaps(placed.node)):
            message = (
                f"{placed.node.op_type} is not in canonical form ({', '.join(gaps)}): Python kernels in a plain ONNX "
                "Runtime session refuse it; `onnx-sparse convert` writes it"
            )
            yield Finding(_WARNING, placed.label, message)
