"""`convert` and `export`: torch's exporter with the domain's operators."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import onnx
from onnx import ModelProto

from onnx_sparse.converters import pipeline
from onnx_sparse.converters.errors import ConversionError, UnsupportedNode, causes, first_line
from onnx_sparse.converters.onnxruntime.pooling import ShortInput
from onnx_sparse.converters.onnxruntime.unique import OneNaN
from onnx_sparse.converters.pipeline import Draft, Pass
from onnx_sparse.converters.pipeline.passes import in_place
from onnx_sparse.converters.rewriting import Rewriting
from onnx_sparse.converters.rewriting.checked_ids import is_lookup
from onnx_sparse.converters.rewriting.rules.stacks import StackByReshape
from onnx_sparse.converters.torch.handlers import HANDLERS
from onnx_sparse.converters.torch.lazy_imports import quietly, require
from onnx_sparse.converters.torch.lost_initializers import put_back_initializers
from onnx_sparse.converters.torch.neutral_elements import compared_exactly
from onnx_sparse.converters.torch.reductions import correct_reductions
from onnx_sparse.converters.torch.reshapes import state_inferred_sizes
from onnx_sparse.converters.torch.source import Source, load
from onnx_sparse.converters.torch.tracing import trace
from onnx_sparse.converters.torch.translation import overload_of, stand_in, translation_table
from onnx_sparse.models.graphs import graphs
from onnx_sparse.models.large_models import referring
from onnx_sparse.models.onnx_tools import LARGEST_PROTO
from onnx_sparse.models.references import LEAST, is_reference, place_of, tensor_of

#: The opset of torch's own translations; a later one is made from theirs.
_OPSET = 18

#: Where torch's exporter says which call a node was made for, and the calls that refuse negative ids.
_MADE_FOR = "pkg.torch.onnx.fx_node"
_CALL = re.compile(r"target=(?:torch\.ops\.)?([\w.]+)")
_LOOKUPS = re.compile(r"target=torch\.ops\.aten\.(embedding|index_select|gather)\.")

#: How the exporter's errors name a node.
_NODE = re.compile(r"translating node %(?P<name>\w+) .*?target=(?:torch\.ops\.)?(?P<target>[\w.:<> ]+)\]", re.DOTALL)


@referring
def convert(
    source: Any,
    *,
    opset_version: int = _OPSET,
    masked_fill: bool = False,
    check_ids: bool = False,
    run: bool = True,
    progress: Callable[[str], None] | None = None,
    explain: Callable[[Rewriting], None] | None = None,
) -> ModelProto:
    """Convert a program of torch to ONNX with operators of the domain `onnx_sparse`.

    Args:
        source: A `.pt2` file that `torch.export.save` wrote, an ExportedProgram, or what `load` returned.
        opset_version: The default opset of the model.
        masked_fill: Whether `masked_fill` becomes MaskedFill, too.
        check_ids: Whether all lookups refuse negative ids, which ONNX counts from the end, and not only those that
            torch lets refuse them.
        run: Whether to load the model, and run it on the program's example and with each of its sizes 0, 1 and doubled;
            what does not agree with torch is refused.
        progress: Called with `"loading"`, `"converting"`, `"checking"` and `"running"` as these begin.
        explain: Called once, with the numbers of nodes and the outcome of every rule and guard.

    Returns:
        A model of IR version 10 in canonical form. Its inputs have the names of the program's inputs.

    Raises:
        ConversionError: torch is not installed, the source cannot be read, a node cannot be converted, or the model
            does not run as the program does.
    """
    tell = progress or (lambda stage: None)
    tell("loading")
    loaded = load(source)
    tell("converting")
    model = _converted(loaded, opset_version, translation_table(masked_fill=masked_fill))
    draft, made_for = Draft(model), _calls(model)
    made = pipeline.run(draft, passes(check_ids=check_ids), tell)
    if explain is not None:
        explain(draft.rewriting())
    if run:
        from onnx_sparse.converters.torch.trial import require_run

        tell("running")
        require_run(loaded, made, made_for)
    return made


def export(
    model: Any,
    args: tuple[Any, ...] = (),
    path: str | os.PathLike[str] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    strict: bool = False,
    verify: bool = False,
    opset_version: int = _OPSET,
    masked_fill: bool = False,
    check_ids: bool = False,
    run: bool = True,
) -> ModelProto:
    """Export a module to ONNX with operators of the domain `onnx_sparse`.

    Args:
        model: A `torch.nn.Module`, which should be in evaluation mode, or an ExportedProgram.
        args: Examples of the positional arguments.
        path: Where to write the model; it is not written when omitted.
        kwargs: Examples of the named arguments.
        dynamic_shapes: As for `torch.export.export`, which see.
        strict: As for `torch.export.export`; the other way is tried where this one fails.
        verify: Whether to run module and model on generated inputs, and to write the model only if they agree.
        opset_version: The default opset of the model.
        masked_fill: Whether `masked_fill` becomes MaskedFill, too.
        check_ids: As for `convert`.
        run: As for `convert`.

    Returns:
        The model, as `convert` returns it.

    Raises:
        ConversionError: torch cannot export the module, a node cannot be converted, or verification fails.
    """
    torch = require("torch")
    source = model
    if not isinstance(model, torch.export.ExportedProgram):
        source = trace(model, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict)
    loaded = load(source)
    converted = convert(loaded, opset_version=opset_version, masked_fill=masked_fill, check_ids=check_ids, run=run)
    if verify:
        from onnx_sparse.converters.torch.verify import require_agreement

        require_agreement(loaded, converted)
    if path is not None:
        onnx.save(converted, path, save_as_external_data=converted.ByteSize() >= LARGEST_PROTO)
    return converted


def _converted(source: Source, opset_version: int, table: Mapping[Any, Callable[..., Any]]) -> ModelProto:
    _refuse_constant_outputs(source)
    _refuse_results_for_gradients(source)
    exported = _exported(source, opset_version, table)
    put_back_initializers(exported.model)
    correct_reductions(exported.model)
    state_inferred_sizes(exported.model)
    _cast_outputs(exported.model, source)
    _name_inputs(exported.model, source.inputs)
    _refer_to_weights(exported.model)
    model: ModelProto = exported.model_proto
    return model


def _refer_to_weights(model: Any) -> None:
    """Let large initializers refer to torch's memory: onnx_ir would copy them."""
    import onnx_ir as ir

    for name, value in model.graph.initializers.items():
        held = value.const_value
        if held is None or held.nbytes < LEAST:
            continue
        tensor = tensor_of(held.numpy(), name)
        if is_reference(tensor) and tensor.data_type == held.dtype:
            value.const_value = ir.ExternalTensor(*place_of(tensor), held.dtype, shape=held.shape, name=held.name)


def _drop_traces(model: ModelProto) -> None:
    for graph in graphs(model.graph):
        for node in graph.node:
            del node.metadata_props[:]


def passes(*, check_ids: bool = False) -> tuple[Pass, ...]:
    """What is done with a model that torch's exporter wrote."""
    return (
        pipeline.RECORD_PRODUCER,
        pipeline.REFUSE_NEGATIVE_IDS if check_ids else _REFUSE_IDS,
        Pass("traces", "drops traces of the stack, which have the paths of whoever exported", in_place(_drop_traces)),
        pipeline.rewrite_by(((StackByReshape(),),), does="writes stacks in the way in which ONNX Runtime is fast"),
        pipeline.guard_against(omitted=(ShortInput, OneNaN)),
        pipeline.REFUSE_UNSUPPORTED,
        replace(pipeline.CHECK, stage="checking"),
    )


def _calls(model: ModelProto) -> dict[str, str]:
    """The call of torch for which each node was written, by the node's name."""
    made_for = (
        (node, entry.value) for node in model.graph.node for entry in node.metadata_props if entry.key == _MADE_FOR
    )
    return {node.name: call[1] for node, text in made_for if (call := _CALL.search(text))}


def _refuses_negative_ids(node: onnx.NodeProto) -> bool:
    """Whether a node is a lookup that torch refuses with a negative id."""
    made_for = next((entry.value for entry in node.metadata_props if entry.key == _MADE_FOR), "")
    return is_lookup(node) and _LOOKUPS.search(made_for) is not None


def _cast_outputs(model: Any, source: Source) -> None:
    """Give outputs their types in the program: torch's exporter loses the last cast of half floats."""
    import onnx_ir as ir

    graph = model.graph
    for place, (value, dtype) in enumerate(zip(graph.outputs, source.output_dtypes, strict=True)):
        if dtype is not None and value.dtype != dtype:
            tape = ir.tape.Tape()
            cast = tape.op("Cast", [value], {"to": dtype})
            cast.dtype, cast.shape = ir.DataType(dtype), value.shape
            graph.extend(tape.nodes)
            graph.outputs[place] = cast


def _name_inputs(model: Any, names: Sequence[str]) -> None:
    """Give inputs their names in the program: torch's exporter gives those of inputs that are returned to outputs."""
    values = {value.name: value for node in model.graph for value in node.outputs}
    used = {value.name for value in model.graph.inputs} | values.keys() | model.graph.initializers.keys()
    for value, name in zip(model.graph.inputs, names, strict=True):
        if value.name != name and name in values:
            values[name].name = next(free for k in count() if (free := f"{name}_output{k or ''}") not in used)
            used.add(values[name].name)
        value.name = name


def _exported(source: Source, opset_version: int, given: Mapping[Any, Callable[..., Any]]) -> Any:
    """What torch's exporter makes of a program.

    The exporter ends at the first operator that cannot be translated. Stand-ins take the place of such operators, until
    all are known.

    Raises:
        ConversionError: With one node for each of these operators.
    """
    torch = require("torch")
    table, failed = dict(given), dict[Any, UnsupportedNode]()
    while True:
        try:
            with quietly(), compared_exactly():
                exported = torch.onnx.export(
                    source.program,
                    dynamo=True,
                    custom_translation_table=table,
                    opset_version=opset_version,
                    verbose=False,
                )
        except Exception as error:  # whatever torch and onnxscript raise
            cause = _first_cause(error)
            node = _failed_node(error, cause)
            overload = None if node is None else overload_of(node.op_type)
            if node is not None and overload is not None and overload not in failed:
                failed[overload], table[overload] = node, stand_in(overload)
                continue
            found = [*failed.values(), *([] if node is None else [node])]
            raise ConversionError("" if found else f"torch's exporter fails: {cause}", found) from error
        if failed:
            raise ConversionError(unsupported=failed.values())
        return exported


def _refuse_constant_outputs(source: Source) -> None:
    """Refuse programs with an output that is no tensor and the same for all inputs: an ONNX model has no such output.

    Raises:
        ConversionError: With the first of these.
    """
    for place, spec in enumerate(source.program.graph_signature.output_specs):
        value = getattr(spec.arg, "value", None)  # which None has, too; it is left out
        if value is not None:
            raise ConversionError(f"output {place} is always {value!r}: only tensors and sizes can be outputs")


def _refuse_results_for_gradients(source: Source) -> None:
    """Refuse programs that use more than the first result of embedding_bag: the others are for its gradient.

    Raises:
        ConversionError: With all such nodes.
    """
    bags = {overload_of(name) for name in HANDLERS if "embedding_bag" in name}
    reason = "only its first result, the bags, is converted"
    used = [
        UnsupportedNode(node.name, str(node.target), reason)
        for node in source.program.graph.nodes
        if node.op == "call_function" and node.target in bags
        for user in node.users
        if user.target is not operator.getitem or (user.args[1] != 0 and user.users)
    ]
    if used:
        raise ConversionError(unsupported=used)


def _failed_node(error: BaseException, reason: str) -> UnsupportedNode | None:
    """The node at which torch's exporter fails, if its error names one."""
    found = next(filter(None, (_NODE.search(str(link)) for link in causes(error))), None)
    return found and UnsupportedNode(found["name"], found["target"], reason)


def _first_cause(error: BaseException) -> str:
    """What an error goes back to, in one line."""
    return first_line(causes(error)[-1])


_REFUSE_IDS = pipeline.refuse_ids(_refuses_negative_ids, does="lets lookups refuse negative ids where torch does")
