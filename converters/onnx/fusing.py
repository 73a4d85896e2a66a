"""Fusing: what exporters have written in standard ONNX for a sparse operation becomes an operator of the domain."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

from onnx import ModelProto

from onnx_sparse.converters import pipeline
from onnx_sparse.converters.onnx.phases import PHASES
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.onnxruntime.guards import GUARDS, UNSPECIFIED
from onnx_sparse.converters.onnxruntime.slices import BackwardSliceFromBefore
from onnx_sparse.converters.onnxruntime.unsupported import unsupported_nodes
from onnx_sparse.converters.pipeline import Draft, Pass
from onnx_sparse.converters.rewriting import Rewriting
from onnx_sparse.converters.rewriting.explanation import Attempt, count_nodes
from onnx_sparse.converters.rewriting.rules.lost_rows import LostRows, Repairs
from onnx_sparse.converters.rewriting.well_formed import lacks_inputs
from onnx_sparse.models.files.large_models import around_large_tensors
from onnx_sparse.models.forms.function_bodies import embed_functions
from onnx_sparse.models.graphs import all_nodes
from onnx_sparse.models.tools.inlining import with_inlined, without_calls_of_functions
from onnx_sparse.models.tools.onnx_tools import as_value_errors, with_inferred_types
from onnx_sparse.models.tools.opsets import default_opset, in_body_opset, with_default_opset
from onnx_sparse.schemas import DOMAIN, OPSET_VERSION

#: The lowest opset in which a scatter can be repaired.
_REPAIRED_OPSET = 14

#: The operators of which none may stay in a function, where no rule sees it: those of scatters that lose rows, and of
#: faults of ONNX Runtime that make a wrong result or end the process.
_INLINED = frozenset(LostRows.anchors).union(*(guard.anchors for guard in GUARDS if guard.effect != "refused"))

#: Faults that are none where ONNX Runtime's own answers are to be kept.
_OMITTED: tuple[type[Guard], ...] = (*UNSPECIFIED, BackwardSliceFromBefore)

#: The name in explanations of what finds nodes that no kernel takes.
_UNSUPPORTED = "no kernel"

#: The lowest IR version in which a constant need not be an input of the graph.
_INNER_CONSTANTS_IR_VERSION = 4


def _infer_again(draft: Draft) -> None:
    if any(attempt.fired for attempt in draft.attempts):
        draft.model = with_inferred_types(draft.model, data_prop=True)


def _note_unsupported(draft: Draft) -> None:
    """Note what the model's nodes ask of other execution providers, which a model of the user's own may be for."""
    draft.attempts += [
        Attempt(_UNSUPPORTED, f"{node.node} ({node.op_type})", False, node.reason)
        for node in unsupported_nodes(draft.model)
    ]


def passes(repairs: Repairs | None = None, producer: str = "", *, check_ids: bool = False) -> tuple[Pass, ...]:
    """What is done with a model that another exporter wrote."""
    lost_rows = LostRows(repairs, producer)
    return (
        pipeline.rewrite_by([PHASES[0], [lost_rows], *PHASES[1:]]),
        Pass("infer", "infers types and shapes of what rules wrote, which guards ask for", _infer_again),
        *([pipeline.REFUSE_NEGATIVE_IDS] if check_ids else []),
        pipeline.guard_against(omitted=_OMITTED, keeps_bits=True),
        Pass("kernels", "warns of nodes that no kernel of ONNX Runtime takes", _note_unsupported),
    )


def fuse(
    model: ModelProto,
    *,
    explain: Callable[[Rewriting], None] | None = None,
    repair_scatter: str | Iterable[str] | None = None,
    check_ids: bool = False,
) -> ModelProto:
    """Replace the subgraphs of standard operators that are operators of the domain, with the same answers.

        fused = onnx_sparse.fuse(onnx.load("exported.onnx"))

    Nodes for which ONNX Runtime gives wrong results, ends the process or has no kernel are also replaced. A warning
    names each node without a kernel that has no replacement: another execution provider may run it.

    Args:
        model: A model that tf2onnx, torch's exporters or others have made; it is not changed.
        explain: Called once, with the numbers of nodes and the outcome of every rule.
        repair_scatter: What becomes of scatters that keep only the last of the rows with equal ids where their source
            adds or averages them: `add`, `mean`, `mul`, `max` or `min`, or `NODE=add` for one node, or several of
            these. When omitted they stay as they are, and a warning names each.
        check_ids: Whether all lookups refuse negative ids, which ONNX counts from the end.

    Returns:
        A new model. Where no rule fires it is a copy.

    Raises:
        ValueError: The model is malformed, or `repair_scatter` names no reduction or no such scatter.
    """
    repairs = Repairs.of(repair_scatter)
    explanations: list[Rewriting] = []

    @around_large_tensors
    def fused(whole: ModelProto) -> ModelProto:
        result = with_default_opset(with_inlined(without_calls_of_functions(whole), _INLINED))
        if repairs and default_opset(result) < _REPAIRED_OPSET:
            result = in_body_opset(result)
        result = with_inferred_types(result, data_prop=True)
        before = count_nodes(result)
        _refuse_malformed(result)
        with as_value_errors(whole):
            draft = Draft(result)
            result = pipeline.run(draft, passes(repairs, whole.producer_name, check_ids=check_ids))
            attempts = draft.attempts
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
    _report_lost_rows(explanations[0], repairs)
    for attempt in explanations[0].attempts:
        if attempt.rule == _UNSUPPORTED:
            warnings.warn(f"node {attempt.node}: {attempt.reason}", stacklevel=2)
    if explain is not None:
        explain(explanations[0])
    return result


def repaired(model: ModelProto) -> tuple[ModelProto, list[str]]:
    """A model whose nodes are replaced of which ONNX Runtime gives wrong results, and what was replaced.

    Its answers are the right ones where those of a model in ONNX Runtime are not: verification compares with both.
    """
    omitted = (*_OMITTED, *(guard for guard in GUARDS if guard.effect != "wrong result"))
    fired: list[str] = []

    @around_large_tensors
    def made(whole: ModelProto) -> ModelProto:
        result = with_default_opset(with_inlined(without_calls_of_functions(whole), _INLINED))
        with as_value_errors(whole):
            draft = Draft(with_inferred_types(result, data_prop=True))
            result = pipeline.run(draft, [pipeline.guard_against(omitted=omitted, keeps_bits=True)])
        fired.extend(dict.fromkeys(attempt.rule for attempt in draft.attempts if attempt.fired))
        return result

    return made(model), fired


def _refuse_malformed(model: ModelProto) -> None:
    """Refuse a model whose nodes lack inputs.

    Raises:
        ValueError: A node does.
    """
    opset = default_opset(model)
    for node in all_nodes(model.graph.node):
        if lacks_inputs(node, opset):
            name = node.name or next(iter(node.output), "")
            raise ValueError(f"the model is malformed: node {name} ({node.op_type}) has only {len(node.input)} inputs")


def with_checked_ids(model: ModelProto) -> ModelProto:
    """A copy of a model whose lookups refuse negative ids, which ONNX counts from the end."""
    draft = Draft(with_inferred_types(model, data_prop=True))
    return pipeline.run(draft, [pipeline.REFUSE_NEGATIVE_IDS])


def _report_lost_rows(said: Rewriting, repairs: Repairs) -> None:
    """Warn of each scatter that loses rows and stays.

    Raises:
        ValueError: A node that was to be repaired is no such scatter.
    """
    met = [attempt for attempt in said.attempts if attempt.rule == LostRows.name]
    missing = repairs.of_nodes.keys() - {attempt.node for attempt in met if attempt.fired}
    if missing:
        raise ValueError(f"{sorted(missing)[0]} is not a scatter that loses rows, or cannot be repaired")
    for attempt in met:
        if not attempt.fired:
            warnings.warn(f"node {attempt.node}: {attempt.reason}", stacklevel=3)
