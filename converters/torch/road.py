"""The road from torch."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.roads.road import Progress, Road, Run
from onnx_sparse.settings import only_python, option

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_sparse.converters.pipeline import Draft, Pass
    from onnx_sparse.converters.tensor import Array
    from onnx_sparse.converters.torch.conversion import TorchDraft
    from onnx_sparse.converters.torch.source import Source
    from onnx_sparse.converters.verification.reference import Reference
    from onnx_sparse.pictures import Picture

#: The suffixes of files of weights.
_WEIGHTS = (".pt", ".pth", ".ckpt", ".safetensors")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a conversion from torch."""

    GROUP: ClassVar = "options for torch's programs"
    EXAMPLES: ClassVar = """
onnx-sparse convert model.pt2 -o model.onnx --verify
"""

    run: bool = field(
        default=True,
        metadata=option(
            "write a model of torch without running it. By default, it must load, and agree with torch on the "
            "program's example, with each of its sizes 0, 1 and doubled",
            flag="--no-run",
        ),
    )
    masked_fill: bool = field(default=False, metadata=option("let masked_fill of torch become MaskedFill, too"))
    opset_version: int = field(
        default=18, metadata=only_python("the opset that torch's programs are written in; see `opset`")
    )


class _Torch(Road[Options, "Source"]):
    """Programs that `torch.export.save` wrote, and in memory ExportedPrograms."""

    name = title = "torch"
    models = "torch's programs"
    suffixes = (".pt2",)
    packages = ("torch",)
    options = Options
    needs = extra = "torch"

    def refuse(self, path: Path) -> None:
        is_weights = path.suffix.lower() in _WEIGHTS or path.match("pytorch_model*.bin")
        if is_weights and path.is_file():
            raise ConversionError(
                f"{path} has weights or a pickled module, not a program: write torch.export.export(module, inputs) "
                "with torch.export.save, and give that .pt2"
            )

    def load(self, source: Any, options: Options, tell: Progress = lambda stage: None) -> Source:
        from onnx_sparse.converters.torch.source import load

        tell("loading")
        return load(source)

    def draft(self, loaded: Source, options: Options, tell: Progress) -> TorchDraft:
        from onnx_sparse.converters.torch.conversion import draft_of

        tell("converting")
        return draft_of(loaded, options.opset_version, masked_fill=options.masked_fill)

    def passes(self, *, check_ids: bool = False) -> Sequence[Pass]:
        from onnx_sparse.converters.torch.conversion import passes

        return passes(check_ids=check_ids)

    def finish(
        self,
        draft: Draft,
        loaded: Source,
        options: Options,
        tell: Progress,
        tables: MutableMapping[str, Array] | None,
    ) -> None:
        """Run the model as its program runs."""
        from onnx_sparse.converters.torch.conversion import TorchDraft
        from onnx_sparse.converters.torch.trial import require_run

        assert isinstance(draft, TorchDraft)
        if options.run:
            tell("running")
            require_run(loaded, draft.model, draft.made_for)

    def reference(
        self, loaded: Source, model: ModelProto, *, described: ModelProto, generated: bool
    ) -> AbstractContextManager[Reference]:
        from onnx_sparse.converters.torch.reference import TorchReference

        @contextmanager
        def isolated() -> Iterator[Reference]:
            with loaded.isolated() as program:
                yield TorchReference(program, model)

        return isolated()

    def draw(self, loaded: Source, picture: Picture) -> None:
        from onnx_sparse.converters.torch.picture import draw

        draw(loaded, picture)

    def timed(self, path: str, options: Options, threads: int, names: Sequence[str]) -> tuple[list[str], Run]:
        from onnx_sparse.converters.torch.lazy_imports import require

        require("torch").set_num_threads(threads)
        loaded = self.load(path, options)
        return loaded.inputs, loaded.run


ROAD = _Torch()
