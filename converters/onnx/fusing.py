"""Fusing: what exporters have written in standard ONNX for a sparse operation becomes an operator of the domain."""

from __future__ import annotations

from collections.abc import Callable

from onnx import ModelProto

from onnx_sparse.converters.onnx.phases import PHASES
from onnx_sparse.converters.onnxruntime.guards import UNSPECIFIED, guard
from onnx_sparse.converters.rewriting import Rewriting, rewrite
from onnx_sparse.converters.rewriting.explanation import count_nodes
from onnx_sparse.models.function_bodies import embed_functions
from onnx_sparse.models.inlining import without_calls_of_functions
from onnx_sparse.models.large_models import around_large_tensors
from onnx_sparse.models.onnx_tools import as_value_errors, with_inferred_types
from onnx_sparse.models.opsets import with_default_opset
from onnx_sparse.schemas import DOMAIN, OPSET_VERSION

#: The lowest IR version in which a constant need not be an input of the graph.
_INNER_CONSTANTS_IR_VERSION = 4


def fuse(model: ModelProto, *, explain: Callable[[Rewriting], None] | None = None) -> ModelProto:
    """Replace the subgraphs of standard operators that are operators of the domain, with the same answers.

    Nodes of which ONNX Runtime's result is wrong, or ends the process, are replaced, too.

    Args:
        model: A model that tf2onnx, torch's exporters or others have made; it is not changed.
        explain: Called once, with the numbers of nodes and the outcome of every rule.

    Returns:
        A new model. Where no rule fires it is a copy.

    Raises:
        ValueError: The model is malformed.
    """
    explanations: list[Rewriting] = []

    @around_large_tensors
    def fused(whole: ModelProto) -> ModelProto:
        result = with_inferred_types(with_default_opset(without_calls_of_functions(whole)), data_prop=True)
        before = count_nodes(result)
        with as_value_errors(whole):
            attempts = rewrite(result, PHASES)
            attempts += guard(result, omitted=UNSPECIFIED)
        has_fired = any(attempt.fired for attempt in attempts)
        if not has_fired:
            result.CopyFrom(whole)
        explanations.append(Rewriting(nodes_before=before, nodes=count_nodes(result), attempts=tuple(attempts)))
        if not has_fired:
            return result
        if all(imported.domain != DOMAIN for imported in result.opset_import):
            result.opset_import.add(domain=DOMAIN, version=OPSET_VERSION)
        result.ir_version = max(result.ir_version, _INNER_CONSTANTS_IR_VERSION)
        return embed_functions(result) if any(f.domain == DOMAIN for f in whole.functions) else result

    result = fused(model)
    if explain is not None:
        explain(explanations[0])
    return result
