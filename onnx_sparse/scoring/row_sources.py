"""Which files hold the rows: files, folders with folders inside, and patterns, on this machine and in stores.

As readers of Parquet do, names that begin with "." or "_" are not looked at, and a folder named `day=1` gives its rows
a column `day`.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

from pyarrow import fs

from onnx_sparse.errors import CommandError
from onnx_sparse.scoring.places import Place, errors_of, place_of

#: What the name of a folder holds where a column has no value.
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_WILD = re.compile(r"[*\[]")


@dataclass(frozen=True)
class Source:
    """A file of rows.

    Attributes:
        place: Where it is.
        relative: Its path below the folder that was named, with "/".
        folders: The folders that may give its rows columns, with "/": those of `relative`, and the last ones above.
    """

    place: Place
    relative: str
    folders: str

    def __str__(self) -> str:
        return str(self.place)

    @property
    def partitions(self) -> dict[str, str | None]:
        """The columns that its folders give its rows, as texts."""
        found: dict[str, str | None] = {}
        for part in self.folders.split("/"):
            name, equals, value = part.partition("=")
            if equals and name:
                found[unquote(name)] = None if value == NULL_PARTITION else unquote(value)
        return found


def sources_of(given: Sequence[str], is_rows: Callable[[str], bool], but: Place) -> tuple[list[Source], list[Place]]:
    """The files of rows that are named, in folders that are named, or that fit a pattern.

    Args:
        given: What is named.
        is_rows: Whether the name of a file is that of a kind of rows.
        but: The folder of the scores, in which no rows are looked for.

    Returns:
        The files, and those in folders and of patterns that hold no rows.

    Raises:
        CommandError: There is no such file.
    """
    found: list[Source] = []
    foreign: list[Place] = []
    for text in given:
        place = place_of(text)
        if place.is_folder():
            named = _partitions_of(place)
            inside = [_below(named, s, len(given)) for s in _in_folder(place) if not _is_inside(s.place, but, place)]
        elif place.exists():
            found.append(_below(_partitions_of(place.parent), Source(place, place.name, ""), len(given)))
            continue
        else:
            inside = list(_matching(place))
        rows = [source for source in inside if is_rows(source.place.name)]
        if not rows:
            if inside:
                raise CommandError(f"{text} has no files of rows, but {_listed(s.place.name for s in inside)}")
            raise CommandError(f"{place} has no files" if place.is_folder() else f"{text}: no such file")
        found += rows
        foreign += [source.place for source in inside if not is_rows(source.place.name)]
    return list({source.place: source for source in found}.values()), foreign


def _listed(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:3]) + f" and {len(shown) - 3} more" * (len(shown) > 3)


def _is_inside(place: Place, folder: Place, named: Place) -> bool:
    """Whether a file is in a folder, which is inside the one that was named."""
    if place.store != folder.store:
        return False
    if place.store:
        paths = [one.path.rstrip("/") + "/" for one in (named, folder, place)]
    else:
        paths = [os.path.join(os.path.abspath(one.path), "") for one in (named, folder, place)]
    outer, inner, path = paths
    return outer != inner and inner.startswith(outer) and path.startswith(inner)


def _partitions_of(folder: Place) -> str:
    """The last folders of a path that are named `day=1`."""
    parts = [part for part in folder.path.replace(os.sep, "/").split("/") if part]
    begin = len(parts)
    while begin and "=" in parts[begin - 1]:
        begin -= 1
    return "/".join(parts[begin:])


def _below(named: str, source: Source, count: int) -> Source:
    """A file in folders `day=1` that were named; where several things were, files of the same name are told by them."""
    relative = f"{named}/{source.relative}" if named and count > 1 else source.relative
    return replace(source, relative=relative, folders=f"{named}/{source.folders}")


def _is_hidden(name: str) -> bool:
    """Whether readers of Parquet pass over the name; `_day=1` is a column."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _in_folder(folder: Place) -> Iterator[Source]:
    """The files in a folder and those inside, in the order of their names."""
    if folder.store:
        yield from (s for s in _listed_in_store(folder) if not any(map(_is_hidden, s.relative.split("/"))))
        return
    for path, folders, files in os.walk(folder.path):
        folders[:] = sorted(name for name in folders if not _is_hidden(name))
        for name in sorted(files):
            file = os.path.join(path, name)
            if not _is_hidden(name) and os.path.isfile(file):
                yield _source(Place(file), os.path.relpath(file, folder.path).replace(os.sep, "/"))


def _source(place: Place, relative: str) -> Source:
    return Source(place, relative, relative.rpartition("/")[0])


def _listed_in_store(folder: Place) -> list[Source]:
    with errors_of(folder):
        infos = folder.filesystem.get_file_info(fs.FileSelector(folder.path, allow_not_found=True, recursive=True))
    base = folder.path.rstrip("/")
    files = sorted(info.path for info in infos if info.type == fs.FileType.File)
    return [_source(replace(folder, path=path), path.removeprefix(f"{base}/")) for path in files]


def _matching(pattern: Place) -> Iterator[Source]:
    """The files that fit a pattern; their paths are relative to the last folder that it names without a wildcard."""
    parts = pattern.path.split("/") if pattern.store else pattern.path.replace(os.sep, "/").split("/")
    begin = next((number for number, part in enumerate(parts) if _WILD.search(part) or "?" in part), len(parts) - 1)
    base = "/".join(parts[:begin])
    if pattern.store:
        fits = re.compile(_expression(parts[begin:]))
        found = [s for s in _listed_in_store(replace(pattern, path=base)) if fits.fullmatch(s.relative)]
    else:
        names = sorted(name for name in glob.glob(pattern.path, recursive=True) if os.path.isfile(name))
        folder = base + "/" if begin else ""
        found = [_source(Place(name), os.path.relpath(name, folder or ".").replace(os.sep, "/")) for name in names]
    for source in found:
        folders, name = source.relative.split("/")[:-1], source.place.name
        is_meant = not _is_hidden(name) or parts[-1].startswith(name[0])
        if is_meant and not any(_is_hidden(part) and part not in parts for part in folders):
            yield source


def _expression(parts: Sequence[str]) -> str:
    """A regular expression for the paths that the parts of a pattern fit."""
    written = []
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        if part == "**":
            written.append(r"(?:[^/]+/)*" + "[^/]+" * is_last)
            continue
        pieces = re.split(r"(\*|\?|\[!?[^\]]+\])", part)
        kinds = {"*": "[^/]*", "?": "[^/]"}
        written.append("".join(_piece(piece, kinds) for piece in pieces) + "/" * (not is_last))
    return "".join(written)


def _piece(piece: str, kinds: dict[str, str]) -> str:
    if piece in kinds:
        return kinds[piece]
    if piece.startswith("[") and piece.endswith("]") and len(piece) > 2:
        return f"[^{piece[2:]}" if piece[1] == "!" else piece
    return re.escape(piece)
