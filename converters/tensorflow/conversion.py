"""`convert`: loads, freezes, converts, rewrites and checks a TensorFlow model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import onnx
from onnx import ModelProto, TensorProto, ValueInfoProto, defs

from onnx_sparse.converters.errors import ConversionError, UnsupportedNode, first_line
from onnx_sparse.converters.onnxruntime.bfloat16 import compute_in_float
from onnx_sparse.converters.onnxruntime.guards import guard
from onnx_sparse.converters.onnxruntime.layouts import carry_transpositions
from onnx_sparse.converters.onnxruntime.not_a_number import PlaceOfNaN
from onnx_sparse.converters.rewriting.explanation import Attempt, count_nodes
from onnx_sparse.converters.tensorflow.explanation import Explanation, count_source_nodes
from onnx_sparse.converters.tensorflow.feature_record import record_features
from onnx_sparse.converters.tensorflow.lazy_imports import quietly, require
from onnx_sparse.converters.tensorflow.naming import name_inputs_and_outputs
from onnx_sparse.converters.tensorflow.phases import rewrite
from onnx_sparse.converters.tensorflow.simplification import simplify
from onnx_sparse.converters.tensorflow.source import Frozen, Source
from onnx_sparse.converters.verification.sample_inputs import CompositeSpecs
from onnx_sparse.converters.writing.tensor import Array
from onnx_sparse.models.arrays_on_disk import NoRoomError
from onnx_sparse.models.graphs import graphs
from onnx_sparse.schemas import DOMAIN, OPS

#: The limit of protocol buffers; the tools of the onnx package refuse larger models.
_LARGEST_PROTO = 2**31 - 1

_IR_VERSION = 10

#: TensorFlow's ArgMax passes over NaN as ONNX Runtime's does.
_NOT_NEEDED = (PlaceOfNaN,)

#: The opsets from which on there are some operators on strings.
_STRING_OPERATORS = {"StringConcat": 20, "RegexFullMatch": 20}
#: The opset from which on Equal takes strings.
_EQUAL_STRINGS = 19

#: tf2onnx keeps its state in global variables, and the bridge patches these.
_ONE_AT_A_TIME = threading.RLock()


def convert(
    source: Any,
    *,
    signature: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    lookup_tables: Mapping[str, tuple[Any, Any]] | None = None,
    progress: Callable[[str], None] | None = None,
    explain: Callable[[Explanation], None] | None = None,
    tables: MutableMapping[str, Array] | None = None,
) -> ModelProto:
    """Convert a TensorFlow model to ONNX with operators of the domain `onnx_sparse`.

    Args:
        source: A SavedModel directory, a frozen GraphDef (`.pb`, `.pbtxt`), a `.keras` or HDF5 file; or in memory a
            Keras model (of Keras 3 or `tf_keras`), a tf.function with an input_signature, a ConcreteFunction, or what
            `load` returned.
        signature: Which signature of a SavedModel; `serving_default`, or the only one, when omitted.
        inputs: The inputs, in this order. In a GraphDef any tensors (`"a:0"`); the placeholders when omitted.
        outputs: The outputs, in this order. In a GraphDef any tensors; those that nothing consumes when omitted.
        lookup_tables: For a GraphDef, which has none itself, the keys and values of its lookup tables, by the names of
            the nodes that make these or by their shared names.
        progress: Called with `"loading"`, `"freezing"`, `"converting"`, `"rewriting"` and `"checking"` as these begin.
        explain: Called once, with the numbers of nodes and the outcome of every rewriting rule.
        tables: A dictionary that receives the embedding tables of a model larger than 1 GiB, by initializer. Their data
            is then not in the model, and no copy of it is made. Give it to `verify` as well.

    Returns:
        A model of IR version 10 in canonical form. Inputs and outputs have the names that they have in the source: the
        keys of a signature, the names of TensorSpecs and Keras inputs, the names in `inputs` and `outputs`.

    Raises:
        ConversionError: If the source cannot be read or has nodes that cannot be converted, all of which are listed.
    """
    tell = progress or (lambda stage: None)
    tell("loading")
    require("tensorflow")
    require("tf2onnx")
    # These modules import packages that come with TensorFlow, so they are imported once it is known to be installed.
    from onnx_sparse.converters.tensorflow.input_ranks import with_ranks
    from onnx_sparse.converters.tensorflow.large_tables import attach
    from onnx_sparse.converters.tensorflow.load import load
    from onnx_sparse.converters.tensorflow.tf2onnx_bridge import to_onnx

    with _ONE_AT_A_TIME, quietly():
        loaded = load(source, signature=signature, inputs=inputs, outputs=outputs, lookup_tables=lookup_tables)
        tell("freezing")
        frozen = with_ranks(_frozen(loaded))
        tell("converting")
        model = to_onnx(frozen)
        renamed = name_inputs_and_outputs(model, frozen)
        tell("rewriting")
        model.graph.name = frozen.name
        model, nodes_before, attempts = finished(model, loaded.specs, tell)
        set_aside = {f"{name}:0": array for name, array in frozen.embedding_tables.items()}
        attach(model, {renamed.get(name, name): array for name, array in set_aside.items()}, tables)
        record_features(model, loaded.specs)
        if explain is not None:
            derivation = frozen.derivation
            source_nodes = count_source_nodes(frozen.graph_def) + derivation.nodes
            every = (*derivation.attempts, *attempts)
            explain(
                Explanation(
                    source_nodes=source_nodes, nodes_before=nodes_before, nodes=count_nodes(model), attempts=every
                )
            )
    return model


def finished(
    model: ModelProto, specs: CompositeSpecs, tell: Callable[[str], None] = lambda stage: None
) -> tuple[ModelProto, int, list[Attempt]]:
    """What is done with a model once its nodes are converted: simplified, rewritten, guarded and checked.

    Args:
        model: The model; it is changed.
        specs: What is known of its inputs.
        tell: Called with `"checking"` as that begins.

    Returns:
        The model; the number of its nodes before it was rewritten; the outcome of each rule.

    Raises:
        ConversionError: It is not valid.
    """
    model.ir_version = _IR_VERSION
    model.producer_name, model.producer_version = "onnx_sparse", ""
    model.graph.doc_string = ""
    _drop_unused_imports(model)
    _admit_string_operators(model)
    model = _inferred(model)
    simplify(model)
    model = _inferred(model)  # more is known now that constants are folded
    carry_transpositions(model)
    simplify(model)
    nodes_before = count_nodes(model)
    attempts = rewrite(model)
    model = _inferred(model)
    splits = {name for ragged in specs.ragged for name in ragged.splits}
    guard(model, positions=splits, omitted=_NOT_NEEDED)
    tell("checking")
    model = _inferred(model, strict=True)
    _admit_equal_strings(model)
    compute_in_float(model)
    _check(model)
    return model, nodes_before, attempts


def _frozen(source: Source) -> Frozen:
    try:
        return source.freeze()
    except (ConversionError, NoRoomError):
        raise
    except Exception as error:  # TensorFlow raises ValueError, OpError, RuntimeError, ... for what it cannot freeze
        raise ConversionError(f"TensorFlow cannot freeze {source.name}: {first_line(error)}") from error


def _inferred(model: ModelProto, *, strict: bool = False) -> ModelProto:
    """The model with types and shapes of its inner tensors.

    Raises:
        ConversionError: In strict mode, if operators do not take the types and shapes that they are given.
    """
    if model.ByteSize() >= _LARGEST_PROTO:
        return model
    try:
        return onnx.shape_inference.infer_shapes(model, strict_mode=strict)
    except onnx.shape_inference.InferenceError as error:
        raise ConversionError(f"the converted model is not valid: {first_line(error)}") from error


def _drop_unused_imports(model: ModelProto) -> None:
    used = {node.domain for graph in graphs(model.graph) for node in graph.node} | {""}
    imports = [entry for entry in model.opset_import if entry.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(imports)


def _admit_string_operators(model: ModelProto) -> None:
    """Raise the opset to that which has the operators on strings; for other operators nothing changes with it."""
    for graph in graphs(model.graph):
        for node in graph.node:
            if node.domain == "":
                _raise_opset(model, _STRING_OPERATORS.get(node.op_type, 0))


def _admit_equal_strings(model: ModelProto) -> None:
    """Raise the opset to that in which Equal takes strings, if a node does; nothing else changes with it."""
    strings = set()
    for graph in graphs(model.graph):
        strings |= {v.name for v in _values(graph) if v.type.tensor_type.elem_type == TensorProto.STRING}
        strings |= {tensor.name for tensor in graph.initializer if tensor.data_type == TensorProto.STRING}
    nodes = (node for graph in graphs(model.graph) for node in graph.node)
    if any(node.op_type == "Equal" and not strings.isdisjoint(node.input) for node in nodes):
        _raise_opset(model, _EQUAL_STRINGS)


def _raise_opset(model: ModelProto, least: int) -> None:
    (default,) = (entry for entry in model.opset_import if entry.domain == "")
    default.version = max(default.version, least)


def _check(model: ModelProto) -> None:
    """Refuse what would not load: operators that ONNX does not have, and complex tensors."""
    versions = {entry.domain: entry.version for entry in model.opset_import}
    unsupported = []
    for graph in graphs(model.graph):
        complex_tensors = {value.name for value in _values(graph) if _is_complex(value)}
        for node in graph.node:
            known = node.op_type in OPS if node.domain == DOMAIN else _has(node, versions)
            if not known:
                unsupported.append(UnsupportedNode(node.name, node.op_type, "no converter for this operator"))
            elif complex_tensors.intersection((*node.input, *node.output)):
                unsupported.append(UnsupportedNode(node.name, node.op_type, "ONNX Runtime has no complex tensors"))
    if unsupported:
        raise ConversionError(unsupported=unsupported)
    if model.ByteSize() < _LARGEST_PROTO:
        # The checker demands a shape of every output, ONNX Runtime does not.
        unknown = [v.type.tensor_type for v in model.graph.output if not v.type.tensor_type.HasField("shape")]
        for kind in unknown:
            kind.shape.SetInParent()
        try:
            onnx.checker.check_model(model)
        except onnx.checker.ValidationError as error:
            raise ConversionError(f"the converted model is not valid: {first_line(error)}") from error
        for kind in unknown:
            kind.ClearField("shape")


def _has(node: onnx.NodeProto, versions: dict[str, int]) -> bool:
    return node.domain in versions and defs.has(node.op_type, versions[node.domain], node.domain)


def _values(graph: onnx.GraphProto) -> Iterator[ValueInfoProto]:
    yield from (*graph.input, *graph.output, *graph.value_info)


def _is_complex(value: ValueInfoProto) -> bool:
    return value.type.tensor_type.elem_type in (TensorProto.COMPLEX64, TensorProto.COMPLEX128)
