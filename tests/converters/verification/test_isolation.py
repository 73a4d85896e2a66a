"""Calls that end their process, or never return: they are made in a child process."""

import gc
import os
import signal
import threading
import time
from multiprocessing import util

import pytest

from onnx_sparse.converters.verification.isolation import CAN_FORK, EndedError, Isolated


@pytest.mark.skipif(not CAN_FORK, reason="needs fork")
class TestIsolation:
    def test_a_process_that_ends_is_an_error(self):
        def run(action):
            if action == "end":
                os.kill(os.getpid(), signal.SIGFPE)
            if action == "exit":
                os._exit(3)
            return os.getpid()

        with Isolated(lambda: run) as isolated:
            first = isolated("go on")
            assert first != os.getpid()
            assert isolated("go on") == first
            with pytest.raises(EndedError, match=r"^the process ends by SIGFPE$"):
                isolated("end")
            with pytest.raises(EndedError, match=r"^the process ends with 3$"):
                isolated("exit")
            assert isolated("go on") != first

    @pytest.mark.parametrize("is_stuck_again", [False, True])
    def test_a_call_that_is_stuck_is_made_again(self, tmp_path, monkeypatch, is_stuck_again):
        """As one that waits for a lock that a thread of the parent held; one that computes for long is not."""
        monkeypatch.setattr("onnx_sparse.converters.verification.isolation._STUCK_SECONDS", 1.5)
        tried = tmp_path / "tried"

        def run(action):
            if action == "compute":
                end = time.process_time() + 3
                while time.process_time() < end:
                    pass
            elif is_stuck_again or not tried.exists():
                tried.touch()
                threading.Event().wait()
            return os.getpid()

        with Isolated(lambda: run) as isolated:
            first = isolated("compute")
            if is_stuck_again:
                with pytest.raises(EndedError, match=r"^the process does nothing for 1.5 seconds$"):
                    isolated("wait")
            else:
                assert isolated("wait") != first

    def test_errors_are_raised(self):
        class LocalError(Exception):
            """One that no other process knows."""

        def run(error):
            raise (LocalError("of the child") if error is None else error)

        with Isolated(lambda: run) as isolated:
            with pytest.raises(ValueError, match=r"^wrong$"):
                isolated(ValueError("wrong"))
            with pytest.raises(RuntimeError, match=r"^of the child$"):
                isolated(None)

    def test_inherited_garbage_is_not_destroyed(self, tmp_path):
        """A model of OpenVINO in it would wait for threads that only the parent has."""
        log = tmp_path / "log"

        class Cycle:
            def __init__(self):
                self.itself = self

            def __del__(self):
                with log.open("a") as file:
                    file.write(f"{os.getpid()}\n")

        def collect_at_the_next_allocations(_):
            gc.set_threshold(1)
            return [[] for _ in range(1000)]

        thresholds = gc.get_threshold()
        while_this_lives = set()
        util.register_after_fork(while_this_lives, collect_at_the_next_allocations)
        gc.set_threshold(10**6)
        try:
            with Isolated(lambda: lambda _: gc.collect()) as isolated:
                Cycle()
                isolated(None)
            gc.collect()
        finally:
            gc.set_threshold(*thresholds)
        assert log.read_text().split() == [str(os.getpid())]
        assert gc.isenabled()
