"""The road from Ascend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.converters.ascend.options import Options
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.roads.road import Progress, Road
from onnx_sparse.errors import UsageError

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_sparse.converters.pipeline import Draft, Pass


class _Ascend(Road[Options, Path]):
    """Graphs of ATB and GE, and ONNX files with operators of torch_npu.

    ATB graph JSON (`GetGraphInfo`, or a layer's or model's file of msit or msprobe), or msit's `.onnx`; or a graph of
    GE: `.air`, `ge_proto_*.txt`, `dynamo.pbtxt`, `ge_onnx_*.pbtxt`; or an ONNX file with operators of torch_npu's
    exporter. Notes for the user, such as on a hidden reshape that the dump shows, are in the model's metadata.
    """

    name = "ascend"
    title = "Ascend"
    models = "Ascend's graphs"
    suffixes = (".json", ".om", ".air")
    options = Options

    def claims(self, path: Path) -> bool:
        """Ascend's tools use the suffixes of others."""
        if path.suffix.lower() not in (".onnx", ".pbtxt", ".txt"):
            return False
        from onnx_sparse.converters.ascend.source import is_ascend

        return is_ascend(path)

    def check(self, options: Options, *, explain: bool, verify: bool) -> None:
        inputs = options.inputs or ()
        if verify or (not isinstance(inputs, Mapping) and any(name.count(":") < 2 for name in inputs)):
            raise UsageError(
                "--verify, --signature, --inputs and --outputs are not for Ascend's graphs: describe their inputs with "
                "--input-spec NAME:DTYPE:2,3, and `onnx-sparse replay` compares with a dump's own tensors"
            )

    def refuse(self, path: Path) -> None:
        if any((path / name).is_dir() for name in ("layer", "model", "info", "operation_io_tensors")):
            raise ConversionError(
                f"{path} is an Ascend dump: `onnx-sparse replay` runs it; to convert a graph, give its file"
            )
        if path.suffix.lower() == ".om":
            raise ConversionError(
                f"{path} is compiled for an NPU and cannot be converted; convert the graph before that"
            )

    def load(self, source: Any, options: Options, tell: Progress = lambda stage: None) -> Path:
        path = Path(source)
        if path.is_dir():
            raise ConversionError(
                f"{path} is a folder: convert a graph's file in it; a dump as a whole is for `onnx-sparse replay`"
            )
        self.refuse(path)
        return path

    def draft(self, loaded: Path, options: Options, tell: Progress) -> Draft:
        from onnx_sparse.converters.ascend.conversion import convert_file
        from onnx_sparse.converters.pipeline import Draft

        if options.fp16_overflow not in (None, "saturate", "ieee"):
            raise ValueError(f"fp16_overflow {options.fp16_overflow!r} is neither 'saturate' nor 'ieee'")
        if options.tensors is not None and not Path(options.tensors).exists():
            raise ConversionError(f"{options.tensors}: no such file or directory; it would hold the dump's tensors")
        return Draft(convert_file(loaded, options, tell))

    def passes(self, *, check_ids: bool = False) -> Sequence[Pass]:
        from onnx_sparse.converters.ascend.conversion import passes

        return passes(check_ids=check_ids)

    def notes(self, model: ModelProto) -> Sequence[str]:
        from onnx_sparse.converters.ascend.emitter import notes

        return notes(model)


ROAD = _Ascend()
