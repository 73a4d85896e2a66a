"""`convert`: from a file of one of Ascend's tools to a model that runs in ONNX Runtime."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from onnx import ModelProto

from onnx_sparse.converters import pipeline
from onnx_sparse.converters.ascend.atb.conversion import convert_graph
from onnx_sparse.converters.ascend.atb.dump import find_records
from onnx_sparse.converters.ascend.atb.handlers import Choices
from onnx_sparse.converters.ascend.atb.json_graph import read_graph
from onnx_sparse.converters.ascend.atb.viewer_onnx import is_viewer_onnx, read_viewer_onnx
from onnx_sparse.converters.ascend.given_inputs import Given, InputSpec, parse_inputs
from onnx_sparse.converters.ascend.source import is_ge_onnx, read_json, read_onnx
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.onnxruntime.guards import UNSPECIFIED
from onnx_sparse.converters.onnxruntime.not_a_number import ExtremeOfNaN
from onnx_sparse.converters.onnxruntime.unique import OneNaN
from onnx_sparse.converters.pipeline import Draft, Pass, Rewriting
from onnx_sparse.models.large_models import referring
from onnx_sparse.models.onnx_tools import LARGEST_PROTO, ONNX_ERRORS, infer_shapes

Overflow = Literal["saturate", "ieee"]


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


@referring
def convert(
    path: str | os.PathLike[str],
    *,
    inputs: Sequence[str] | Mapping[str, InputSpec] | None = None,
    tensors: str | os.PathLike[str] | None = None,
    fill_value: float | None = None,
    fp16_overflow: Overflow | None = None,
    keep_unknown: bool = False,
    check_ids: bool = False,
    progress: Callable[[str], None] | None = None,
    explain: Callable[[Rewriting], None] | None = None,
) -> ModelProto:
    """Convert an Ascend graph to ONNX.

    Args:
        path: ATB graph JSON (`GetGraphInfo`, or a layer's or model's file of msit or msprobe), or msit's `.onnx`; or a
            graph of GE: `.air`, `ge_proto_*.txt`, `dynamo.pbtxt`, `ge_onnx_*.pbtxt`; or an ONNX file with operators of
            torch_npu's exporter.
        inputs: Element types and shapes of the graph's inputs that neither the file nor a dump says:
            `["x:float16:2,3"]` or `{"x": ("float16", (2, 3))}`; an unknown dimension is `?`, or None.
        tensors: A dump's records of the tensors: a csv, a dump's folder, or the folder of the layer's tensors. When
            omitted, the dump is searched for next to the graph, where the tools put it.
        fill_value: The value of FillOperations whose own value, an infinity or NaN, was lost as null in the dump.
        fp16_overflow: What becomes of values beyond float16: `saturate`: the largest float16, in every operation
            (310P, 910A); `ieee`: an infinity (Ascend 950). When omitted, FillOperation's value saturates and all that
            is computed becomes an infinity (Atlas A2, A3).
        keep_unknown: Keep operations that are not supported as nodes of the domain `ascend.atb`.
        check_ids: Whether all lookups refuse negative ids, which ONNX counts from the end.
        progress: Called with `"converting"` when the file has been read.
        explain: Called once, with the numbers of nodes and the outcome of every guard.

    Returns:
        The model, in canonical form. Notes for the user, such as on a hidden reshape that the dump shows, are in its
        metadata; see `notes`.

    Raises:
        ConversionError: The file cannot be read, an input's type is not known, or operations cannot be converted; all
            of these are listed.
    """
    if fp16_overflow not in (None, "saturate", "ieee"):
        raise ValueError(f"fp16_overflow {fp16_overflow!r} is neither 'saturate' nor 'ieee'")
    source = Path(path)
    if source.is_dir():
        raise ConversionError(
            f"{source} is a folder: convert a graph's file in it; a dump as a whole is for `onnx-sparse replay`"
        )
    given = parse_inputs(inputs)
    if source.suffix.lower() == ".om":
        raise ConversionError(f"{source} is compiled for an NPU and cannot be converted; convert the graph before that")
    tell = progress or (lambda stage: None)
    model = _converted(source, given, tensors, Choices(fill_value, fp16_overflow), keep_unknown=keep_unknown, tell=tell)
    draft = Draft(model)
    made = pipeline.run(draft, passes(check_ids=check_ids))
    if explain is not None:
        explain(draft.rewriting())
    return made


def _converted(
    source: Path,
    given: Mapping[str, Given],
    tensors: str | os.PathLike[str] | None,
    choices: Choices,
    *,
    keep_unknown: bool,
    tell: Callable[[str], None],
) -> ModelProto:
    if source.suffix.lower() in (".air", ".pbtxt", ".txt"):
        return _convert_ge(source, given, keep_unknown=keep_unknown, saturate=choices.saturates, tell=tell)
    if source.suffix.lower() == ".onnx":
        model = read_onnx(source)
        if not is_viewer_onnx(model):
            return _convert_npu(source, model, saturate=choices.saturates, tell=tell)
        graph = read_viewer_onnx(model)
    else:
        graph = read_graph(read_json(source), source)
    tell("converting")
    records = find_records(graph, source, None if tensors is None else Path(tensors))
    return convert_graph(graph, given=given, records=records, choices=choices, keep_unknown=keep_unknown).model


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
