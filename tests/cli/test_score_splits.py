"""Scores are those of each row by itself, however rows are split into batches, files, folders and kinds of files."""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402
from onnx import parser  # noqa: E402

import onnx_sparse  # noqa: E402
from onnx_sparse.cli import main  # noqa: E402
from onnx_sparse.schemas.features import Feature, write_features  # noqa: E402

#: What a model returns of the sum of a row's embeddings (t) and of its age (u), and whether that looks at other rows.
_ENDS = {
    "y = Identity (t)": False,
    "y = Mul (t, u)": False,
    "m = ReduceMean <keepdims = 1> (t, columns) y = Sub (t, m)": False,
    "m = ReduceMean <keepdims = 1> (t, rows) y = Sub (t, m)": True,
    "p = Softmax <axis = 0> (u) y = Mul (t, p)": True,
    "y = CumSum (t, zero)": True,
}

_SPARSE = """int64[n,2] items_i, int64[n] items, int64[2] items_s"""
_RAGGED = """int64[n] items, int64[r] items_r"""
_LOOKUPS = {
    "sparse": "s = Gather <axis = 1> (items_i, zero) c = Gather (items_s, zero) "
    "t = onnx_sparse.EmbeddingSegmentsSum (table, items, s, c)",
    "ragged": 't = onnx_sparse.EmbeddingBagOffsetsSum <include_last_offset = "true"> (table, items, items_r)',
}
_PARTS = {
    "sparse": {"indices": "items_i", "values": "items", "dense_shape": "items_s"},
    "ragged": {"values": "items", "row_splits": "items_r"},
}


def model(kind: str, end: str) -> onnx.ModelProto:
    """A model of a list of ids and an age."""
    inputs = _SPARSE if kind == "sparse" else _RAGGED
    text = f"""<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
    g ({inputs}, float[b] age) => (float[b,2] y)
    <float[9,2] table = {{0,1, 1,10, 2,20, 3,31, 4,40, 5,50, 6,61, 7,70, 8,80}}, int64 zero = {{0}},
     int64[1] rows = {{0}}, int64[1] columns = {{1}}> {{ {_LOOKUPS[kind]} u = Unsqueeze (age, columns) {end} }}"""
    made = onnx_sparse.canonicalize(parser.parse_model(text))
    write_features(made, [Feature("items", kind, _PARTS[kind]), Feature("age", "dense", {"values": "age"})])
    return made


rows = st.lists(
    st.tuples(
        st.none() | st.lists(st.integers(0, 8), max_size=6),
        st.floats(-99, 99, width=16),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
        | st.sampled_from(["007", "1e5", "12345678901234567890", "2024-01-31", "NA", "null", " x", "", "true"]),
    ),
    min_size=1,
    max_size=12,
)


def write(path: Path, table: Any) -> None:
    """A file of the kind that its name says."""
    given = table.to_pylist()
    match path.suffix:
        case ".parquet":
            pq.write_table(table, path, row_group_size=3)
        case ".arrow":
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table, max_chunksize=2)
        case ".csv":
            cells = [["" if r["items"] is None else json.dumps(r["items"]), repr(r["age"]), r["uid"]] for r in given]
            lines = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in cells]
            path.write_text("\n".join(["items,age,uid", *lines, ""]), "utf-8", newline="")
        case _:
            path.write_text("".join(json.dumps(row) + "\n" for row in given), "utf-8")


def split(table: Any, ends: Sequence[int]) -> list[Any]:
    edges = [0, *sorted(min(end, table.num_rows) for end in ends), table.num_rows]
    return [table.slice(begin, end - begin) for begin, end in itertools.pairwise(edges)]


@pytest.mark.parametrize("kind", _LOOKUPS)
@settings(max_examples=12)
@given(
    st.sampled_from(list(_ENDS)),
    rows,
    st.lists(st.integers(0, 12), max_size=2),
    st.lists(st.sampled_from([".parquet", ".arrow", ".csv", ".jsonl"]), min_size=3, max_size=3),
    st.sampled_from([1, 2, 5, 100]),
)
def test_any_split(kind: str, end: str, given_rows: list[Any], ends: list[int], kinds: list[str], batch: int) -> None:
    proto = model(kind, end)
    table = pa.table(
        {
            "items": pa.array([row[0] for row in given_rows], pa.list_(pa.int64())),
            "age": pa.array([row[1] for row in given_rows], pa.float64()),
            "uid": pa.array([row[2] for row in given_rows], pa.string()),
        }
    )
    session = onnx_sparse.InferenceSession(proto)
    features = onnx_sparse.features(session)
    alone = [session.run(["y"], features.feeds({"items": [row[0]], "age": [row[1]]}))[0][0] for row in given_rows]
    folder = Path(tempfile.mkdtemp())
    try:
        onnx.save(proto, folder / "m.onnx")
        parts = split(table, ends)
        for number, (part, suffix) in enumerate(zip(parts, kinds, strict=False)):
            (folder / "in" / f"part={number}").mkdir(parents=True)
            write(folder / "in" / f"part={number}" / f"a{suffix}", part)
        out = folder / "out"
        command = [
            "score",
            str(folder / "m.onnx"),
            str(folder / "in"),
            "-o",
            str(out),
            "--keep",
            "uid",
            "--keep",
            "part",
        ]
        code = main([*command, "--batch-rows", str(batch), "-q", "--json"])
        assert code == (1 if _ENDS[end] else 0)
        if code:
            assert main([*command, "--batch-rows", str(batch), "--dependent-rows", "alone", "-q", "--json"]) == 0
        found = [pq.ParquetFile(out / f"part={number}" / "a.parquet").read() for number in range(len(parts))]
        scores = [row for part in found for row in part["y"].to_pylist()]
        np.testing.assert_array_equal(np.reshape(scores, (-1, 2)), np.reshape(alone, (-1, 2)))
        assert [uid for part in found for uid in part["uid"].to_pylist()] == [row[2] for row in given_rows]
        for number, part in enumerate(found):
            assert set(part["part"].to_pylist()) <= {str(number)}
    finally:
        shutil.rmtree(folder)
