"""SavedModels of TensorFlow 1 and 2 and of Keras 2 and 3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf import text_format  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]

from onnx_sparse.converters.errors import ConversionError, first_line
from onnx_sparse.converters.tensorflow.reading.argument_names import with_names
from onnx_sparse.converters.tensorflow.reading.checkpoint import Checkpoint
from onnx_sparse.converters.tensorflow.reading.element_types import type_name
from onnx_sparse.converters.tensorflow.reading.messages import AssetFileDef, SavedModel
from onnx_sparse.converters.tensorflow.reading.model import Model, graph_of
from onnx_sparse.converters.tensorflow.reading.ports import Port, distinct, select
from onnx_sparse.converters.tensorflow.reading.scopes import Scope
from onnx_sparse.converters.tensorflow.reading.specs import arguments_of, composite_specs
from onnx_sparse.converters.tensorflow.reading.tensor_values import shape_of
from onnx_sparse.converters.tensorflow.reading.variables import Variables
from onnx_sparse.converters.verification.sample_inputs import CompositeSpecs, SparseInput
from onnx_sparse.files.guarded_files import read_file

#: The tag of the graph that is converted unless another is chosen.
SERVE = "serve"

#: The collection in which TensorFlow 1 names assets.
_ASSETS = "saved_model_assets"


def meta_graph_of(path: Path, tag: str | None = None) -> Any:
    """A graph of a SavedModel with its signatures; that for serving when no tag is given.

    Raises:
        ConversionError: It cannot be read, or has no such graph.
    """
    return _tagged(_parsed(path), tag, path)


def signatures_of(meta_graph: Any) -> list[str]:
    """The names of its signatures. Those with a leading underscore are TensorFlow's own (__saved_model_init_op)."""
    known = meta_graph.signature_def
    return sorted(name for name in known if not name.startswith("_") and known[name].outputs)


def values_of(meta_graph: Any, graph: Scope, path: Path) -> dict[str, Any]:
    """What a `Model` has of a SavedModel besides its inputs and outputs: variables, assets, tags."""
    checkpoint = None
    if (path / "variables" / "variables.index").exists():
        checkpoint = Checkpoint(str(path / "variables" / "variables"), path)
    objects = meta_graph.object_graph_def if meta_graph.HasField("object_graph_def") else None
    return {
        "variables": Variables(graph, checkpoint, objects),
        "assets": dict(_assets(meta_graph, path)),
        "folder": path,
        "tags": tuple(meta_graph.meta_info_def.tags),
    }


def read_saved_model(
    path: Path,
    meta_graph: Any,
    *,
    signature: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
) -> Model:
    """Read a SavedModel.

    Args:
        path: Its folder.
        meta_graph: Which of its graphs.
        signature: Which signature; `serving_default`, or the only one, when omitted.
        inputs, outputs: The chosen inputs and outputs, in order; all when omitted.

    Raises:
        ConversionError: It cannot be read, or has no such signature, input or output.
    """
    name, chosen = _signature(meta_graph, signature, path)
    graph = graph_of(meta_graph.graph_def)
    given, sparse = _inputs(chosen.inputs)
    objects = meta_graph.object_graph_def if meta_graph.HasField("object_graph_def") else None
    specs = CompositeSpecs(tuple(sparse)) if sparse else composite_specs(graph, objects, given)
    ports, specs = with_names(given, specs, [] if sparse else arguments_of(graph, objects, given))
    # ONNX requires all names to differ, even where an input is also an output.
    results = [port for key in sorted(chosen.outputs) for port in _ports(key, chosen.outputs[key])]
    names = distinct((port.name for port in results), (port.name for port in ports))
    renamed = tuple(port.renamed(free) for free, port in zip(names, results, strict=True))
    return Model(
        name=path.name,
        graph=graph,
        inputs=select(ports, inputs, "input", subset=False),
        outputs=select(renamed, outputs, "output", subset=True),
        specs=specs,
        signature=name,
        **values_of(meta_graph, graph, path),
    )


def _parsed(path: Path) -> Any:
    binary, text = path / "saved_model.pb", path / "saved_model.pbtxt"
    if not binary.exists() and not text.exists():
        raise ConversionError(f"{path} is not a SavedModel: it holds no saved_model.pb")
    file = binary if binary.exists() else text
    content = read_bytes(file, path)
    if not content:
        raise ConversionError(f"{path} is not a SavedModel: its {file.name} is empty")
    return parsed(SavedModel, content, file, is_text=file is text)


def read_bytes(file: Path, root: Path | None = None) -> bytes:
    """The content of a file, in a folder if one is given.

    Raises:
        ConversionError: It cannot be read, or is not in the folder.
    """
    try:
        return read_file(file, root)
    except OSError as error:
        raise ConversionError(f"{file} cannot be read: {error.strerror}") from error


def parsed(kind: type[Message], content: bytes, file: Path, *, is_text: bool) -> Any:
    """A message in the content of a file.

    Raises:
        ConversionError: It is none.
    """
    try:
        if is_text:
            return text_format.Parse(content.decode("utf-8"), kind(), allow_unknown_field=True)
        return kind.FromString(content)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConversionError(
            f"{file} holds no {kind.DESCRIPTOR.name}: it is damaged, cut short, or something else"
        ) from error
    except text_format.ParseError as error:
        raise ConversionError(f"{file} holds no {kind.DESCRIPTOR.name}: {first_line(error)}") from error


def _tagged(saved: Any, tag: str | None, path: Path) -> Any:
    """The graph with a tag."""
    if not saved.meta_graphs:
        raise ConversionError(f"{path} is not a SavedModel: it has no graph")
    tagged = [(list(meta_graph.meta_info_def.tags), meta_graph) for meta_graph in saved.meta_graphs]
    if tag is None and len(tagged) == 1:
        return tagged[0][1]
    found = [meta_graph for tags, meta_graph in tagged if (tag or SERVE) in tags]
    plain = [meta_graph for tags, meta_graph in tagged if tags == [tag or SERVE]]
    if len(plain or found) == 1:
        return (plain or found)[0]
    listed = "; ".join(", ".join(tags) or "none" for tags, _ in tagged)
    if tag is None or found:
        raise ConversionError(f"{path} has several graphs, choose one by a tag that only it has: {listed}")
    raise ConversionError(f"{path} has no graph with the tag {tag!r}; the tags are: {listed}")


def _signature(meta_graph: Any, name: str | None, path: Path) -> tuple[str, Any]:
    available = signatures_of(meta_graph)
    listed = ", ".join(available)
    if name is None:
        if not available:
            raise ConversionError(f"{path} has no signatures; save it with tf.saved_model.save(..., signatures=...)")
        if "serving_default" not in available and len(available) > 1:
            raise ConversionError(f"{path} has several signatures, choose one: {listed}")
        name = "serving_default" if "serving_default" in available else available[0]
    if name not in available:
        raise ConversionError(f"{path} has no signature {name!r}; it has {listed or 'none'}")
    return name, meta_graph.signature_def[name]


def _inputs(infos: Mapping[str, Any]) -> tuple[list[Port], list[SparseInput]]:
    ports: list[Port] = []
    sparse = []
    for name in sorted(infos):
        made = _ports(name, infos[name])
        ports += made
        if infos[name].HasField("coo_sparse"):
            sparse.append(SparseInput(made[0].name, made[1].name, made[2].name, shape_of(infos[name].tensor_shape)))
    return ports, sparse


def _ports(name: str, info: Any) -> list[Port]:
    """The tensors of an input or output: one, or the parts of a sparse or other composite tensor."""
    if info.HasField("coo_sparse"):
        shape = shape_of(info.tensor_shape)
        rank = None if shape is None else len(shape)
        coo = info.coo_sparse
        return [
            Port(f"{name}_indices", coo.indices_tensor_name, "int64", (None, rank)),
            Port(f"{name}_values", coo.values_tensor_name, type_name(info.dtype), (None,)),
            Port(f"{name}_dense_shape", coo.dense_shape_tensor_name, "int64", (rank,)),
        ]
    if info.HasField("composite_tensor"):
        parts = info.composite_tensor.components
        return [port for k, part in enumerate(parts) for port in _ports(f"{name}_{k}", part)]
    return [Port(name, info.name, type_name(info.dtype), shape_of(info.tensor_shape))]


def _assets(meta_graph: Any, path: Path) -> Iterator[tuple[str, Path]]:
    """The files of assets, by the node that names each; only files within the model's folder."""
    folder = path / "assets"
    assets = list(meta_graph.asset_file_def)
    if not assets:  # TensorFlow 1 names them in a collection
        named = meta_graph.collection_def[_ASSETS].any_list.value if _ASSETS in meta_graph.collection_def else ()
        try:
            assets = [AssetFileDef.FromString(each.value) for each in named]
        except DecodeError as error:
            raise ConversionError(f"{path}: its assets cannot be read: {first_line(error)}") from error
    for asset in assets:
        file = folder / asset.filename
        if ".." in Path(asset.filename).parts or Path(asset.filename).is_absolute():
            raise ConversionError(f"{path} names an asset outside of its folder: {asset.filename!r}")
        yield asset.tensor_info.name.partition(":")[0], file
