"""From rows as people hold them to the inputs of a model, feature by feature."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, get_args

import numpy as np
from onnx import ModelProto, TensorProto

from onnx_sparse.errors import meant
from onnx_sparse.files.guarded_files import open_file
from onnx_sparse.models.files.model_files import graph_inputs, model_of, read_model
from onnx_sparse.rows.column_batches import LOADERS, joined_batches
from onnx_sparse.rows.columns import Array, RowError, row_splits, rows_of, triple_of_rows, triple_of_tensor, typed
from onnx_sparse.rows.example_arrays import example_array
from onnx_sparse.rows.foreign_rows import SparseParts, columns_of, described, in_memory, library_of, plain_column
from onnx_sparse.rows.input_roles import starts_of_bags
from onnx_sparse.schemas.declaration import DType, numpy_dtype
from onnx_sparse.schemas.features import METADATA_KEY, ROLES, Extra, Feature, listed, read_features
from onnx_sparse.shown import Shown, Table

if TYPE_CHECKING:
    import onnxruntime as ort

    from onnx_sparse.models.files.model_files import ModelSource

#: A model, or a session of one.
Model: TypeAlias = "ModelSource | ort.InferenceSession"


@dataclass(frozen=True)
class InputType:
    """The element type and shape of an input of a model."""

    dtype: DType
    shape: tuple[int | None, ...] | None


class Features(Shown, Mapping[str, Feature]):
    """The features of a model by name, in the order of its inputs.

        known: onnx_sparse.Features = onnx_sparse.features("model.onnx")
        print({name: feature.kind for name, feature in known.items()})

    Args:
        features: The features.
        inputs: The types of the model's inputs by name.

    Raises:
        ValueError: A feature has an input that the model does not have, or that another feature has; or no feature has
            an input of the model.
    """

    def __init__(self, features: Sequence[Feature], inputs: Mapping[str, InputType]) -> None:
        self._features = {feature.name: feature for feature in features}
        self.inputs = dict(inputs)
        holders: dict[str, str] = {}
        for feature in features:
            for role, name in feature.inputs.items():
                if name not in inputs:
                    raise ValueError(f"feature {feature.name!r}: its {role} {name!r} is not an input of the model")
                if holders.setdefault(name, feature.name) != feature.name:
                    raise ValueError(f"input {name!r} is in two features, {holders[name]!r} and {feature.name!r}")
            if len({*feature.inputs.values()}) < len(feature.inputs):
                raise ValueError(f"feature {feature.name!r} has an input in two roles")
        if missing := [name for name in inputs if name not in holders]:
            raise ValueError(f"no feature has the input {missing[0]!r}")

    def __getitem__(self, name: str) -> Feature:
        return self._features[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)

    @property
    def _title(self) -> str:
        return ", ".join(f"{name}: {feature.kind}" for name, feature in self.items())

    def _tables(self) -> list[Table]:
        rows = [
            [name, feature.kind, ", ".join(f"{role}: {input_name}" for role, input_name in feature.inputs.items())]
            for name, feature in self.items()
        ]
        return [(["feature", "kind", "inputs"], rows)]

    def rows_in_memory(self, rows: Any, columns: Mapping[str, str] | None = None) -> Any:
        """Rows as columns, a table or records; those that are one already as they are.

        Args:
            rows: What `feeds` takes.
            columns: The column of each feature that has another name.
        """
        held = in_memory(rows)
        if library_of(rows) not in LOADERS:
            return held
        ranks = {}
        for name, feature in self.items():
            shape = self.inputs[feature.inputs.get("values", feature.inputs.get("serialized", ""))].shape
            depth = {"sparse": 1, "ragged": len(feature.row_splits)}.get(feature.kind, 0)
            ranks[(columns or {}).get(name, name)] = 0 if shape is None else depth + len(shape)
        return joined_batches(held, ranks)

    def feeds(self, rows: Any, *, extra: Extra = "ignore") -> dict[str, Array]:
        """The inputs of a run.

        Args:
            rows: Columns by feature, as many rows for each: a mapping, a data frame (pandas, polars), an Arrow table,
                or a list or iterator of records (mappings, named tuples, objects of dataclasses, attrs, pydantic or
                msgspec). Rows of sparse and ragged features are lists of any length, None for an empty one:
                nested lists, arrays of numpy, Arrow and what converts to them, torch's tensors (dense, nested, jagged
                and sparse), TensorFlow's (eager, ragged and sparse), SciPy's sparse matrices. Dense features are what
                `numpy.asarray` takes; examples are serialized messages. Iterators, as columns or rows too, are read
                once. Lazy frames of polars and dask are computed. A `datasets.Dataset`, arrays of awkward, and a
                `tf.data.Dataset` and a `DataLoader` of torch with dicts of rows or of batches are read, too.
            extra: What to do with columns that the model does not know, as an id or a label: `"ignore"` them, or raise
                an `"error"`. No feature may be missing, so that a misspelt one is found in either way.

        Returns:
            One array per input of the model. Arrays of the model's element type are not copied. Other integers must be
            in the range of the model's type; other floats are rounded to it. Decimals and fractions are integers if
            they are whole, else floats.

        Raises:
            ValueError: A feature is missing, or a column is not a feature and `extra` is `"error"`; the columns have
                different numbers of rows; or a value is missing or does not fit, with its feature, row and position.
            TypeError: The rows are neither columns, a table nor records.
        """
        if extra not in get_args(Extra):
            raise ValueError(f"extra is {extra!r}, not one of {listed(map(repr, get_args(Extra)))}")
        columns = columns_of(self.rows_in_memory(rows), self if extra == "ignore" else None)
        if extra == "error":
            self._refuse_unknown(columns)
        if missing := [name for name in self if name not in columns]:
            others = [name for name in columns if name not in self]
            near = f"; the rows have {listed(map(repr, others))}" if others else ""
            raise ValueError(f"feature {missing[0]!r} is missing{near}")
        feeds: dict[str, Array] = {}
        counts: dict[str, int] = {}
        for name in self:
            made, counts[name] = self.feeds_of(name, columns[name])
            feeds |= made
        check_counts(counts)
        return feeds

    def counts(self, feeds: Mapping[str, Array]) -> dict[str, int]:
        """The number of rows of each feature in the inputs of a run, but for scalars and row splits that are none."""
        found: dict[str, int] = {}
        for name, feature in self.items():
            if feature.kind == "ragged":
                splits = feeds[feature.row_splits[0]]
                if len(splits) and splits[0] == 0 and (splits[1:] >= splits[:-1]).all():  # else the model refuses them
                    found[name] = len(splits) - 1
            elif feature.kind == "sparse":
                shape = feeds[feature.inputs["dense_shape"]]
                found[name] = int(shape[0]) if len(shape) else 0
            elif feeds[next(iter(feature.inputs.values()))].ndim:
                found[name] = len(feeds[next(iter(feature.inputs.values()))])
        return found

    def _refuse_unknown(self, names: Iterable[str]) -> None:
        if unknown := [name for name in names if name not in self]:
            name, known = unknown[0], listed(map(repr, self))
            raise ValueError(f"the model has no feature {name!r}{meant(str(name), self)}; it has {known}")

    def feeds_of(self, name: str, column: Any) -> tuple[dict[str, Array], int]:
        """The inputs of one feature, and its number of rows; see `feeds`."""
        self._refuse_unknown([name])
        feature, where = self[name], f"feature {name!r}"
        column = plain_column(where, column)
        if type(column).__module__.partition(".")[0] == "pyarrow":
            from onnx_sparse.rows.arrow_columns import values_of_column

            column = values_of_column(where, feature, column)
        make = {"dense": self._dense, "sparse": self._sparse, "ragged": self._ragged, "example": self._example}
        return make[feature.kind](where, feature, column)

    def _example(self, where: str, feature: Feature, column: Any) -> tuple[dict[str, Array], int]:
        if not isinstance(column, (bytes, list, tuple, np.ndarray)) or getattr(column, "shape", None) == ():
            raise ValueError(f"{where}: expected a list of serialized messages, got {described(column)}")
        messages = [column] if isinstance(column, bytes) else list(column)
        for row, message in enumerate(messages):
            if not isinstance(message, bytes):
                raise RowError(where, row, f": {message!r} is not a serialized message (bytes)")
        return {feature.inputs["serialized"]: example_array(messages)}, len(messages)

    def _sparse(self, where: str, feature: Feature, column: Any) -> tuple[dict[str, Array], int]:
        lengths: tuple[Array, ...] = ()
        triple = triple_of_tensor(column)
        if triple is None:
            rows = rows_of(where, column, 1)
            triple, lengths = triple_of_rows(where, feature, rows), rows.lengths
        indices, values, shape = triple
        values = typed(where, values, self.inputs[feature.inputs["values"]].dtype, lengths)
        self._check_shape(where, feature.inputs["values"], values, "values of the shape")
        if len(indices) != len(values):
            raise ValueError(f"{where} has {len(indices)} coordinates and {len(values)} values")
        feeds = {feature.inputs["values"]: values}
        for role, array in (("indices", indices), ("dense_shape", shape)):
            name = feature.inputs[role]
            feeds[name] = np.ascontiguousarray(array, numpy_dtype(self.inputs[name].dtype))
        return feeds, int(shape[0])

    def _ragged(self, where: str, feature: Feature, column: Any) -> tuple[dict[str, Array], int]:
        rows = rows_of(where, column, len(feature.row_splits))
        values = feature.inputs["values"]
        feeds = {values: typed(where, rows.values, self.inputs[values].dtype, rows.lengths)}
        self._check_shape(where, values, feeds[values], "values of the shape")
        for name, sizes in zip(feature.row_splits, rows.lengths, strict=True):
            feeds[name] = row_splits(sizes, numpy_dtype(self.inputs[name].dtype))
        return feeds, len(rows.lengths[0])

    def _dense(self, where: str, feature: Feature, column: Any) -> tuple[dict[str, Array], int]:
        name = feature.inputs["values"]
        if isinstance(column, SparseParts) or any(hasattr(column, name) for name in ("tocsr", "nested_row_splits")):
            raise ValueError(f"{where}: expected a dense array, got a sparse or ragged one; make it dense first")
        array = typed(where, column, self.inputs[name].dtype, ())
        self._check_shape(where, name, array, "the shape")
        return {name: array}, array.shape[0] if array.ndim else 1

    def _check_shape(self, where: str, name: str, array: Array, what: str) -> None:
        shape = self.inputs[name].shape
        if shape is not None:
            fits = array.ndim == len(shape) and all(
                wanted is None or wanted == size for wanted, size in zip(shape, array.shape, strict=True)
            )
            if not fits:
                expected = ", ".join("?" if size is None else str(size) for size in shape)
                raise ValueError(f"{where} has {what} {list(array.shape)}; the model expects [{expected}]")


def check_counts(counts: Mapping[str, int]) -> None:
    """Compare the numbers of rows of features.

    Raises:
        ValueError: They differ.
    """
    first = next(iter(counts), "")
    for name, count in counts.items():
        if count != counts[first]:
            raise ValueError(
                f"feature {name!r} has {count} rows, and feature {first!r} has {counts[first]}; all must have as many"
            )


def features(model: Model, mapping: Mapping[str, Mapping[str, str]] | None = None) -> Features:
    """The features of a model: what people have one column for, and which inputs hold it.

        feeds = onnx_sparse.features("model.onnx").feeds({"items": [[0, 1], [], [2]]})

    Args:
        model: A session; or a ModelProto, its bytes, a path or an `onnx_ir.Model`.
        mapping: The inputs of each feature by role (see `Feature`), for a model that does not say it itself: `{"items":
            {"indices": "items_i", "values": "items_v", "dense_shape": "items_s"}}`. Inputs that it does not name are
            dense features of their own.

    Returns:
        The recorded features, or the mapping's. Without either, every input is a dense feature.

    Raises:
        ValueError: The record or the mapping does not fit the model.
    """
    inputs, record = _described(model)
    if mapping is None and record is not None:
        return Features(read_features(record), inputs)
    found = [_mapped(name, named) for name, named in (mapping or {}).items()]
    if found and not _is_session(model):
        _refuse_starts(found, _proto_of(model))
    held = {name for feature in found for name in feature.inputs.values()}
    return Features([*found, *(Feature(n, "dense", {"values": n}) for n in inputs if n not in held)], inputs)


def _mapped(name: str, inputs: Mapping[str, str]) -> Feature:
    kinds = [kind for kind, roles in ROLES.items() if set(roles) <= set(inputs)]
    if not kinds:
        known = "; ".join(f"{kind}: {', '.join(roles)}" for kind, roles in ROLES.items())
        raise ValueError(f"feature {name!r}: no kind has the roles {listed(inputs)} ({known})")
    return Feature(name, max(kinds, key=lambda kind: len(ROLES[kind])), inputs)


def _refuse_starts(found: Sequence[Feature], model: ModelProto) -> None:
    """Refuse offsets of bags as the ends of rows: each run would have a row more, which is empty.

    Raises:
        ValueError: The end of the last bag is not among them.
    """
    starts = starts_of_bags(model)
    for feature in found:
        if feature.kind == "ragged" and (name := feature.row_splits[0]) in starts:
            raise ValueError(
                f"feature {feature.name!r}: input {name!r} says where bags begin, without the end of the last one, so "
                "it has no row splits; build the EmbeddingBag with include_last_offset=True, and export it again"
            )


def _is_session(model: Any) -> TypeGuard[ort.InferenceSession]:
    return hasattr(model, "get_inputs") and hasattr(model, "get_modelmeta")


def _proto_of(model: ModelSource) -> ModelProto:
    return read_model(model) if isinstance(model, (str, os.PathLike)) else model_of(model)


def _described(model: Model) -> tuple[dict[str, InputType], str | None]:
    """The inputs of a model, and its record of features."""
    if _is_session(model):
        types = {i.name: InputType(_session_dtype(i.type), _session_shape(i.shape)) for i in model.get_inputs()}
        if any(kind.shape == () for kind in types.values()):  # which a session reports of unknown shapes, too
            types |= {name: InputType(types[name].dtype, None) for name in _of_unknown_rank(model) if name in types}
        return types, model.get_modelmeta().custom_metadata_map.get(METADATA_KEY)
    proto = _proto_of(model)
    initialized = {tensor.name for tensor in proto.graph.initializer}
    types = {}
    for value in proto.graph.input:
        tensor = value.type.tensor_type
        dims = tensor.shape.dim if tensor.HasField("shape") else None
        shape = None if dims is None else tuple(d.dim_value if d.HasField("dim_value") else None for d in dims)
        if value.name not in initialized:
            types[value.name] = InputType(tensor.elem_type, shape)
    return types, next((entry.value for entry in proto.metadata_props if entry.key == METADATA_KEY), None)


def _of_unknown_rank(session: Any) -> list[str]:
    """The inputs of a session's model whose shapes the model does not say; none if the model cannot be read."""
    path, content = getattr(session, "_model_path", None), getattr(session, "_model_bytes", None)
    try:
        with open_file(path) if path else io.BytesIO(content or b"") as file:
            return [value.name for value in graph_inputs(file) if not value.type.tensor_type.HasField("shape")]
    except OSError:
        return []


def _session_dtype(text: str) -> DType:
    """The element type that ONNX Runtime writes as `tensor(int64)`."""
    return int(TensorProto.DataType.Value(text.removeprefix("tensor(").removesuffix(")").upper()))


def _session_shape(shape: Sequence[Any]) -> tuple[int | None, ...]:
    return tuple(size if isinstance(size, int) and size >= 0 else None for size in shape)
