"""The ways to hand a model over: a path, bytes, a ModelProto, an onnx_ir.Model, what holds one of the last two.

A file's suffix tells its form.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, TypeGuard

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import FunctionProto, GraphProto, ModelProto, OperatorSetIdProto, TensorProto, ValueInfoProto
from onnx.serialization import registry

from onnx_sparse.errors import about_data
from onnx_sparse.files.guarded_files import read_file, require_file
from onnx_sparse.files.ranges import FileRange, StoredFile
from onnx_sparse.models.data.references import byte_size, data_of, is_reference, length_of, put_back, require_whole
from onnx_sparse.models.data.wire_format import fields, sizes, without_raw_data
from onnx_sparse.models.graphs import all_tensors, every_node, graphs
from onnx_sparse.schemas import OPS

if TYPE_CHECKING:
    from typing import Protocol

    import onnx_ir

    class ModelHolder(Protocol):
        """What converters return: a `Conversion`, or an `ONNXProgram` of torch."""

        @property
        def model(self) -> ModelProto | onnx_ir.Model:
            """The model."""

    #: What is taken as a model.
    ModelSource: TypeAlias = ModelProto | bytes | str | os.PathLike[str] | onnx_ir.Model | ModelHolder

#: Files of fewer bytes are read as a whole.
_LEAST_SCANNED = 1 << 20


def read_model(path: str | os.PathLike[str]) -> ModelProto:
    """The model of a file, without its external data.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not an ONNX model.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # onnx calls its own text form experimental
            form = "protobuf" if _is_binary(path) else None  # None: as the suffix says
            require_file(path)
            model = onnx.load(os.fspath(path), form, load_external_data=False)
    except OSError:
        raise
    except Exception as error:  # each parser, protobuf's and those of the text forms, has its own exception
        if is_ort_format(read_file(path)):
            raise ValueError(f"{path} is in ONNX Runtime's own format, which only the native backend runs") from None
        raise ValueError(f"{path} is not an ONNX model, or truncated: {_parser_message(error)}") from error
    _require_sound(model, path)
    return model


def read_light_model(path: str | os.PathLike[str]) -> ModelProto:
    """As `read_model`; tensors of 64 KiB and more that are in the file are references to it."""
    if not _is_binary(path) or os.path.getsize(path) < _LEAST_SCANNED:
        return read_model(path)
    stored = StoredFile.of(path)
    try:
        with stored.open() as file:
            model: ModelProto = ModelProto.FromString(without_raw_data(file, stored))
    except (ValueError, DecodeError):
        return read_model(path)  # which says what is wrong with it
    for tensor in filter(is_reference, all_tensors(model)):
        if byte_size(tensor) != length_of(tensor):
            put_back(tensor)
    _require_sound(model, path)
    return model


def _require_sound(model: ModelProto, name: object) -> None:
    """Refuse what protobuf reads all the same: no bytes, some files that are no models, and names that are no text.

    Raises:
        ValueError: It has no graph, or a name is not UTF-8, which protobuf gives as bytes.
    """
    if not model.HasField("graph"):
        raise ValueError(f"{name} is not an ONNX model: it has no graph")
    for where, texts in _texts(model):
        try:
            "".join(texts)
        except TypeError:
            damaged = next(text for text in texts if isinstance(text, bytes))
            raise ValueError(f"{name} is damaged: a name in {where} is not UTF-8: {damaged!r}") from None


def _texts(model: ModelProto) -> Iterator[tuple[str, Sequence[Any]]]:
    """The names of a model's parts, and where they are."""
    for graph in graphs(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            sizes = value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ()
            yield "an input, output or value", (value.name, *(size.dim_param for size in sizes))
    for node in every_node(model):
        yield "a node", (node.op_type, node.domain, node.name, *node.input, *node.output)
        yield "an attribute", [attribute.name for attribute in node.attribute]
    for tensor in all_tensors(model):
        yield "a tensor", (tensor.name, *(text for entry in tensor.external_data for text in (entry.key, entry.value)))
    for function in model.functions:
        yield "a function", (function.name, function.domain, *function.input, *function.output, *function.attribute)
    yield "an operator set", [each.domain for each in model.opset_import]
    yield "the metadata", [text for entry in model.metadata_props for text in (entry.key, entry.value)]


def model_of(source: ModelSource) -> ModelProto:
    """A model, however it is handed over.

    Args:
        source: A ModelProto, which is returned itself; the bytes of one; the path of a file, whose external data are
            read, too; an `onnx_ir.Model`, which is not changed; or what a converter returned.

    Raises:
        OSError: The file cannot be read.
        TypeError: The source is none of these.
        ValueError: It is not an ONNX model, or its external data cannot be read.
    """
    if isinstance(source, ModelProto):
        return source
    if isinstance(source, (bytes, bytearray, memoryview)):
        return parsed_model(bytes(source))
    if isinstance(source, (str, os.PathLike)):
        return with_external_data(read_model(source), Path(source))
    if is_ir_model(source):
        return _from_ir(source)
    held = getattr(source, "model", None)
    if isinstance(held, ModelProto) or is_ir_model(held):
        return model_of(held)
    raise TypeError(
        f"a model is an onnx.ModelProto, its bytes, the path of a file or an onnx_ir.Model, not {type(source).__name__}"
    )


@contextlib.contextmanager
def file_of(model: ModelSource) -> Iterator[Path]:
    """A model's file; for a model in memory, a temporary one."""
    if isinstance(model, (str, os.PathLike)):
        yield Path(model)
        return
    with tempfile.TemporaryDirectory(prefix="onnx-sparse-") as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(_whole_copy(model_of(model)), path)
        yield path


def _whole_copy(model: ModelProto) -> ModelProto:
    """The model, or a copy of one with references."""
    if not any(map(is_reference, all_tensors(model))):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    return make_whole(copy)


def require_whole_sources(model: ModelProto) -> None:
    """Compare the checksums of the files that a model refers to, where these are stated.

    Raises:
        DamagedFileError: A file does not have its own.
    """
    named = ((data_of(tensor), tensor.name) for tensor in all_tensors(model) if is_reference(tensor))
    for source, name in {data.file: name for data, name in named if isinstance(data, FileRange)}.items():
        require_whole(source, name)


def make_whole(model: ModelProto) -> ModelProto:
    """Let a model hold the data of its references itself."""
    require_whole_sources(model)
    for tensor in filter(is_reference, all_tensors(model)):
        put_back(tensor)
    return model


def parsed_model(content: bytes) -> ModelProto:
    """The model in bytes of onnx's binary form.

    Raises:
        ValueError: It is not an ONNX model.
    """
    try:
        model = onnx.load_from_string(content)
    except DecodeError:
        if is_ort_format(content):
            raise ValueError("the model is in ONNX Runtime's own format, which only the native backend runs") from None
        raise ValueError("the model is not an ONNX model") from None
    _require_sound(model, "the model")
    return model


def is_ir_model(source: object) -> TypeGuard[onnx_ir.Model]:
    """Whether an object is an `onnx_ir.Model`; who has one has imported onnx_ir."""
    ir = sys.modules.get("onnx_ir")
    return ir is not None and isinstance(source, ir.Model)


def _from_ir(model: onnx_ir.Model) -> ModelProto:
    import onnx_ir

    try:
        proto: ModelProto = onnx_ir.to_proto(model)
        for tensor in proto.graph.initializer:
            if tensor.data_location == TensorProto.EXTERNAL:
                _put_data(tensor, model.graph.initializers[tensor.name].const_value)
    except OSError:
        raise
    except Exception as error:  # each part of it raises exceptions of its own
        raise ValueError(f"the onnx_ir.Model cannot be written as a ModelProto: {error}") from error
    return proto


def _put_data(tensor: TensorProto, data: Any) -> None:
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    tensor.raw_data = data.tobytes()


def with_external_data(model: ModelProto, path: Path) -> ModelProto:
    """The model of a file, into which its external data are read; onnx refuses paths outside the file's folder.

    Raises:
        ValueError: They cannot be read.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # onnx tells of keys that it does not know, and goes on
            onnx.load_external_data_for_model(model, os.fspath(path.parent))
    except Exception as error:  # OSError, and onnx's own for paths outside the folder and files that are too short
        raise ValueError(f"{path}: its external data cannot be read: {about_data(str(error))}") from error
    return model


def is_ort_format(content: bytes) -> bool:
    """Whether a model is in ONNX Runtime's own format."""
    return content[4:8] == b"ORTM"


def names_domain_in_ort_format(content: bytes) -> bool:
    """Whether a model in ONNX Runtime's own format calls operators of the domain.

    Its strings have their length before them and a zero after them.
    """
    names = (op.encode() for op in OPS)
    return is_ort_format(content) and any(len(n).to_bytes(4, "little") + n + b"\0" in content for n in names)


def imported_opsets(file: BinaryIO) -> Iterator[OperatorSetIdProto]:
    """The opsets that a model in binary form imports; what is in its graph is skipped, not read.

    A file in another form has none, or ends early: whoever reads it will say so.
    """
    for content in fields(file, ModelProto.OPSET_IMPORT_FIELD_NUMBER):
        with contextlib.suppress(DecodeError):
            yield OperatorSetIdProto.FromString(content)


def local_functions(file: BinaryIO) -> Iterator[FunctionProto]:
    """The functions of a model in binary form, read like `imported_opsets`; very large ones are left out."""
    for content in fields(file, ModelProto.FUNCTIONS_FIELD_NUMBER):
        with contextlib.suppress(DecodeError):
            yield FunctionProto.FromString(content)


def graph_inputs(file: BinaryIO) -> Iterator[ValueInfoProto]:
    """The inputs of the graph of a model in binary form, read like `imported_opsets`."""
    for size in sizes(file, ModelProto.GRAPH_FIELD_NUMBER):
        end = file.tell() + size
        for content in fields(file, GraphProto.INPUT_FIELD_NUMBER, end):
            with contextlib.suppress(DecodeError):
                yield ValueInfoProto.FromString(content)
        file.seek(end)


def is_read_by_libraries(path: str | os.PathLike[str]) -> bool:
    """Whether ONNX Runtime and onnx's checker read the file: its form is binary, and its name is UTF-8.

    File names on Linux may be any bytes.
    """
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        return False
    return registry.get_format_from_file_extension(Path(path).suffix) in (None, "protobuf") or _is_binary(path)


def _is_binary(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as every model does in binary form, and no text; ONNX Runtime ignores suffixes."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(1) == b"\x08"  # the version of its format


def _parser_message(error: Exception) -> str:
    """The message of a parser; that of onnx's text form is bytes."""
    said = error.args[0] if error.args else error
    return said.decode(errors="backslashreplace") if isinstance(said, bytes) else str(error)
