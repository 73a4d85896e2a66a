"""The passes over a model that was made from TensorFlow's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import onnx
from onnx import ModelProto, TensorProto, ValueInfoProto, defs

from onnx_sparse.converters import pipeline
from onnx_sparse.converters.errors import ConversionError, UnsupportedNode
from onnx_sparse.converters.onnxruntime.not_a_number import PlaceOfNaN
from onnx_sparse.converters.onnxruntime.pooling import PoolOfNaN
from onnx_sparse.converters.onnxruntime.unique import OneNaN
from onnx_sparse.converters.pipeline import Pass
from onnx_sparse.converters.pipeline.passes import in_place
from onnx_sparse.converters.tensorflow.phases import PHASES
from onnx_sparse.models.graphs import graphs
from onnx_sparse.schemas import DOMAIN, OPS

#: The opsets from which on there are some operators on strings.
_STRING_OPERATORS = {"StringConcat": 20, "RegexFullMatch": 20}
#: The opset from which on Equal takes strings.
_EQUAL_STRINGS = 19


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


def _refuse_unknown(model: ModelProto) -> None:
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


def _has(node: onnx.NodeProto, versions: dict[str, int]) -> bool:
    return node.domain in versions and defs.has(node.op_type, versions[node.domain], node.domain)


def _values(graph: onnx.GraphProto) -> Iterator[ValueInfoProto]:
    yield from (*graph.input, *graph.output, *graph.value_info)


def _is_complex(value: ValueInfoProto) -> bool:
    return value.type.tensor_type.elem_type in (TensorProto.COMPLEX64, TensorProto.COMPLEX128)


_REFUSE_GIVEN_IDS = pipeline.refuse_ids(
    only_given=True, does="lets lookups refuse negative ids of inputs, as TensorFlow does"
)


def passes(*, check_ids: bool = False) -> tuple[Pass, ...]:
    """What is done with a model once its nodes are converted.

    TensorFlow's ArgMax passes over NaN as ONNX Runtime's does.
    """
    return (
        pipeline.RECORD_PRODUCER,
        Pass("imports", "drops operator sets that nothing uses", in_place(_drop_unused_imports)),
        Pass("opset", "raises the opset where operators on strings need it", in_place(_admit_string_operators)),
        pipeline.INFER,
        pipeline.SIMPLIFY,
        pipeline.INFER,  # more is known now that constants are folded
        pipeline.LAYOUTS,
        pipeline.SIMPLIFY,
        pipeline.rewrite_by(PHASES),
        pipeline.INFER,
        pipeline.REFUSE_NEGATIVE_IDS if check_ids else _REFUSE_GIVEN_IDS,
        pipeline.guard_against(omitted=(PlaceOfNaN, PoolOfNaN, OneNaN)),
        replace(pipeline.INFER_STRICTLY, stage="checking"),
        Pass("opset of Equal", "raises the opset where Equal takes strings", in_place(_admit_equal_strings)),
        Pass("operators", "refuses operators that ONNX does not have, and complex tensors", in_place(_refuse_unknown)),
        pipeline.REFUSE_UNSUPPORTED,
        pipeline.CHECK,
    )
