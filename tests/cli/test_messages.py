"""Serialized tf.Example messages on the command line: as JSON, from files of JSON lines, and from TFRecord files."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_sparse
from onnx_sparse.commands.inputs.messages import messages_of_file
from onnx_sparse.errors import CommandError
from onnx_sparse.rows.input_roles import find_roles
from onnx_sparse.rows.message_files import masked_crc32c, read_records
from onnx_sparse.schemas import DOMAIN
from onnx_sparse.sessions.runtime import available_backends

needs_native = pytest.mark.skipif("native" not in available_backends(), reason="the native library is not built")


@pytest.fixture
def parser(save):
    """A model that parses a feature of each type from messages."""
    return save(parsing_model())


def parsing_model():
    initializers = {
        "keys": np.array(["ids", "price", "user"], object),
        "types": np.array([7, 1, 8]),
        "sizes": np.array([-1, 1, 1]),
        "required": np.array([False, True, False]),
        "unset_is_empty": np.array([True, False, False]),
        "sparse": np.array([True, False, False]),
        "float_defaults": np.zeros(0, np.float32),
        "int64_defaults": np.zeros(0, np.int64),
        "string_defaults": np.array(["nobody"], object),
    }
    outputs = ["prices", "ids", "users", "row_splits", "coordinates"]
    node = helper.make_node("ParseExample", ["examples", *initializers], outputs, domain=DOMAIN)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("examples", TensorProto.STRING, ["n"])],
        [
            helper.make_tensor_value_info(name, dtype, None)
            for name, dtype in zip(outputs, (1, 7, 8, 7, 7), strict=True)
        ],
        [numpy_helper.from_array(array, name) for name, array in initializers.items()],
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, ir_version=10, opset_imports=imports)


@pytest.mark.skipif("native" not in available_backends(), reason="the native library is not built")
def test_messages_as_json(cli, parser):
    given = '[{"ids": [3, -4], "price": 0.5, "user": ["ä"]}, {"price": [2]}]'
    result = cli("run", parser, "--input", f"examples={given}", "--json")
    assert result.code == 0
    values = {output["name"]: output["values"] for output in json.loads(result.out)["outputs"]}
    assert values == {
        "prices": [0.5, 2.0],
        "ids": [3, -4],
        "users": ["ä", "nobody"],
        "row_splits": [[0, 2, 2], [0, 1, 2], [0, 1, 2]],
        "coordinates": [[0, 0], [0, 1]],
    }


@pytest.mark.skipif("native" not in available_backends(), reason="the native library is not built")
def test_messages_in_a_file(cli, parser, tmp_path):
    np.save(tmp_path / "messages.npy", onnx_sparse.example_array([b"", b""]))
    result = cli("run", parser, "--input", f"examples={tmp_path / 'messages.npy'}")
    assert result.code == 1
    assert "serialized[0], feature 'price' is missing; it is required" in result.err


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ('[{"prize": 1}]', "the model parses no feature prize; it parses ids, price, user"),
        ('[{"ids": 0.5}]', "0.5 does not fit; feature ids is int64"),
        ('[{"user": true}]', "true does not fit; feature user is string"),
        ('[{"ids": 1}, "b"]', '"b" does not fit; each message is an object'),
        ('[{"ids": 9223372036854775808}]', "9223372036854775808 does not fit; feature ids is int64"),
        ('[{"price": 1e39}]', "1e+39 does not fit; feature price is float"),
        (f'[{{"price": {10**400}}}]', "0 does not fit; feature price is float"),
        ('[{"user": "\\ud800"}]', "does not fit; feature user is string"),
        ('[{"user": {"b64": "*"}}]', '{"b64": "*"} does not fit; feature user is string'),
        ('[{"user": {"b64": 1}}]', '{"b64": 1} does not fit; feature user is string'),
        ('[{"user": {"b46": "YQ=="}}]', '{"b46": "YQ=="} does not fit; feature user is string'),
    ],
)
def test_messages_that_do_not_fit(cli, parser, given, reason):
    result = cli("run", parser, "--input", f"examples={given}")
    assert result.code == 1
    assert reason in result.err


def framed(*records: bytes) -> bytes:
    """A TFRecord file."""
    made = b""
    for record in records:
        length = struct.pack("<Q", len(record))
        made += length + struct.pack("<I", masked_crc32c(length)) + record + struct.pack("<I", masked_crc32c(record))
    return made


COMPRESSIONS = {"plain": bytes, "gzip": gzip.compress, "zlib": zlib.compress}


def test_the_checksum():
    """That of the digits is known."""
    mask = 0xA282EAD8
    crc = (masked_crc32c(b"123456789") - mask) % 2**32
    assert (crc << 15 | crc >> 17) % 2**32 == 0xE3069283


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records(tmp_path, compression):
    path = tmp_path / "file"
    for records in ([], [b""], [b"a", b"", bytes(range(256)) * 200]):
        path.write_bytes(COMPRESSIONS[compression](framed(*records)))
        assert read_records(path) == records


def test_several_compressed_streams(tmp_path):
    path = tmp_path / "file"
    rest = framed(b"b", b"c")
    path.write_bytes(gzip.compress(framed(b"a")) + gzip.compress(rest[:9]) + zlib.compress(rest[9:]))
    assert read_records(path) == [b"a", b"b", b"c"]


def test_a_record_whose_length_looks_compressed(tmp_path):
    record = bytes(0x088B1F)
    (tmp_path / "file").write_bytes(framed(record))
    assert read_records(tmp_path / "file") == [record]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_files_that_are_cut_off(tmp_path, compression):
    """Each ends with an error that names the record, unless it ends between records that are not compressed."""
    records = [b"first", b"the second"]
    whole = COMPRESSIONS[compression](framed(*records))
    ends = [len(framed(*records[:k])) for k in range(2)]
    path = tmp_path / "file"
    for size in range(1, len(whole)):
        path.write_bytes(whole[:size])
        if compression == "plain" and size in ends:
            assert read_records(path) == records[: ends.index(size)]
            continue
        with pytest.raises(CommandError, match=r"file: record \d is (cut off|damaged)"):
            read_records(path)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_damaged_files(tmp_path, compression):
    """A changed bit is an error, or it is in what compression skips and changes nothing."""
    records = [b"first", b"the second"]
    whole = COMPRESSIONS[compression](framed(*records))
    path, refused, unchanged = tmp_path / "file", 0, 0
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            unchanged += read_records(path) == records
        except CommandError as error:
            refused += "file: record" in str(error)
    assert refused + unchanged == 8 * len(whole)
    assert unchanged < (1 if compression == "plain" else 8 * 10)


def test_a_length_beyond_the_file(tmp_path):
    """It has its checksum."""
    length = struct.pack("<Q", 2**64 - 1)
    (tmp_path / "file").write_bytes(framed(b"a") + length + struct.pack("<I", masked_crc32c(length)) + b"rest")
    with pytest.raises(CommandError, match="file: record 1 is cut off"):
        read_records(tmp_path / "file")


LINES = '{"ids": [3, -4], "price": 0.5, "user": "ä"}\n\n{"price": 2, "user": {"b64": "AMOp"}}\n'


@needs_native
@pytest.mark.parametrize(
    "name", ["rows.jsonl", "rows.ndjson.gz", "rows.tfrecord", "part-0-of-2", "part.gz", "part.zlib"]
)
def test_messages_from_files(cli, parser, tmp_path, name):
    """The same from JSON lines as from the records of the same messages."""
    content = LINES.encode()
    if "json" not in name:
        (tmp_path / "lines.jsonl").write_bytes(content)
        features = find_roles(onnx.load(parser)).examples["examples"]
        content = framed(*messages_of_file(features, tmp_path / "lines.jsonl", is_single=False).tolist())
    compress = {".gz": gzip.compress, ".zlib": zlib.compress}.get(Path(name).suffix, bytes)
    (tmp_path / name).write_bytes(compress(content))
    result = cli("run", parser, "--input", f"examples={tmp_path / name}", "--json")
    assert {output["name"]: output["values"] for output in result.json["outputs"]} == {
        "prices": [0.5, 2.0],
        "ids": [3, -4],
        "users": ["ä", "\0é"],
        "row_splits": [[0, 2, 2], [0, 1, 2], [0, 1, 2]],
        "coordinates": [[0, 0], [0, 1]],
    }


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.jsonl", b'{"price": 1}\n{"prize": 1}', "a.jsonl, line 2: the model parses no feature prize"),
        ("a.jsonl", b'\n\n[{"price": 1}]', 'a.jsonl, line 3: [{"price": 1}] does not fit; each message is an object'),
        ("a.jsonl", b'{"price": 1}\n{"price"', "a.jsonl, line 2 is not JSON"),
        ("a.jsonl", b'"\xff"', "a.jsonl, line 1 is not JSON"),
        ("a.jsonl", b"[" * 100_000, "a.jsonl, line 1 is nested too deeply"),
        (
            "a.jsonl.gz",
            gzip.compress(b'{"price": 1}\n', mtime=0)[:-1],
            "a.jsonl.gz, line 1 is cut off: the compressed data end too early",
        ),
        ("a.json", b'{"price": 1}\n', "a.json: record 0 is damaged: its length does not have its checksum (JSON lines"),
        ("a.tfrecord", framed(b"", b"a")[:-1], "a.tfrecord: record 1 is cut off"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_files_that_do_not_fit(cli, parser, tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)
    result = cli("run", parser, "--input", f"examples={tmp_path / name}")
    assert result.code == 1
    assert reason in result.error


def test_a_folder(cli, parser, tmp_path):
    assert "cannot be read" in cli("run", parser, "--input", f"examples={tmp_path}").error


def test_a_file_for_another_input(cli, segment_max, tmp_path):
    (tmp_path / "a.tfrecord").write_bytes(framed(b""))
    result = cli("run", segment_max, "--input", f"data={tmp_path / 'a.tfrecord'}")
    assert result.code == 2
    assert "`onnx-sparse score` reads files of rows" in result.error


@needs_native
def test_a_model_of_one_message(cli, save, tmp_path):
    model = parsing_model()
    model.graph.input[0].type.tensor_type.shape.ClearField("dim")
    model.graph.node[0].input[0] = "batch"
    model.graph.initializer.append(numpy_helper.from_array(np.array([1]), "one"))
    model.graph.node.insert(0, helper.make_node("Reshape", ["examples", "one"], ["batch"]))
    path = save(model)
    for lines, code in (('{"price": 3}\n', 0), ('{"price": 3}\n' * 2, 1), ("", 1)):
        (tmp_path / "rows.jsonl").write_text(lines)
        result = cli("run", path, "--input", f"examples={tmp_path / 'rows.jsonl'}", "--json")
        assert result.code == code
        assert code == 0 or "messages; the model takes one" in result.err


@pytest.fixture
def sequence_parser(save):
    """A model that parses a feature of the context and two feature lists, one of them of the same name."""
    initializers = {
        "keys": np.array(["age", "age", "words"], object),
        "types": np.array([7, 1, 8]),
        "sizes": np.array([1, -1, -1]),
        "required": np.array([False, False, False]),
        "in_lists": np.array([False, True, True]),
        "float_defaults": np.zeros(0, np.float32),
        "int64_defaults": np.array([18]),
        "string_defaults": np.array([], object),
    }
    outputs = {"steps": 1, "ages": 7, "words": 8, "list_splits": 7, "lengths": 7}
    node = helper.make_node("ParseSequenceExample", ["examples", *initializers], [*outputs], domain=DOMAIN)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("examples", TensorProto.STRING, ["n"])],
        [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in initializers.items()],
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)]
    return save(helper.make_model(graph, ir_version=10, opset_imports=imports))


@needs_native
def test_sequence_messages_as_json(cli, sequence_parser):
    first = {"context": {"age": 42}, "feature_lists": {"words": [["to", "see"], [], "be"], "age": [[0.5, 1]]}}
    result = cli("run", sequence_parser, "--input", f"examples={json.dumps([first, {}])}", "--json")
    assert {output["name"]: output["values"] for output in result.json["outputs"]} == {
        "steps": [0.5, 1.0],
        "ages": [42, 18],
        "words": ["to", "see", "be"],
        "list_splits": [[0, 1, 2], [0, 1, 1], [0, 3, 3]],
        "lengths": [1, 1, 2, 2, 0, 1],
    }


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ('{"age": 1}', "age is not a part of a tf.SequenceExample; context and feature_lists are"),
        ("3", "3 does not fit; each message is an object"),
        ('{"context": 3}', "context: 3 does not fit; each message is an object"),
        ('{"context": {"words": "a"}}', "context: the model parses no feature words; it parses age"),
        ('{"feature_lists": {"words": "a"}}', '"a" does not fit; feature words is a list of lists of string'),
        ('{"feature_lists": {"age": [["a"]]}}', '"a" does not fit; feature age is a list of lists of float'),
    ],
)
def test_sequence_messages_that_do_not_fit(cli, sequence_parser, given, reason):
    result = cli("run", sequence_parser, "--input", f"examples=[{{}}, {given}]")
    assert result.code == 1
    assert reason in result.err
