"""ParseExample and ParseSequenceExample in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from onnx_sparse.reference import example_messages as messages
from onnx_sparse.reference.implementation import Array, implements
from onnx_sparse.reference.requirements import require_allocatable
from onnx_sparse.reference.string_tensor import bytes_of, shown, text_of
from onnx_sparse.schemas import example_parsing as declarations
from onnx_sparse.schemas.declaration import dtype_name, numpy_dtype
from onnx_sparse.schemas.validation import KernelError

_FLOAT, _INT64, _STRING = declarations.LISTS


@implements(declarations.PARSE_EXAMPLE)
def parse_example(
    serialized: Array,
    keys: Array,
    types: Array,
    sizes: Array,
    required: Array,
    unset_is_empty: Array,
    sparse: Array,
    float_defaults: Array,
    int64_defaults: Array,
    string_defaults: Array,
) -> tuple[Array, ...]:
    """The values of all features by type, and the row splits of each; see the semantics of ParseExample.

    Args:
        serialized: The messages [B], bytes or text that stands for UTF-8.
        keys: The names of the features [F].
        types: Their element types, int64[F].
        sizes: How many values they have, int64[F].
        required: Whether each message must have them, bool[F].
        unset_is_empty: Whether they are empty lists where they are unset, bool[F].
        sparse: Whether coordinates has their values, bool[F].
        float_defaults: The defaults of the float features, float[X].
        int64_defaults: Those of the int64 features, int64[Y].
        string_defaults: Those of the string features, object[Z].

    Returns:
        The float values, float[P], the int64 values, int64[Q], and the string values, object[S], as text in which a
        surrogate stands for a byte that is not UTF-8; row_splits, int64[F, B+1]; coordinates, int64[C, 2].
    """
    names = bytes_of(keys)
    _check_features(names, types, np.zeros(len(names), bool))
    all_defaults = {_FLOAT: float_defaults, _INT64: int64_defaults, _STRING: text_of(bytes_of(string_defaults))}
    defaults = _defaults_of_features(types, sizes, required, all_defaults)
    rows: list[list[Array]] = [[] for _ in names]
    for b, message in enumerate(bytes_of(serialized)):
        found = _features(b, message)
        for f, name in enumerate(names):
            where = f"serialized[{b}], feature {shown(name)}"
            feature = _last(found.get(name, []), unset_is_empty[f], where)
            if feature is not None:
                values = _values(feature, int(types[f]), where)
                _check_count(len(values), int(sizes[f]), where)
            elif required[f]:
                raise KernelError(f"{where} is missing; it is required")
            else:
                values = defaults[f]
            rows[f].append(values)
    lengths = np.array([[len(values) for values in row] for row in rows], np.int64).reshape(len(rows), len(serialized))
    row_splits = np.zeros((len(rows), len(serialized) + 1), np.int64)
    np.cumsum(lengths, axis=1, out=row_splits[:, 1:])
    places = [(b, k) for row in lengths[sparse] for b, length in enumerate(row) for k in range(length)]
    return (*_by_type(rows, types), row_splits, np.array(places, np.int64).reshape(-1, 2))


@implements(declarations.PARSE_SEQUENCE_EXAMPLE)
def parse_sequence_example(
    serialized: Array,
    keys: Array,
    types: Array,
    sizes: Array,
    required: Array,
    in_lists: Array,
    float_defaults: Array,
    int64_defaults: Array,
    string_defaults: Array,
) -> tuple[Array, ...]:
    """The values of all features by type, and where lists and values begin; see the semantics of ParseSequenceExample.

    Args:
        serialized: The messages [B], bytes or text that stands for UTF-8.
        keys: The names of the features [F].
        types: Their element types, int64[F].
        sizes: How many values their lists have, int64[F].
        required: Whether each message must have them, bool[F].
        in_lists: Whether they are feature lists, bool[F].
        float_defaults: The defaults of the float features, float[X].
        int64_defaults: Those of the int64 features, int64[Y].
        string_defaults: Those of the string features, object[Z].

    Returns:
        The float values, float[P], the int64 values, int64[Q], and the string values, object[S], as text in which a
        surrogate stands for a byte that is not UTF-8; list_splits, int64[F, B+1]; lengths, int64[N].
    """
    names = bytes_of(keys)
    _check_features(names, types, in_lists)
    all_defaults = {_FLOAT: float_defaults, _INT64: int64_defaults, _STRING: text_of(bytes_of(string_defaults))}
    defaults = _defaults_of_features(types, sizes, required | in_lists, all_defaults)
    texts = bytes_of(serialized)
    found: list[list[list[Array]]] = [[] for _ in names]  # by feature, message and list
    for b, message in enumerate(texts):
        try:
            entries = {(in_list, key): content for in_list, key, content in messages.sequence_entries(message)}
        except messages.Malformed:
            raise KernelError(f"serialized[{b}] is not a tf.SequenceExample") from None
        for f, (name, in_list) in enumerate(zip(names, in_lists.tolist(), strict=True)):
            where = f"serialized[{b}], feature{' list' * in_list} {shown(name)}"
            content = entries.get((in_list, name))
            if content is None and required[f]:
                raise KernelError(f"{where} is missing; it is required")
            if content is None:
                found[f].append([] if in_list else [defaults[f]])
            else:
                found[f].append(_lists(content, int(types[f]), int(sizes[f]), in_list, where))
    counts = np.array([[len(lists) for lists in row] for row in found], np.int64).reshape(len(names), len(texts))
    list_splits = np.zeros((len(names), len(texts) + 1), np.int64)
    np.cumsum(counts, axis=1, out=list_splits[:, 1:])
    lists = [[values for message in row for values in message] for row in found]
    lengths = [len(values) for row in lists for values in row]
    return (*_by_type(lists, types), list_splits, np.array(lengths, np.int64))


def _lists(content: bytes, dtype: int, size: int, in_list: bool, where: str) -> list[Array]:
    """The values of each list of a feature that a tf.SequenceExample has."""
    read = messages.steps(content, dtype) if in_list else messages.single(content, dtype)
    found: list[Array] = []
    while True:
        place = f"{where}, step {len(found)}," if in_list else where
        try:
            values = next(read)
        except StopIteration:
            return found
        except messages.AnotherList as error:
            _refuse_list(error.dtype, dtype, place)
        except messages.Malformed:
            raise KernelError(f"{place} has {declarations.LISTS[dtype]} that is damaged") from None
        _check_count(len(values), size, place)
        found.append(_array(values, dtype))


def _check_features(names: Sequence[bytes], types: Array, maps: Array) -> None:
    """Whether types are known, and names are distinct in each of the message's maps."""
    first: dict[tuple[bytes, bool], int] = {}
    for f, key in enumerate(zip(names, maps.tolist(), strict=True)):
        if first.setdefault(key, f) != f:
            raise KernelError(f"keys[{f}] = {shown(key[0])} is also keys[{first[key]}]")
    for f, dtype in enumerate(types):
        if dtype not in declarations.LISTS:
            raise KernelError(f"types[{f}] = {dtype} is neither 1 (float), 7 (int64) nor 8 (string)")


def _defaults_of_features(types: Array, sizes: Array, required: Array, given: dict[int, Array]) -> list[Array]:
    """What a message without a feature has of it."""
    found: list[Array] = [np.zeros(0, numpy_dtype(int(dtype))) for dtype in types]
    for dtype, values in given.items():
        position = 0
        for f in np.flatnonzero((types == dtype) & ~required & (sizes >= 0)):
            found[f] = values[position : position + int(sizes[f])]
            position += int(sizes[f])
        if position != len(values):
            raise KernelError(f"{dtype_name(dtype)}_defaults has {len(values)} elements; expected {position}")
    return found


def _by_type(rows: Sequence[Sequence[Array]], types: Array) -> list[Array]:
    """The values of all features of each type, one after another; `rows` has those of each feature in pieces."""
    flat = []
    for dtype in declarations.LISTS:
        of_type = [values for f, row in enumerate(rows) if types[f] == dtype for values in row]
        require_allocatable([sum(map(len, of_type))], numpy_dtype(dtype), f"the {dtype_name(dtype)} values")
        flat.append(np.concatenate([np.zeros(0, numpy_dtype(dtype)), *of_type]))
    return flat


def _features(b: int, message: bytes) -> dict[bytes, list[bytes]]:
    """The serialized features of a message by their keys, each key's in the order of the message."""
    found: dict[bytes, list[bytes]] = {}
    try:
        for key, feature in messages.entries(message):
            found.setdefault(key, []).append(feature)
    except messages.Malformed:
        raise KernelError(f"serialized[{b}] is not a tf.Example") from None
    return found


def _last(features: Sequence[bytes], unset_is_empty: bool, where: str) -> bytes | None:
    """The feature that counts among those with the same key; None where there is none."""
    if any(feature and feature[0] not in messages.ELEMENT_TYPES for feature in features):
        raise KernelError(f"{where} has a list of no known type")
    counted = [feature for feature in features if feature or unset_is_empty]
    return counted[-1] if counted else None


def _values(feature: bytes, dtype: int, where: str) -> Array:
    if not feature:
        return np.zeros(0, numpy_dtype(dtype))
    actual = messages.ELEMENT_TYPES[feature[0]]
    if actual != dtype:
        _refuse_list(actual, dtype, where)
    try:
        return _READ[dtype](feature)
    except messages.Malformed:
        raise KernelError(f"{where} has {declarations.LISTS[dtype]} that is damaged") from None


def _refuse_list(actual: int | None, expected: int, where: str) -> NoReturn:
    if actual is None:
        raise KernelError(f"{where} has a list of no known type")
    raise KernelError(f"{where} has {declarations.LISTS[actual]}; {declarations.LISTS[expected]} expected")


def _check_count(count: int, size: int, where: str) -> None:
    if size >= 0 and count != size:
        raise KernelError(f"{where} has {count} values; {size} expected")
    if size < 0 and count % -size:
        raise KernelError(f"{where} has {count} values; a multiple of {-size} expected")


def _array(values: Sequence[Any], dtype: int) -> Array:
    """What `example_messages.of_sequence` returns, as an array."""
    if dtype == _FLOAT:
        return np.frombuffer(b"".join(values), "<f4").astype(np.float32)
    return text_of(values) if dtype == _STRING else np.array(values, np.uint64).astype(np.int64)


def _floats(feature: bytes) -> Array:
    return np.frombuffer(messages.floats(feature), "<f4").astype(np.float32)


def _integers(feature: bytes) -> Array:
    return np.array(messages.integers(feature), np.uint64).astype(np.int64)


def _strings(feature: bytes) -> Array:
    return text_of(messages.strings(feature))


_READ = {_FLOAT: _floats, _INT64: _integers, _STRING: _strings}
