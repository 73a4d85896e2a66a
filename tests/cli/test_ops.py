"""`onnx-sparse ops`."""

from __future__ import annotations

import pytest

from onnx_sparse.schemas import OPS


def test_lists_every_operator(cli):
    result = cli("ops")
    assert result.code == 0
    for op in OPS.values():
        assert op.name in result.out
        assert op.summary in result.out


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("MaskedFill", "all numbers, bool"),
        ("EmbeddingSegmentsMean", "all floats"),
        ("SparseReshape", "int64"),
        ("StringToHashBucketFast", "string"),
    ],
)
def test_the_list_says_what_data_each_takes(cli, name, types):
    (line,) = (line for line in cli("ops").out.splitlines() if line.startswith(f"{name} "))
    assert line.endswith(f"  {types}")


@pytest.mark.parametrize("name", OPS)
def test_a_page_says_what_the_declaration_says(cli, name):
    text = " ".join(cli("ops", name).out.split())
    op = OPS[name]
    for part in (*op.inputs, *op.outputs, *op.attributes):
        assert part.name in text
    assert op.examples[0].name[1:] in text
    assert op.summary.split(",")[0] in text


def test_a_page_shows_signature_types_and_semantics(cli):
    page = cli("ops", "SegmentMax").out
    assert "output = onnx_sparse.SegmentMax <fill_mode> (data, segment_ids, num_segments?)" in page
    assert "int32, int64" in page
    assert "NaN propagates" in page
    assert "OpenVINO SegmentMax-16" in page


def test_a_name_in_any_case(cli):
    assert cli("ops", "segmentmax").out == cli("ops", "SegmentMax").out


def test_json_of_all(cli):
    assert [op["name"] for op in cli("ops", "--json").json] == list(OPS)


def test_json_of_one(cli):
    op = cli("ops", "MaskedFill", "--json").json
    assert op["signature"] == "output = onnx_sparse.MaskedFill (x, mask, value)"
    assert op["types"]["M"] == ["bool", "int8"]
    assert op["examples"][0]["outputs"] == {"output": [[-1, 2, -1], [4, -1, -1], [-1, -1, 9]]}


def test_an_unknown_name_gets_close_ones(cli):
    result = cli("ops", "SparseFillEmptyRow")
    assert result.code == 1
    assert result.error.startswith("there is no operator SparseFillEmptyRow; did you mean SparseFillEmptyRows")
