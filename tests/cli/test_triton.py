"""`onnx-sparse triton`: repositories for Triton, checked and run as its ONNX Runtime backend checks and runs them."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from support.program import without_progress
from support.triton_backend import Refused, Server

import onnx_sparse
from onnx_sparse.cli import main
from onnx_sparse.cli.triton import config as triton_config
from onnx_sparse.files.new_folder import new_parts
from onnx_sparse.files.termination import TerminatedError
from onnx_sparse.schemas.features import Feature, write_features

ROWS, WIDTH = 500, 4
TABLE = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32)
TEXT = """
<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
g (int64[n] path_v, SPLITS[r] path_r, int64[m] word_v, int64[k] word_r, string[t] tag_v, int64[u] tag_r,
   float[b,2] box, float[b] age) => (float[q,4] paths, float[q,w] words, int64[q] tags, float[b,2] boxes, float[b] ages)
  <int64 axis = {0}, int64[1] first = {0}, int64[1] second = {1}, int64[1] last = {-1}, int64[1] huge = {1000000}>
{
  offsets = Cast <to = 7> (path_r)
  paths = onnx_sparse.EmbeddingBagOffsetsMean <include_last_offset = "true"> (table, path_v, offsets)
  words = onnx_sparse.EmbeddingBagOffsetsSum <include_last_offset = "true"> (table, word_v, word_r)
  begins = Slice (tag_r, first, last)
  ends = Slice (tag_r, second, huge)
  tags = Sub (ends, begins)
  boxes = Neg (box)
  ages = Neg (age)
}"""
RAGGED = {"path": ("path_v", "path_r"), "word": ("word_v", "word_r"), "tag": ("tag_v", "tag_r")}


def model(splits: str = "int64") -> onnx.ModelProto:
    made = onnx.parser.parse_model(TEXT.replace("SPLITS", splits))
    made.graph.initializer.append(numpy_helper.from_array(TABLE, "table"))
    features = [Feature(n, "ragged", {"values": v, "row_splits": s}) for n, (v, s) in RAGGED.items()]
    write_features(made, [*features, *(Feature(name, "dense", {"values": name}) for name in ("box", "age"))])
    return onnx_sparse.canonicalize(made)


def plain(inputs: str, nodes: str, outputs: str, *features: Feature) -> onnx.ModelProto:
    text = (
        f'<ir_version: 10, opset_import: ["" : 18]> g ({inputs}) => ({outputs}) <int64[1] zero = {{0}}> {{ {nodes} }}'
    )
    made = onnx.parser.parse_model(text)
    if features:
        write_features(made, features)
    return made


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def served(cli, source: onnx.ModelProto, folder: Path, *arguments: object) -> tuple[Server, dict]:
    onnx.save(source, folder / "m.onnx")
    result = cli("triton", folder / "m.onnx", "-o", folder / "repository", "--json", *arguments)
    assert result.code == 0, result.err
    return Server(folder / "repository" / "m", result.json["config"]), result.json


@pytest.fixture(scope="module", params=["int64", "int32"])
def server(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("triton")
    onnx.save(model(request.param), folder / "m.onnx")
    assert main(["triton", str(folder / "m.onnx"), "-o", str(folder / "repository")]) == 0
    (document,) = [json.loads(printed(folder, "--name", "again"))]
    return Server(folder / "repository" / "m", document["config"]), onnx_sparse.InferenceSession(folder / "m.onnx")


def printed(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "onnx_sparse", "triton", "m.onnx", "-o", "repository", "--json", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=120).stdout


#: Requests of a row, or of several whose ragged values are equally long, as tensors can be.
ids = st.integers(0, ROWS - 1)
sizes = st.tuples(st.integers(1, 3), st.integers(0, 4), st.integers(0, 3), st.integers(0, 2))


def as_request(rng, rows, path, word, tag):
    return {
        "path_v": rng.integers(0, ROWS, (rows, path)),
        "word_v": rng.integers(0, ROWS, (rows, word)),
        "tag_v": np.array([["a"] * tag] * rows, object).reshape(rows, tag),
        "box": rng.standard_normal((rows, 2)).astype(np.float32),
        "age": rng.standard_normal((rows, 1)).astype(np.float32),
    }


@given(st.lists(sizes, min_size=1, max_size=6), st.integers(0, 99))
def test_a_batch_has_the_answers_of_single_rows(server, drawn, seed):
    triton, session = server
    rng = np.random.default_rng(seed)
    features = onnx_sparse.features(session)
    requests = [as_request(rng, *each) for each in drawn]
    names = [value.name for value in session.get_outputs()]
    for request, answer in zip(requests, triton.answers(requests), strict=True):
        for row in range(len(request["age"])):
            columns = {name: [request[values][row]] for name, (values, _) in RAGGED.items()}
            columns |= {"box": request["box"][row : row + 1], "age": request["age"][row]}
            for name, expected in zip(names, session.run(None, features.feeds(columns)), strict=True):
                got = answer[name][row]
                assert got.reshape(-1).tolist() == expected.reshape(-1).tolist(), name


def test_rows_of_a_request_cannot_be_of_several_sizes(server):
    """So a client sends those one by one."""
    request = as_request(np.random.default_rng(0), 2, 3, 1, 1)
    with pytest.raises(Refused):
        server[0].answers([request | {"path_v": request["path_v"][:1]}])


def test_what_is_written(cli, tmp_path):
    _, document = served(cli, model(), tmp_path, "--instances", 3, "--threads", 2, "--max-queue-delay", 700)
    folder = tmp_path / "repository" / "m"
    library = Path(onnx_sparse.get_library_path())
    assert set(files(folder)) == set(document["files"]) == {"config.pbtxt", "1/model.onnx", f"1/{library.name}"}
    assert files(folder)[f"1/{library.name}"] == library.read_bytes()
    config = document["config"]
    assert (document["name"], config["name"], document["not_batched_because"]) == ("m", "m", None)
    assert config["dynamic_batching"] == {"max_queue_delay_microseconds": 700}
    assert config["instance_group"] == [{"count": 3, "kind": "KIND_CPU"}]
    assert config["parameters"] == [{"key": "intra_op_thread_count", "value": {"string_value": "2"}}]
    assert [made["source_input"] for made in config["batch_input"]] == [["path_v"], ["word_v"], ["tag_v"]]
    assert config["model_operations"]["op_library_filename"] == [str(folder / "1" / library.name)]
    onnx.checker.check_model(folder / "1" / "model.onnx")
    assert (folder / "config.pbtxt").read_text() == triton_config.config_text(config)


def test_the_text_of_a_configuration():
    config = {"name": 'a"\\\n\xe9', "max_batch_size": 2, "input": [{"data_type": "TYPE_INT64", "dims": [-1, 2]}, {}]}
    assert triton_config.config_text(config | {"flag": True, "none": []}) == (
        f'{triton_config.MARK}\nname: "a\\042\\134\\012\\303\\251"\nmax_batch_size: 2\ninput {{\n'
        "  data_type: TYPE_INT64\n  dims: [-1, 2]\n}\ninput {\n}\nflag: true\nnone: []\n"
    )


def test_where_the_server_finds_the_library(cli, tmp_path, monkeypatch):
    onnx.save(model(), tmp_path / "m.onnx")
    library = Path(onnx_sparse.get_library_path()).name
    monkeypatch.chdir(tmp_path)
    for given_path, found in (([], tmp_path / "r"), (["--served-from", "/models"], "/models")):
        result = cli("triton", "m.onnx", "-o", "r", "--json", *given_path)
        assert result.json["library"] == f"{found}/m/1/{library}"


@pytest.mark.parametrize("option", ["--portable", "--lower"])
def test_other_forms_need_no_library(cli, tmp_path, option):
    onnx.save(model(), tmp_path / "domain.onnx")
    assert cli("convert", tmp_path / "domain.onnx", "-o", tmp_path / "m.onnx", option).code == 0
    server, document = served(cli, onnx.load(tmp_path / "m.onnx"), tmp_path)
    assert document["library"] is None
    assert "model_operations" not in document["config"]
    request = as_request(np.random.default_rng(0), 1, 3, 2, 1)
    (answer,) = server.answers([request])
    assert answer["paths"] == pytest.approx(TABLE[request["path_v"]].mean(1), rel=1e-6)


def test_external_data_go_along(cli, tmp_path):
    (tmp_path / "source").mkdir()
    onnx.save(model(), tmp_path / "source" / "inline.onnx")
    source = tmp_path / "source" / "m.onnx"
    assert cli("convert", tmp_path / "source" / "inline.onnx", "-o", source, "--external-data").code == 0
    document = cli("triton", source, "-o", tmp_path / "repository", "--json").json
    assert "1/model.onnx.data" in document["files"]
    for path in (tmp_path / "source").iterdir():
        path.unlink()
    server = Server(tmp_path / "repository" / "m", document["config"])
    request = as_request(np.random.default_rng(0), 1, 0, 1, 0)
    assert server.answers([request])[0]["words"].tolist() == TABLE[request["word_v"][0]].tolist()


def test_rows_are_tried_with_external_data(cli, tmp_path):
    source = plain("int64[b] x", "z = Gather (table, x) y = Softmax <axis = 0> (z)", "float[b, 4] y")
    source.graph.initializer.append(numpy_helper.from_array(TABLE, "table"))
    onnx.save(source, tmp_path / "inline.onnx")
    assert cli("convert", tmp_path / "inline.onnx", "-o", tmp_path / "m.onnx", "--external-data").code == 0
    result = cli("triton", tmp_path / "m.onnx", "-o", tmp_path / "repository", "--json")
    assert result.json["not_batched_because"] == "the rows of output 'y' change with the other rows of a batch"


def test_large_tensors_get_a_file(cli, tmp_path):
    large = np.zeros((2**20, 5), np.float32)
    source = plain("int64[b] x", "y = Gather (table, x)", "float[b, 5] y")
    source.graph.initializer.append(numpy_helper.from_array(large, "table"))
    _, document = served(cli, source, tmp_path)
    assert document["files"] == ["1/model.onnx", "1/model.onnx.data", "config.pbtxt"]
    assert (tmp_path / "repository/m/1/model.onnx").stat().st_size < 2000 < large.nbytes < document["size"]


RAGGED_X = Feature("x", "ragged", {"values": "v", "row_splits": "s"})
SPARSE = Feature("s", "sparse", {"indices": "i", "values": "v", "dense_shape": "d"})
INNER = Feature("x", "ragged", {"values": "v", "row_splits": "s", "row_splits_1": "t"})
NOT_BATCHED = {
    "sparse": (
        plain("int64[n,2] i, float[n] v, int64[2] d", "y = Neg (v)", "float[n] y", SPARSE),
        "feature 's' is sparse, and Triton cannot join coordinates; `onnx-sparse convert --features ragged` makes",
    ),
    "rows of rows": (
        plain("float[n] v, int64[k] s, int64[l] t", "y = Neg (s)", "int64[k] y", INNER),
        "feature 'x' has rows of rows",
    ),
    "matrices": (
        plain("float[n,3] v, int64[k] s", "y = Neg (s)", "int64[k] y", RAGGED_X),
        "feature 'x' has values of the shape ['n', 3]",
    ),
    "scalar input": (plain("float x, float[b] z", "y = Add (x, z)", "float[b] y"), "input 'x' is a scalar"),
    "fixed input": (
        plain("float[2] x", "y = Neg (x)", "float[2] y"),
        "input 'x' has a first dimension of fixed size, 2",
    ),
    "scalar output": (plain("float[b] x", "y = ReduceSum <keepdims = 0> (x)", "float y"), "output 'y' is a scalar"),
    "fixed output": (
        plain("float[b] x", "y = Unsqueeze (x, zero)", "float[1,b] y"),
        "output 'y' has a first dimension of fixed size, 1",
    ),
    "shorter output": (
        plain("float[b] x", "y = Compress <axis = 0> (x, c)\n c = Greater (x, x)", "float[k] y"),
        "output 'y' has 0 rows for",
    ),
    "output of entries": (
        plain("float[n] v, int64[k] s", "y = Neg (v)", "float[n] y", RAGGED_X),
        "output 'y' has ",
    ),
    "rows that depend on others": (
        plain("float[b,2] x", "y = Softmax <axis = 0> (x)", "float[b,2] y"),
        "the rows of output 'y' change with the other rows of a batch",
    ),
}


def test_a_model_that_cannot_be_tried(cli, tmp_path):
    """Whatever is generated, its ids are out of range."""
    nodes = "far = Constant <value_int = 700> () below = Sub (x, far) y = Gather (zero, below)"
    source = plain("int64[b] x", nodes, "int64[b] y")
    _, document = served(cli, source, tmp_path)
    assert document["config"]["max_batch_size"] == 0
    (note,) = document["notes"]
    assert note.startswith("the model refused the inputs that were generated")
    assert note in cli("triton", tmp_path / "m.onnx", "-o", tmp_path / "repository").out


@pytest.mark.parametrize("kind", NOT_BATCHED)
def test_what_triton_cannot_batch(cli, tmp_path, kind):
    source, reason = NOT_BATCHED[kind]
    if kind == "shorter output":
        source.graph.node.insert(0, source.graph.node.pop())
    server, document = served(cli, source, tmp_path)
    assert document["not_batched_because"].startswith(reason)
    config = document["config"]
    assert config["max_batch_size"] == 0
    assert {"dynamic_batching", "batch_input"}.isdisjoint(config)
    assert [described["name"] for described in config["input"]] == [value.name for value in source.graph.input]
    assert len(server.session.get_inputs()) == len(source.graph.input)
    (tmp_path / "again").mkdir()
    onnx.save(source, tmp_path / "again.onnx")
    shown = cli("triton", tmp_path / "again.onnx", "-o", tmp_path / "repository").out
    assert f"batches   none: {reason}" in shown


def test_a_request_that_is_not_batched(cli, tmp_path):
    source, _ = NOT_BATCHED["sparse"]
    server, _ = served(cli, source, tmp_path)
    request = {"i": np.zeros((2, 2), np.int64), "v": np.ones(2, np.float32), "d": np.array([1, 2])}
    assert server.answers([request])[0]["y"].tolist() == [-1, -1]
    with pytest.raises(Refused):
        server.answers([request, request])


def test_no_batches_on_request(cli, tmp_path):
    _, document = served(cli, model(), tmp_path, "--max-batch-size", 0)
    assert (document["config"]["max_batch_size"], document["not_batched_because"]) == (0, "--max-batch-size 0")


def test_names_that_are_taken(cli, tmp_path):
    source = model()
    for node in source.graph.node:
        for position, name in enumerate(node.output):
            if name == "offsets":
                node.output[position] = "path_v_row_lengths"
        for position, name in enumerate(node.input):
            if name == "offsets":
                node.input[position] = "path_v_row_lengths"
    server, document = served(cli, source, tmp_path)
    assert document["config"]["batch_input"][0]["target_name"] == ["path_v_row_lengths_1"]
    assert len(server.answers([as_request(np.random.default_rng(0), 2, 2, 2, 2)])) == 1


def messages() -> onnx.ModelProto:
    return plain("string[b] m", "y = Identity (m)", "string[b] y", Feature("m", "example", {"serialized": "m"}))


def of_type(dtype: int) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=dtype)]
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["b"])], [value("y", dtype, ["b"])])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


def unknown_rank() -> onnx.ModelProto:
    made = plain("float[b] x", "y = Neg (x)", "float[b] y")
    made.graph.input[0].type.tensor_type.ClearField("shape")
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


REFUSED = {
    "messages": (messages, "feature m is serialized messages, which Triton cannot hand over: its ONNX "),
    "type": (lambda: of_type(TensorProto.FLOAT8E4M3FN), "output y is a tensor(float8e4m3fn), which Triton"),
    "rank": (unknown_rank, "the model does not say how many dimensions input x has"),
    "size": (lambda: plain("float[b,0] x", "y = Neg (x)", "float[b,0] y"), "input x has the shape [-1, 0]; Triton"),
    "invalid": (lambda: plain("float[b] x", "y = Nonsense (x)", "float[b] y"), " cannot be opened: "),
    "import": (lambda: plain("float[b] x", "y = onnx_sparse.Fill (x, x)", "float[b] y"), "does not import its opset"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused(cli, tmp_path, kind):
    make, message = REFUSED[kind]
    onnx.save(make(), tmp_path / "m.onnx")
    result = cli("triton", tmp_path / "m.onnx", "-o", tmp_path / "repository")
    assert (result.code, result.out) == (1, "")
    assert message in result.error
    assert os.listdir(tmp_path) == ["m.onnx"]


def test_an_undeclared_output_shape_is_inferred(cli, tmp_path):
    source = plain("float[b,3] x", "y = Neg (x)", "float[b,3] y")
    source.graph.output[0].type.tensor_type.ClearField("shape")
    _, document = served(cli, source, tmp_path)
    assert document["config"]["output"] == [{"name": "y", "data_type": "TYPE_FP32", "dims": [3]}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-batch-size", "-1"], "--max-batch-size -1: at least 0 expected"),
        (["--instances", "0"], "--instances 0: at least 1 expected"),
        (["--threads", "0"], "--threads 0: at least 1 expected"),
        (["--max-queue-delay", "-5"], "--max-queue-delay -5: at least 0 expected"),
        (["--name", "a/b"], "'a/b' cannot be the name of a model; --name gives another"),
        (["--name", ".."], "'..' cannot be the name of a model; --name gives another"),
    ],
)
def test_wrong_usage(cli, tmp_path, arguments, message):
    onnx.save(model(), tmp_path / "m.onnx")
    result = cli("triton", tmp_path / "m.onnx", "-o", tmp_path / "repository", *arguments)
    assert (result.code, result.error) == (2, message)
    assert os.listdir(tmp_path) == ["m.onnx"]


def test_its_own_is_replaced_and_nothing_else(cli, tmp_path):
    repository = tmp_path / "repository"
    served(cli, model(), tmp_path)
    (repository / "m" / "2").mkdir()
    (repository / "m" / "labels.txt").write_text("kept")
    small = plain("float[b] x", "y = Neg (x)", "float[b] y")
    server, _ = served(cli, small, tmp_path)
    assert set(files(repository / "m")) == {"1/model.onnx", "config.pbtxt", "labels.txt"}
    assert server.answers([{"x": np.ones((2, 1), np.float32)}])[0]["y"].tolist() == [[-1], [-1]]
    (repository / "m" / "config.pbtxt").write_text('name: "m"')
    before = files(tmp_path)
    result = cli("triton", tmp_path / "m.onnx", "-o", repository)
    assert result.code == 1
    assert result.error.endswith("it has other files; remove them, or choose another --name")
    assert files(tmp_path) == before
    result = cli("triton", repository / "m" / "1" / "model.onnx", "-o", repository, "--name", "m")
    assert result.code == 2
    assert "it is where this command reads" in result.error
    result = cli("triton", tmp_path / "m.onnx", "-o", tmp_path / "no" / "such")
    assert result.code == 1
    assert files(tmp_path) == before


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("failing", range(6))
def test_nothing_is_half_written(cli, tmp_path, monkeypatch, there, failing):
    """Whichever renaming fails, all is as before."""
    if there:
        served(cli, plain("float[b] x", "y = Neg (x)", "float[b] y"), tmp_path)
    onnx.save(model(), tmp_path / "m.onnx")
    before = files(tmp_path)
    count = [0]

    def failing_once(move):
        def fail(source, target):
            count[0] += 1
            if count[0] == failing + 1:
                raise OSError(5, "no luck")
            move(source, target)

        return fail

    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, failing_once(getattr(os, name)))
    result = cli("triton", tmp_path / "m.onnx", "-o", tmp_path / "repository")
    monkeypatch.undo()
    if result.code:
        assert result.error.startswith(f"cannot write {tmp_path / 'repository' / 'm'}")
        assert result.error.endswith(": no luck")
        assert files(tmp_path) == before
        assert (tmp_path / "repository").exists() == there
    else:
        assert count[0] <= failing
    assert not [name for name in files(tmp_path) if ".part" in name]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signals_leave_nothing(tmp_path, number):
    """What SIGKILL leaves, the next run removes."""
    source = plain("int64[b] x", "y = Gather (table, x)", "float[b, 64] y")
    source.graph.initializer.append(numpy_helper.from_array(np.zeros((2**20, 64), np.float32), "table"))
    onnx.save(source, tmp_path / "m.onnx")
    command = [sys.executable, "-m", "onnx_sparse", "triton", "m.onnx", "-o", "repository"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    begun = time.monotonic()
    while not list(tmp_path.glob("repository/m/.*.part")):
        assert process.poll() is None
        assert time.monotonic() - begun < 120
        time.sleep(0.005)
    killed = process.pid
    if number == signal.SIGKILL:  # the process that writes; its parent would have it clean up
        killed = int(Path(f"/proc/{killed}/task/{killed}/children").read_text())
    os.kill(killed, number)
    _, said = process.communicate(timeout=120)
    assert process.returncode != 0
    assert without_progress(said).count("\n") <= 1
    if number == signal.SIGKILL:
        assert list(tmp_path.glob("repository/m/.*.part"))
        subprocess.run(command, cwd=tmp_path, check=True, timeout=120, capture_output=True)
        assert set(files(tmp_path / "repository")) == {"m/config.pbtxt", "m/1/model.onnx", "m/1/model.onnx.data"}
    else:
        assert os.listdir(tmp_path) == ["m.onnx"]


def test_the_text_is_what_triton_reads(cli, tmp_path):
    """By the message that Triton's own client brings."""
    messages = pytest.importorskip("tritonclient.grpc.model_config_pb2")
    from google.protobuf import json_format, text_format

    for number, source in enumerate([model(), *(source for source, _ in NOT_BATCHED.values())]):
        folder = tmp_path / str(number)
        folder.mkdir()
        onnx.save(source, folder / "m.onnx")
        arguments = ["--name", 'ä"{}', "--threads", 2, "--served-from", "/a b\\"]
        document = cli("triton", folder / "m.onnx", "-o", folder, "--json", *arguments).json
        text = (folder / 'ä"{}' / "config.pbtxt").read_text("utf-8")
        read = text_format.Parse(text, messages.ModelConfig())
        expected = json.loads(json.dumps(document["config"]))
        expected["parameters"] = {entry["key"]: entry["value"] for entry in expected["parameters"]}
        wanted = json_format.ParseDict(expected, messages.ModelConfig())
        assert read == wanted


@pytest.mark.parametrize("made", [1, 2, 3, 4])
def test_a_signal_just_after_a_folder_was_made(tmp_path, monkeypatch, made):
    """Those of the repository and the model, which is made by three calls, and the hidden one."""
    make, count = Path.mkdir, itertools.count(1)

    def mkdir(self, *args, **kwargs):
        number = next(count)
        make(self, *args, **kwargs)
        if number == made:
            raise TerminatedError(signal.SIGTERM)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(TerminatedError), new_parts(tmp_path / "repository" / "m"):
        pass
    assert os.listdir(tmp_path) == []
