"""The road from TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.converters.roads.road import Progress, Road, Run

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_sparse.converters.pipeline import Draft, Pass
    from onnx_sparse.converters.tensor import Array
    from onnx_sparse.converters.tensorflow.conversion import TensorFlowDraft
    from onnx_sparse.converters.tensorflow.source import Source
    from onnx_sparse.converters.verification.reference import Reference


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a conversion from TensorFlow; see `load`.

    Attributes:
        tag: Which graph of a SavedModel that has several; the one for serving when omitted.
        signature: Which signature of a SavedModel; `serving_default`, or the only one, when omitted.
        inputs: The inputs, in this order. In a GraphDef any tensors (`"a:0"`); the placeholders when omitted. An input
            may have a shape after its name if the model leaves it open, `"x:0[-1,3]"`; -1 is any size.
        outputs: The outputs, in this order. In a GraphDef any tensors; the tensors that nothing consumes when omitted.
        lookup_tables: For a GraphDef, which has none itself, the keys and values of its lookup tables, by the names of
            the nodes that make these or by their shared names.
        custom_objects: Layers and functions that a Keras file uses and Keras does not know, by name.
    """

    tag: str | None = None
    signature: str | None = None
    inputs: Sequence[str] | None = None
    outputs: Sequence[str] | None = None
    lookup_tables: Mapping[str, tuple[Any, Any]] | None = None
    custom_objects: Mapping[str, Any] | None = None


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
        from onnx_sparse.converters.tensorflow.loading import load

        tell("loading")
        return load(source, **vars(options))

    def draft(self, loaded: Source, options: Options, tell: Progress) -> TensorFlowDraft:
        from onnx_sparse.converters.tensorflow.conversion import draft_of, with_ranks

        tell("converting")
        draft = draft_of(with_ranks(loaded.model).fresh())
        tell("rewriting")
        return draft

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
