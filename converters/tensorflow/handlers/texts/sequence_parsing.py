"""tf.raw_ops.ParseSequenceExample, ParseSequenceExampleV2 and ParseSingleSequenceExample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.tensorflow.handlers.texts.example_parsing import (
    NAMES_NOTE,
    by_part,
    defaults_of,
    keys_of,
    shapes_of,
    with_names,
)
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.partitions import (
    Partition,
    coordinates_of,
    dense_shape_of,
    of_splits,
    splits_of,
)
from onnx_sparse.schemas.declaration import DType, dtype_name
from onnx_sparse.schemas.example_parsing import LISTS

_TYPES = tuple(dtype_name(dtype) for dtype in LISTS)


@dataclass(frozen=True)
class _Feature:
    """A feature of the context, or a feature list."""

    key: bytes
    dtype: DType
    in_lists: bool

    @property
    def size(self) -> int:
        """How many values each of its lists has, as in ParseSequenceExample."""
        return -1

    @property
    def required(self) -> bool:
        """Whether each message must have it."""
        return False

    @property
    def default(self) -> Tensor | None:
        """What a context without it has."""
        return None


@dataclass(frozen=True)
class _Sparse(_Feature):
    """One whose values have coordinates."""


@dataclass(frozen=True)
class _Ragged(_Feature):
    """One whose values have row splits."""

    splits: DType = TensorProto.INT64


@dataclass(frozen=True)
class _Dense(_Feature):
    """One of a shape; feature lists are padded with zeros. `given` is empty where there is no default."""

    shape: tuple[int, ...] = ()
    given: Tensor | None = None
    may_be_missing: bool = False

    @property
    def size(self) -> int:
        """All values of its shape."""
        return math.prod(self.shape)

    @property
    def default(self) -> Tensor | None:
        """None where it is required, and for feature lists."""
        return None if self.given is None or 0 in self.given.dims else self.given

    @property
    def required(self) -> bool:
        """Feature lists are unless they may be missing, features of the context where they have no default."""
        return not self.may_be_missing if self.in_lists else self.default is None


#: The numbers of features, which their keys say as well.
_COUNTS = ("Ncontext_sparse", "Ncontext_dense", "Nfeature_list_sparse", "Nfeature_list_dense")


@handles("ParseSequenceExample", to="ParseSequenceExample", dtypes=_TYPES, notes=NAMES_NOTE, ignored=_COUNTS)
def parse_sequence_example(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The keys are attributes."""
    keys = [node.attributes[f"{part}_keys"] for part in _PARTS]
    may_be_missing = [key in node.attributes[_MISSING] for key in keys[3]]
    features = _features(node, keys, node.all("context_dense_defaults"), may_be_missing)
    return _parsed(node["serialized"], node["debug_name"], features, emit)


@handles("ParseSequenceExampleV2", to="ParseSequenceExample", dtypes=_TYPES, notes=NAMES_NOTE, ignored=_COUNTS)
def parse_sequence_example_v2(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The keys are vectors; there are ragged features, too, and `serialized` may be a scalar."""
    keys = [keys_of(node[f"{part}_keys"], f"{part}_keys") for part in _PARTS]
    may_be_missing = node[_MISSING].constant(_MISSING).reshape(-1).tolist()
    features = _features(node, keys, node.all("context_dense_defaults"), may_be_missing)
    ragged = []
    for part, in_lists in (("context", False), ("feature_list", True)):
        types = (node.attributes[f"{part}_ragged_{of}_types"] for of in ("value", "split"))
        named = zip(keys_of(node[f"{part}_ragged_keys"], f"{part}_ragged_keys"), *types, strict=True)
        ragged.append([_Ragged(key, dtype, in_lists, splits) for key, dtype, splits in named])
    context = [feature for feature in features if not feature.in_lists]
    lists = [feature for feature in features if feature.in_lists]
    return _parsed(node["serialized"], node["debug_name"], [*context, *ragged[0], *lists, *ragged[1]], emit)


@handles(
    "ParseSingleSequenceExample",
    inputs=("inputs*",),
    to="ParseSequenceExample",
    dtypes=_TYPES,
    differs="of a feature that has several lists, or several packed pieces, TensorFlow joins them here; only the first "
    "one is read",
)
def parse_single_sequence_example(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The keys are tensors of their own; the lengths of feature lists are not returned."""
    serialized, missing, *rest = node.all("inputs")
    keys = []
    for counted in ("Ncontext_sparse", "Ncontext_dense", "Nfeature_list_sparse", "Nfeature_list_dense"):
        count = int(node.attributes[counted])
        keys.append([keys_of(key, "a key")[0] for key in rest[:count]])
        rest = rest[count:]
    may_be_missing = [key in keys_of(missing, _MISSING) for key in keys[3]]
    features = _features(node, keys, rest[:-1], may_be_missing)
    return _parsed(serialized, None, features, emit, with_lengths=False)


_PARTS = ("context_sparse", "context_dense", "feature_list_sparse", "feature_list_dense")
_MISSING = "feature_list_dense_missing_assumed_empty"


def _features(
    node: Node, keys: Sequence[Sequence[bytes]], defaults: Sequence[Tensor], may_be_missing: Sequence[bool]
) -> list[_Feature]:
    """Sparse, then dense features of the context, then those of the feature lists."""
    context_shapes, list_shapes = (shapes_of(node, f"{part}_dense_shapes") for part in ("context", "feature_list"))
    made: list[_Feature] = [
        *(_Sparse(*of, False) for of in zip(keys[0], node.attributes["context_sparse_types"], strict=True)),
        *(
            _Dense(key, default.dtype, False, shape, default)
            for key, default, shape in zip(keys[1], defaults, context_shapes, strict=True)
        ),
        *(_Sparse(*of, True) for of in zip(keys[2], node.attributes["feature_list_sparse_types"], strict=True)),
        *(
            _Dense(key, dtype, True, shape, None, may)
            for key, dtype, shape, may in zip(
                keys[3], node.attributes["feature_list_dense_types"], list_shapes, may_be_missing, strict=True
            )
        ),
    ]
    for feature in made:
        if not isinstance(feature, _Dense):
            continue
        name = feature.key.decode(errors="replace")
        if min(feature.shape, default=1) < 0 or (feature.in_lists and not feature.size):
            raise Unsupported(f"feature {name!r} has the shape {list(feature.shape)}")
        if feature.default is not None and feature.default.dims != feature.shape:
            raise Unsupported(
                f"feature {name!r} of shape {list(feature.shape)} has a default of shape {list(feature.default.dims)}"
            )
    return made


def _parsed(
    serialized: Tensor, names: Tensor | None, features: Sequence[_Feature], emit: Emitter, *, with_lengths: bool = True
) -> tuple[Tensor, ...]:
    """The results of a parser: of each map, those of sparse, dense and ragged features."""
    if len({(feature.in_lists, feature.key) for feature in features}) < len(features):
        raise Unsupported("two features have the same key")
    is_batch = serialized.rank == 1
    if names is not None:
        serialized = with_names(serialized, names, emit)
    batch = serialized if is_batch else emit.op("Reshape", serialized, emit.constant([1]), shape=(1,))

    def column(values: list[object], dtype: type) -> Tensor:
        return emit.constant(np.array(values, dtype))

    *values, list_splits, lengths = emit.domain_op(
        "ParseSequenceExample",
        {
            "serialized": batch,
            "keys": emit.constant(np.array([feature.key for feature in features], object), TensorProto.STRING),
            "types": column([feature.dtype for feature in features], np.int64),
            "sizes": column([feature.size for feature in features], np.int64),
            "required": column([feature.required for feature in features], bool),
            "in_lists": column([feature.in_lists for feature in features], bool),
            **{
                f"{dtype_name(dtype)}_defaults": defaults_of(
                    [f.default for f in features if f.dtype == dtype and f.default is not None], dtype, emit
                )
                for dtype in LISTS
            },
        },
    )
    counts = emit.op("Gather", list_splits, emit.constant(-1), axis=1)
    inner = [of_splits(splits_of(each, emit), emit) for each in _split(lengths, counts, len(features), emit)]
    flat = _taken_apart(features, dict(zip(LISTS, values, strict=True)), inner, emit)
    results: dict[tuple[bool, type], list[tuple[Tensor, ...]]] = {
        (in_lists, kind): [] for in_lists in (False, True) for kind in (_Sparse, _Dense, _Ragged)
    }
    for f, (feature, partition, own) in enumerate(zip(features, inner, flat, strict=True)):
        outer = of_splits(emit.op("Gather", list_splits, emit.constant(f), axis=0), emit) if feature.in_lists else None
        made = _result(feature, own, partition, outer, batch, emit, is_batch=is_batch)
        results[feature.in_lists, type(feature)].append(made)
    dense_parts = 2 if with_lengths else 1
    return tuple(
        tensor
        for in_lists in (False, True)
        for kind, parts in ((_Sparse, 3), (_Dense, dense_parts if in_lists else 1), (_Ragged, 3 if in_lists else 2))
        for tensor in by_part(results[in_lists, kind], parts)
    )


def _result(
    feature: _Feature,
    values: Tensor,
    inner: Partition,
    outer: Partition | None,
    batch: Tensor,
    emit: Emitter,
    *,
    is_batch: bool,
) -> tuple[Tensor, ...]:
    """What TensorFlow returns of a feature; `outer` has the lists of each message, `inner` the values of each list."""
    # Of a single message, the first coordinate is left out, and a context has only values.
    partitions = [inner] if outer is None else [outer, inner] if is_batch else [inner]
    if isinstance(feature, _Sparse):
        if outer is None and not is_batch:
            number = emit.op("Unsqueeze", inner.place, emit.constant([1]))
            return number, values, emit.shape_of(values)
        return coordinates_of(partitions, emit), values, dense_shape_of(partitions, emit)
    if isinstance(feature, _Ragged):
        none = emit.constant([], feature.splits)
        splits = [emit.cast(each.splits, feature.splits) for each in ((inner,) if outer is None else (outer, inner))]
        return values, *(splits if is_batch else [none, *splits[1:]])
    assert isinstance(feature, _Dense)
    shape = emit.constant(list(feature.shape))
    if outer is None:
        rows = [emit.shape_of(batch)] if is_batch else []
        return (emit.op("Reshape", values, emit.op("Concat", *rows, shape, axis=0) if rows else shape, allowzero=1),)
    steps = emit.op("Reshape", values, emit.op("Concat", emit.constant([-1]), shape, axis=0))
    if not is_batch:
        return steps, emit.scalar(outer.lengths)
    whole = emit.op("Concat", dense_shape_of([outer], emit), shape, axis=0)
    empty = "" if feature.dtype == TensorProto.STRING else 0
    zeros = emit.op("Expand", emit.constant(np.array([empty], object if empty == "" else None), feature.dtype), whole)
    return emit.op("ScatterND", zeros, coordinates_of([outer], emit), steps), outer.lengths


def _taken_apart(
    features: Sequence[_Feature], values: dict[DType, Tensor], inner: Sequence[Partition], emit: Emitter
) -> list[Tensor]:
    """The values of each feature."""
    found: dict[int, Tensor] = {}
    for dtype, together in values.items():
        own = [f for f, feature in enumerate(features) if feature.dtype == dtype]
        if len(own) < 2:
            found.update(dict.fromkeys(own, together))
            continue
        sizes = [emit.op("Gather", inner[f].splits, emit.constant([-1]), axis=0) for f in own]
        sizes_together = emit.op("Concat", *sizes, axis=0)
        parts = emit.node("Split", [together, sizes_together], [together.dtype] * len(own), axis=0)
        found.update(zip(own, parts, strict=True))
    return [found[f] for f in range(len(features))]


def _split(together: Tensor, sizes: Tensor, count: int, emit: Emitter) -> Sequence[Tensor]:
    if count < 2:
        return [together] * count
    return emit.node("Split", [together, sizes], [together.dtype] * count, axis=0)
