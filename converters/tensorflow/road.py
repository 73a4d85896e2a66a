"""The road from TensorFlow."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from onnx_sparse.converters.roads.road import Progress, Road, Run
from onnx_sparse.settings import names, only_python, option

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_sparse.converters.pipeline import Draft, Pass
    from onnx_sparse.converters.tensor import Array
    from onnx_sparse.converters.tensorflow.conversion import TensorFlowDraft
    from onnx_sparse.converters.tensorflow.source import Source
    from onnx_sparse.converters.verification.reference import Reference
    from onnx_sparse.pictures import Picture


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a conversion from TensorFlow; see `load`."""

    GROUP: ClassVar = "options for TensorFlow's models"
    EXAMPLES: ClassVar = """
onnx-sparse convert saved_model/ -o model.onnx --signature score --verify
onnx-sparse convert model.keras -o model.onnx --import my_layers
onnx-sparse convert frozen.pb -o model.onnx --inputs a:0,b:0 --outputs y:0
onnx-sparse convert m.ckpt.meta -o m.onnx --inputs x:0[-1,3] --outputs y:0
"""

    signature: str | None = field(
        default=None, metadata=option("the SavedModel's signature (default: serving_default)")
    )
    function: str | None = field(
        default=None, metadata=option("a function of the SavedModel, instead of a signature: encoder.lookup")
    )
    tag: str | None = field(
        default=None, metadata=option("which graph of a SavedModel that has several (default: serve)")
    )
    inputs: Sequence[str] | Mapping[str, Any] | None = field(
        default=None,
        metadata=option(
            "the inputs, in this order; in a GraphDef any tensors. A shape that the model does not have may follow: "
            "A:0[-1,3]",
            "A:0,B:0",
            listed=True,
            parse=names,
        ),
    )
    outputs: Sequence[str] | None = field(
        default=None, metadata=option("the graph's outputs, for a GraphDef", "C:0", listed=True, parse=names)
    )
    lookup_tables: Mapping[str, Any] | None = field(
        default=None,
        metadata=option(
            "keys and values of a GraphDef's lookup table, by its node: an .npz file with the arrays keys and values, "
            "or text with a key and, after a tab, its value in each line; without a tab, the line's number from 0 on",
            "NAME=FILE",
            flag="--lookup-table",
        ),
    )
    imports: Sequence[str] = field(
        default=(),
        metadata=option(
            "import a module first: one that defines layers of a Keras model, or registers operators",
            "MODULE",
            flag="--import",
        ),
    )
    custom_objects: Mapping[str, Any] | None = field(
        default=None,
        metadata=only_python("layers and functions that a Keras file uses and Keras does not know, by name"),
    )


class _TensorFlow(Road[Options, "Source"]):
    """SavedModels, frozen graphs, checkpoints and Keras files; in memory models of Keras, functions and Modules."""

    name = "tensorflow"
    title = "TensorFlow"
    models = "TensorFlow's models"
    suffixes = (".pb", ".pbtxt", ".keras", ".h5", ".hdf5", ".meta", ".tflite")
    packages = ("tensorflow", "keras", "tf_keras")
    options = Options
    needs = extra = "tensorflow"
    loggers = ("tensorflow",)

    def claims(self, path: Path) -> bool:
        """A SavedModel is a folder."""
        return any((path / name).is_file() for name in ("saved_model.pb", "saved_model.pbtxt"))

    def refuse(self, path: Path) -> None:
        from onnx_sparse.converters.tensorflow.source_files import refuse_known_files

        refuse_known_files(path)

    def load(self, source: Any, options: Options, tell: Progress = lambda stage: None) -> Source:
        from onnx_sparse.converters.tensorflow.definitions import definitions_of
        from onnx_sparse.converters.tensorflow.loading import load
        from onnx_sparse.converters.tensorflow.lookup_table_files import read

        tell("loading")
        chosen = {name: value for name, value in vars(options).items() if value is not None and name != "imports"}
        if options.lookup_tables:
            chosen["lookup_tables"] = read(options.lookup_tables)
        if options.imports:
            chosen["custom_objects"] = {**definitions_of(options.imports), **(options.custom_objects or {})}
        return load(source, **chosen)

    def draft(self, loaded: Source, options: Options, tell: Progress) -> TensorFlowDraft:
        from onnx_sparse.converters.tensorflow.conversion import draft_of, with_ranks

        tell("converting")
        for port in loaded.outputs:
            if port.renamed_from:
                warnings.warn(
                    f"output {port.renamed_from!r} is called {port.name!r}: another input or output of the model has "
                    "its name",
                    stacklevel=2,
                )
        draft = draft_of(with_ranks(loaded.model).fresh())
        tell("rewriting")
        return draft

    def parts(self, path: Path) -> Sequence[Path]:
        if not path.is_dir():
            return [path]
        return [path / part for part in ("saved_model.pb", "saved_model.pbtxt", "variables", "assets")]

    def passes(self, *, check_ids: bool = False) -> Sequence[Pass]:
        from onnx_sparse.converters.tensorflow.passes import passes

        return passes(check_ids=check_ids)

    def finish(
        self,
        draft: Draft,
        loaded: Source,
        options: Options,
        tell: Progress,
        tables: MutableMapping[str, Array] | None,
    ) -> None:
        """Attach large tables, which no pass has seen, and record the features."""
        from onnx_sparse.converters.tensorflow.conversion import TensorFlowDraft
        from onnx_sparse.converters.tensorflow.feature_record import record_features
        from onnx_sparse.converters.tensorflow.large_tables import attach

        assert isinstance(draft, TensorFlowDraft)
        attach(draft.model, draft.tables, tables)
        record_features(draft.model, loaded.specs)

    def reference(
        self, loaded: Source, model: ModelProto, *, described: ModelProto, generated: bool
    ) -> AbstractContextManager[Reference]:
        from onnx_sparse.converters.tensorflow.reference import reference

        return reference(loaded, described)

    def draw(self, loaded: Source, picture: Picture) -> None:
        from onnx_sparse.converters.tensorflow.picture import draw

        draw(loaded, picture)

    def timed(self, path: str, options: Options, threads: int, names: Sequence[str]) -> tuple[list[str], Run]:
        """TensorFlow takes the number of threads once in a process."""
        from onnx_sparse.converters.tensorflow.lazy_imports import require

        threading = require("tensorflow").config.threading
        threading.set_intra_op_parallelism_threads(threads)
        threading.set_inter_op_parallelism_threads(threads)
        loaded = self.load(path, options)
        return [port.name for port in loaded.inputs], lambda feeds: loaded.run(_as_objects(feeds))


def _as_objects(feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Messages as objects, which TensorFlow takes."""
    return {name: value.astype(object) if value.dtype.kind == "V" else value for name, value in feeds.items()}


ROAD = _TensorFlow()
