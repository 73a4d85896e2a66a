"""Files of rows for `score`: sound ones of each kind, how they are mutated, and what is wrong with the scores."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torture.mutations import mutated_bytes, mutated_json, mutated_text

_ROWS = 12
_TRIES = 10


def make_sources(folder: Path) -> list[Path]:
    """Files of the same rows, and one of messages; and the models that take them."""
    import numpy as np
    import onnx
    import pyarrow as pa
    import pyarrow.parquet as pq
    from cli import test_score as sound
    from cli.test_messages import framed

    onnx.save(sound.pooling_model(), folder / "rows.onnx")
    onnx.save(sound.price_model(), folder / "messages.onnx")
    plain = sound.rows(_ROWS)
    columns: dict[str, Any] = {
        "words": pa.array(["a", "b", "a"] * (_ROWS // 3)).dictionary_encode(),
        "point": pa.array([{"x": k, "y": [str(k)]} for k in range(_ROWS)]),
        "time": pa.array(np.arange(_ROWS), pa.timestamp("us", "UTC")),
    }
    wide = plain
    for name, column in columns.items():
        wide = wide.append_column(name, column)
    messages = framed(*map(sound.price_message, range(_ROWS)))
    writers: list[tuple[str, Callable[[Path], Any]]] = [
        ("parquet", lambda path: pq.write_table(plain, path, compression="none", use_dictionary=False)),
        ("parquet", lambda path: pq.write_table(wide, path, row_group_size=5, data_page_version="2.0")),
        ("parquet", lambda path: pq.write_table(wide, path, compression="zstd", write_page_checksum=True)),
        ("arrow", lambda path: sound.arrow_file(plain, path)),
        ("arrow", lambda path: sound.arrow_file(wide, path)),
        ("feather", lambda path: sound.arrow_stream(wide, path)),
        ("csv", lambda path: sound.csv(plain, path)),
        ("jsonl", lambda path: sound.json_lines(plain, path)),
        ("tfrecord", lambda path: path.write_bytes(messages)),
        ("tfrecord.gz", lambda path: path.write_bytes(gzip.compress(messages))),
    ]
    made = []
    for number, (suffix, write) in enumerate(writers):
        made.append(folder / str(number) / f"rows.{suffix}")
        made[-1].parent.mkdir()
        write(made[-1])
    return made


def command(path: Path, seeds: Path, out: Path, source: random.Random) -> list[str]:
    """Score a file, with some of the options."""
    model = seeds / ("messages.onnx" if ".tfrecord" in path.name else "rows.onnx")
    chosen = ["--batch-rows", str(source.choice([1, 5, 25_000]))]
    if source.random() < 0.3:
        chosen += ["--on-bad-row", "skip"]
    for name in ("uid", "words", "point", "items"):
        if source.random() < 0.15:
            chosen += ["--keep", name]
    return ["score", str(model), str(path), "-o", str(out), *chosen]


def fault(path: Path, out: Path) -> str:
    """What is wrong with the scores of a file; "" for the right ones."""
    import pyarrow.parquet as pq

    scores = pq.ParquetFile(out / "rows.parquet").read()
    bad = out / "_bad" / "rows.parquet"
    refused = pq.read_metadata(bad).num_rows if bad.exists() else 0
    try:
        given = _read(path)
    except Exception as error:
        return f"scored, though it cannot be read: {error}"
    if len(given) != scores.num_rows + refused:
        return f"{scores.num_rows} scores and {refused} bad rows of {len(given)}"
    if refused or not given or ".tfrecord" in path.name:
        return ""
    sums = [float(sum(map(int, row["items"] or ()))) for row in given]
    right = [[total, 10 * total] for total in sums], [float(row["age"]) + 1 for row in given]
    found = scores["sums"].to_pylist(), scores["older"].to_pylist()
    return "" if _same(right[0], found[0]) and _same(right[1], found[1]) else f"{found} for {right}"


def _same(right: Any, found: Any) -> bool:
    import numpy as np

    with np.errstate(over="ignore"):
        return np.array_equal(np.array(right).astype(np.float32), np.array(found, np.float32), equal_nan=True)


def _read(path: Path) -> list[Any]:
    """The rows of a file, read in another way than `score` reads them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from onnx_sparse.rows.message_files import read_records

    match path.suffix:
        case ".parquet":
            table = pq.ParquetFile(path).read(columns=["items", "age"])
        case ".arrow" | ".feather":
            content = path.read_bytes()
            try:
                table = pa.ipc.open_file(content).read_all()
            except pa.ArrowInvalid:
                table = pa.ipc.open_stream(content).read_all()
            table = table.select(["items", "age"])
        case ".csv":
            content = path.read_text("utf-8-sig", errors="replace")
            header, *cells = filter(None, csv.reader(io.StringIO(content, newline="")))
            return [_Cells(header, row) for row in cells]
        case ".jsonl":
            content = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
            return [_Line(line) for line in content.split(b"\n") if line.strip()]
        case _:
            return read_records(path)
    rows: list[Any] = table.to_pylist()
    return rows


class _Line:
    """A row of JSON lines, which is only read where it was scored."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    def __getitem__(self, name: str) -> Any:
        return json.loads(self._text.decode(errors="replace")).get(name)


class _Cells:
    """A row of CSV."""

    def __init__(self, header: list[str], row: list[str]) -> None:
        self._header, self._row = header, row

    def __getitem__(self, name: str) -> Any:
        text = self._row[self._header.index(name)].strip()
        return json.loads(text or "[]") if name == "items" else text


# --- Mutations --------------------------------------------------------------------------------------------------------


def mutations() -> Mapping[str, Callable[[bytes, random.Random], bytes]]:
    """How to mutate a file, by the end of its name."""
    return {
        ".parquet": _mutated_parquet,
        ".arrow": _mutated_arrow,
        ".feather": _mutated_arrow,
        ".csv": lambda data, source: mutated_text(data.decode(), source).encode(errors="replace"),
        ".jsonl": _mutated_lines,
        ".tfrecord": _mutated_records,
        ".tfrecord.gz": lambda data, source: gzip.compress(_mutated_records(gzip.decompress(data), source)),
    }


def _mutated_parquet(data: bytes, source: random.Random) -> bytes:
    """The footer or the pages damaged, or sound columns of other kinds."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    length = int.from_bytes(data[-8:-4], "little")
    pages, footer = data[: -8 - length], data[-8 - length : -8]
    match source.choice(["footer", "pages", "table"]):
        case "footer":
            footer = mutated_bytes(footer, source)
            return pages + footer + len(footer).to_bytes(4, "little") + data[-4:]
        case "pages":
            return mutated_bytes(pages, source) + data[-8 - length :]

    def write(table: Any, sink: Any) -> None:
        pq.write_table(table, sink, row_group_size=source.choice([1, 5, 100]), use_dictionary=source.random() < 0.5)

    return _rewritten(pq.read_table(pa.BufferReader(data)), write, source)


def _mutated_arrow(data: bytes, source: random.Random) -> bytes:
    """Bytes damaged, or sound columns of other kinds."""
    import pyarrow as pa

    if source.random() < 0.6:
        return mutated_bytes(data, source)
    is_file = data.startswith(b"ARROW1")
    make = pa.ipc.new_file if is_file else pa.ipc.new_stream
    options = pa.ipc.IpcWriteOptions(compression=source.choice([None, "lz4", "zstd"]))

    def write(table: Any, sink: Any) -> None:
        with make(sink, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=source.choice([1, 5, 100]))

    return _rewritten((pa.ipc.open_file if is_file else pa.ipc.open_stream)(data).read_all(), write, source)


def _rewritten(table: Any, write: Callable[[Any, Any], None], source: random.Random) -> bytes:
    """A table with other columns as a file; some kinds of columns cannot be in some files."""
    import pyarrow as pa

    for _ in range(_TRIES):
        sink = io.BytesIO()
        try:
            write(_mutated_table(table, source), sink)
        except (pa.ArrowException, ValueError, KeyError):
            continue
        return sink.getvalue()
    raise AssertionError("no mutation of the table can be written")


def _mutated_table(table: Any, source: random.Random) -> Any:
    """A few columns lost, repeated, renamed, moved, of another type or with other values."""
    import pyarrow as pa

    names, columns = list(table.schema.names), list(table.columns)
    for _ in range(source.choice([1, 1, 2])):
        at = source.randrange(len(names))
        match source.choice(["drop", "repeat", "rename", "move", *["replace"] * 6]):
            case "drop" if len(names) > 1:
                del names[at], columns[at]
            case "repeat":
                names.append(names[at])
                columns.append(columns[at])
            case "rename":
                names[at] = source.choice(["items", "age", "uid", "", "é", "ITEMS", "a.b", "onnx_sparse_reason"])
            case "move":
                other = source.randrange(len(names))
                names[at], names[other] = names[other], names[at]
            case _:
                columns[at] = _random_column(source, len(table))
    made = pa.Table.from_arrays(columns, names)
    if source.random() < 0.1:
        made = made.slice(0, source.choice([0, 1]))
    return made.replace_schema_metadata({"k": "v" * 100}) if source.random() < 0.1 else made


def _random_column(source: random.Random, rows: int) -> Any:
    import pyarrow as pa

    kind = _random_type(source, source.choice([0, 1, 1, 1, 2]))
    column = pa.array([_random_value(kind, source) for _ in range(rows)], kind)
    match source.choice(["dictionary", "dictionaries", "runs", "extension", "union", *["plain"] * 8]):
        case "dictionary" | "dictionaries" as chosen:
            made = pa.DictionaryArray.from_arrays(pa.array(range(rows), pa.int32()), column)
            offsets = pa.array(range(rows + 1), pa.int32())
            return made if chosen == "dictionary" else pa.ListArray.from_arrays(offsets, made)
        case "runs":
            return pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int32()), column[:1])
        case "extension":
            return pa.ExtensionArray.from_storage(pa.opaque(kind, "kind", "maker"), column)
        case "union":
            return pa.UnionArray.from_sparse(pa.array([0] * rows, pa.int8()), [column])
    return column


def _random_type(source: random.Random, depth: int) -> Any:
    """A type of lists so many levels deep, or nearly so."""
    import pyarrow as pa

    if not depth:
        numbers = ["int64", "int64", "int32", "int8", "uint8", "uint64", "float16", "float32", "float64", "bool_"]
        texts = ["string", "large_string", "string_view", "binary", "null", "date32"]
        fitted = [pa.binary(2), pa.timestamp("ns"), pa.duration("s"), pa.decimal128(9, 2), pa.time32("s")]
        return source.choice([*(getattr(pa, name)() for name in numbers + texts), *fitted])
    inner = _random_type(source, depth - 1)
    return source.choice(
        [pa.list_(inner)] * 3
        + [pa.large_list(inner), pa.list_(inner, source.choice([1, 3])), pa.list_view(inner)]
        + [pa.large_list_view(inner), pa.struct({"a": inner}), pa.map_(pa.string(), inner)]
    )


def _random_value(kind: Any, source: random.Random) -> Any:
    import pyarrow as pa

    types = pa.types
    if types.is_null(kind) or source.random() < 0.03:
        return None
    if types.is_struct(kind):
        return {"a": _random_value(kind[0].type, source)}
    if types.is_map(kind):
        return [("k", _random_value(kind.item_type, source)) for _ in range(source.choice([0, 1, 3]))]
    if hasattr(kind, "value_type"):
        size = kind.list_size if types.is_fixed_size_list(kind) else source.choice([0, 1, 1, 2, 5])
        return [_random_value(kind.value_type, source) for _ in range(size)]
    if types.is_boolean(kind):
        return source.random() < 0.5
    if types.is_fixed_size_binary(kind):
        return source.randbytes(kind.byte_width)
    if types.is_binary(kind):
        return source.choice([b"", b"5", b"\xff\xfe"])
    if any(test(kind) for test in (types.is_string, types.is_large_string, types.is_string_view)):
        return source.choice(["", "5", "x" * 20, "é\0"])
    if types.is_floating(kind):
        return source.choice([0.0, 1.0, 3.5, -1.0, float("nan"), float("inf"), 60000.0])
    if types.is_decimal(kind):
        from decimal import Decimal

        return Decimal(source.choice(["0.00", "5.00", "-1.50"]))
    if types.is_integer(kind) and source.random() < 0.03:
        bits = kind.bit_width
        return source.choice([2 ** (bits - 1) - 1, 0 if types.is_unsigned_integer(kind) else -(2 ** (bits - 1))])
    return source.randrange(9)


def _mutated_lines(data: bytes, source: random.Random) -> bytes:
    """One line of JSON mutated, lost, repeated or moved, or words of the text."""
    if source.random() < 0.2:
        return mutated_text(data.decode(), source).encode(errors="replace")
    lines = data.decode().splitlines()
    _change_one(lines, source, lambda: source.choice(["", "{}", "[]", "null", "{", "5"]), mutated_json)
    return "\n".join(lines).encode(errors="replace")


def _mutated_records(data: bytes, source: random.Random) -> bytes:
    """A record mutated, lost, repeated or moved, with its checksum; or bytes of the file."""
    from cli.test_messages import framed

    if source.random() < 0.3:
        return mutated_bytes(data, source)
    records = _records_of(data)
    _change_one(records, source, bytes, mutated_bytes)
    return framed(*records)


def _change_one(
    parts: list[Any], source: random.Random, empty: Callable[[], Any], change: Callable[[Any, random.Random], Any]
) -> None:
    """Drop, repeat, empty or change one of some parts of a file."""
    at = source.randrange(len(parts))
    match source.choice(["drop", "repeat", "empty", *["change"] * 7]):
        case "drop":
            del parts[at]
        case "repeat":
            parts.append(parts[at])
        case "empty":
            parts[at] = empty()
        case _:
            parts[at] = change(parts[at], source)


def _records_of(data: bytes) -> list[bytes]:
    """The records of a sound TFRecord file."""
    found, at = [], 0
    while at < len(data):
        end = at + 12 + int.from_bytes(data[at : at + 8], "little")
        found.append(data[at + 12 : end])
        at = end + 4
    return found
