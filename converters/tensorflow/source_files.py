"""Which files are models of TensorFlow that can be read, and what others are."""

from __future__ import annotations

from pathlib import Path

from onnx_sparse.converters.errors import ConversionError

#: The suffixes of graphs, and of Keras files.
GRAPHS = (".pb", ".pbtxt", ".meta")
KERAS = (".keras", ".h5", ".hdf5")

#: What a SavedModel has next to its graph.
_PARTS = ("variables", "assets", "assets.extra", "fingerprint.pb", "keras_metadata.pb")

#: A SavedModel begins with its version, and a GraphDef with a node.
_VERSION_OF_SAVED_MODEL = b"\x08"

_WITHOUT_GRAPH = "it has values without a graph, so convert the SavedModel that the program with the model writes"


def refuse_known_files(path: Path) -> None:
    """Refuse what TensorFlow writes and has no graph of its own: checkpoints, a part of a SavedModel, TFLite's models.

    Raises:
        ConversionError: It is such a file; the message says what to give instead.
    """
    part = path.parent if path.parent.name == "variables" and is_checkpoint_file(path) else path
    if part.name in _PARTS and any((part.parent / name).is_file() for name in ("saved_model.pb", "saved_model.pbtxt")):
        raise ConversionError(f"{path} belongs to a SavedModel; give its directory, {part.parent}")
    if path.name == "checkpoint" and path.is_file() and is_checkpoint(path.parent):
        refuse_other_files(path.parent)
    if is_checkpoint_file(path) or path.suffix == ".tflite":
        refuse_other_files(path)
    if path.name == "saved_model.pb" and path.is_file() and path.open("rb").read(1) == _VERSION_OF_SAVED_MODEL:
        raise ConversionError(f"{path} belongs to a SavedModel; give its directory, {path.parent}")


def refuse_other_files(path: Path) -> None:
    """Refuse what is no model of TensorFlow that can be read, and say what it is where that is known.

    Raises:
        ConversionError: It is such a thing, or does not exist.
    """
    if path.is_dir() and is_checkpoint(path):
        found = sorted(path.glob("*.meta"))
        how = f"give its .meta file, such as {found[-1]}" if found else _WITHOUT_GRAPH
        raise ConversionError(f"{path} is a folder of checkpoints; {how}")
    if is_checkpoint_file(path):
        stem = path.name.partition(".data-")[0].removesuffix(".index")
        meta = path.with_name(f"{stem}.meta")
        how = f"give {meta}, which has its graph" if meta.exists() else _WITHOUT_GRAPH
        raise ConversionError(f"{path} is a checkpoint; {how}")
    if not path.exists():
        raise ConversionError(f"no such file or directory: {path}")
    if path.suffix == ".tflite":
        raise ConversionError(
            f"{path} is a model of TensorFlow Lite, which is not read; convert the SavedModel that it was made from"
        )
    if kind_of(path) not in (*GRAPHS, *KERAS):
        raise ConversionError(
            f"{path} is not a SavedModel directory, Keras file (.keras, .h5), GraphDef (.pb, .pbtxt) or graph of a "
            "checkpoint (.meta)"
        )


def kind_of(path: Path) -> str:
    """The suffix of a file; a checkpoint may have no name, so that its graph is `.meta`."""
    return path.suffix or path.name


def is_checkpoint(path: Path) -> bool:
    """Whether a folder has checkpoints and no SavedModel."""
    has_model = any((path / name).exists() for name in ("saved_model.pb", "saved_model.pbtxt"))
    return not has_model and ((path / "checkpoint").is_file() or any(path.glob("*.ckpt*.index")))


def is_checkpoint_file(path: Path) -> bool:
    """Whether a path is a folder of checkpoints, what the names of a checkpoint's files begin with, or one of these."""
    if path.is_dir():
        return is_checkpoint(path)
    if path.exists():
        return path.suffix == ".index" or ".data-" in path.name
    return any(path.with_name(f"{path.name}{suffix}").exists() for suffix in (".index", ".meta"))
