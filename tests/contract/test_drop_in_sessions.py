"""`onnx_sparse.InferenceSession` in the place of `onnxruntime.InferenceSession`: the same results, the same errors."""

from __future__ import annotations

import functools
import inspect
import json
import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from contract.models import model
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, NoSuchFile, OrtDevice, OrtValueVector

import onnx_sparse
from onnx_sparse import KernelError
from onnx_sparse.sessions.runtime import available_backends

Open = Callable[..., ort.InferenceSession]

WEIGHTS = np.array([2, 3], np.float32)
X = {"x": np.ones((1, 2), np.float32)}
FEEDS = {"i": np.array([1, 4]), "s": np.array([0, 2]), "n": np.array(3)}
TABLE = np.arange(10, dtype=np.float32).reshape(5, 2)


def plain_model() -> ModelProto:
    """A model without operators of the domain, with everything that a session tells of a model."""
    m = model("g (float[n,2] x, float[2] w) => (float[n,2] y) { y = Mul (x, w) }")
    m.graph.initializer.append(numpy_helper.from_array(WEIGHTS, "w"))
    m.doc_string, m.producer_name, m.model_version, m.domain = "doc", "me", 7, "dom"
    m.metadata_props.add(key="k", value="v")
    return m


def lookup() -> ModelProto:
    """A model with an operator of the domain."""
    m = model(
        "g (int64[k] i, int64[k] s, int64 n) => (float[m,2] y) { y = onnx_sparse.EmbeddingSegmentsSum (t, i, s, n) }"
    )
    m.graph.initializer.append(numpy_helper.from_array(TABLE, "t"))
    m.metadata_props.add(key="k", value="v")
    return m


PLAIN, LOOKUP = plain_model().SerializeToString(), lookup().SerializeToString()


def theirs(source: Any, options: ort.SessionOptions | None = None, *args: Any, **kwargs: Any) -> ort.InferenceSession:
    """ONNX Runtime's class, with the native kernels registered."""
    if options is None:
        options = onnx_sparse.session_options("native")
    elif isinstance(options, ort.SessionOptions):
        onnx_sparse.register(options, "native")
    return ort.InferenceSession(source, options, *args, **kwargs)


@pytest.fixture(params=available_backends())
def ours(request: pytest.FixtureRequest) -> Open:
    """Our class with each of the backends."""
    return functools.partial(onnx_sparse.InferenceSession, backend=request.param)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test is in a folder with the models, as files of every form."""
    monkeypatch.chdir(tmp_path)
    for name, content in (("plain", PLAIN), ("lookup", LOOKUP)):
        (tmp_path / f"{name}.onnx").write_bytes(content)
        (tmp_path / name).mkdir()
        light = onnx.load(tmp_path / f"{name}.onnx")
        onnx.save(light, f"{name}/m.onnx", save_as_external_data=True, location="data.bin", size_threshold=0)
    (tmp_path / "empty.onnx").touch()
    (tmp_path / "garbage.onnx").write_bytes(b"garbage!" * 30)
    (tmp_path / "cut.onnx").write_bytes(PLAIN[: len(PLAIN) // 2])
    (tmp_path / "folder.onnx").mkdir()
    return tmp_path


def quiet() -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return options


def shown(value: Any) -> Any:
    """A result in a form that can be compared."""
    if isinstance(value, ort.OrtValue):
        return "OrtValue", shown(value.numpy())
    if isinstance(value, np.ndarray):
        return value.dtype, value.tolist()
    if isinstance(value, list):
        return [shown(item) for item in value]
    return value


def bound(session: ort.InferenceSession) -> ort.IOBinding:
    """A binding of the lookup's inputs and output."""
    binding = session.io_binding()
    for name, value in FEEDS.items():
        binding.bind_cpu_input(name, value)
    binding.bind_output("y")
    return binding


def outcome(do: Callable[[Open], Any], session_class: Open) -> Any:
    """What a use of a session class gives: a result, or an error."""
    try:
        return shown(do(session_class))
    except Exception as error:
        return error


def require_same(do: Callable[[Open], Any], ours: Open) -> None:
    """Our class gives what ONNX Runtime's gives; an error may be of a subclass."""
    expected, found = outcome(do, theirs), outcome(do, ours)
    if not isinstance(expected, Exception):
        assert found == expected
        return
    assert isinstance(found, type(expected)), repr(found)
    assert _message(found) == _message(expected)


def _message(error: Exception) -> str:
    text = re.sub(r"0x[0-9a-f]+", "0x", str(error))
    return re.sub(r"Invoked with.*", "", text, flags=re.DOTALL)


class TestArguments:
    def test_names_and_positions(self) -> None:
        names = list(inspect.signature(onnx_sparse.InferenceSession.__init__).parameters)[1:5]
        assert names == ["path_or_bytes", "sess_options", "providers", "provider_options"]

    @pytest.mark.parametrize("name", ["plain", "lookup"])
    def test_forms_of_a_model(self, ours: Open, name: str, folder: Path) -> None:
        feeds = X if name == "plain" else FEEDS
        for source in (f"{name}.onnx", folder / f"{name}.onnx", PLAIN if name == "plain" else LOOKUP, f"{name}/m.onnx"):
            require_same(lambda s, source=source: s(source).run(None, feeds), ours)  # type: ignore[misc]
            require_same(lambda s, source=source: s(source, ort.SessionOptions()).run(None, feeds), ours)  # type: ignore[misc]

    @pytest.mark.parametrize(
        "source",
        [
            "no.onnx",
            "no/no.onnx",
            "folder.onnx",
            "empty.onnx",
            "garbage.onnx",
            "cut.onnx",
            b"",
            b"garbage!",
            PLAIN[:40],
        ],
    )
    def test_what_is_no_model(self, ours: Open, source: Any) -> None:
        require_same(lambda s: s(source), ours)

    def test_a_missing_file_is_pythons_error_too(self, ours: Open) -> None:
        with pytest.raises(FileNotFoundError, match="File doesn't exist") as raised:
            ours("no.onnx")
        assert isinstance(raised.value, NoSuchFile)
        assert raised.value.filename == "no.onnx"

    @pytest.mark.parametrize("source", [None, 3, []])
    def test_what_cannot_be_a_model(self, ours: Open, source: Any) -> None:
        with pytest.raises(TypeError, match="^" + re.escape(f"Unable to load from type '{type(source)}'")):
            ours(source)

    @pytest.mark.parametrize("options", [3, {"a": 1}, ort.SessionOptions])
    def test_what_are_no_options(self, ours: Open, options: Any) -> None:
        with pytest.raises(TypeError, match=r"session options are an onnxruntime\.SessionOptions, not"):
            ours(PLAIN, options)

    @pytest.mark.parametrize(
        "arguments",
        [
            {"providers": ["CPUExecutionProvider"], "provider_options": [{}]},
            {"providers": [("CPUExecutionProvider", {"a": "b"})]},
            {"providers": ["CPUExecutionProvider"] * 2},
            {"providers": "CPUExecutionProvider"},
            {"providers": [3]},
            {"providers": [("CPUExecutionProvider", {}, 3)]},
            {"providers": ["CPUExecutionProvider"], "provider_options": [{}, {}]},
            {"providers": ["CPUExecutionProvider"], "provider_options": [3]},
            {"providers": [("CPUExecutionProvider", {"x": "1"})], "provider_options": [{"y": "2"}]},
            {"disabled_optimizers": ["ConstantFolding"]},
            {"disabled_optimizers": 3},
            {"disabled_optimizers": [3]},
            {"enable_fallback": 0},
            {"enable_fallback": "x"},
            {"read_config_from_model": 1},
            {"another": 1},
        ],
    )
    def test_other_arguments(self, ours: Open, arguments: dict[str, Any]) -> None:
        require_same(lambda s: s(PLAIN, **arguments).run(None, X), ours)
        require_same(lambda s: s(LOOKUP, **arguments).run(None, FEEDS), ours)

    @pytest.mark.parametrize("suffix", [".json", ".onnxtxt", ".textproto", ".bin", ".ort2"])
    def test_the_content_counts_and_not_the_name(self, ours: Open, suffix: str, folder: Path) -> None:
        for content, feeds in ((PLAIN, X), (LOOKUP, FEEDS)):
            (folder / f"m{suffix}").write_bytes(content)
            require_same(lambda s, feeds=feeds: s(f"m{suffix}").run(None, feeds), ours)  # type: ignore[misc]


class TestOrtFormat:
    def saved(self, content: bytes, path: Path) -> bytes:
        options = onnx_sparse.session_options("native")
        options.optimized_model_filepath = str(path)
        ort.InferenceSession(content, options)
        return path.read_bytes()

    def test_files_and_bytes(self, ours: Open, folder: Path) -> None:
        content = self.saved(PLAIN, folder / "m.ort")
        (folder / "renamed.bin").write_bytes(content)

        def as_ort() -> ort.SessionOptions:
            options = quiet()
            options.add_session_config_entry("session.load_model_format", "ORT")
            return options

        for session in (ours("m.ort"), ours(content), ours(content, as_ort()), ours("renamed.bin", as_ort())):
            assert session.run(None, X)[0].tolist() == [[2, 3]]
        require_same(lambda s: s(content[:50]), ours)
        require_same(lambda s: s(PLAIN, as_ort()), ours)

    def test_operators_of_the_domain(self, folder: Path) -> None:
        content = self.saved(LOOKUP, folder / "m.ort")
        for source in (content, "m.ort"):
            assert onnx_sparse.InferenceSession(source, backend="native").run(None, FEEDS)[0].shape == (3, 2)
            with pytest.raises(ValueError, match="is in ONNX Runtime's own format, which only the native backend runs"):
                onnx_sparse.InferenceSession(source, backend="python")


class TestExternalData:
    def require_alike(self, do: Callable[[Open], Any], ours: Open) -> None:
        """As `require_same`, but errors may name the folder in another way."""
        expected, found = outcome(do, theirs), outcome(do, ours)
        assert isinstance(found, type(expected)), repr(found)
        assert isinstance(found, Exception) or found == expected

    @pytest.mark.parametrize("name", ["plain", "lookup"])
    @pytest.mark.parametrize("way", ["path", "path_of_folder", "link_to_file", "link_to_folder"])
    def test_links_as_caches_of_downloads_have_them(self, ours: Open, name: str, way: str, folder: Path) -> None:
        """The model and its data are links to files with other names, in another folder."""
        (folder / "blobs").mkdir()
        (folder / "snapshot").mkdir()
        for file in ("m.onnx", "data.bin"):
            os.replace(folder / name / file, folder / "blobs" / f"of_{file}")
            os.symlink(Path("..", "blobs", f"of_{file}"), folder / "snapshot" / file)
        os.symlink("snapshot", folder / "linked")
        source = {
            "path": "snapshot/m.onnx",
            "path_of_folder": folder / "snapshot" / "m.onnx",
            "link_to_file": folder / "snapshot" / ".." / "snapshot" / "m.onnx",
            "link_to_folder": "linked/m.onnx",
        }[way]
        feeds = X if name == "plain" else FEEDS
        require_same(lambda s: s(source).run(None, feeds), ours)

    def test_data_outside_the_folder_are_refused(self, ours: Open, folder: Path) -> None:
        os.replace(folder / "lookup" / "data.bin", folder / "elsewhere.bin")
        os.symlink("../elsewhere.bin", folder / "lookup" / "data.bin")
        self.require_alike(lambda s: s("lookup/m.onnx", quiet()).run(None, FEEDS), ours)

    def test_data_that_are_missing_or_short(self, ours: Open, folder: Path) -> None:
        for content in (b"123", None):
            (folder / "lookup" / "data.bin").unlink()
            if content is not None:
                (folder / "lookup" / "data.bin").write_bytes(content)
            self.require_alike(lambda s: s("lookup/m.onnx", quiet()).run(None, FEEDS), ours)

    def test_a_model_in_memory_is_refused_with_either_error(self, ours: Open, folder: Path) -> None:
        for name in ("plain", "lookup"):
            content = (folder / name / "m.onnx").read_bytes()
            for error in (ValueError, Fail):
                with pytest.raises(error, match="a model in memory has no folder"):
                    ours(content, quiet())

    def test_a_folder_that_the_options_name(self, ours: Open, folder: Path) -> None:
        def run(session_class: Open) -> Any:
            options = ort.SessionOptions()
            options.add_session_config_entry(
                "session.model_external_initializers_file_folder_path", str(folder / "lookup")
            )
            return session_class((folder / "lookup" / "m.onnx").read_bytes(), options).run(None, FEEDS)

        require_same(run, ours)

    @pytest.mark.parametrize("way", ["add_initializer", "add_external_initializers", "files"])
    @pytest.mark.parametrize("source", ["lookup/m.onnx", "lookup.onnx"])
    def test_data_that_the_options_hold(self, ours: Open, way: str, source: str) -> None:
        value, content = ort.OrtValue.ortvalue_from_numpy(TABLE * 2), (TABLE * 2).tobytes()

        def run(session_class: Open) -> Any:
            options = quiet()
            if way == "add_initializer":
                options.add_initializer("t", value)
            elif way == "add_external_initializers":
                options.add_external_initializers(["t"], [value])
            elif hasattr(options, "add_external_initializers_from_files_in_memory"):  # not in old versions
                options.add_external_initializers_from_files_in_memory(["data.bin"], [content], [len(content)])
            return session_class(source, options).run(None, FEEDS)

        require_same(run, ours)


class TestSessionOptions:
    def test_several_sessions_of_one(self, ours: Open) -> None:
        options = ort.SessionOptions()
        sources = [("lookup/m.onnx", FEEDS), (PLAIN, X), ("lookup.onnx", FEEDS), ("plain/m.onnx", X)] * 2
        sessions = [ours(source, options) for source, _ in sources]
        plain = ort.InferenceSession("plain/m.onnx", options)
        assert plain.run(None, X)[0].tolist() == [[2, 3]], "with data of its own folder"
        for session, (source, feeds) in zip(sessions, sources, strict=True):
            expected = shown(theirs(source).run(None, feeds))
            assert shown(session.run(None, feeds)) == expected
            session.set_providers(["CPUExecutionProvider"])
            assert shown(session.run(None, feeds)) == expected

    def test_a_model_in_memory_and_then_a_file(self, ours: Open, folder: Path) -> None:
        """Of which only the second may look for its data."""
        options = quiet()
        values = [ort.OrtValue.ortvalue_from_numpy(TABLE * 2)]
        options.add_external_initializers(["t"], values)
        light = (folder / "lookup" / "m.onnx").read_bytes()
        assert ours(light, options).run(None, FEEDS)[0].tolist() == [[4, 6], [0, 0], [16, 18]]
        assert ours("lookup/m.onnx", options).run(None, FEEDS)[0].tolist() == [[4, 6], [0, 0], [16, 18]]
        without = quiet()
        with pytest.raises(ValueError, match="a model in memory has no folder"):
            ours(light, without)
        assert ours("lookup/m.onnx", without).run(None, FEEDS)[0].tolist() == [[2, 3], [0, 0], [8, 9]]

    def test_they_are_the_sessions(self, ours: Open) -> None:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 2
        options.add_session_config_entry("session.dynamic_block_base", "4")
        held = ours(LOOKUP, options).get_session_options()
        assert (held.graph_optimization_level, held.intra_op_num_threads) == (options.graph_optimization_level, 2)
        assert held.get_session_config_entry("session.dynamic_block_base") == "4"

    def test_free_dimensions(self, ours: Open) -> None:
        def shapes(session_class: Open) -> Any:
            options = ort.SessionOptions()
            options.add_free_dimension_override_by_name("k", 2)
            session = session_class(LOOKUP, options)
            return [list(i.shape) for i in session.get_inputs()] + [shown(session.run(None, FEEDS))]

        require_same(shapes, ours)

    def test_profiling(self, ours: Open, folder: Path) -> None:
        options = ort.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = "profile"
        session = ours(LOOKUP, options)
        session.run(None, FEEDS)
        assert session.get_profiling_start_time_ns() > 0
        events = json.loads((folder / session.end_profiling()).read_text())
        assert any("EmbeddingSegmentsSum" in event["name"] for event in events)

    def test_saving_the_optimized_model(self, folder: Path) -> None:
        """A model that is rewritten for Python kernels is not saved, because no other session runs it."""
        for backend in available_backends():
            options = ort.SessionOptions()
            options.optimized_model_filepath = f"{backend}.onnx"
            onnx_sparse.InferenceSession(PLAIN, options, backend=backend)
            assert ort.InferenceSession(f"{backend}.onnx").run(None, X)[0].tolist() == [[2, 3]]
            (folder / f"{backend}.onnx").unlink()
            if backend == "native":
                onnx_sparse.InferenceSession(LOOKUP, options, backend=backend)
                assert theirs("native.onnx").run(None, FEEDS)[0].shape == (3, 2)
            else:
                with pytest.raises(ValueError, match=r"python\.onnx would hold .*: use the native backend"):
                    onnx_sparse.InferenceSession(LOOKUP, options, backend=backend)

    def test_kernels_that_were_registered_by_hand(self) -> None:
        """In any order and any number of times."""
        if "native" not in available_backends():
            pytest.skip("no native library")
        path = onnx_sparse.get_library_path()
        before, after, twice = ort.SessionOptions(), ort.SessionOptions(), ort.SessionOptions()
        before.register_custom_ops_library(path)
        onnx_sparse.register(before)
        onnx_sparse.register(after, "native")
        after.register_custom_ops_library(path)
        for _ in range(2):
            twice.register_custom_ops_library(path)
        for options in (before, after, twice):
            for session_class in (ort.InferenceSession, onnx_sparse.InferenceSession):
                assert session_class(LOOKUP, options).run(None, FEEDS)[0].shape == (3, 2)

    def test_extensions_in_any_order(self) -> None:
        """A session with Python kernels leaves the library of onnxruntime-extensions free of the domain's kernels."""
        if "native" not in available_backends():
            pytest.skip("no native library")
        program = """
import numpy as np, onnx, onnxruntime as ort, onnxruntime_extensions, onnx_sparse
from contract.test_drop_in_sessions import FEEDS, LOOKUP
def run(backend, with_extensions):
    options = ort.SessionOptions()
    if with_extensions:
        options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
    session = onnx_sparse.InferenceSession(LOOKUP, options, backend=backend)
    assert session.run(None, FEEDS)[0].shape == (3, 2)
    return session
sessions = [run(*way) for way in (("native", True), ("python", False), ("native", True), ("native", False)) * 2]
plain = onnx_sparse.session_options("python")
canonical = onnx_sparse.canonicalize(onnx.load_from_string(LOOKUP))
sessions.append(ort.InferenceSession(canonical.SerializeToString(), plain))
sessions.append(run("python", False))
for session in sessions:
    assert session.run(None, FEEDS)[0].shape == (3, 2)
print("done")
"""
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.stdout == "done\n", done.stderr


class TestWhatASessionTells:
    @pytest.mark.parametrize("content", [PLAIN, LOOKUP], ids=["plain", "lookup"])
    def test_of_its_model(self, ours: Open, content: bytes) -> None:
        def told(session_class: Open) -> Any:
            session = session_class(content)
            meta = session.get_modelmeta()
            values = (session.get_inputs(), session.get_outputs(), session.get_overridable_initializers())
            return [
                [[(v.name, v.type, list(v.shape)) for v in each] for each in values],
                [meta.producer_name, meta.graph_name, meta.domain, meta.description, meta.version],
                meta.custom_metadata_map,
                session.get_providers(),
                session.get_provider_options(),
                isinstance(session, ort.InferenceSession),
            ]

        require_same(told, ours)

    def test_after_other_providers(self, ours: Open) -> None:
        for source, feeds in (("lookup/m.onnx", FEEDS), (LOOKUP, FEEDS), ("plain.onnx", X)):
            session = ours(source)
            session.set_providers(["CPUExecutionProvider"], [{}])
            assert shown(session.run(None, feeds)) == shown(theirs(source).run(None, feeds))
            assert [i.name for i in session.get_inputs()] == list(feeds)
            session.disable_fallback()
            session.enable_fallback()
            require_same(lambda s, source=source: s(source).set_providers([3]), ours)  # type: ignore[misc]

    def test_overridable_initializers(self, ours: Open) -> None:
        m = onnx.load_from_string(LOOKUP)
        m.graph.input.append(helper.make_tensor_value_info("t", TensorProto.FLOAT, [5, 2]))

        def run(session_class: Open) -> Any:
            session = session_class(m.SerializeToString(), quiet())
            names = [v.name for v in session.get_overridable_initializers()]
            return [names, shown(session.run(None, FEEDS)), shown(session.run(None, {**FEEDS, "t": TABLE * 5}))]

        require_same(run, ours)

    def test_it_can_be_pickled(self, ours: Open) -> None:
        """Which ONNX Runtime's cannot."""
        again = pickle.loads(pickle.dumps(ours(path_or_bytes="lookup.onnx", providers=["CPUExecutionProvider"])))
        assert again.run(None, FEEDS)[0].shape == (3, 2)


#: What may be fed, to be tried in every way to run.
FED: dict[str, Any] = {
    "all": FEEDS,
    "none": {},
    "one_missing": {"i": FEEDS["i"], "s": FEEDS["s"]},
    "unknown": {**FEEDS, "z": np.array(1)},
    "another_type": {**FEEDS, "i": np.array([1.0, 2.0])},
    "another_rank": {**FEEDS, "i": np.array([[1, 4]])},
    "int32": {**FEEDS, "i": FEEDS["i"].astype(np.int32)},
    "strided": {**FEEDS, "i": np.array([1, 9, 4, 9])[::2]},
    "a_list": {"i": [1, 4], "s": [0, 2], "n": 3},
    "no_mapping": [1],
    "nothing": None,
}


class TestRuns:
    @pytest.mark.parametrize("fed", FED)
    def test_feeds(self, ours: Open, fed: str) -> None:
        feed = FED[fed]
        require_same(lambda s: s(LOOKUP).run(None, feed), ours)
        require_same(lambda s: s(LOOKUP).run(output_names=["y"], input_feed=feed, run_options=ort.RunOptions()), ours)

    @pytest.mark.parametrize("fed", FED)
    def test_ort_values(self, ours: Open, fed: str) -> None:
        feed = FED[fed]
        if isinstance(feed, dict) and fed != "a_list":
            feed = {name: ort.OrtValue.ortvalue_from_numpy(np.array(value, order="C")) for name, value in feed.items()}
        require_same(lambda s: s(LOOKUP).run_with_ort_values(None, feed), ours)

    @pytest.mark.parametrize("fed", [f for f in FED if f != "strided"])
    def test_asynchronous_runs(self, ours: Open, fed: str) -> None:
        def run(session_class: Open) -> Any:
            done, called = threading.Event(), []

            def callback(results: Any, data: Any, error: str) -> None:
                called.append((shown(list(results)), data, error))
                done.set()

            session = session_class(LOOKUP)  # ONNX Runtime 1.21 hangs when a session ends before its run
            session.run_async(None, FED[fed], callback, "data")
            assert done.wait(60)
            return called

        require_same(run, ours)

    @pytest.mark.parametrize("outputs", [["q"], [], ["y", "y"], ("y",), "y", 3])
    def test_outputs(self, ours: Open, outputs: Any) -> None:
        require_same(lambda s: s(LOOKUP).run(outputs, FEEDS), ours)

    @pytest.mark.parametrize("options", [3, "x", ort.SessionOptions()])
    def test_what_are_no_run_options(self, ours: Open, options: Any) -> None:
        values = {name: ort.OrtValue.ortvalue_from_numpy(value) for name, value in FEEDS.items()}
        ways: list[Callable[[ort.InferenceSession], Any]] = [
            lambda session: session.run(None, FEEDS, options),
            lambda session: session.run_with_ort_values(None, values, options),
            lambda session: session.run_with_iobinding(bound(session), options),
        ]
        for way in ways:
            for session_class in (theirs, ours):
                with pytest.raises((TypeError, AttributeError)):
                    way(session_class(LOOKUP))

    @pytest.mark.parametrize("callback", [3, "x", []])
    def test_what_cannot_be_called_back(self, ours: Open, callback: Any) -> None:
        require_same(lambda s: s(LOOKUP).run_async(None, FEEDS, callback, None), ours)

    def test_run_options(self, ours: Open) -> None:
        def run(session_class: Open) -> Any:
            session, options = session_class(LOOKUP), ort.RunOptions()
            options.logid, options.log_severity_level = "mine", 4
            options.add_run_config_entry("a", "b")
            results = [shown(session.run(None, FEEDS, options))]
            options.terminate = True
            results.append(_message_of(lambda: session.run(None, FEEDS, options)))
            options.terminate = False
            results.append(shown(session.run(None, FEEDS, options)))
            return [*results, options.logid, options.get_run_config_entry("a"), options.terminate]

        require_same(run, ours)

    def test_binding(self, ours: Open) -> None:
        def run(session_class: Open) -> Any:
            session = session_class(LOOKUP)
            binding, results = session.io_binding(), []
            for _ in range(2):
                for name, value in FEEDS.items():
                    binding.bind_cpu_input(name, value)
                binding.bind_output("y")
                session.run_with_iobinding(binding)
                session.run_with_iobinding(binding, ort.RunOptions())
                results.append(shown(binding.copy_outputs_to_cpu()))
                binding.clear_binding_inputs()
            out = np.zeros((3, 2), np.float32)
            for name, value in FEEDS.items():
                binding.bind_input(name, "cpu", 0, value.dtype.type, list(value.shape), value.ctypes.data)
            binding.bind_output("y", "cpu", 0, np.float32, [3, 2], out.ctypes.data)
            session.run_with_iobinding(binding)
            return [*results, shown(out)]

        require_same(run, ours)

    def test_a_binding_of_another_session(self, ours: Open) -> None:
        expected = outcome(lambda s: s(LOOKUP).run_with_iobinding(s(LOOKUP).io_binding()), theirs)
        if isinstance(expected, ValueError):  # not in old versions
            require_same(lambda s: s(PLAIN).run_with_iobinding(s(PLAIN).io_binding()), ours)

    def test_vectors(self, ours: Open) -> None:
        def run(session_class: Open) -> Any:
            values = [ort.OrtValue.ortvalue_from_numpy(value) for value in FEEDS.values()]
            feeds, results = OrtValueVector(), OrtValueVector()
            for value in values:
                feeds.push_back(value._get_c_value())
            session_class(LOOKUP).run_with_ortvaluevector(
                ort.RunOptions(), list(FEEDS), feeds, ["y"], results, [OrtDevice(0, 0, 0)]
            )
            return [shown(ort.OrtValue(value)) for value in results]

        require_same(run, ours)


class TestInputsWithoutValues:
    """They end the process where a Python kernel reads one."""

    def test_none(self, ours: Open) -> None:
        session = ours(LOOKUP)
        feed = {**FEEDS, "i": None}
        with pytest.raises(KernelError, match=r"input (i|indices) has no value"):
            session.run(None, feed)
        assert session.run(None, FEEDS)[0].shape == (3, 2)

    def test_none_in_an_asynchronous_run(self, ours: Open) -> None:
        done, errors = threading.Event(), []

        def callback(results: Any, data: Any, error: str) -> None:
            errors.append(error)
            done.set()

        session = ours(LOOKUP)
        try:
            session.run_async(None, {**FEEDS, "i": None}, callback, None)
            assert done.wait(60)
        except KernelError as error:
            errors.append(str(error))
        assert re.search("input (i|indices) has no value", errors[0])

    def test_an_input_that_is_not_bound(self, ours: Open) -> None:
        session = ours(LOOKUP)
        binding = session.io_binding()
        binding.bind_cpu_input("i", FEEDS["i"])
        binding.bind_output("y")
        with pytest.raises(ValueError, match=r"Required inputs \(\['s', 'n'\]\)|input segment_ids has no value"):
            session.run_with_iobinding(binding)

    def test_a_vector_without_an_input(self, ours: Open) -> None:
        feeds = OrtValueVector()
        value = ort.OrtValue.ortvalue_from_numpy(FEEDS["i"])
        feeds.push_back(value._get_c_value())
        with pytest.raises((ValueError, InvalidArgument, RuntimeError)):
            ours(LOOKUP).run_with_ortvaluevector(
                ort.RunOptions(), ["i"], feeds, ["y"], OrtValueVector(), [OrtDevice(0, 0, 0)]
            )


def _message_of(run: Callable[[], Any]) -> str:
    with pytest.raises(Exception) as raised:  # noqa: PT011  # the message is compared
        run()
    return str(raised.value)


class TestImports:
    """Of domains: ONNX Runtime adds those of registered libraries."""

    @pytest.mark.parametrize("dropped", ["onnx_sparse", "com.example"])
    def test_a_domain_that_is_not_imported(self, ours: Open, dropped: str) -> None:
        m = onnx.load_from_string(LOOKUP)
        kept = [i for i in m.opset_import if i.domain != dropped]
        del m.opset_import[:]
        m.opset_import.extend(kept)
        require_same(lambda s: s(m.SerializeToString()).run(None, FEEDS), ours)

    def test_another_domain_that_is_not_imported(self, ours: Open) -> None:
        m = onnx.load_from_string(LOOKUP)
        m.graph.node.append(helper.make_node("FastGelu", ["y"], ["z"], domain="com.microsoft"))
        m.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
        require_same(lambda s: s(m.SerializeToString()).run(None, FEEDS), ours)

    def test_a_model_without_imports(self, ours: Open) -> None:
        m = onnx.load_from_string(PLAIN)
        del m.opset_import[:]
        require_same(lambda s: s(m.SerializeToString(), quiet()).run(None, X), ours)
