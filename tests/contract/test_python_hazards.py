"""A misbehaving kernel makes onnxruntime-extensions end the process; our wrapper prevents that.

Everything that may end the process runs in a process of its own.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from contract.backends import Call, one_node_model
from contract.models import SEGMENT_SUM, model

import onnx_sparse
from onnx_sparse import InferenceSession
from onnx_sparse.python import kernels
from onnx_sparse.python.guard import Run
from onnx_sparse.reference import FUNCTIONS
from onnx_sparse.schemas import OPS, Op

PRELUDE = """
import numpy as np, onnxruntime as ort, onnx_sparse
from onnx import parser
text = '<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]> '
model = onnx_sparse.canonicalize(parser.parse_model(
    text + "g (float[k] data, int64[k] ids) => (float[s] y) { y = onnx_sparse.SegmentSum (data, ids) }"))
legal = {"data": np.array([1, 2], np.float32), "ids": np.array([0, 0])}
illegal = {"data": np.array([1, 2], np.float32), "ids": np.array([1, 0])}
"""


def run_program(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", PRELUDE + textwrap.dedent(program)], capture_output=True, text=True, timeout=120
    )


def test_an_error_in_a_plain_session_ends_the_process_with_the_message() -> None:
    done = run_program(
        """
        session = ort.InferenceSession(model.SerializeToString(), onnx_sparse.session_options("python"))
        print(session.run(None, legal)[0].tolist())
        print(session.run(None, illegal))
        print("went on")
        """
    )
    assert done.returncode != 0
    assert done.stdout == "[3.0]\n"
    assert "SegmentSum: segment_ids[1] = 0 is less than segment_ids[0] = 1; ids must be sorted" in done.stderr
    assert "onnx_sparse.InferenceSession raises it instead" in done.stderr


def test_an_error_in_our_session_is_raised_and_the_process_goes_on() -> None:
    done = run_program(
        """
        session = onnx_sparse.InferenceSession(model, backend="python")
        try:
            session.run(None, illegal)
        except onnx_sparse.KernelError as error:
            print(error)
        print(session.run(None, legal)[0].tolist())
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "SegmentSum: segment_ids[1] = 0 is less than segment_ids[0] = 1; ids must be sorted\n[3.0]\n"
    assert not done.stderr


@pytest.mark.slow
def test_kernels_declared_while_other_sessions_live_do_no_harm() -> None:
    """onnxruntime-extensions moves its table of operators when one is added, and earlier sessions point into it."""
    done = run_program(
        """
        import onnxruntime_extensions as extensions
        plain = ort.SessionOptions()
        plain.register_custom_ops_library(extensions.get_library_path())
        relu = parser.parse_model(text + "g (float[2] x) => (float[2] y) { y = Relu(x) }")
        before = ort.InferenceSession(relu.SerializeToString(), plain)
        ours = [onnx_sparse.InferenceSession(model, backend="python") for _ in range(20)]
        after = ort.InferenceSession(model.SerializeToString(), onnx_sparse.session_options("python"))
        for _ in range(100):
            before.run(None, {"x": np.zeros(2, np.float32)})
            assert all(s.run(None, legal)[0].tolist() == [3] for s in [*ours, after])
        print("all right")
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "all right\n"


def test_half_floats_never_reach_a_kernel_that_would_end_the_process() -> None:
    done = run_program(
        """
        for name in ("float16", "bfloat16"):
            sums = f"g ({name}[k] data, int64[k] i) => ({name}[s] y) {{ y = onnx_sparse.SegmentSum (data, i) }}"
            half = onnx_sparse.canonicalize(parser.parse_model(text + sums))
            try:
                ort.InferenceSession(half.SerializeToString(), onnx_sparse.session_options("python"))
            except Exception as error:
                print(type(error).__name__)
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "InvalidGraph\nInvalidGraph\n"


def test_interrupting_a_kernel_raises_keyboard_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*inputs: object, **attributes: object) -> None:
        raise KeyboardInterrupt

    session = InferenceSession(SEGMENT_SUM, backend="python")
    monkeypatch.setitem(FUNCTIONS, "SegmentSum", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.run(None, {"data": np.zeros((1, 2), np.float32), "ids": np.zeros(1, np.int64)})


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for one process")
@pytest.mark.parametrize("fails", [False, True])
def test_ctrl_c_during_a_kernel_is_raised_after_it_even_if_it_fails(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sums(data: np.ndarray, *inputs: object, **attributes: object) -> np.ndarray:
        if fails:
            raise onnx_sparse.KernelError("of the input")
        return data

    def results(outputs: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return original(outputs)

    original = kernels._results
    feeds = {"data": np.zeros((1, 2), np.float32), "ids": np.zeros(1, np.int64)}
    session = InferenceSession(SEGMENT_SUM, backend="python")
    with monkeypatch.context() as patched:
        patched.setitem(FUNCTIONS, "SegmentSum", sums)
        patched.setattr(kernels, "_results", results)
        with pytest.raises(KeyboardInterrupt):
            session.run(None, feeds)
    assert session.run(None, feeds)[0].tolist() == [[0, 0]]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _reached(where: str, monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Have `act` called where onnxruntime-extensions enters, runs or leaves a kernel."""

    def acting(original: Callable[..., Any]) -> Callable[..., Any]:
        def replacement(*args: Any, **kwargs: Any) -> Any:
            act()
            return original(*args, **kwargs)

        return replacement

    if where == "before the kernel":
        from onnxruntime_extensions._ocos import Opdef

        monkeypatch.setattr(Opdef, "cast_attributes", acting(Opdef.cast_attributes))
    elif where == "in the function":
        monkeypatch.setitem(FUNCTIONS, "SegmentSum", acting(FUNCTIONS["SegmentSum"]))
    elif where == "in the handling of its error":
        monkeypatch.setitem(FUNCTIONS, "SegmentSum", lambda *_, **__: 1 / 0)
        monkeypatch.setattr(kernels, "_placeholders", acting(kernels._placeholders))
    else:
        monkeypatch.setattr(kernels._ArrayResult, "flatten", acting(kernels._ArrayResult.flatten))


class TooLateError(Exception):
    """What the handler of a timeout raises."""


@pytest.mark.parametrize(
    "where", ["before the kernel", "in the function", "in the handling of its error", "after the kernel"]
)
@pytest.mark.parametrize("raised", [TooLateError, SystemExit, KeyboardInterrupt])
def test_what_a_signal_handler_raises_is_raised_after_the_run(
    where: str, raised: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def handler(*_: object) -> None:
        raise raised

    session = InferenceSession(SEGMENT_SUM, backend="python")
    feeds = {"data": np.zeros((1, 2), np.float32), "ids": np.zeros(1, np.int64)}
    before = signal.signal(signal.SIGINT, handler)
    try:
        with monkeypatch.context() as patched:
            _reached(where, patched, lambda: signal.raise_signal(signal.SIGINT))
            with pytest.raises(raised):
                session.run(None, feeds)
        assert session.run(None, feeds)[0].tolist() == [[0, 0]]
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_signal_handler_may_return_set_another_and_run_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    session = InferenceSession(SEGMENT_SUM, backend="python")
    feeds = {"data": np.ones((2, 2), np.float32), "ids": np.zeros(2, np.int64)}
    seen: list[Any] = []

    def another(*_: object) -> None: ...

    def handler(*_: object) -> None:
        signal.signal(signal.SIGINT, another)
        seen.append(session.run(None, feeds)[0].tolist())

    before = signal.signal(signal.SIGINT, handler)
    try:
        with monkeypatch.context() as patched:
            _reached("before the kernel", patched, lambda: None if seen else signal.raise_signal(signal.SIGINT))
            assert session.run(None, feeds)[0].tolist() == [[2, 2]]
        assert seen == [[[2, 2]]]
        assert signal.getsignal(signal.SIGINT) is another
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that send signals")
@pytest.mark.parametrize("threads", [0, 2])
def test_timers_that_raise_at_any_place_do_not_end_the_process(threads: int) -> None:
    done = run_program(
        f"""
        import random, signal, threading

        class TooLateError(Exception): ...

        def too_late(*_):
            raise TooLateError

        def runs(count, counts):
            for k in range(count):
                try:
                    counts["runs"] += session.run(None, legal)[0].tolist() == [3]
                except TooLateError:
                    counts["late"] += 1
            stop.set()

        session = onnx_sparse.InferenceSession(model, backend="python")
        stop, counts = threading.Event(), {{"runs": 0, "late": 0}}
        others = [threading.Thread(target=runs, args=(2000, {{"runs": 0, "late": 0}})) for _ in range({threads})]
        for other in others:
            other.start()
        signal.signal(signal.SIGALRM, too_late)
        random.seed(1)
        while counts["late"] < 1000:
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(5e-5, 4e-4))
                runs(10, counts)
            except TooLateError:
                counts["late"] += 1
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        for other in others:
            other.join()
        print(session.run(None, legal)[0].tolist(), counts["runs"] > 100)
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[3.0] True\n"


def test_a_run_without_room_on_the_stack_raises() -> None:
    done = run_program(
        """
        def deep(count):
            return deep(count - 1) if count else session.run(None, legal)[0].tolist()

        session = onnx_sparse.InferenceSession(model, backend="python")
        answers = []
        for count in range(850, 1000):
            try:
                answers.append(deep(count))
            except RecursionError:
                answers.append("no room")
        assert answers[0] == [3.0] and answers[-1] == "no room", answers
        print("all right")
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "all right\n"


def test_a_run_begins_when_a_failed_one_of_the_same_options_has_ended() -> None:
    """Else the options, which stop the failed run, would stop the new one, too."""
    options = ort.RunOptions()
    failed, waiting = Run(options), Run(options)
    has_begun = threading.Event()

    def begin() -> None:
        waiting.begin()
        has_begun.set()

    failed.begin()
    failed.fail(ValueError("bad"))
    assert options.terminate
    thread = threading.Thread(target=begin)
    thread.start()
    assert not has_begun.wait(0.3)
    failed.end()
    thread.join(60)
    assert has_begun.is_set()
    assert not options.terminate
    waiting.end()


@pytest.mark.parametrize(
    "wrong", [np.zeros((1, 2), np.float64), np.zeros((1, 2), np.int32), np.array([["a", "b"]], object)]
)
def test_an_output_of_another_dtype_is_an_error_not_reinterpreted_memory(
    wrong: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = InferenceSession(SEGMENT_SUM, backend="python")
    monkeypatch.setitem(FUNCTIONS, "SegmentSum", lambda *inputs, **attributes: wrong)
    with pytest.raises(TypeError, match=r"SegmentSum: output output is .*; expected float"):
        session.run(None, {"data": np.zeros((1, 2), np.float32), "ids": np.zeros(1, np.int64)})


def test_an_array_that_is_not_contiguous_is_passed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    strided = np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::2]
    session = InferenceSession(SEGMENT_SUM, backend="python")
    monkeypatch.setitem(FUNCTIONS, "SegmentSum", lambda *inputs, **attributes: strided)
    (y,) = session.run(None, {"data": np.zeros((1, 2), np.float32), "ids": np.zeros(1, np.int64)})
    np.testing.assert_array_equal(y, strided)


def test_omitted_inputs_and_outputs_are_filled_in_for_the_python_kernels() -> None:
    """onnxruntime-extensions has no optional inputs, outputs or attributes."""
    m = model(
        "g (float[n] v, int64[2] s, int64[n,2] i, float d) => (oi) "
        "{ oi = onnx_sparse.SparseFillEmptyRows (v, s, i, d) }"
    )
    inputs = {
        "v": np.ones(1, np.float32),
        "s": np.array([2, 2]),
        "i": np.array([[1, 1]]),
        "d": np.array(0, np.float32),
    }
    assert onnx_sparse.InferenceSession(m, backend="python").run(None, inputs)[0].tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize("op", [op for op in OPS.values() if op.no_python_kernels], ids=lambda op: op.name)
def test_operators_without_kernels_are_refused_before_a_session_starts(op: Op) -> None:
    """Their inputs would be changed on the way, or end the process."""
    names = [i.name for i in op.inputs]
    attributes = {attribute.name: attribute.choices[0] for attribute in op.attributes}
    types = {variable: types[0] for variable, types in op.types.items()}
    m = one_node_model(Call.of(op, types, attributes, dict.fromkeys(names, np.zeros(0))))
    with pytest.raises(ValueError, match=r"has no Python kernels: .*; use the native kernels \(backend='native'\)"):
        InferenceSession(m, backend="python")
    with pytest.raises(Exception, match=f"onnx_sparse:{op.name}\\(-1\\) is not a registered function/op"):
        ort.InferenceSession(m.SerializeToString(), onnx_sparse.session_options("python"))


def test_strings_that_cannot_be_passed_on_are_refused() -> None:
    """onnxruntime-extensions would end the first at its zero byte, and the process at the second."""
    done = run_program(
        """
        def refused(body, **inputs):
            model = parser.parse_model(text + "g (" + body)
            try:
                print(onnx_sparse.InferenceSession(model, backend="python").run(None, inputs))
            except onnx_sparse.KernelError as error:
                print(error)
        refused("int32[n] i, int64[l] s, int32 c) => (string[b] y) { y = onnx_sparse.UnicodeEncode (i, s, c) }",
                i=np.array([59, 65, 0], np.int32), s=np.array([0, 1, 3]), c=np.array(63, np.int32))
        refused('string[n] t, int64[n] p, int64[n] l) => (string[n] y) { '
                'y = onnx_sparse.Substr <unit = "BYTE"> (t, p, l) }',
                t=np.array(["ß"], object), p=np.array([0]), l=np.array([1]))
        """
    )
    assert done.returncode == 0, done.stderr
    passed_on = "onnxruntime-extensions cannot pass it on, but the native kernels can"
    assert done.stdout.splitlines() == [
        f"UnicodeEncode: output: string 1 has a zero byte; {passed_on}",
        f"Substr: output: string 0 has bytes that are not UTF-8; {passed_on}",
    ]
