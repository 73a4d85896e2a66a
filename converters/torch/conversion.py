"""From a program of torch to a draft of a model, before the passes: torch's exporter with the domain's operators."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from onnx import ModelProto, NodeProto

from onnx_sparse.converters import pipeline
from onnx_sparse.converters.errors import ConversionError, UnsupportedNode, causes, first_line
from onnx_sparse.converters.onnxruntime.pooling import ShortInput
from onnx_sparse.converters.onnxruntime.unique import OneNaN
from onnx_sparse.converters.pipeline import Draft, Pass
from onnx_sparse.converters.pipeline.passes import in_place
from onnx_sparse.converters.rewriting.checked_ids import is_lookup
from onnx_sparse.converters.rewriting.rules.sorted_keys import FoundInOrder
from onnx_sparse.converters.rewriting.rules.stacks import StackByReshape
from onnx_sparse.converters.torch.composites import sizes_kept
from onnx_sparse.converters.torch.doubles import WITH_ATTRIBUTES, numbers_of_doubles, of_doubles
from onnx_sparse.converters.torch.handlers import HANDLERS
from onnx_sparse.converters.torch.infinite_bounds import clip_to_infinity
from onnx_sparse.converters.torch.lazy_imports import quietly, require
from onnx_sparse.converters.torch.lost_initializers import put_back_initializers
from onnx_sparse.converters.torch.neutral_elements import compared_exactly
from onnx_sparse.converters.torch.recurrent import recurrent_layers_whole, taken_apart
from onnx_sparse.converters.torch.reductions import correct_reductions
from onnx_sparse.converters.torch.reshapes import state_inferred_sizes
from onnx_sparse.converters.torch.source import Source
from onnx_sparse.converters.torch.translation import (
    overload_of,
    stand_in,
    translation_table,
    without_wrong_translations,
)
from onnx_sparse.models.data.references import LEAST, is_reference, place_of, tensor_of
from onnx_sparse.models.graphs import graphs

#: The opset of torch's own translations; a later one is made from theirs.
OPSET = 18

#: Where torch's exporter says which call a node was made for, and the calls that refuse negative ids.
_MADE_FOR = "pkg.torch.onnx.fx_node"
_CALL = re.compile(r"target=(?:torch\.ops\.)?([\w.]+)")
_LOOKUPS = re.compile(r"target=torch\.ops\.aten\.(embedding|index_select|gather)\.")

#: What torch's translations fail with, in various words, where a number is a size of an input.
_GIVEN_SIZE = "torch's own translation takes a constant number, and this one is computed from a size"

#: What torch's exporter says of an operator that nobody translates, in words of its own and many more.
_NO_TRANSLATION = "neither onnx_sparse nor torch's exporter translates it"

#: How the exporter's errors name a node.
_NODE = re.compile(r"translating node %(?P<name>\w+) .*?target=(?:torch\.ops\.)?(?P<target>[\w.:<> ]+)\]", re.DOTALL)


@dataclass
class TorchDraft(Draft):
    """A draft of a program of torch.

    Attributes:
        made_for: The call of torch for which each node was written, by the node's name.
    """

    made_for: Mapping[str, str] = field(default_factory=dict)


def draft_of(source: Source, opset_version: int = OPSET, *, masked_fill: bool = False) -> TorchDraft:
    """A draft of a program.

    Args:
        source: The program.
        opset_version: The default opset of the model.
        masked_fill: Whether `masked_fill` becomes MaskedFill, too.

    Raises:
        ConversionError: Nodes cannot be converted: the error lists all of them.
    """
    model = _converted(source, opset_version, translation_table(masked_fill=masked_fill))
    return TorchDraft(model, made_for=_calls(model))


def _converted(source: Source, opset_version: int, table: Mapping[Any, Callable[..., Any]]) -> ModelProto:
    _refuse_constant_outputs(source)
    _refuse_results_for_gradients(source)
    _refuse_types_by_sizes(source)
    dynamic = source.dynamic_sizes  # before decompositions, which may make constants of them
    exported = _exported(source, opset_version, table)
    _refuse_lost_sizes(exported.model, source.inputs, dynamic)
    put_back_initializers(exported.model)
    correct_reductions(exported.model)
    clip_to_infinity(exported.model)
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
        pipeline.rewrite_by(
            ((FoundInOrder(), StackByReshape()),),
            does="finds keys by an index, and writes stacks in the way in which ONNX Runtime is fast",
        ),
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


def _refuses_negative_ids(node: NodeProto) -> bool:
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
    with_attributes = WITH_ATTRIBUTES if of_doubles(source.program, WITH_ATTRIBUTES) else ()
    decomposed = (*with_attributes, *taken_apart(source.program))
    table = {overload: function for overload, function in given.items() if str(overload) not in decomposed}
    failed = dict[Any, UnsupportedNode]()
    while True:
        try:
            with (
                quietly(),
                compared_exactly(),
                numbers_of_doubles(),
                without_wrong_translations(decomposed),
                recurrent_layers_whole(),
                sizes_kept(),
            ):
                exported = torch.onnx.export(
                    source.program,
                    dynamo=True,
                    custom_translation_table=table,
                    opset_version=opset_version,
                    verbose=False,
                )
        except ConversionError:  # of what the exporter lacks
            raise
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


def _refuse_types_by_sizes(source: Source) -> None:
    """Refuse sum_to_size of whole numbers of dynamic sizes: torch sums them as int64, and keeps the type of one row.

    Raises:
        ConversionError: With all such nodes.
    """
    torch = require("torch")
    reason = "its type is int64 where it sums and the input's where a size is 1 already: cast the input to int64 before"
    found = [
        UnsupportedNode(node.name, str(node.target), reason)
        for node in source.program.graph.find_nodes(op="call_function", target=torch.ops.aten.sum_to_size.default)
        for given in [node.args[0].meta["val"]]
        if not (given.dtype.is_floating_point or given.dtype == torch.int64)
        and not all(isinstance(size, int) for size in given.shape)
    ]
    if found:
        raise ConversionError(unsupported=found)


def _refuse_lost_sizes(model: Any, names: Sequence[str], dynamic: Collection[tuple[str, int]]) -> None:
    """Refuse a model that takes one size only, where the program takes any.

    Raises:
        ConversionError: With these sizes.
    """
    sizes = {
        (name, axis): str(size if isinstance(size, int) else size.value)
        for name, value in zip(names, model.graph.inputs, strict=True)
        for axis, size in enumerate(value.shape or ())
    }
    lost = [f"{name}.shape[{axis}] = {known}" for name, axis in dynamic if (known := sizes[name, axis]).isdecimal()]
    if lost:
        raise ConversionError(
            f"torch's decompositions take {', '.join(lost)} for a constant, which is declared dynamic; declare it "
            "static, or change the operation whose result depends on it"
        )


def _failed_node(error: BaseException, reason: str) -> UnsupportedNode | None:
    """The node at which torch's exporter fails, if its error names one."""
    found = next(filter(None, (_NODE.search(str(link)) for link in causes(error))), None)
    return found and UnsupportedNode(found["name"], found["target"], reason)


def _first_cause(error: BaseException) -> str:
    """What an error goes back to, in one line."""
    text = first_line(causes(error)[-1])
    if text.startswith(("No ONNX function found", "<bound method OpOverload.name")):
        return _NO_TRANSLATION
    return _GIVEN_SIZE if "SymbolicTensor" in text or text.startswith("Unsupported attribute type") else text


_REFUSE_IDS = pipeline.refuse_ids(_refuses_negative_ids, does="lets lookups refuse negative ids where torch does")
