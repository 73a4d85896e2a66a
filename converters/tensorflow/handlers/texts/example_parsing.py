"""tf.raw_ops.ParseExample, ParseExampleV2 and ParseSingleExample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.coordinates import element
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.partitions import coordinates_of, dense_shape_of, of_splits
from onnx_sparse.schemas.declaration import DType, dtype_name
from onnx_sparse.schemas.example_parsing import LISTS

_TYPES = tuple(dtype_name(dtype) for dtype in LISTS)
#: What becomes of the names of messages.
NAMES_NOTE = "names, which appear in error messages only, are not shown: there the messages are numbered"


@dataclass(frozen=True)
class _Sparse:
    key: bytes
    dtype: DType

    size = -1
    default = None


@dataclass(frozen=True)
class _Ragged:
    key: bytes
    dtype: DType
    splits: DType

    size = -1
    default = None


@dataclass(frozen=True)
class _Dense:
    """A dense feature; `default` is None where it is required. A first dimension of -1 is as long as the longest."""

    key: bytes
    dtype: DType
    shape: tuple[int, ...]
    given: Tensor

    @property
    def is_variable(self) -> bool:
        return bool(self.shape) and self.shape[0] < 0

    @property
    def size(self) -> int:
        return -math.prod(self.shape[1:]) if self.is_variable else math.prod(self.shape)

    @property
    def default(self) -> Tensor | None:
        return None if self.is_variable or 0 in self.given.dims else self.given


_Feature = _Sparse | _Dense | _Ragged


@handles("ParseExample", inputs=("inputs*",), to="ParseExample", dtypes=_TYPES, notes=NAMES_NOTE)
def parse_example(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The keys are tensors of their own."""
    sparse, dense = int(node.attributes["Nsparse"]), int(node.attributes["Ndense"])
    serialized, names, *given = node.all("inputs")
    serialized = with_names(serialized, names, emit)
    keys = [keys_of(key, "a key")[0] for key in given[: sparse + dense]]
    features: list[_Feature] = [
        *_sparse_features(node, keys[:sparse]),
        *_dense_features(node, keys[sparse:], given[sparse + dense :]),
    ]
    return _parsed(serialized, features, emit)


@handles("ParseExampleV2", to="ParseExample", dtypes=_TYPES, notes=NAMES_NOTE)
def parse_example_v2(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The keys are vectors; there are ragged features, too, and `serialized` may be a scalar."""
    sparse, dense, ragged = (keys_of(node[f"{kind}_keys"], f"{kind}_keys") for kind in ("sparse", "dense", "ragged"))
    types = zip(ragged, node.attributes["ragged_value_types"], node.attributes["ragged_split_types"], strict=True)
    features: list[_Feature] = [
        *_sparse_features(node, sparse),
        *_dense_features(node, dense, node.all("dense_defaults")),
        *(_Ragged(*feature) for feature in types),
    ]
    return _parsed(with_names(node["serialized"], node["names"], emit), features, emit)


@handles("ParseSingleExample", to="ParseExample", dtypes=_TYPES)
def parse_single_example(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The keys are attributes."""
    features: list[_Feature] = [
        *_sparse_features(node, node.attributes["sparse_keys"]),
        *_dense_features(node, node.attributes["dense_keys"], node.all("dense_defaults")),
    ]
    return _parsed(node["serialized"], features, emit)


def keys_of(tensor: Tensor, what: str) -> list[bytes]:
    """The keys in a constant."""
    return [s if isinstance(s, bytes) else str(s).encode() for s in tensor.constant(what).reshape(-1)]


def with_names(serialized: Tensor, names: Tensor, emit: Emitter) -> Tensor:
    """The messages, which are refused if there are names, but more or fewer."""
    if serialized.rank > 1:
        raise Unsupported(f"{serialized} is not a vector of messages")
    if names.shape == (0,) or serialized.rank == 0 == names.rank:
        return serialized
    if serialized.rank != 1 or names.rank != 1:
        raise Unsupported("the names are not as many as the messages")
    if names.shape is None or None in names.shape:
        raise Unsupported("the number of names is not known before the model runs")
    return emit.op("Reshape", serialized, emit.constant(list(names.dims)), shape=serialized.shape)


def shapes_of(node: Node, name: str) -> list[tuple[int, ...]]:
    """The shapes of dense features by an attribute; a -1 is a dimension that is not known."""
    return [tuple(-1 if size is None else size for size in shape or ()) for shape in node.attributes[name]]


def _sparse_features(node: Node, keys: Sequence[bytes]) -> list[_Sparse]:
    return [_Sparse(*feature) for feature in zip(keys, node.attributes["sparse_types"], strict=True)]


def _dense_features(node: Node, keys: Sequence[bytes], defaults: Sequence[Tensor]) -> list[_Dense]:
    features = []
    for key, shape, default in zip(keys, shapes_of(node, "dense_shapes"), defaults, strict=True):
        feature = _Dense(key, default.dtype, shape, default)
        name = key.decode(errors="replace")
        if min(feature.shape[1:], default=0) < 0:
            raise Unsupported(f"only the first dimension of feature {name!r} may be of unknown size")
        if feature.is_variable and not (math.prod(default.dims) == 1 and feature.size):
            raise Unsupported(f"feature {name!r} is padded with a tensor of shape {list(default.dims)}")
        if feature.default is not None and default.dims != feature.shape:
            raise Unsupported(f"feature {name!r} of shape {list(shape)} has a default of shape {list(default.dims)}")
        features.append(feature)
    return features


def _parsed(serialized: Tensor, features: Sequence[_Feature], emit: Emitter) -> tuple[Tensor, ...]:
    """The results of a parser: of sparse, then of dense, then of ragged features."""
    keys = [feature.key for feature in features]
    if len(set(keys)) < len(keys):
        raise Unsupported("two features have the same key")
    is_batch = serialized.rank == 1
    batch = serialized if is_batch else emit.op("Reshape", serialized, emit.constant([1]), shape=(1,))
    *values, row_splits, coordinates = emit.domain_op(
        "ParseExample",
        {
            "serialized": batch,
            "keys": emit.constant(np.array(keys, object), TensorProto.STRING),
            "types": emit.constant(np.array([feature.dtype for feature in features], np.int64)),
            "sizes": emit.constant(np.array([feature.size for feature in features], np.int64)),
            "required": emit.constant(np.array([_is_required(feature) for feature in features], bool)),
            "unset_is_empty": emit.constant(
                np.array([is_batch and not isinstance(feature, _Dense) for feature in features], bool)
            ),
            "sparse": emit.constant(
                np.array([is_batch and isinstance(feature, _Sparse) for feature in features], bool)
            ),
            **{f"{dtype_name(dtype)}_defaults": _defaults(features, dtype, emit) for dtype in LISTS},
        },
    )
    counts = emit.op("Gather", row_splits, emit.constant(-1), axis=1)
    apart = _taken_apart(features, dict(zip(LISTS, values, strict=True)), counts, emit)
    own = [f for f, feature in enumerate(features) if is_batch and isinstance(feature, _Sparse)]
    places = iter(_split(coordinates, own, counts, emit))
    shapes = iter(_dense_shapes(row_splits, own, batch, emit))
    sparse: list[tuple[Tensor, ...]] = []
    dense: list[Tensor] = []
    ragged: list[tuple[Tensor, ...]] = []
    for f, (feature, flat) in enumerate(zip(features, apart, strict=True)):
        splits = emit.op("Gather", row_splits, emit.constant(f), axis=0)
        if isinstance(feature, _Dense):
            dense.append(_dense(feature, flat, splits, batch, emit) if is_batch else _single_dense(feature, flat, emit))
        elif isinstance(feature, _Sparse):
            sparse.append((next(places), flat, next(shapes)) if is_batch else _single_sparse(flat, emit))
        else:
            # Of a scalar, TensorFlow gives no row splits.
            made = emit.cast(splits, feature.splits) if is_batch else emit.constant([], feature.splits)
            ragged.append((flat, made))
    return (*by_part(sparse, 3), *dense, *by_part(ragged, 2))


def _is_required(feature: _Feature) -> bool:
    return feature.size >= 0 and feature.default is None


def _defaults(features: Sequence[_Feature], dtype: DType, emit: Emitter) -> Tensor:
    """The defaults of all features of a type, one after another."""
    given = [feature.default for feature in features if feature.dtype == dtype and feature.default is not None]
    return defaults_of(given, dtype, emit)


def defaults_of(given: Sequence[Tensor], dtype: DType, emit: Emitter) -> Tensor:
    """Tensors of a type, one after another."""
    if all(default.value is not None for default in given):
        values = [value for default in given if default.value is not None for value in default.value.reshape(-1)]
        return emit.constant(np.array(values, object if dtype == TensorProto.STRING else None), dtype)
    flat = [emit.op("Reshape", default, emit.constant([-1])) for default in given]
    return emit.op("Concat", *flat, axis=0)


def _taken_apart(
    features: Sequence[_Feature], values: dict[DType, Tensor], counts: Tensor, emit: Emitter
) -> list[Tensor]:
    """The values of each feature."""
    found: dict[int, Tensor] = {}
    for dtype, together in values.items():
        own = [f for f, feature in enumerate(features) if feature.dtype == dtype]
        found.update(zip(own, _split(together, own, counts, emit), strict=True))
    return [found[f] for f in range(len(features))]


def _split(together: Tensor, own: Sequence[int], counts: Tensor, emit: Emitter) -> Sequence[Tensor]:
    """What belongs to some features, which is one after another, by the numbers of values of all features."""
    if len(own) < 2:
        return [together] * len(own)
    sizes = emit.op("Gather", counts, emit.constant(list(own)), axis=0)
    return emit.node("Split", [together, sizes], [together.dtype] * len(own), axis=0)


def _dense_shapes(row_splits: Tensor, own: Sequence[int], batch: Tensor, emit: Emitter) -> list[Tensor]:
    """The dense shapes of sparse features: the number of messages, and of values in the message with the most."""
    if not own:
        return []
    axis, last = emit.constant([1]), np.iinfo(np.int64).max
    splits = emit.op("Gather", row_splits, emit.constant(list(own)), axis=0)
    starts = emit.op("Slice", splits, emit.constant([0]), emit.constant([-1]), axis)
    lengths = emit.op("Sub", emit.op("Slice", splits, emit.constant([1]), emit.constant([last]), axis), starts)
    or_none = emit.op("Concat", emit.constant(np.zeros((len(own), 1), np.int64)), lengths, axis=1)
    longest = emit.op("ReduceMax", or_none, axis, keepdims=0)
    rows = emit.shape_of(batch)
    return [
        emit.op("Concat", rows, emit.op("Gather", longest, emit.constant([k]), axis=0), axis=0) for k in range(len(own))
    ]


def _dense(feature: _Dense, values: Tensor, splits: Tensor, batch: Tensor, emit: Emitter) -> Tensor:
    if not feature.is_variable:
        shape = emit.op("Concat", emit.shape_of(batch), emit.constant(list(feature.shape)), axis=0)
        return emit.op("Reshape", values, shape, allowzero=1)
    inner = feature.shape[1:]
    if feature.size != -1:
        splits = emit.op("Div", splits, emit.constant(-feature.size))
    partition = of_splits(splits, emit)
    shape = dense_shape_of([partition], emit)
    if inner:
        shape = emit.op("Concat", shape, emit.constant(list(inner)), axis=0)
        values = emit.op("Reshape", values, emit.constant([-1, *inner]))
    padding = emit.op("Expand", emit.op("Reshape", feature.given, emit.constant([1])), shape)
    return emit.op("ScatterND", padding, coordinates_of([partition], emit), values)


def _single_dense(feature: _Dense, values: Tensor, emit: Emitter) -> Tensor:
    return emit.op("Reshape", values, emit.constant(list(feature.shape)), allowzero=int(not feature.is_variable))


def _single_sparse(values: Tensor, emit: Emitter) -> tuple[Tensor, ...]:
    count = emit.shape_of(values)
    numbers = emit.op("Range", emit.constant(0), element(count, 0, emit), emit.constant(1))
    return emit.op("Unsqueeze", numbers, emit.constant([1])), values, count


def by_part(results: Sequence[tuple[Tensor, ...]], parts: int) -> list[Tensor]:
    """First the first part of each feature, then the second of each, and so on."""
    return [result[part] for part in range(parts) for result in results]
