"""Scores in folders by the values of columns, `day=1/country=DE/rows.parquet`, as Spark and Hive have them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onnx_sparse.errors import CommandError
from onnx_sparse.scoring.places import Place, new_place
from onnx_sparse.scoring.row_sources import NULL_PARTITION

#: Folders of one file of rows: each has a file that is open until the end.
_MOST = 500


class Partitions:
    """The folders of the scores of a file of rows.

    The files of one job appear one after another. A list of them, which is written last, in a folder that readers of
    Parquet pass over, says that all are there.

    Args:
        target: The folder of all scores, and the name of the files.
        columns: The columns.

    Attributes:
        list: The list.
    """

    def __init__(self, target: Place, columns: Sequence[str]) -> None:
        self._target, self._columns = target, list(columns)
        self.list = target.parent / "_scored" / f"{target.name}.json"
        self._seen: set[Place] = set()

    def split(self, table: pa.Table) -> Iterator[tuple[Place, pa.Table]]:
        """The rows of each folder, without the columns, in their order."""
        if not table.num_rows:
            return
        folders = [_folders(name, table[name]) for name in self._columns]
        _, firsts, group = np.unique(
            np.stack([numbers for _, numbers in folders], 1), axis=0, return_index=True, return_inverse=True
        )
        rows = np.split(np.argsort(group.ravel(), kind="stable"), np.cumsum(np.bincount(group.ravel()))[:-1])
        others = table.drop_columns(self._columns)
        for at in np.argsort(firsts):
            place = self._target.parent
            for name, (values, numbers) in zip(self._columns, folders, strict=True):
                place = place / f"{quote(name, safe='')}={values[numbers[firsts[at]]]}"
            self._seen.add(place)
            if len(self._seen) > _MOST:
                named = ", ".join(self._columns)
                raise CommandError(f"--partition-by {named}: a file of rows has more than {_MOST} of them")
            yield place / self._target.name, others.take(rows[at])

    def origin(self) -> str | None:
        """What the scores that are there were made from, if all are there."""
        listed = self._listed()
        there = listed is not None and all((self._target.parent / name).exists() for name in listed["files"])
        return str(listed["origin"]) if listed is not None and there else None

    def begin(self) -> None:
        """Forget the files of the last run, which are going to be replaced."""
        self._before = set((self._listed() or {"files": []})["files"])
        self.list.remove()

    def finish(self, origin: str, files: Sequence[Place]) -> None:
        """Record the files, and remove those of the last run that are no more."""
        root = len(self._target.parent.path.rstrip("/")) + 1
        names = [file.path[root:] for file in files]
        for name in sorted(self._before.difference(names)):
            (self._target.parent / name).remove()
        with new_place(self.list) as file:
            file.write(json.dumps({"origin": origin, "files": names}).encode())

    def _listed(self) -> dict[str, Any] | None:
        try:
            with self.list.open() as file:
                listed = json.loads(file.read())
        except (OSError, ValueError):
            return None
        return listed if isinstance(listed, dict) and {"origin", "files"} <= listed.keys() else None


def _folders(name: str, column: pa.ChunkedArray) -> tuple[list[str], np.ndarray[Any, Any]]:
    """The names of a column's folders, and the number of each row's folder among them.

    Rows are of one folder if and only if its name is the same, whatever values are equal to each other.
    """
    kind = column.type
    try:
        if isinstance(kind, pa.BaseExtensionType):
            column = pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type)
        elif pa.types.is_dictionary(kind):
            column = pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], kind.value_type)
        elif pa.types.is_run_end_encoded(kind):
            column = pa.chunked_array([pc.run_end_decode(chunk) for chunk in column.chunks], kind.value_type)
        encoded = pa.concat_arrays(column.chunks).dictionary_encode("encode")
        texts = _texts(encoded.dictionary)
    except (pa.ArrowException, OverflowError, ValueError):
        raise CommandError(f"--partition-by {name}: values of type {kind} do not name folders") from None
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return list(numbers), np.array([numbers[text] for text in texts])[encoded.indices.to_numpy(zero_copy_only=False)]


def _texts(values: pa.Array) -> list[str]:
    """The names of values' folders."""
    if pa.types.is_temporal(values.type) and getattr(values.type, "unit", "") == "ns":  # which Python does not have
        texts = values.cast(pa.string()).to_pylist()
        return [_folder_name(text and text.removesuffix("." + "0" * 9)) for text in texts]
    return [_folder_name(value) for value in values.to_pylist()]


def _folder_name(value: Any) -> str:
    if value is None:
        return NULL_PARTITION
    if isinstance(value, bool):
        return str(value).lower()
    return quote(value if isinstance(value, bytes) else str(value), safe=" ") or NULL_PARTITION
