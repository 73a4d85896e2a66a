"""Rows as JSON by feature, in the two forms of TensorFlow Serving's REST API.

`{"instances": [{"items": [5, 7], "age": 31}, ...]}` has rows, and so has the answer, `{"predictions": [...]}`.
`{"inputs": {"items": [[5, 7], ...], "age": [31, ...]}}` has columns, and so has the answer, `{"outputs": {...}}`. If
there is one feature, its name is optional; if there is one output, the answer omits its name.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onnx_sparse.errors import meant
from onnx_sparse.rows.columns import Array, RowError, Rows
from onnx_sparse.rows.json_texts import JsonTexts
from onnx_sparse.rows.model_features import Features
from onnx_sparse.schemas.declaration import DType
from onnx_sparse.schemas.features import Feature, listed
from onnx_sparse.serving.endpoints import SIGNATURE
from onnx_sparse.serving.errors import RequestError, shown
from onnx_sparse.serving.inference_requests import known_output, parsed_json
from onnx_sparse.serving.long_lists import LongList, NumberList, TextList, cut, put_back
from onnx_sparse.serving.written_json import write, write_members, write_objects

_KEYS = ("instances", "inputs")


def read_rows(
    body: bytes | bytearray, features: Features, outputs: Sequence[str] = ()
) -> tuple[dict[str, Array], int | None, Sequence[str]]:
    """The inputs of the model for a request.

    Args:
        body: The body of the request.
        features: The model's features.
        outputs: The names of its outputs, of which a request may ask for some.

    Returns:
        The inputs; the number of rows, None where the request has columns; and the outputs that it asks for.

    Raises:
        RequestError: It is not of one of the forms, or its values do not fit the features.
    """
    text, lists = cut(body, [*_KEYS, *features])
    request = parsed_json(text)
    if unknown := [key for key in request if key not in (*_KEYS, "signature_name", "outputs")]:
        raise RequestError(f"the request has {shown(unknown[0])}; it has either 'instances' or 'inputs'")
    if (signature := request.get("signature_name", SIGNATURE)) != SIGNATURE:
        raise RequestError(f"there is no signature {shown(signature)}; the model has {SIGNATURE!r}")
    asked = put_back(request.get("outputs", [*outputs]), lists)
    if isinstance(asked, TextList):
        asked = asked.texts().tolist()
    if not isinstance(asked, list) or (not asked and "outputs" in request):
        raise RequestError(f"'outputs' is {shown(asked)}; a list of the names of outputs is expected")
    asked = [known_output(name, outputs) for name in asked]
    if sum(key in request for key in _KEYS) != 1:
        raise RequestError("send either 'instances' or 'inputs'")
    key = "instances" if "instances" in request else "inputs"
    given: Any = put_back(request[key], lists)
    rows = None
    try:
        if isinstance(given, LongList):
            name = _only(features, key)
            columns = {name: _read(name, given, features)}
        elif key == "instances":
            columns = _columns(given, features)
            if lists:
                columns = {name: _read_rows(name, column, lists, features) for name, column in columns.items()}
        else:
            columns = given if isinstance(given, dict) else {_only(features, key): given}
            for name in {*columns}.intersection(features):
                columns[name] = _read(name, put_back(columns[name], lists), features)
        if key == "instances":
            rows = len(given)
        for name in columns:
            if name in features and features[name].kind == "example":
                columns[name] = _messages(name, columns[name])
        return features.feeds(columns), rows, asked
    except ValueError as error:
        raise RequestError(error) from error


def _read(name: str, value: Any, features: Features) -> Any:
    """A long list, a column, as arrays of its feature's type; other values as they are."""
    if not isinstance(value, LongList):
        return value
    depth = _depth(features[name])
    is_deep = len(value.counts) == (depth or 0) + 1
    if isinstance(value, TextList) and depth is not None and is_deep:
        return Rows(value.texts(), value.lengths())
    column = _column(name, value, features)
    return column if (is_deep if depth is not None else not isinstance(column, list)) else _plain(column)


def _read_rows(name: str, column: list[Any], lists: list[LongList], features: Features) -> Any:
    """A column of rows, some of which may be long lists."""
    values: list[Any] = []
    feature = features[name]
    fits = True
    for row, given in enumerate(column):
        value = put_back(given, lists)
        if isinstance(value, LongList):
            fits &= len(value.counts) == (_depth(feature) or len(value.counts))
            try:
                value = _column(name, value, features)
            except RowError as error:
                raise RowError(f"feature {name!r}", row, f", position {error.row}{error.reason}") from None
        values.append(value)
    if any(isinstance(value, JsonTexts) for value in values):
        found = _joined_texts(values, feature) if fits else None
        return _plain(values) if found is None else found
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    if feature.kind == "dense" and arrays:
        fits = len(arrays) == len(values) and len({(array.shape, array.dtype) for array in arrays}) == 1
        return np.stack(arrays) if fits else _plain(values)
    return values if fits else _plain(values)


def _joined_texts(rows: list[Any], feature: Feature) -> Rows | JsonTexts | None:
    """A column of rows of texts; None if some are no texts, or do not fit together."""
    parts = []
    for row in rows:
        is_list = isinstance(row, list) and {*map(type, row)} <= {str}
        texts = np.array(row, object) if is_list else row
        if isinstance(texts, np.ndarray) and texts.dtype.kind == "O":
            texts = JsonTexts.of(texts)
        if not isinstance(texts, JsonTexts):
            return None
        parts.append(texts)
    if _depth(feature) == 1:
        return Rows(JsonTexts.joined(parts), (np.fromiter(map(len, parts), np.int64, len(parts)),))
    if feature.kind == "dense" and len({part.shape for part in parts}) == 1:
        return JsonTexts.joined([part.reshape(1, *part.shape) for part in parts])
    return None


def _column(name: str, value: LongList, features: Features) -> Any:
    """A long list as an array, or as lists of arrays if lengths differ."""
    assert isinstance(value, NumberList | TextList)
    if isinstance(value, TextList):
        return value.column()
    return value.column(f"feature {name!r}", _dtype(name, features))


def _dtype(name: str, features: Features) -> DType:
    inputs = features[name].inputs
    return features.inputs[inputs.get("values") or next(iter(inputs.values()))].dtype


def _depth(feature: Feature) -> int | None:
    """How deep the lists of a row are; None if they have one shape in all rows."""
    return {"ragged": len(feature.row_splits), "sparse": 1}.get(feature.kind)


def _plain(value: Any) -> Any:
    """Arrays in lists as lists, for the errors of what is not as it should be."""
    if isinstance(value, np.ndarray | JsonTexts):
        return value.tolist()
    return [*map(_plain, value)] if isinstance(value, list) else value


def _columns(rows: Any, features: Features) -> dict[str, Any]:
    if not isinstance(rows, list) or not rows:
        raise RequestError("'instances' must be a non-empty list")
    if len(features) == 1 and not any(isinstance(row, dict) and not _is_message(row, features) for row in rows):
        return {_only(features, "instances"): rows}
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise RequestError(f"instances[{number}] must be an object with the features {listed(map(repr, features))}")
        if unknown := [name for name in row if name not in features]:
            raise RequestError(
                f"instances[{number}]: the model has no feature {unknown[0]!r}{meant(unknown[0], features)}"
            )
        if missing := [name for name in features if name not in row]:
            raise RequestError(f"instances[{number}]: feature {missing[0]!r} is missing")
    return {name: [row[name] for row in rows] for name in features}


def _is_message(row: Mapping[str, Any], features: Features) -> bool:
    """Whether an object is the row itself, a serialized message, and not features by name."""
    return [*row] == ["b64"] and "b64" not in features


def _only(features: Features, key: str) -> str:
    if len(features) != 1:
        raise RequestError(f"{key!r} has no names, and the model has the features {listed(map(repr, features))}")
    return next(iter(features))


def _messages(name: str, column: Any) -> list[bytes]:
    """Serialized messages, which JSON holds as `{"b64": "..."}`."""
    messages = []
    for number, value in enumerate(column if isinstance(column, list) else [column]):
        try:
            if not isinstance(value, dict) or list(value) != ["b64"]:
                raise ValueError
            messages.append(base64.b64decode(value["b64"], validate=True))
        except (TypeError, ValueError, binascii.Error):
            raise RequestError(
                f"feature {name!r}, row {number}: a serialized message is expected, as {{'b64': '...'}}"
            ) from None
    return messages


def write_rows(results: Mapping[str, Array], rows: int | None) -> bytearray:
    """The body of a response; NaN and the infinities are written as Python does, and as TensorFlow Serving.

    Args:
        results: The outputs of the model by name.
        rows: The number of rows of the request, None where it had columns.

    Raises:
        RequestError: An output has no element for each row.
    """
    single = len(results) == 1
    content = bytearray()
    if rows is None:
        content += b'{"outputs": '
        if single:
            write(content, next(iter(results.values())))
        else:
            write_members(content, results)
    else:
        for name, array in results.items():
            if not array.ndim or len(array) != rows:
                raise RequestError(
                    f"output {name!r} has the shape {list(array.shape)}, and there are {rows} rows: ask with 'inputs'"
                )
        content += b'{"predictions": '
        if single:
            write(content, next(iter(results.values())))
        else:
            write_objects(content, results)
    content += b"}"
    return content
