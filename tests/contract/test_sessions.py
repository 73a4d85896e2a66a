"""Sessions: registering backends, and every way in and out of `onnx_sparse.InferenceSession`."""

from __future__ import annotations

import copy
import functools
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from contract.models import BRANCHES, FUNCTIONS, SEGMENT_SUM, model
from ml_dtypes import bfloat16
from onnx import ModelProto, NodeProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import NoSuchFile, OrtDevice, OrtValueVector

import onnx_sparse
from onnx_sparse import KernelError
from onnx_sparse.models.files.model_files import imported_opsets
from onnx_sparse.sessions.runtime import available_backends

DATA = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
SORTED, UNSORTED = np.array([0, 0, 2]), np.array([0, 2, 1])
SUMS = [[4, 6], [0, 0], [5, 6]]
NOT_SORTED = r"SegmentSum: segment_ids\[2\] = 1 is less than segment_ids\[1\] = 2; ids must be sorted"


def feeds(ids: np.ndarray[Any, Any] = SORTED) -> dict[str, Any]:
    return {"data": DATA, "ids": ids}


def model_with_external_data(folder: Path) -> Path:
    """A model whose embedding table is in a file beside it."""
    m = model(
        "g (int64[k] i, int64[k] s, int64 n) => (float[n,4] y) { y = onnx_sparse.EmbeddingSegmentsSum (t, i, s, n) }"
    )
    m.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(400, dtype=np.float32).reshape(100, 4), "t"))
    onnx.save(m, folder / "model.onnx", save_as_external_data=True, location="table.bin", size_threshold=0)
    assert (folder / "table.bin").stat().st_size == 1600
    return folder / "model.onnx"


Open = Callable[..., onnx_sparse.InferenceSession]

#: Prints how many times as much memory a session takes as its table of 128 MB; the limit is lowered for the test.
_HOLDS_A_TABLE = """
import gc, os
import numpy as np, onnx
from onnx import helper, numpy_helper
import onnxruntime_extensions  # which imports torch where that is installed
import onnx_sparse
from onnx_sparse.models.files import large_models

large_models.detach_large_tensors.__defaults__ = (1000,)
rows = 2**19
graph = onnx.parser.parse_graph(
    "g (int64[k] i, int64[k] s, int64 n) => (float[n,64] y) {{ y = onnx_sparse.EmbeddingSegmentsSum (t, i, s, n) }}"
)
graph.initializer.append(numpy_helper.from_array(np.ones((rows, 64), np.float32), "t"))
imports = [helper.make_opsetid("", 18), helper.make_opsetid("onnx_sparse", 1)]
model = helper.make_model(graph, ir_version=10, opset_imports=imports)
del graph

def resident():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

before = resident()
session = onnx_sparse.InferenceSession(model, backend="{backend}")
print((resident() - before) / (rows * 256))
assert session.run(None, {{"i": np.array([1, 2]), "s": np.array([0, 0]), "n": np.array(1)}})[0].tolist() == [[2] * 64]
"""


@pytest.fixture(params=available_backends())
def opened(request: pytest.FixtureRequest) -> Open:
    """`InferenceSession` with each of the backends."""
    return functools.partial(onnx_sparse.InferenceSession, backend=request.param)


class TestRegister:
    @pytest.mark.parametrize("backend", available_backends())
    def test_it_is_idempotent(self, backend: str) -> None:
        options = ort.SessionOptions()
        for _ in range(3):
            onnx_sparse.register(options, backend)
        onnx_sparse.register(options)
        canonical = onnx_sparse.canonicalize(SEGMENT_SUM).SerializeToString()
        assert ort.InferenceSession(canonical, options).run(None, feeds())[0].tolist() == SUMS

    def test_an_unknown_backend_is_refused(self) -> None:
        with pytest.raises(ValueError, match="backend 'cuda' is not one of auto, native, python"):
            onnx_sparse.session_options("cuda")

    def test_auto_uses_what_is_installed(self) -> None:
        assert available_backends()[-1] == "python"
        onnx_sparse.session_options("auto")

    def test_a_missing_native_library_says_so(self) -> None:
        if "native" in available_backends():
            pytest.skip("this installation has it")
        with pytest.raises(FileNotFoundError, match="no native library"):
            onnx_sparse.get_library_path()
        with pytest.raises(FileNotFoundError, match="backend='python'"):
            onnx_sparse.session_options("native")

    def test_sessions_made_before_and_after_live_together(self, opened: Open) -> None:
        before = ort.InferenceSession(onnx_sparse.lower(SEGMENT_SUM).SerializeToString())
        first = opened(SEGMENT_SUM)
        second = opened(BRANCHES)
        for _ in range(3):
            assert before.run(None, feeds())[0].tolist() == SUMS
            assert first.run(None, feeds())[0].tolist() == SUMS
            assert second.run(None, feeds() | {"c": np.array(False)})[0].tolist() == [[8, 12], [0, 0], [10, 12]]
            after = opened(SEGMENT_SUM)
            assert after.run(None, feeds())[0].tolist() == SUMS


class TestWaysIn:
    def test_a_path_bytes_or_a_model(self, opened: Open, tmp_path: Path) -> None:
        onnx.save(SEGMENT_SUM, tmp_path / "m.onnx")
        for source in (tmp_path / "m.onnx", str(tmp_path / "m.onnx"), SEGMENT_SUM.SerializeToString(), SEGMENT_SUM):
            assert opened(source).run(None, feeds())[0].tolist() == SUMS

    def test_external_data_are_found_beside_the_file(self, opened: Open, tmp_path: Path) -> None:
        path = model_with_external_data(tmp_path)
        options = ort.SessionOptions()
        ids = {"i": np.array([0, 1]), "s": np.array([0, 0]), "n": np.array(1)}
        assert opened(path, options).run(None, ids)[0].tolist() == [[4, 6, 8, 10]]
        (tmp_path / "other").mkdir()
        other = model_with_external_data(tmp_path / "other")
        assert opened(other, options).run(None, ids)[0].tolist() == [[4, 6, 8, 10]]

    def test_a_model_too_large_for_protocol_buffers(self, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
        """The test lowers the limit; the same tensors are split off."""
        from onnx_sparse.models.files import large_models

        monkeypatch.setattr(large_models, "LEAST", 1000)
        monkeypatch.setattr(large_models.detach_large_tensors, "__defaults__", (1000,))
        m = model(
            "g (int64[k] i, int64[k] s, int64 n) => (float[n,4] y) "
            "{ y = onnx_sparse.EmbeddingSegmentsSum (t, i, s, n) }"
        )
        m.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(400, dtype=np.float32).reshape(100, 4), "t"))
        light, tensors = large_models.detach_large_tensors(m)
        assert list(tensors) == ["t"]
        assert len(light.SerializeToString()) < 1000
        ids = {"i": np.array([0, 99]), "s": np.array([0, 0]), "n": np.array(1)}
        options = ort.SessionOptions()
        assert opened(m, options).run(None, ids)[0].tolist() == [[396, 398, 400, 402]]
        with pytest.raises(ValueError, match="these session options hold the tensors of a large model"):
            opened(SEGMENT_SUM, options)

    @pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the process's memory as Linux tells it")
    def test_the_tables_of_a_large_model_are_held_once(self, opened: Open) -> None:
        """Apart from the model itself, which the caller may drop."""
        program = _HOLDS_A_TABLE.format(backend=opened.keywords["backend"])  # type: ignore[attr-defined]
        # protobuf in pure Python, which some packages ask for, does not copy what it hands out.
        environment = {k: v for k, v in os.environ.items() if k != "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
        assert 0.9 < float(done.stdout) < 1.5

    def test_a_table_that_is_a_sparse_initializer(self, opened: Open) -> None:
        """onnx's form of tables that are mostly 0, in every form of a model."""
        m = model(
            "g (int64[k] i, int64[k] s, int64 n) => (float[n,3] y) "
            "{ y = onnx_sparse.EmbeddingSegmentsSum (t, i, s, n) }"
        )
        values = onnx.numpy_helper.from_array(np.array([2, 5], np.float32), "t")
        places = onnx.numpy_helper.from_array(np.array([4, 11]), "places")
        m.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [9, 3]))
        ids = {"i": np.array([1, 3]), "s": np.array([0, 0]), "n": np.array(1)}
        for form in (m, onnx_sparse.canonicalize(m), onnx_sparse.fuse(m)):
            assert opened(form).run(None, ids)[0].tolist() == [[0, 2, 5]]
        for plain in (onnx_sparse.lower(m), onnx_sparse.embed_functions(m)):
            assert ort.InferenceSession(plain.SerializeToString()).run(None, ids)[0].tolist() == [[0, 2, 5]]

    def test_arguments_by_their_names_in_onnx_runtime(self, opened: Open) -> None:
        given = {"path_or_bytes": SEGMENT_SUM.SerializeToString(), "sess_options": ort.SessionOptions()}
        session = opened(**given, providers=["CPUExecutionProvider"], provider_options=[{}])
        assert session.run(None, feeds())[0].tolist() == SUMS
        assert opened(SEGMENT_SUM, None, ["CPUExecutionProvider"], [{}]).get_inputs()
        with pytest.raises(TypeError, match="takes one model"):
            opened(SEGMENT_SUM, model=b"")
        assert opened(model=SEGMENT_SUM).get_inputs()

    def test_functions_that_call_the_domain(self, opened: Open) -> None:
        inputs = {"x": np.array([1, 2], np.float32), "z": np.array([3, 4], np.int32), "ids": np.array([1, 1])}
        assert [a.tolist() for a in opened(FUNCTIONS).run(None, inputs)] == [[0, 3], [0, 7]]

    def test_functions_whose_calls_have_no_declared_type(self, opened: Open, tmp_path: Path) -> None:
        """ONNX Runtime infers none."""
        untyped = ModelProto()
        untyped.CopyFrom(FUNCTIONS)
        for output in untyped.graph.output:
            output.ClearField("type")
        onnx.save(untyped, tmp_path / "m.onnx")
        inputs = {"x": np.array([1, 2], np.float32), "z": np.array([3, 4], np.int32), "ids": np.array([1, 1])}
        for source in (untyped, untyped.SerializeToString(), tmp_path / "m.onnx"):
            assert [a.tolist() for a in opened(source).run(None, inputs)] == [[0, 3], [0, 7]]

    def test_external_data_from_the_session_options(self, opened: Open, tmp_path: Path) -> None:
        """As values, and as a file's content, of a model without a folder."""
        path = model_with_external_data(tmp_path)
        light = onnx.load(path, load_external_data=False)
        table = np.arange(400, dtype=np.float32).reshape(100, 4)
        content = table.tobytes()  # ONNX Runtime keeps a pointer
        ids = {"i": np.array([0, 99]), "s": np.array([0, 0]), "n": np.array(1)}
        for source in (light, light.SerializeToString()):
            values = ort.SessionOptions()
            values.add_external_initializers(["t"], [ort.OrtValue.ortvalue_from_numpy(table)])
            files = ort.SessionOptions()
            if hasattr(files, "add_external_initializers_from_files_in_memory"):  # not in old versions
                files.add_external_initializers_from_files_in_memory(["table.bin"], [content], [len(content)])
            else:
                files.add_external_initializers(["t"], [ort.OrtValue.ortvalue_from_numpy(table)])
            for options in (values, files):
                assert opened(source, options).run(None, ids)[0].tolist() == [[396, 398, 400, 402]]

    def test_external_data_are_not_taken_from_the_current_directory(
        self, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        content = onnx.load(model_with_external_data(tmp_path), load_external_data=False).SerializeToString()
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ValueError, match="a model in memory has no folder"):
            opened(content, ort.SessionOptions())

    def test_external_data_of_a_model_whose_functions_are_inlined(self, opened: Open, tmp_path: Path) -> None:
        m = onnx.load(model_with_external_data(tmp_path), load_external_data=False)
        (node,) = m.graph.node
        inner = NodeProto()
        inner.CopyFrom(node)
        function = helper.make_function("mine", "Lookup", node.input, node.output, [inner], m.opset_import)
        m.functions.append(function)
        m.opset_import.append(helper.make_opsetid("mine", 1))
        node.domain, node.op_type = "mine", "Lookup"
        m.graph.output[0].ClearField("type")
        (tmp_path / "called.onnx").write_bytes(m.SerializeToString())
        ids = {"i": np.array([0, 1]), "s": np.array([0, 0]), "n": np.array(1)}
        assert opened(tmp_path / "called.onnx").run(None, ids)[0].tolist() == [[4, 6, 8, 10]]

    def test_function_bodies_in_the_model_do_not_matter(self, opened: Open) -> None:
        session = opened(onnx_sparse.embed_functions(SEGMENT_SUM))
        with pytest.raises(KernelError, match=NOT_SORTED):
            session.run(None, feeds(UNSORTED))

    def test_a_model_without_our_operators(self, opened: Open) -> None:
        m = model("g (float[2] x) => (float[2] y) { y = Relu (x) }")
        assert opened(m).run(None, {"x": np.array([-1, 1], np.float32)})[0].tolist() == [0, 1]

    @pytest.mark.parametrize("form", [".onnx", ".onnxjson", ".onnxtxt"])
    @pytest.mark.filterwarnings("ignore:The onnxtxt format")
    def test_a_later_opset_of_the_domain_is_refused(self, opened: Open, tmp_path: Path, form: str) -> None:
        """Its operators may behave differently."""
        later = onnx.ModelProto()
        later.CopyFrom(SEGMENT_SUM)
        next(i for i in later.opset_import if i.domain == onnx_sparse.DOMAIN).version = 2
        onnx.save(later, tmp_path / f"m{form}")
        for source in (tmp_path / f"m{form}", later.SerializeToString(), later):
            with pytest.raises(ValueError, match="opset 2 of domain onnx_sparse; this version of onnx_sparse has 1"):
                opened(source)

    def test_models_that_onnx_runtime_has_saved(self, opened: Open, tmp_path: Path) -> None:
        """It writes version 1000 of registered domains that a model does not import."""
        plain = model("g (float[n] x) => (float[n] y) { y = Neg (x) }")
        del plain.opset_import[1:]
        options = ort.SessionOptions()
        options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
        session = onnx_sparse.InferenceSession(plain, options)
        saved = onnx.load(tmp_path / "optimized.onnx")
        assert session.run(None, {"x": DATA[0]})[0].tolist() == [-1, -2]
        if not any(imported.domain == onnx_sparse.DOMAIN for imported in saved.opset_import):
            saved.opset_import.add(domain=onnx_sparse.DOMAIN, version=1000)
        assert opened(saved).run(None, {"x": DATA[0]})[0].tolist() == [-1, -2]

    def test_the_opset_is_found_beside_a_large_graph(self, tmp_path: Path) -> None:
        """The fields of a message may come in any order; the graph is not read."""
        imports = onnx.ModelProto(opset_import=[onnx.helper.make_opsetid(onnx_sparse.DOMAIN, 7)]).SerializeToString()
        graph = onnx.ModelProto()
        graph.CopyFrom(SEGMENT_SUM)
        graph.graph.initializer.add(name="large", raw_data=bytes(10**7))
        for content in (imports + graph.SerializeToString(), graph.SerializeToString() + imports):
            found = list(imported_opsets(io.BytesIO(content)))
            assert ("onnx_sparse", 7) in [(i.domain, i.version) for i in found]

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"\x42",
            b"\x42\xff\xff\xff\xff\xff\x7f",
            b"\xff" * 99,
            b"\x3a" + b"\xff" * 9 + b"\x01",
            b"no model",
            b"\x43",
        ],
    )
    def test_what_is_no_model_has_no_opsets(self, content: bytes) -> None:
        assert all(i.domain == "" for i in imported_opsets(io.BytesIO(content)))

    def test_a_missing_file(self, opened: Open) -> None:
        """Python's error, and ONNX Runtime's."""
        with pytest.raises(FileNotFoundError, match="no_such_model"):
            opened("no_such_model.onnx")
        with pytest.raises(NoSuchFile, match="no_such_model"):
            opened("no_such_model.onnx")

    def test_illegal_attributes_and_types_are_refused_when_loading(self, opened: Open) -> None:
        m = model('g (float[k] x, int64[k] i) => (y) { y = onnx_sparse.SegmentMax <fill_mode = "UP"> (x, i) }')
        with pytest.raises(
            KernelError, match=r"SegmentMax: attribute fill_mode = 'UP' is not one of \('ZERO', 'LOWEST'\)"
        ):
            opened(m)

    def test_options_with_extensions_already_registered_say_what_to_do(self) -> None:
        import onnxruntime_extensions

        options = ort.SessionOptions()
        options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
        with pytest.raises(ValueError, match="the library of onnxruntime-extensions registered already"):
            onnx_sparse.InferenceSession(SEGMENT_SUM, options, backend="python")

    @pytest.mark.parametrize("model", [None, 5, [], onnx.GraphProto()])
    def test_what_is_no_model(self, model: Any) -> None:
        with pytest.raises(TypeError, match=f"a model is an onnx.ModelProto.*, not {type(model).__name__}$"):
            onnx_sparse.InferenceSession(model)

    @pytest.mark.parametrize("options", [{}, ["CPUExecutionProvider"]])
    def test_what_are_no_session_options(self, options: Any) -> None:
        kind = type(options).__name__
        with pytest.raises(TypeError, match=f"session options are an onnxruntime.SessionOptions, not {kind}"):
            onnx_sparse.InferenceSession(SEGMENT_SUM, options)

    @pytest.mark.parametrize("content", [b"", b"xx"])
    def test_bytes_without_a_graph_are_no_model(self, content: bytes, tmp_path: Path) -> None:
        """protobuf reads an empty message from them."""
        (tmp_path / "m.onnx").write_bytes(content)
        for change in (onnx_sparse.canonicalize, onnx_sparse.embed_functions, onnx_sparse.lower, onnx_sparse.fuse):
            for source in (content, tmp_path / "m.onnx"):
                with pytest.raises(ValueError, match="is not an ONNX model"):
                    change(source)


class TestWaysToRun:
    def test_an_error_is_raised_and_the_session_goes_on(self, opened: Open) -> None:
        session = opened(SEGMENT_SUM)
        for _ in range(2):
            with pytest.raises(KernelError, match=NOT_SORTED):
                session.run(None, feeds(UNSORTED))
            assert session.run(["y"], feeds())[0].tolist() == SUMS

    def test_the_callers_run_options_can_be_used_again(self, opened: Open) -> None:
        session, options = opened(SEGMENT_SUM), ort.RunOptions()
        with pytest.raises(KernelError):
            session.run(None, feeds(UNSORTED), options)
        assert session.run(None, feeds(), options)[0].tolist() == SUMS

    def test_an_error_in_the_middle_is_not_hidden_by_what_follows(self, opened: Open) -> None:
        m = model(
            "g (float[k,2] data, int64[k] ids, float[9,2] other) => (z) "
            "{ y = onnx_sparse.SegmentSum (data, ids)  w = Add (y, other)  z = onnx_sparse.SegmentSum (w, ids) }"
        )
        with pytest.raises(KernelError, match=NOT_SORTED):
            opened(m).run(None, feeds(UNSORTED) | {"other": np.zeros((9, 2), np.float32)})

    def test_nothing_runs_after_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from onnx_sparse.reference import FUNCTIONS

        def never(*inputs: Any, **attributes: Any) -> Any:
            ran.append(inputs)

        ran: list[Any] = []
        monkeypatch.setitem(FUNCTIONS, "SegmentMean", never)
        m = model(
            "g (float[k,2] data, int64[k] ids) => (z) "
            "{ y = onnx_sparse.SegmentSum (data, ids)  a = Abs (y)  z = onnx_sparse.SegmentMean (a, ids) }"
        )
        with pytest.raises(KernelError, match=NOT_SORTED):
            onnx_sparse.InferenceSession(m, backend="python").run(None, feeds(UNSORTED))
        assert not ran

    def test_an_error_of_another_operator_is_unchanged(self, opened: Open) -> None:
        m = model(
            "g (float[k,2] data, int64[k] ids, float[9,2] o) => (z) "
            "{ y = onnx_sparse.SegmentSum (data, ids)  z = Add (y, o) }"
        )
        with pytest.raises(Exception, match="Add") as raised:
            opened(m).run(None, feeds() | {"o": np.zeros((9, 2), np.float32)})
        assert not isinstance(raised.value, KernelError)

    def test_errors_in_branches_and_loops(self, opened: Open) -> None:
        with pytest.raises(KernelError, match=NOT_SORTED):
            opened(BRANCHES).run(None, feeds(UNSORTED) | {"c": np.array(False)})
        loop = model(
            """
g (int64 n, float[k,2] data, int64[k] ids) => (float[a,b,2] ys) {
  go = Constant <value = bool {1}> ()
  ys = Loop (n, go) <body = b (int64 i, bool c) => (bool d, float[s,2] y) {
    d = Identity (c)
    y = onnx_sparse.SegmentSum (data, ids)
  }>
}"""
        )
        session = opened(loop)
        assert session.run(None, feeds() | {"n": np.array(2)})[0].tolist() == [SUMS, SUMS]
        with pytest.raises(KernelError, match=NOT_SORTED):
            session.run(None, feeds(UNSORTED) | {"n": np.array(2)})

    def test_with_ort_values_and_io_binding(self, opened: Open) -> None:
        session = opened(SEGMENT_SUM)
        for ids in (SORTED, UNSORTED):
            values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in feeds(ids).items()}
            binding = session.io_binding()
            for name, value in values.items():
                binding.bind_ortvalue_input(name, value)
            binding.bind_output("y")
            if ids is SORTED:
                assert session.run_with_ort_values(["y"], values)[0].numpy().tolist() == SUMS
                session.run_with_iobinding(binding)
                assert binding.copy_outputs_to_cpu()[0].tolist() == SUMS
            else:
                with pytest.raises(KernelError, match=NOT_SORTED):
                    session.run_with_ort_values(["y"], values)
                with pytest.raises(KernelError, match=NOT_SORTED):
                    session.run_with_iobinding(binding)

    def test_with_vectors_of_ort_values(self, opened: Open) -> None:
        session, cpu = opened(SEGMENT_SUM), OrtDevice(OrtDevice.cpu(), OrtDevice.default_memory(), 0)
        for ids in (SORTED, UNSORTED):
            given = feeds(ids)
            fed, fetched = OrtValueVector(), OrtValueVector()
            values = [ort.OrtValue.ortvalue_from_numpy(array) for array in given.values()]
            for value in values:
                fed.push_back(value._get_c_value())

            def run(fed: Any = fed, fetched: Any = fetched, names: Any = tuple(given)) -> None:
                session.run_with_ortvaluevector(ort.RunOptions(), list(names), fed, ["y"], fetched, [cpu])

            if ids is SORTED:
                run()
                assert fetched[0].numpy().tolist() == SUMS
            else:
                with pytest.raises(KernelError, match=NOT_SORTED):
                    run()

    def test_asynchronously(self, opened: Open) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 2
        session = opened(SEGMENT_SUM, options)
        for ids, expected in ((SORTED, ""), (UNSORTED, "ids must be sorted")):
            done, answers = threading.Event(), []

            def callback(results: Any, data: Any, error: str, answers: list[Any] = answers, done: Any = done) -> None:
                answers.append((results, data, error))
                done.set()

            session.run_async(None, feeds(ids), callback, "mine")
            assert done.wait(30)
            results, data, error = answers[0]
            assert data == "mine"
            assert expected in error
            assert bool(error) == bool(expected)
            if not expected:
                assert results[0].tolist() == SUMS

    def test_nodes_executed_in_parallel(self, opened: Open) -> None:
        options = ort.SessionOptions()
        options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
        options.inter_op_num_threads = 2
        m = model(
            "g (float[k,2] data, int64[k] ids) => (y, z) "
            "{ y = onnx_sparse.SegmentSum (data, ids)  z = onnx_sparse.SegmentMean (data, ids) }"
        )
        session = opened(m, options)
        assert session.run(None, feeds())[0].tolist() == SUMS
        with pytest.raises(KernelError, match="ids must be sorted"):
            session.run(None, feeds(UNSORTED))

    def test_eight_threads_on_one_session_each_get_their_own_answer(self, opened: Open) -> None:
        session = opened(SEGMENT_SUM)

        def work(number: int) -> None:
            random = np.random.default_rng(number)
            for _ in range(50):
                ids = np.sort(random.integers(0, 5, 20))
                data = random.integers(0, 100, (20, 2)).astype(np.float32)
                expected = np.zeros((ids[-1] + 1, 2), np.float32)
                np.add.at(expected, ids, data)
                if random.random() < 0.3:
                    ids[-1] = -number - 1
                    with pytest.raises(KernelError, match=rf"segment_ids\[19\] = {ids[-1]} must be >= 0"):
                        session.run(None, {"data": data, "ids": ids})
                else:
                    np.testing.assert_array_equal(session.run(None, {"data": data, "ids": ids})[0], expected)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))


class TestCopies:
    @pytest.mark.parametrize("source", ["path", "relative", "bytes"])
    def test_a_session_is_opened_again(
        self, opened: Open, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        onnx.save(SEGMENT_SUM, tmp_path / "m.onnx")
        monkeypatch.chdir(tmp_path)
        given = {"path": tmp_path / "m.onnx", "relative": "m.onnx", "bytes": SEGMENT_SUM.SerializeToString()}[source]
        session = opened(given, providers=["CPUExecutionProvider"], enable_fallback=0)
        monkeypatch.chdir("/")
        for again in (pickle.loads(pickle.dumps(session)), copy.copy(session), copy.deepcopy([session])[0]):
            assert again is not session
            assert again.run(None, feeds())[0].tolist() == SUMS
            with pytest.raises(KernelError, match=NOT_SORTED):
                again.run(None, feeds(UNSORTED))
            assert pickle.dumps(again) == pickle.dumps(session), "with the same backend and providers"

    def test_in_another_process(self, opened: Open) -> None:
        session = opened(SEGMENT_SUM.SerializeToString())
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            assert pool.submit(session.run, None, feeds()).result()[0].tolist() == SUMS

    def test_what_cannot_be_opened_again_says_why(self, opened: Open) -> None:
        for session in (opened(SEGMENT_SUM), opened(SEGMENT_SUM.SerializeToString(), ort.SessionOptions())):
            for copying in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="make it from a path or bytes and without session options"):
                    copying(session)


class TestElementTypes:
    @pytest.mark.parametrize("dtype", [np.float16, bfloat16])
    def test_half_floats_run_and_are_rounded_once(self, opened: Open, dtype: Any) -> None:
        name = np.dtype(dtype).name
        m = model(f"g ({name}[k] data, int64[k] ids) => ({name}[s] y) {{ y = onnx_sparse.SegmentSum (data, ids) }}")
        data = np.array([1, *[2.0**-9] * 8], dtype)  # in bfloat16, each is lost when added to 1 alone
        (y,) = opened(m).run(None, {"data": data, "ids": np.zeros(9, np.int64)})
        assert y.dtype == dtype
        assert y.astype(float).tolist() == [1 + 2.0**-6]

    @pytest.mark.parametrize("name", ["float16", "bfloat16"])
    def test_half_floats_in_a_plain_session_are_a_clean_load_error(self, name: str) -> None:
        m = model(f"g ({name}[k] data, int64[k] ids) => ({name}[s] y) {{ y = onnx_sparse.SegmentSum (data, ids) }}")
        canonical = onnx_sparse.canonicalize(m).SerializeToString()
        with pytest.raises(Exception, match="SegmentSum") as raised:
            ort.InferenceSession(canonical, onnx_sparse.session_options("python"))
        assert type(raised.value).__name__ == "InvalidGraph"

    def test_strings_beside_bfloat16(self, opened: Open) -> None:
        """As in a recommender model that hashes its features."""
        m = model(
            "g (string[k] words, string d, bfloat16[v,1] t, int64[k] ids) => (bfloat16[s,1] y, string[s] f) {"
            " n = Constant <value = int64 {2}> ()  one = Constant <value = int64[1] {1}> ()"
            " i = onnx_sparse.StringToHashBucketFast (words, n)"
            " y = onnx_sparse.EmbeddingSegmentsSum (t, i, ids, n)"
            " f = onnx_sparse.Fill (one, d) }"
        )
        words, ids = np.array(["user", "", "日本語"], object), np.array([0, 0, 1])
        feeds = {"words": words, "d": np.array("ß", object), "t": np.array([[1], [2]], bfloat16), "ids": ids}
        for words_fed in words, words.astype(str):
            y, filled = opened(m).run(None, feeds | {"words": words_fed})
            assert y.astype(float).tolist() == [[3], [2]]
            assert filled.tolist() == ["ß"]

    def test_names_of_half_float_carriers_do_not_clash(self, opened: Open) -> None:
        m = model(
            "g (float16[k] x, int64[k] ids) => (float16[s] y) "
            "{ data_float = Abs (x)  y = onnx_sparse.SegmentSum (data_float, ids) }"
        )
        assert opened(m).run(None, {"x": np.array([3, 4], np.float16), "ids": np.zeros(2, np.int64)})[0].tolist() == [7]

    def test_half_floats_between_other_operators(self, opened: Open) -> None:
        m = model(
            "g (float16[k] data, int64[k] ids) => (float16[s] y) "
            "{ a = Mul (data, data)  b = onnx_sparse.SegmentSum (a, ids)  y = Sqrt (b) }"
        )
        data = np.array([3, 4], np.float16)
        assert opened(m).run(None, {"data": data, "ids": np.zeros(2, np.int64)})[0].tolist() == [5]

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("uint64", 2**64 - 3),
            ("uint64", 2**63 + 1),
            ("int64", 2**53 + 1),
            ("int64", -(2**63)),
            ("uint32", 2**32 - 1),
        ],
    )
    def test_large_integers_survive(self, opened: Open, name: str, value: int) -> None:
        m = model(f"g (int64[r] dims, {name} value) => (y) {{ y = onnx_sparse.Fill (dims, value) }}")
        (y,) = opened(m).run(None, {"dims": np.array([3]), "value": np.array(value, name)})
        assert y.dtype == name
        assert y.tolist() == [value] * 3

    def test_strings_survive(self, opened: Open) -> None:
        m = model("g (int64[r] dims, string value) => (y) { y = onnx_sparse.Fill (dims, value) }")
        for text in ("", "a", "日本語", "x" * 10_000):
            (y,) = opened(m).run(None, {"dims": np.array([2, 1]), "value": np.array(text, object)})
            assert y.tolist() == [[text], [text]]

    @pytest.mark.parametrize("dims", [[], [0], [3, 0, 2], [1, 1, 1]])
    def test_scalars_and_empty_outputs_keep_their_shape(self, opened: Open, dims: list[int]) -> None:
        m = model("g (int64[r] dims, float value) => (y) { y = onnx_sparse.Fill (dims, value) }")
        (y,) = opened(m).run(None, {"dims": np.array(dims, np.int64), "value": np.array(2, np.float32)})
        assert y.shape == tuple(dims)
