"""The table of roads: those of this package, and those that other packages bring by an entry point."""

from __future__ import annotations

import functools
import glob
import importlib
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from onnx_sparse.converters.errors import ConversionError, UnknownSourceError
from onnx_sparse.converters.roads.road import AnyRoad, Road
from onnx_sparse.lazy_names import is_there

#: The roads of this package: each is `ROAD` in the module `road` of a package of its own among the converters. They are
#: asked in this order; one whose package is not there is not missed.
_NAMES = ("tensorflow", "torch", "ascend", "openvino", "onnx")

#: The group of the entry points by which other packages bring roads; the name of an entry point is that of its road.
ENTRY_POINTS = "onnx_sparse.roads"


@dataclass(frozen=True)
class Table:
    """All roads.

    Attributes:
        roads: Those that can be taken, by name.
        broken: Why others cannot, by name.
    """

    roads: dict[str, AnyRoad] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)


@functools.cache
def _table() -> Table:
    table = Table()
    for name in _NAMES:
        if is_there(f"onnx_sparse.converters.{name}"):
            table.roads[name] = importlib.import_module(f"onnx_sparse.converters.{name}.road").ROAD
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        try:
            table.roads[point.name] = _loaded(point, table)
        except Exception as error:  # whatever the module raises
            package = point.dist.name if point.dist is not None else "an installed package"
            reason = str(error) if isinstance(error, _BrokenError) else f"{type(error).__name__}: {error}"
            said = f"the road of {package} is not loaded: entry point {point.name} = {point.value}: {reason}"
            table.broken.setdefault(point.name, said)
            warnings.warn(said, stacklevel=2)
    return table


class _BrokenError(Exception):
    """An entry point that does not name a road."""


def _loaded(point: EntryPoint, table: Table) -> AnyRoad:
    if point.name in table.roads:
        raise _BrokenError(f"there is a road {point.name} already")
    road = point.load()
    if not isinstance(road, Road):
        raise _BrokenError(f"expected an object of a class derived from Road, got {type(road).__name__}")
    if missing := [name for name in ("name", "title", "models", "options") if not hasattr(road, name)]:
        raise _BrokenError(f"the road has no {missing[0]}")
    if road.name != point.name:
        raise _BrokenError(f"the road's name is {road.name!r}")
    return road


def roads() -> Mapping[str, AnyRoad]:
    """All roads by name. Entry points that are no roads are warned of, once."""
    return _table().roads


def road_named(name: str) -> AnyRoad:
    """The road of a name.

    Raises:
        ConversionError: The package that brings it is broken.
        ValueError: There is none.
    """
    table = _table()
    if name in table.broken and name not in table.roads:
        raise ConversionError(table.broken[name])
    if name not in table.roads:
        raise ValueError(f"{name!r} is not one of {', '.join(table.roads)}")
    return table.roads[name]


def road_of(source: Any) -> AnyRoad:
    """The road that a file, a folder or an object takes.

    Args:
        source: A path; or an object of TensorFlow, Keras, torch, OpenVINO or onnx, a class of its own derived from
            theirs included; or the bytes of an ONNX model.

    Raises:
        UnknownSourceError: Neither its name nor its class tells.
        ConversionError: A framework writes such files, and they cannot be converted.
    """
    if isinstance(source, str | os.PathLike):
        return _road_of_path(Path(source))
    for kind in type(source).__mro__:
        for road in roads().values():
            if road.takes(kind):
                return road
    raise UnknownSourceError(f"cannot convert an object of type {type(source).__name__}")


def _road_of_path(path: Path) -> AnyRoad:
    for road in roads().values():
        if road.claims(path):
            return road
    refuse_foreign(path)
    suffix = path.suffix.lower() or path.name  # ".meta" is the graph of a checkpoint without a name
    for road in roads().values():
        if suffix in road.suffixes and not path.is_dir():
            return road
    if path.is_dir():
        raise ConversionError(f"{path} is not a SavedModel: there is no saved_model.pb in it")
    if suffix in (".npz", ".npy"):
        raise ConversionError(f"{path} has arrays without a graph; give the model that they belong to")
    raise UnknownSourceError(f"cannot tell the format of {path} from its name")


def refuse_foreign(path: Path, chosen: AnyRoad | None = None) -> None:
    """Refuse a file or folder that a framework writes, and that cannot be converted.

    Args:
        path: The file or folder.
        chosen: The road that it is to take, which refuses it itself.

    Raises:
        ConversionError: It is one.
    """
    suffix = path.suffix.lower()
    if any(suffix in road.suffixes for name, road in roads().items() if name not in _NAMES):
        return  # a package has brought a road for it
    for road in roads().values():
        if road is not chosen:
            road.refuse(path)


def refuse_missing(path: Path) -> None:
    """Refuse what does not exist, and is not what the names of a checkpoint's files begin with.

    Raises:
        ConversionError: It is neither.
    """
    if not path.exists():
        if any(path.parent.glob(f"{glob.escape(path.name)}.*")):
            refuse_foreign(path)
        raise ConversionError(f"{path}: no such file or directory")
