"""`onnx-sparse convert --features ragged`, and what other commands make of the model."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

import onnx_sparse
from onnx_sparse.schemas.features import Feature, features_of, write_features

TEXT = """
<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
g (int64[n,2] items_i, int64[n] items_v, int64[2] items_s, int64[m,2] path_i, int64[m] path_v, int64[2] path_s)
  => (float[s,2] sums, int64[q,w] padded)
  <float[9,2] table = {0,0, 1,10, 2,20, 3,30, 4,40, 5,50, 6,60, 7,70, 8,80}, int64 zero = {0}>
{
  segments = Gather <axis = 1> (items_i, zero)
  count = Gather (items_s, zero)
  sums = onnx_sparse.EmbeddingSegmentsSum (table, items_v, segments, count)
  zeros = Expand (zero, path_s)
  padded = ScatterND (zeros, path_i, path_v)
}"""
PADS = "(ScatterND) uses the positions of values in rows"
ROWS = ["--input", "items=[[1, 2], [], [8]]", "--input", "path=[[3], [4, 5], []]"]
RESULTS = {"sums": [[3, 30], [0, 0], [8, 80]], "padded": [[3, 0], [4, 5], [0, 0]]}


@pytest.fixture
def sparse(save):
    made = onnx_sparse.canonicalize(onnx.parser.parse_model(TEXT))
    parts = ("indices", "values", "dense_shape")
    write_features(
        made,
        [
            Feature(name, "sparse", {role: f"{name}_{role[0] if role != 'dense_shape' else 's'}" for role in parts})
            for name in ("items", "path")
        ],
    )
    return save(made)


@pytest.fixture
def ragged(cli, sparse, tmp_path):
    out = tmp_path / "ragged.onnx"
    assert cli("convert", sparse, "-o", out, "--features", "ragged").code == 0
    return out


class TestConvert:
    @pytest.mark.parametrize("form", [[], ["--portable"], ["--lower"]])
    def test_verifies(self, cli, sparse, tmp_path, form):
        out = tmp_path / "ragged.onnx"
        document = cli("convert", sparse, "-o", out, "--features", "ragged", "--verify", "--json", *form).json
        assert [(r["output"], r["verdict"], r["batches_with_rows"]) for r in document["verification"]] == [
            ("sums", "ok", 3),
            ("padded", "ok", 3),
        ]
        kinds = {feature.name: feature.kind for feature in features_of(onnx.load(out))}
        assert kinds == {"items": "ragged", "path": "sparse"}

    def test_says_what_stays_sparse(self, cli, sparse, tmp_path):
        result = cli("convert", sparse, "-o", tmp_path / "ragged.onnx", "--features", "ragged")
        (line,) = (line for line in result.out.splitlines() if "note" in line)
        assert line.strip().startswith("note      feature 'path' stays sparse: node '")
        assert line.endswith(PADS)

    def test_says_it_in_json(self, cli, sparse, tmp_path):
        document = cli("convert", sparse, "-o", tmp_path / "ragged.onnx", "--features", "ragged", "--json").json
        (note,) = document["notes"]
        assert note.endswith(PADS)
        assert document["our_nodes"] == {"EmbeddingBagOffsetsSum": 1}

    def test_a_model_without_sparse_features(self, cli, segment_max, tmp_path):
        out = tmp_path / "out.onnx"
        document = cli("convert", segment_max, "-o", out, "--features", "ragged", "--json").json
        assert document["notes"] == ["--features ragged changes nothing: the model has no sparse feature"]
        assert out.exists()

    def test_a_record_that_is_none(self, cli, sparse, tmp_path):
        model = onnx.load(sparse)
        model.metadata_props[0].value = "{"
        onnx.save(model, sparse)
        result = cli("convert", sparse, "-o", tmp_path / "out.onnx", "--features", "ragged")
        assert result.code == 1
        assert "--features ragged: " in result.error
        assert not (tmp_path / "out.onnx").exists()

    def test_another_kind(self, cli, sparse, tmp_path):
        result = cli("convert", sparse, "-o", tmp_path / "out.onnx", "--features", "dense")
        assert result.code == 2
        assert "--features: invalid choice: 'dense'" in result.err

    def test_verifies_with_given_rows(self, cli, sparse, tmp_path):
        given = [part.replace("--input", "--verify-with") for part in ROWS]
        document = cli("convert", sparse, "-o", tmp_path / "o.onnx", "--features", "ragged", "--json", *given).json
        assert [record["shape"] for record in document["verification"]] == [[3, 2], [3, 2]]

    def test_verifies_with_given_splits(self, cli, sparse, tmp_path):
        given = ["items_v=[1, 2, 8]", "items_row_splits=[0, 2, 4]", "path=[[3], []]"]
        options = [part for text in given for part in ("--verify-with", text)]
        result = cli("convert", sparse, "-o", tmp_path / "o.onnx", "--features", "ragged", *options)
        assert result.code == 1
        assert "items_row_splits: [0, 2, 4] are not row splits of 3 values" in result.error


class TestTheModel:
    def test_runs_on_rows(self, cli, ragged):
        outputs = cli("run", ragged, *ROWS, "--json").json["outputs"]
        assert {output["name"]: output["values"] for output in outputs} == RESULTS

    def test_is_inspected(self, cli, ragged):
        items, path = cli("inspect", ragged, "--json").json["features"]
        assert items == {
            "name": "items",
            "kind": "ragged",
            "inputs": {"values": "items_v", "row_splits": "items_row_splits"},
            "vocabulary_size": None,
        }
        assert path["kind"] == "sparse"

    @pytest.mark.parametrize("splits", [[0, 2], [0, 4], [1, 3], [0, 2, 1, 3]], ids=str)
    def test_refuses_bad_splits(self, cli, ragged, splits):
        given = ["items_v=[1, 2, 8]", f"items_row_splits={json.dumps(splits)}", "path=[[3]]"]
        result = cli("run", ragged, *(part for text in given for part in ("--input", text)))
        assert result.code == 1
        assert "offsets[" in result.error

    def test_scores_files(self, cli, ragged, tmp_path):
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        table = pa.table({"items": [[1, 2], None, [8]], "path": [[3], [4, 5], []]})
        parquet.write_table(table, tmp_path / "rows.parquet")
        result = cli("score", ragged, tmp_path / "rows.parquet", "-o", tmp_path / "scores", "--outputs", "sums")
        assert result.code == 0, result.err
        (written,) = (tmp_path / "scores").glob("*.parquet")
        assert parquet.read_table(written)["sums"].to_pylist() == RESULTS["sums"]

    def test_takes_arrow_columns(self, ragged):
        pa = pytest.importorskip("pyarrow")
        from onnx_sparse.arrow import feeds

        session = onnx_sparse.InferenceSession(str(ragged))
        table = pa.table({"items": [[9], [1, 2], None, [8]], "path": [[3], [3], [4, 5], []]}).slice(1)
        results = session.run(None, feeds(table, onnx_sparse.features(session)))
        assert [result.tolist() for result in results] == [*RESULTS.values()]

    def test_is_batched_by_triton(self, cli, sparse, tmp_path):
        """One input for each feature; a sparse one is refused."""
        model = onnx.load(sparse)
        kept = onnx.utils.Extractor(model).extract_model(["items_i", "items_v", "items_s"], ["sums"])
        write_features(kept, features_of(model)[:1])
        onnx.save(kept, sparse)
        assert cli("convert", sparse, "-o", tmp_path / "ragged.onnx", "--features", "ragged").code == 0
        for name, batches in (("model", False), ("ragged", True)):
            written = cli("triton", tmp_path / f"{name}.onnx", "-o", tmp_path / "repository", "--name", name)
            assert written.code == 0, written.err
            config = (tmp_path / "repository" / name / "config.pbtxt").read_text("utf-8")
            assert ("allow_ragged_batch: true" in config) == batches
            assert config.count("\ninput {") == (1 if batches else 3)

    def test_joins_requests(self, ragged):
        from onnx_sparse.batching import join, split

        session = onnx_sparse.InferenceSession(str(ragged))
        known = onnx_sparse.features(session)
        rows = [([[1, 2], []], [[3], [4, 5]]), ([], []), ([[8]], [[]])]
        requests = [known.feeds({"items": items, "path": path}) for items, path in rows]
        feeds, counts = join(requests, known)
        assert feeds["items_row_splits"].tolist() == [0, 2, 2, 3]
        assert feeds["items_row_splits"].dtype == np.int64
        answers = split(session.run(None, feeds), counts)
        assert [answer[0].tolist() for answer in answers] == [[[3, 30], [0, 0]], [], [[8, 80]]]
