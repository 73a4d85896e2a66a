"""From a file of one of Ascend's tools to a model before the passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from onnx import ModelProto

from onnx_sparse.converters import pipeline
from onnx_sparse.converters.ascend.atb.conversion import convert_graph
from onnx_sparse.converters.ascend.atb.dump import find_records
from onnx_sparse.converters.ascend.atb.handlers import Choices
from onnx_sparse.converters.ascend.atb.json_graph import read_graph
from onnx_sparse.converters.ascend.atb.viewer_onnx import is_viewer_onnx, read_viewer_onnx
from onnx_sparse.converters.ascend.given_inputs import Given, parse_inputs
from onnx_sparse.converters.ascend.options import Options
from onnx_sparse.converters.ascend.source import is_ge_onnx, read_json, read_onnx
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.onnxruntime.guards import UNSPECIFIED
from onnx_sparse.converters.onnxruntime.not_a_number import ExtremeOfNaN
from onnx_sparse.converters.onnxruntime.unique import OneNaN
from onnx_sparse.converters.pipeline import Draft, Pass
from onnx_sparse.models.tools.onnx_tools import LARGEST_PROTO, ONNX_ERRORS, infer_shapes


def _where_typed(step: Pass) -> Pass:
    """A pass over models whose types can be inferred; one with operations that are kept as they are stays as it is."""

    def apply(draft: Draft) -> None:
        try:
            if draft.model.ByteSize() < LARGEST_PROTO:
                draft.model = infer_shapes(draft.model)
        except ONNX_ERRORS:
            return
        step.apply(draft)

    return replace(step, does=f"{step.does}; infers types first", apply=apply)


#: As TensorFlow, from which GE's operators come: NaN is the largest and the least, but not the place of these.
_OMITTED = tuple(kind for kind in (*UNSPECIFIED, OneNaN) if kind is not ExtremeOfNaN)


def passes(*, check_ids: bool = False) -> tuple[Pass, ...]:
    """What is done with a model once its operations are converted."""
    checks = [pipeline.REFUSE_NEGATIVE_IDS] if check_ids else []
    typed = map(_where_typed, (*checks, pipeline.guard_against(omitted=_OMITTED)))
    return (*typed, pipeline.REFUSE_UNSUPPORTED)


def convert_file(source: Path, options: Options, tell: Callable[[str], None]) -> ModelProto:
    """The model of a file, before the passes.

    Raises:
        ConversionError: The file cannot be read, an input's type is not known, or operations cannot be converted; all
            of these are listed.
    """
    given = parse_inputs(options.inputs or options.input_spec)
    choices = Choices(options.fill_value, options.fp16_overflow)
    if source.suffix.lower() in (".air", ".pbtxt", ".txt"):
        return _convert_ge(source, given, keep_unknown=options.keep_unknown, saturate=choices.saturates, tell=tell)
    if source.suffix.lower() == ".onnx":
        model = read_onnx(source)
        if not is_viewer_onnx(model):
            return _convert_npu(source, model, saturate=choices.saturates, tell=tell)
        graph = read_viewer_onnx(model)
    else:
        graph = read_graph(read_json(source), source)
    tell("converting")
    records = find_records(graph, source, None if options.tensors is None else Path(options.tensors))
    return convert_graph(graph, given=given, records=records, choices=choices, keep_unknown=options.keep_unknown).model


def _convert_ge(
    source: Path, given: Mapping[str, Given], *, keep_unknown: bool, saturate: bool, tell: Callable[[str], None]
) -> ModelProto:
    # imported only here, because the import builds protobuf descriptors, which ATB graphs do not need
    from onnx_sparse.converters.ascend.ge.conversion import convert_ge
    from onnx_sparse.converters.ascend.ge.reader import read_ge_graph
    from onnx_sparse.converters.ascend.ge.viewer_onnx import read_ge_onnx

    graph = read_ge_onnx(source) if is_ge_onnx(source) else read_ge_graph(source)
    tell("converting")
    return convert_ge(graph, source.parent, given=given, keep_unknown=keep_unknown, saturate=saturate)


def _convert_npu(source: Path, model: ModelProto, *, saturate: bool, tell: Callable[[str], None]) -> ModelProto:
    from onnx_sparse.converters.ascend.npu import convert_npu, has_npu_nodes

    if not has_npu_nodes(model):
        raise ConversionError(f"{source} is an ONNX file, but neither msit's of an ATB graph nor one of torch_npu")
    tell("converting")
    return convert_npu(source, saturate=saturate)
