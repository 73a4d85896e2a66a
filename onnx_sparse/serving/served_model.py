"""A model that is served: its session, the requests that wait for it, and its file, which may change."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from onnx_sparse.batching import run_joined
from onnx_sparse.rows.columns import Array
from onnx_sparse.rows.model_features import features
from onnx_sparse.rows.row_independence import reason_against_joining
from onnx_sparse.schemas.validation import KernelError
from onnx_sparse.serving import metrics
from onnx_sparse.serving.deadlines import SHORTEST, TimedSession, is_ended
from onnx_sparse.serving.endpoints import VERSION
from onnx_sparse.serving.errors import RequestError
from onnx_sparse.serving.located_errors import located
from onnx_sparse.serving.row_parts import Joined, has_many_texts, made, part, parts
from onnx_sparse.serving.settings import Limits
from onnx_sparse.serving.tensors import Tensors, datatype
from onnx_sparse.serving.watched_files import Look, damaged, look
from onnx_sparse.sessions.quiet import quiet_session

_log = logging.getLogger("onnx_sparse.serving")

#: The longest time between two attempts to read files that could not be read.
_MOST_SECONDS = 60.0
#: The time before files are read again that change while they are read.
_SHORT = 0.02
#: The bytes of requests that run together: a larger one would keep the others of its run waiting.
_MOST_JOINED = 1 << 22
#: How many requests may wait to run alone, because their time was up.
_MOST_SUSPECTS = 256
#: A run next to which others wait has so many times what nine of ten of the last ones took, and at least so many
#: seconds, once so many are known.
_PATIENCE, _LEAST_PATIENCE, _KNOWN, _FEW = 8, 0.25, 100, 10
#: How often a run is compared with its time, of which this is a part; and the most and least seconds between.
_CHECKS, _MOST_CHECK_SECONDS = 16, 0.25
#: For how long after a run the rows are looked for that are at fault.
_SEARCH_SECONDS = 0.5
#: Errors of a run that the values of the request have caused.
_OF_REQUESTS = (KernelError, InvalidArgument, ValueError, TypeError)


class LoadedModel:
    """A session of a model, and what requests for it are read with.

    Args:
        path: The ONNX file. Tables in a file of their own are mapped, so that processes share them.
        threads: The threads of a run; 0 for one for each core.
        run_seconds: How long a run may take; 0 for any time.

    Raises:
        ValueError: The protocol has no form for an input or output.
        Exception: ONNX Runtime's, of a file that it refuses.
    """

    def __init__(self, path: Path, threads: int, run_seconds: float = 0) -> None:
        self.session = quiet_session(path, threads)
        self.features = features(self.session)
        self.outputs = [value.name for value in self.session.get_outputs()]
        for value in (*self.session.get_inputs(), *self.session.get_outputs()):
            if not value.type.startswith("tensor("):
                raise ValueError(f"{value.name} is a {value.type}; only tensors can be served")
        messages = [f.inputs["serialized"] for f in self.features.values() if f.kind == "example"]
        self.tensors = Tensors(self.features.inputs, messages)
        self.timed = TimedSession(self.session, run_seconds)
        reason_against_joining(self.timed, self.features)  # tried here, not in the first batch

    def metadata(self, name: str) -> dict[str, Any]:
        """What the model takes and returns, as the protocol describes it."""
        inputs = [
            {"name": i, "datatype": datatype(kind.dtype), "shape": _sizes(kind.shape)}
            for i, kind in self.features.inputs.items()
        ]
        outputs = [
            {
                "name": value.name,
                "datatype": datatype(_dtype(value.type)),
                "shape": [size if isinstance(size, int) else -1 for size in value.shape],
            }
            for value in self.session.get_outputs()
        ]
        return {"name": name, "versions": [VERSION], "platform": "onnx_sparse", "inputs": inputs, "outputs": outputs}


def _sizes(shape: Sequence[int | None] | None) -> list[int]:
    """A shape as the protocol writes it, which has no form for an unknown rank."""
    return [-1] if shape is None else [-1 if size is None else size for size in shape]


def _dtype(text: str) -> int:
    from onnx import TensorProto

    return int(TensorProto.DataType.Value(text.removeprefix("tensor(").removesuffix(")").upper()))


@dataclass(frozen=True)
class _Waiting:
    loaded: LoadedModel
    feeds: dict[str, Array]
    answer: asyncio.Future[list[Array]]
    seconds: float = 0  # how long its run took until its time was up
    first: int | None = None  # the first of its rows, of a part of a request
    took: list[float] = field(default_factory=list)  # the seconds of its runs


class _Lane:
    """Requests that wait for one run after another.

    Args:
        then: Where those go whose time is up, of which each runs alone; None if they are answered with an error.
        most: How many run together.
        seconds: How long a run may take; 0 for any time.
    """

    def __init__(self, then: _Lane | None, most: int, seconds: float) -> None:
        self.then, self.most, self._seconds = then, most, seconds
        self.queue: deque[_Waiting] = deque()
        self.arrived = asyncio.Event()
        self._took: deque[float] = deque(maxlen=_KNOWN)
        self._answer_bytes = 0.0

    def add(self, waiting: _Waiting) -> None:
        """Let a request wait."""
        self.queue.append(waiting)
        self.arrived.set()

    def learn(self, seconds: float, answers: Sequence[list[Array] | Exception]) -> None:
        """Take note of a run."""
        if not any(isinstance(answer, Exception) and is_ended(answer) for answer in answers):
            self._took.append(seconds)
        sizes = [sum(array.nbytes for array in answer) for answer in answers if not isinstance(answer, Exception)]
        self._answer_bytes = max(*sizes, self._answer_bytes / 2, 0)

    @property
    def seconds(self) -> float:
        """How long a run may take: not much longer than usual if the requests can run elsewhere; 0 for any time."""
        if self.then is None or len(self._took) < _FEW or not self._seconds:
            return self._seconds
        usual = sorted(self._took)[len(self._took) * 9 // 10]
        return min(self._seconds, max(_LEAST_PATIENCE, _PATIENCE * usual))

    @property
    def answer_bytes(self) -> int:
        """About how many bytes an answer may have, by those of the last runs."""
        return int(self._answer_bytes)


class ServedModel:
    """A model under a name. Requests that arrive during a run form the next batch.

    Requests with many bytes wait in a lane of their own, so that the others share the processor with one of them. A run
    that takes much longer than usual ends; those of its requests that need longer run alone, in a lane of their own, as
    long again, and then in another lane, until the time of a run is up.

    Args:
        name: The name in addresses.
        path: The ONNX file.
        limits: What the model takes.
    """

    def __init__(self, name: str, path: Path, limits: Limits) -> None:
        self.name, self.path, self._limits = name, path, limits
        self._seen = self._tried = self._served = look(path)
        self._reading = asyncio.Lock()
        self._failures = 0
        self.loaded = LoadedModel(path, limits.threads, limits.run_seconds)
        slow = _Lane(None, 1, limits.run_seconds)
        suspects = _Lane(slow, 1, limits.run_seconds)
        self._lanes = {large: _Lane(suspects, limits.batch_requests, limits.run_seconds) for large in (False, True)}
        self._others = suspects, slow
        self._threads = ThreadPoolExecutor(4, thread_name_prefix=f"model {name}")
        self._sizes, self._seconds = metrics.BATCHES.labels(name), metrics.RUN_SECONDS.labels(name)
        self._waiting = metrics.WAITING.labels(name)

    async def answer(self, loaded: LoadedModel, feeds: dict[str, Array]) -> dict[str, Array]:
        """The outputs for the inputs of one request.

        Args:
            loaded: The session that the inputs were read for.
            feeds: All inputs of the model.

        Raises:
            RequestError: An input is missing, the model refuses the values, or too many requests wait.
        """
        if missing := [name for name in loaded.features.inputs if name not in feeds]:
            raise RequestError(f"input {missing[0]!r} is missing")
        waiting = self._count()
        if waiting >= self._limits.waiting_requests:
            raise RequestError(f"{waiting} requests wait already, the most that are allowed; try later", 503)
        if has_many_texts(feeds):
            results = await self._in_parts(loaded, feeds)
        else:
            results = await self._result(_Waiting(loaded, feeds, _future()), is_large=_size(feeds) > _MOST_JOINED)
        return dict(zip(loaded.outputs, results, strict=True))

    async def _result(self, waiting: _Waiting, *, is_large: bool) -> list[Array]:
        self._lanes[is_large].add(waiting)
        self._waiting.set(self._count())
        return await waiting.answer

    async def _in_parts(self, loaded: LoadedModel, feeds: dict[str, Array]) -> list[Array]:
        """The results for very many texts: of some rows after others, if the model answers each by itself."""
        known, joined, took = loaded.features, Joined(), list[float]()
        is_joined = reason_against_joining(loaded.timed, known) is None
        found = await asyncio.to_thread(parts, feeds, known) if is_joined else []
        for rows in found:
            own = await asyncio.to_thread(part, feeds, known, rows)
            results = await self._result(_Waiting(loaded, own, _future(), 0, rows[0], took), is_large=True)
            if self._limits.run_seconds and sum(took) > self._limits.run_seconds:
                raise self._late(is_last=True)
            if not await asyncio.to_thread(joined.add, results, rows):
                break
        else:
            if found:
                return await asyncio.to_thread(list, joined.results())
        del joined
        whole = await asyncio.to_thread(made, feeds)
        return await self._result(_Waiting(loaded, whole, _future()), is_large=True)

    def _count(self) -> int:
        return sum(len(lane.queue) for lane in self._lanes.values())

    async def work(self) -> None:
        """Answer requests until canceled."""
        async with asyncio.TaskGroup() as tasks:
            for lane in (*self._lanes.values(), *self._others):
                tasks.create_task(self._work(lane))

    async def _work(self, lane: _Lane) -> None:
        """Answer the requests of a lane until canceled."""
        while True:
            await lane.arrived.wait()
            if not await self._run(lane):
                lane.arrived.clear()

    async def _run(self, lane: _Lane) -> bool:
        """Answer the next requests of a lane; returns whether there were any. Nothing holds them afterwards."""
        batch = self._next_batch(lane)
        if not batch:
            return False
        begun = perf_counter()
        answers: Sequence[list[Array] | Exception]
        seconds = (lane.then and batch[0].seconds) or lane.seconds
        try:
            loaded = batch[0].loaded
            running = asyncio.get_running_loop().run_in_executor(self._threads, _answers, loaded, batch, seconds)
            often = min(_MOST_CHECK_SECONDS, max((seconds or 1e9) / len(batch) / _CHECKS, SHORTEST))
            while not (await asyncio.wait({running}, timeout=often))[0]:
                loaded.timed.end_late_runs()
            answers = running.result()
        except asyncio.CancelledError:  # the server ends: a process that waits for a run does not
            batch[0].loaded.timed.end_runs()
            raise
        except Exception as error:  # else all later requests would wait forever
            answers = [error] * len(batch)
        lane.learn(perf_counter() - begun, answers)
        self._seconds.observe(perf_counter() - begun)
        self._sizes.observe(len(batch))
        for waiting, answer in zip(batch, answers, strict=True):
            waiting.took.append(perf_counter() - begun)
            if not waiting.answer.done():  # else its client has gone
                if isinstance(answer, Exception) and is_ended(answer):
                    is_last = lane.then is None or (len(batch) == 1 and seconds == self._limits.run_seconds)
                    if lane.then is not None and not is_last and len(lane.then.queue) < _MOST_SUSPECTS:
                        lane.then.add(replace(waiting, seconds=seconds))
                        continue
                    answer = self._late(is_last=is_last)
                _set(waiting.answer, answer)
        return True

    def _late(self, *, is_last: bool) -> RequestError:
        if is_last:
            return RequestError(f"the run took longer than {self._limits.run_seconds:g} seconds", 504)
        return RequestError(f"{_MOST_SUSPECTS} requests that take long wait already; try later", 503)

    def _next_batch(self, lane: _Lane) -> list[_Waiting]:
        """The next requests for the same session; those whose clients have gone are dropped, large ones run alone."""
        batch: list[_Waiting] = []
        size, queue = 0, lane.queue
        while queue and len(batch) < lane.most:
            waiting = queue[0]
            size += max(_size(waiting.feeds), lane.answer_bytes)
            if batch and (waiting.loaded is not batch[0].loaded or size > _MOST_JOINED):
                break
            queue.popleft()
            if not waiting.answer.done():
                batch.append(waiting)
        self._waiting.set(self._count())
        return batch

    async def follow_file(self, seconds: float) -> None:
        """Read the files again whenever one has changed, until canceled; what could not be read is tried again."""
        waits = 0.0
        while True:
            await asyncio.sleep(seconds)
            now = await asyncio.to_thread(look, self.path, self._seen)
            waits = waits - seconds if now == self._tried else 0.0
            is_due = now != self._tried or (self._failures and waits <= 0)
            if now == self._seen and is_due:  # no longer being written
                await self.reload()
                waits = min(seconds * 2**self._failures, _MOST_SECONDS)
            self._seen = now

    async def reload(self) -> None:
        """Read the files again. Requests that wait are answered by the model that they were read for.

        The model that is served stays if the new one cannot be opened. Of several calls, the last one reads last.
        """
        async with self._reading:
            while True:
                now = await asyncio.to_thread(look, self.path)
                is_new, self._tried = now != self._tried, now
                try:
                    made = await asyncio.to_thread(self._read, now)
                except Exception as error:  # ONNX Runtime's have no common class
                    if await asyncio.to_thread(look, self.path) != now:
                        continue
                    self._failures += 1
                    if is_new or self._failures == 1:
                        metrics.RELOADS.labels(self.name, "failed").inc()
                        stays = f"model {self.name}: {self.path} cannot be opened, the one before stays"
                        _log.error("%s: %s", stays, one_line(error))
                    return
                if made is None:  # the files have changed meanwhile
                    await asyncio.sleep(_SHORT)
                    continue
                self.loaded, self._served, self._failures = made, now, 0
                metrics.RELOADS.labels(self.name, "done").inc()
                _log.info("model %s: %s was read again", self.name, self.path)
                return

    def _read(self, now: Look) -> LoadedModel | None:
        """The model in files that were looked at; None if they are others afterwards."""
        wrong = damaged(now, self._served) if now.is_there else None
        if wrong is not None:
            raise ValueError(f"{wrong} is not the file that the model was written with: its checksum differs")
        made = LoadedModel(self.path, self._limits.threads, self._limits.run_seconds)
        return made if look(self.path) == now else None


def _answers(loaded: LoadedModel, batch: Sequence[_Waiting], seconds: float) -> list[list[Array] | Exception]:
    """The answer or error of each request; what a client has sent wrong is said of its rows and features.

    Rows are looked for in a fixed time, so that the bad requests of a client keep no others waiting.
    """
    with loaded.timed.requests(len(batch), seconds):
        answers = run_joined(loaded.timed, [waiting.feeds for waiting in batch], loaded.features)
    end = perf_counter() + _SEARCH_SECONDS
    for number, answer in enumerate(answers):
        if isinstance(answer, _OF_REQUESTS) and not is_ended(answer):
            waiting = batch[number]
            text = located(loaded.timed, waiting.feeds, loaded.features, answer, end, waiting.first)
            answers[number] = RequestError(text)
    return answers


def _future() -> asyncio.Future[list[Array]]:
    return asyncio.get_running_loop().create_future()


def _size(feeds: dict[str, Array]) -> int:
    return sum(array.nbytes for array in feeds.values())


def _set(future: asyncio.Future[list[Array]], answer: list[Array] | Exception) -> None:
    if not isinstance(answer, Exception):
        future.set_result(answer)
    elif isinstance(answer, RequestError):
        future.set_exception(answer)
    else:
        _log.error("a run failed: %s", one_line(answer))
        future.set_exception(RequestError(f"the model failed: {answer}", 500))


def one_line(value: object) -> str:
    """A message as one line."""
    return " ".join(str(value).split())
