"""The road from OpenVINO."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.roads.road import Progress, Road, Run
from onnx_sparse.settings import FilePath, option

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_sparse.converters.pipeline import Draft, Pass
    from onnx_sparse.converters.tensor import Array
    from onnx_sparse.converters.verification.reference import Reference
    from onnx_sparse.pictures import Picture


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a conversion from OpenVINO."""

    GROUP: ClassVar = "options for OpenVINO's IRs"
    EXAMPLES: ClassVar = """
onnx-sparse convert model.xml -o model.onnx --verify
"""

    weights: FilePath | None = field(
        default=None,
        metadata=option("the .bin of an OpenVINO IR (default: the file of the same name next to it)", "FILE.bin"),
    )


class _OpenVino(Road[Options, Any]):
    """The `.xml` of an IR of version 10 or 11, or an openvino.Model, which is written to a temporary folder.

    A state of an IR is a pair of inputs and outputs: `past.NAME`, the value before a run, and `present.NAME`, the value
    after it, which `onnx_sparse.StatefulSession` feeds on.
    """

    name = "openvino"
    title = "OpenVINO"
    models = "OpenVINO's IRs"
    suffixes = (".xml",)
    packages = ("openvino",)
    options = Options
    needs = extra = "openvino"

    def refuse(self, path: Path) -> None:
        graph = path.with_suffix(".xml")
        if path.suffix.lower() == ".bin" and graph.is_file():
            raise ConversionError(f"{path} has the constants of an IR; give its graph, {graph}")

    def draft(self, loaded: Any, options: Options, tell: Progress) -> Draft:
        from onnx_sparse.converters.openvino.conversion import convert_file
        from onnx_sparse.converters.openvino.in_memory import file_of
        from onnx_sparse.converters.pipeline import Draft

        tell("reading")
        if options.weights is not None and not isinstance(loaded, str | os.PathLike):
            raise ConversionError("weights are for the .xml of an IR: a model in memory has its own")
        with file_of(loaded) as path:
            model = convert_file(path, None if options.weights is None else Path(options.weights), tell)
        tell("checking")
        return Draft(model)

    def parts(self, path: Path) -> Sequence[Path]:
        return [path, path.with_suffix(".bin")]

    def passes(self, *, check_ids: bool = False) -> Sequence[Pass]:
        from onnx_sparse.converters.openvino.conversion import passes

        return passes(check_ids=check_ids)

    def reference(
        self, loaded: Any, model: ModelProto, *, described: ModelProto, generated: bool
    ) -> AbstractContextManager[Reference]:
        from onnx_sparse.converters.openvino.reference import reference

        return reference(loaded, model, generated=generated)

    def draw(self, loaded: Any, picture: Picture) -> None:
        from onnx_sparse.converters.openvino.picture import draw

        draw(loaded, picture)

    def timed(self, path: str, options: Options, threads: int, names: Sequence[str]) -> tuple[list[str], Run]:
        """The inputs of an IR are in the order of those of its model; OpenVINO may know a tensor by several names."""
        from onnx_sparse.converters.errors import require

        openvino = require("openvino", "openvino")
        compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": str(threads)})
        request = compiled.create_infer_request()

        def run(feeds: Mapping[str, Array]) -> object:
            given = (feeds[name] for name in names)
            try:
                return request.infer([v.astype(str) if v.dtype == object else v for v in given], share_inputs=True)
            except RuntimeError as error:  # where it was raised comes first, what is wrong last
                raise RuntimeError(str(error).strip().splitlines()[-1]) from error

        return list(names), run


ROAD = _OpenVino()
