"""The record of a model's features: which of its inputs together hold one, as JSON in the model's metadata.

A feature is what people have one column for. `converters` write the record; what feeds models reads it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from onnx import ModelProto

#: The key of the record in a model's metadata_props.
METADATA_KEY = "onnx_sparse.features"
#: The version of the record's form.
VERSION = 1
#: An error message lists no more names than this.
_MOST_LISTED = 12

#: What is done with columns of rows that a model does not know.
Extra: TypeAlias = Literal["ignore", "error"]

#: The roles of the inputs of a feature, by kind. Values in nested rows have further row splits: row_splits_1, ...
ROLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "dense": ("values",),
        "sparse": ("indices", "values", "dense_shape"),
        "ragged": ("values", "row_splits"),
        "example": ("serialized",),
    }
)


@dataclass(frozen=True)
class Feature:
    """A feature of a model.

    Attributes:
        name: Its name.
        kind: `dense`: a tensor whose first dimension is the rows. `sparse`: a sparse tensor as coordinates, values and
            dense shape. `ragged`: values and row splits. `example`: serialized tf.Example messages.
        inputs: The names of the model's inputs by role.
        vocabulary_size: The number that ids are below, if it is known.
        shape: The shape of a sparse tensor, None where a size is not fixed; None if it is not known.
        source: For a ragged feature that is a sparse tensor in the model's source, the inputs of the source by role.
    """

    name: str
    kind: str
    inputs: Mapping[str, str] = field(hash=False)
    vocabulary_size: int | None = None
    shape: tuple[int | None, ...] | None = None
    source: Mapping[str, str] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        if self.kind not in ROLES:
            raise ValueError(f"feature {self.name!r}: kind {self.kind!r} is none of {', '.join(ROLES)}")
        inner = {*map(splits_role, range(1, len(self.inputs) - 1))} if self.kind == "ragged" else set()
        roles = [role for role in self.inputs if role not in inner]
        if sorted(roles) != sorted(ROLES[self.kind]):
            raise ValueError(
                f"feature {self.name!r}: a {self.kind} feature has the roles {', '.join(ROLES[self.kind])}, "
                f"not {listed(self.inputs)}"
            )
        if self.source is not None and (len(self.row_splits) != 1 or sorted(self.source) != sorted(ROLES["sparse"])):
            raise ValueError(f"feature {self.name!r}: only ragged rows have a source, a sparse tensor")

    @property
    def row_splits(self) -> tuple[str, ...]:
        """The inputs with the row splits of a ragged feature, from the outermost."""
        return tuple(self.inputs[splits_role(k)] for k in range(len(self.inputs) - 1)) if self.kind == "ragged" else ()


def listed(names: Iterable[str]) -> str:
    """Names in an error message, which stays one readable line: a record may have any number."""
    shown = list(itertools.islice(names, _MOST_LISTED + 1))
    return ", ".join(shown[:_MOST_LISTED]) + ", ..." * (len(shown) > _MOST_LISTED) or "none"


def splits_role(depth: int) -> str:
    """The role of the row splits at a depth: `row_splits`, then `row_splits_1`."""
    return f"row_splits_{depth}" if depth else "row_splits"


def write_features(model: ModelProto, features: Iterable[Feature]) -> None:
    """Record the features of a model in its metadata."""
    kept = [entry for entry in model.metadata_props if entry.key != METADATA_KEY]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    written = []
    for feature in features:
        entry: dict[str, Any] = {"name": feature.name, "kind": feature.kind, "inputs": dict(feature.inputs)}
        if feature.vocabulary_size is not None:
            entry["vocabulary_size"] = feature.vocabulary_size
        if feature.shape is not None:
            entry["shape"] = list(feature.shape)
        if feature.source is not None:
            entry["source"] = dict(feature.source)
        written.append(entry)
    record = json.dumps({"version": VERSION, "features": written}, ensure_ascii=False)
    model.metadata_props.add(key=METADATA_KEY, value=record)


def features_of(model: ModelProto) -> tuple[Feature, ...]:
    """The features that a model records; none if it has no record.

    Raises:
        ValueError: Its record is none, or one of a later version.
    """
    record = next((entry.value for entry in model.metadata_props if entry.key == METADATA_KEY), None)
    return () if record is None else read_features(record)


def read_features(record: str) -> tuple[Feature, ...]:
    """The features of a record.

    Raises:
        ValueError: It is not such a record, or one of a later version.
    """
    try:
        content = json.loads(record)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the metadata {METADATA_KEY} are not JSON: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("features"), list):
        raise ValueError(f"the metadata {METADATA_KEY} have no list of features")
    if content.get("version") != VERSION:
        raise ValueError(f"the metadata {METADATA_KEY} are of version {content.get('version')!r}; {VERSION} is read")
    found = tuple(map(_feature, content["features"]))
    seen: set[str] = set()
    for feature in found:
        if feature.name in seen:
            raise ValueError(f"the metadata {METADATA_KEY} have the feature {feature.name!r} twice")
        seen.add(feature.name)
    return found


def _feature(entry: Any) -> Feature:
    known = {"name": str, "kind": str, "inputs": dict, "vocabulary_size": int, "shape": list, "source": dict}
    if not isinstance(entry, dict):
        raise ValueError(f"the metadata {METADATA_KEY} have {entry!r} as a feature")
    for key, value in entry.items():
        if key in known and not isinstance(value, known[key]):
            raise ValueError(f"the metadata {METADATA_KEY} have {value!r} as the {key} of a feature")
    if missing := [key for key in ("name", "kind", "inputs") if key not in entry]:
        raise ValueError(f"the metadata {METADATA_KEY} have a feature without {missing[0]}")
    inputs, source = entry["inputs"], entry.get("source")
    for named in (inputs, source or {}):
        if not all(isinstance(name, str) for name in named.values()):
            raise ValueError(f"the metadata {METADATA_KEY} have {named!r} as the inputs of a feature")
    shape = entry.get("shape")
    if shape is not None and not all(size is None or (isinstance(size, int) and size >= 0) for size in shape):
        raise ValueError(f"the metadata {METADATA_KEY} have {shape!r} as the shape of a feature")
    return Feature(
        entry["name"],
        entry["kind"],
        inputs,
        entry.get("vocabulary_size"),
        None if shape is None else tuple(shape),
        source,
    )
