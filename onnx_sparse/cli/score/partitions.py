"""Scores in folders by the values of columns, `day=1/country=DE/rows.parquet`, as Spark and Hive have them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from onnx_sparse.cli.output import CommandError
from onnx_sparse.cli.score.places import Place, new_place
from onnx_sparse.cli.score.row_sources import NULL_PARTITION

#: Folders of one file of rows: each has a file that is open until the end.
_MOST = 500


class Partitions:
    """The folders of the scores of a file of rows.

    The files of one job appear one after another. A list of them, which is written last, in a folder that readers of
    Parquet pass over, says that all are there.

    Args:
        target: The folder of all scores, and the name of the files.
        columns: The columns.
    """

    def __init__(self, target: Place, columns: Sequence[str]) -> None:
        self._target, self._columns = target, list(columns)
        self._list = target.parent / "_scored" / f"{target.name}.json"
        self._seen: set[Place] = set()

    def split(self, table: pa.Table) -> Iterator[tuple[Place, pa.Table]]:
        """The rows of each folder, without the columns, in their order."""
        keys = table.select(self._columns)
        for key in keys.group_by(self._columns, use_threads=False).aggregate([]).to_pylist():
            mask = None
            for name, value in key.items():
                column = table[name]
                own = column.is_null() if value is None else pc.fill_null(pc.equal(column, value), False)
                mask = own if mask is None else pc.and_(mask, own)
            place = self._target.parent
            for name, value in key.items():
                place = place / f"{quote(name, safe='')}={_folder_name(value)}"
            self._seen.add(place)
            if len(self._seen) > _MOST:
                named = ", ".join(self._columns)
                raise CommandError(f"--partition-by {named}: a file of rows has more than {_MOST} of them")
            yield place / self._target.name, table.filter(mask).drop_columns(self._columns)

    def origin(self) -> str | None:
        """What the scores that are there were made from, if all are there."""
        listed = self._listed()
        there = listed is not None and all((self._target.parent / name).exists() for name in listed["files"])
        return str(listed["origin"]) if listed is not None and there else None

    def begin(self) -> None:
        """Forget the files of the last run, which are going to be replaced."""
        self._before = set((self._listed() or {"files": []})["files"])
        self._list.remove()

    def finish(self, origin: str, files: Sequence[Place]) -> None:
        """Record the files, and remove those of the last run that are no more."""
        root = len(self._target.parent.path.rstrip("/")) + 1
        names = [file.path[root:] for file in files]
        for name in sorted(self._before.difference(names)):
            (self._target.parent / name).remove()
        with new_place(self._list) as file:
            file.write(json.dumps({"origin": origin, "files": names}).encode())

    def _listed(self) -> dict[str, Any] | None:
        try:
            with self._list.open() as file:
                listed = json.loads(file.read())
        except (OSError, ValueError):
            return None
        return listed if isinstance(listed, dict) and {"origin", "files"} <= listed.keys() else None


def _folder_name(value: Any) -> str:
    if value is None:
        return NULL_PARTITION
    if isinstance(value, bool):
        return str(value).lower()
    return quote(str(value), safe=" ") or NULL_PARTITION
