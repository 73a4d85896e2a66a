"""The passes that several sources share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx import ModelProto, NodeProto

from onnx_sparse.converters.errors import ConversionError, first_line
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.onnxruntime.guards import guard
from onnx_sparse.converters.onnxruntime.layouts import carry_transpositions
from onnx_sparse.converters.onnxruntime.unsupported import unsupported_nodes
from onnx_sparse.converters.pipeline.run import Draft, Pass
from onnx_sparse.converters.rewriting.checked_ids import is_lookup, refuse_negative_ids
from onnx_sparse.converters.rewriting.engine import Phase, rewrite
from onnx_sparse.converters.rewriting.simplification import simplify
from onnx_sparse.models.tools.onnx_tools import LARGEST_PROTO, ONNX_ERRORS, check_model, infer_shapes
from onnx_sparse.version import __version__


def in_place(function: Callable[[ModelProto], object]) -> Callable[[Draft], None]:
    """A function that changes a model, as what a pass applies."""

    def apply(draft: Draft) -> None:
        function(draft.model)

    return apply


def rewrite_by(phases: Sequence[Phase], *, does: str = "replaces patterns by operators of the domain") -> Pass:
    """The pass that applies rules, phase by phase."""

    def apply(draft: Draft) -> None:
        draft.begin_rewriting()
        draft.attempts += rewrite(draft.model, phases)

    return Pass("rewrite", does, apply)


def guard_against(*, omitted: Sequence[type[Guard]] = (), keeps_bits: bool = False) -> Pass:
    """The pass that replaces what ONNX Runtime computes wrongly, but for what guards a source does not need; see
    `guard`."""

    def apply(draft: Draft) -> None:
        draft.begin_rewriting()
        draft.attempts += guard(draft.model, positions=draft.positions, omitted=omitted, keeps_bits=keeps_bits)

    return Pass("guard", "replaces nodes that ONNX Runtime computes wrongly", apply)


def refuse_ids(refuses: Callable[[NodeProto], bool] = is_lookup, *, only_given: bool = False, does: str) -> Pass:
    """The pass that lets lookups refuse negative ids; the arguments are those of `refuse_negative_ids`."""

    def apply(draft: Draft) -> None:
        draft.begin_rewriting()
        draft.attempts += refuse_negative_ids(draft.model, refuses, only_given=only_given)

    return Pass("negative ids", does, apply)


def _infer(*, strict: bool, check_types: bool = False) -> Callable[[Draft], None]:
    def apply(draft: Draft) -> None:
        if draft.model.ByteSize() >= LARGEST_PROTO:
            return
        try:
            draft.model = infer_shapes(draft.model, check_type=check_types, strict_mode=strict)
        except ONNX_ERRORS as error:
            raise ConversionError(f"the converted model is not valid: {first_line(error)}") from error

    return apply


def _record_producer(model: ModelProto) -> None:
    model.producer_name, model.producer_version = "onnx_sparse", __version__
    model.graph.doc_string = ""


def _refuse_unsupported(model: ModelProto) -> None:
    unsupported = unsupported_nodes(model)
    if unsupported:
        raise ConversionError(unsupported=unsupported)


def _check(model: ModelProto) -> None:
    if model.ByteSize() >= LARGEST_PROTO:
        return
    # The checker demands a shape of every output, ONNX Runtime does not.
    unknown = [v.type.tensor_type for v in model.graph.output if not v.type.tensor_type.HasField("shape")]
    for kind in unknown:
        kind.shape.SetInParent()
    try:
        check_model(model)
    except ONNX_ERRORS as error:
        raise ConversionError(f"the converted model is not valid: {first_line(error)}") from error
    for kind in unknown:
        kind.ClearField("shape")


INFER = Pass("infer", "infers element types and shapes", _infer(strict=False))
INFER_WITH_TYPES = Pass(
    "infer with types",
    "infers them; element types that do not fit are errors",
    _infer(strict=True, check_types=True),
)
INFER_STRICTLY = Pass("infer strictly", "infers them; what does not fit is an error", _infer(strict=True))
SIMPLIFY = Pass("simplify", "folds constants, merges equal nodes, drops copies and dead nodes", in_place(simplify))
LAYOUTS = Pass("layouts", "carries transpositions through to where they cancel out", in_place(carry_transpositions))
REFUSE_UNSUPPORTED = Pass(
    "kernels", "refuses nodes that no kernel of ONNX Runtime takes", in_place(_refuse_unsupported)
)
REFUSE_NEGATIVE_IDS = refuse_ids(does="lets all lookups refuse negative ids")
RECORD_PRODUCER = Pass("producer", "records this package and its version as the producer", in_place(_record_producer))
CHECK = Pass("check", "runs onnx's checker", in_place(_check))
