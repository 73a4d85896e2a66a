"""The server's addresses over HTTP."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from onnx_sparse.rows.columns import Array
from onnx_sparse.schemas.features import listed
from onnx_sparse.serving import endpoints, metrics
from onnx_sparse.serving.compression import answer_encoding, check_encoding, compressed, decompressed
from onnx_sparse.serving.connections import Connections
from onnx_sparse.serving.endpoints import ENDPOINTS, VERSION
from onnx_sparse.serving.errors import RequestError, shown
from onnx_sparse.serving.inference_requests import HEADER_LENGTH, read_request, write_response
from onnx_sparse.serving.long_lists import cut
from onnx_sparse.serving.ordered_thread import OrderedThread
from onnx_sparse.serving.reading_process import ReadingProcess
from onnx_sparse.serving.request_log import Requests, known_id
from onnx_sparse.serving.row_parts import with_held_texts
from onnx_sparse.serving.row_requests import read_rows, write_rows
from onnx_sparse.serving.served_model import LoadedModel, ServedModel
from onnx_sparse.version import __version__

#: How long the rest of a request that is too large is read, so that its client reads the answer.
_SECONDS_OF_REST = 5

#: How long a body may take, in seconds, and for how many bytes it gets another one.
_BODY_SECONDS, _BYTES_PER_SECOND = 20, 1 << 17

#: How many times the largest body all may take that are being read and answered, with their answers. What is smaller
#: may take more: so many times its size is left to it, up to one of these.
_HELD, _LEFT = 5, 8
#: How long a body may have sent less than so many bytes, in seconds, when others need what it holds.
_STALLED_SECONDS, _STALLED_BYTES = 1.0, 1 << 16

#: How long an answer waits for room, in seconds: until bodies that hold it have stalled for long enough.
_ROOM_SECONDS = 2 * _STALLED_SECONDS

#: How often memory is returned to the system, in seconds, and after how many bytes of requests.
_TRIM_SECONDS, _TRIM_BYTES = 1.0, 1 << 25

#: The header with what a client calls its request.
_ID_HEADER = "x-request-id"

#: The name and extensions of the server, for both protocols.
SERVER = {"name": "onnx_sparse", "version": __version__, "extensions": ["binary_tensor_data"]}


@dataclass
class _Reading:
    """A body that is being read: its time, when it had last come further, and by what it has since."""

    limit: asyncio.Timeout
    last: float
    since: int = 0


class HttpApp:
    """An ASGI application.

    Args:
        models: The models by name.
        most_bytes: The largest body of a request.
        requests: What is told of answered requests.
    """

    def __init__(self, models: Mapping[str, ServedModel], most_bytes: int, requests: Requests) -> None:
        self._models, self._most_bytes, self.requests = models, most_bytes, requests
        self.draining = asyncio.Event()
        self.connections: Connections | None = None
        self._held = self._released = 0
        #: The bytes of results that wait for room, the first that came first.
        self._waiting: dict[object, int] = {}
        self._reading: dict[Request, _Reading] = {}
        self.app = Starlette(
            routes=[Route(each.path, getattr(self, f"_{each.handler}"), methods=[each.method]) for each in ENDPOINTS],
            exception_handlers={
                RequestError: _refused,
                HTTPException: _unknown,
                ClientDisconnect: _gone,
                Exception: _failed,
            },
        )
        self.app.state.http = self
        self.app.router.redirect_slashes = False  # a redirect would repeat the client's Host

    @property
    def is_ready(self) -> bool:
        """Whether new requests may be sent, until the server is about to end."""
        return not self.draining.is_set()

    async def _infer(self, request: Request) -> Response:
        return await self._answered(request, "v2", _infer)

    async def _predict(self, request: Request) -> Response:
        return await self._answered(request, "rows", _predict)

    async def _answered(self, request: Request, protocol: str, answer: Any) -> Response:
        """The response to a request for a model's answers, counted."""
        model = self._model(request)
        begun, status = perf_counter(), 500
        request.state.held = 0
        try:
            body = await self._body(request)
            begun = perf_counter()
            response: Response = await answer(model, request, body)
            status = response.status_code
            response.headers.update(_repeated(request))
            return response
        except RequestError as error:
            status = error.status
            raise
        finally:
            self._release(request.state.held)
            self.requests.answered(model.name, protocol, status, begun, request.headers.get(_ID_HEADER, ""))

    def _model(self, request: Request) -> ServedModel:
        return find(self._models, request.path_params["name"], request.path_params.get("version", ""))

    async def _body(self, request: Request) -> bytearray:
        """The body, decompressed; its bytes count as held until the request is answered."""
        is_compressed = check_encoding(request.headers.get("content-encoding", "identity"))
        body = bytearray()
        stream = request.stream()
        declared = request.headers.get("content-length", "0")
        refusal = self._refusal(int(declared) if declared.isdigit() else 0)
        if refusal is None:
            try:
                async with asyncio.timeout(_BODY_SECONDS) as limit:
                    reading = self._reading[request] = _Reading(limit, asyncio.get_running_loop().time())
                    async for part in stream:
                        reading.since += len(part)
                        if reading.since >= _STALLED_BYTES:
                            reading.last, reading.since = asyncio.get_running_loop().time(), 0
                        self._hold(request, len(part))
                        if refusal := self._refusal(len(body) + len(part)):
                            break
                        body += part
                        if not limit.expired():
                            limit.reschedule((limit.when() or 0) + len(part) / _BYTES_PER_SECOND)
            except TimeoutError:
                raise RequestError(f"the body came too slowly: {request.state.held} bytes", 408) from None
            finally:
                self._reading.pop(request, None)
        if refusal is not None:
            body.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_SECONDS_OF_REST):
                    async for _ in stream:
                        pass
            raise refusal
        if is_compressed:
            body = await off_loop(_LARGE + 1, decompressed, body, self._most_bytes)
            self._hold(request, len(body))
        return body

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Count the bytes of a request of another protocol as held.

        Raises:
            RequestError: It is too large, or too much is held.
        """
        if refusal := self._refusal(size):
            raise refusal
        self._held += size
        try:
            yield
        finally:
            self._release(size)

    @asynccontextmanager
    async def holding_answer(self, results: Mapping[str, Array], *, is_text: bool = True) -> AsyncIterator[None]:
        """Count results, and what is written of them, as held, once there is room for them.

        Args:
            results: The results.
            is_text: Whether numbers are written as text.

        Raises:
            RequestError: Too much is held, also after what has stalled was given up.
        """
        own = sum(array.nbytes for array in results.values())
        size = own + (size_of(results) if is_text else own)
        await self._room(own, size)
        self._held += size
        try:
            yield
        finally:
            self._release(size)

    async def _room(self, own: int, size: int) -> None:
        """Wait for room for an answer of that size, with results of so many bytes of their own.

        What waits is bounded, too: the largest results are given up first, and of equal ones the last that came.
        """
        now = asyncio.get_running_loop().time
        end, ticket, waiting = now() + _ROOM_SECONDS, object(), self._waiting
        waiting[ticket] = own
        try:
            while (held := self._held_before(size)) is not None:
                while len(waiting) > 1 and sum(waiting.values()) > self._most_bytes:
                    del waiting[max(reversed(waiting), key=waiting.__getitem__)]
                if ticket not in waiting or now() >= end:
                    raise RequestError(f"other requests and answers with {held} bytes wait; try later", 503)
                await asyncio.sleep(_ROOM_SECONDS / 20)
        finally:
            waiting.pop(ticket, None)

    def _held_before(self, size: int) -> int | None:
        """The bytes that leave no room for an answer of that size; None if there is room."""
        held = self._held + self._unread(0)
        if size <= _LARGE or held <= self._most_bytes:  # it is small, or the only one
            return None
        room = self._limit(size) - size
        unread = self._unread(held - room)
        if self._held_after(self._held + unread - room) + unread <= room:
            return None
        return self._held + unread

    def _unread(self, needed: int) -> int:
        """The bytes of unread answers, after connections were closed that read nothing: as many as needed."""
        return 0 if self.connections is None else self.connections.unread(needed)

    def _limit(self, size: int) -> int:
        return _HELD * self._most_bytes - min(self._most_bytes, _LEFT * size)

    def _release(self, size: int) -> None:
        self._held -= size
        self._released += size

    async def return_memory(self) -> None:
        """Return memory that requests held to the system, until canceled: allocators keep it for more of their kind."""
        while trim := _trim():
            await asyncio.sleep(_TRIM_SECONDS)
            if self._released > _TRIM_BYTES:
                self._released = 0
                await asyncio.to_thread(trim, 0)

    def _hold(self, request: Request, size: int) -> None:
        self._held += size
        request.state.held += size

    def _refusal(self, size: int) -> RequestError | None:
        """Why a body of that size is not read, if it is not."""
        if size > self._most_bytes:
            text = f"the request is larger than {self._most_bytes} bytes, the most that this server takes"
            return RequestError(text, 413)
        if size > _LARGE and self._held_after(self._held - self._limit(size)) > self._limit(size):
            return RequestError(f"other requests with {self._held} bytes are being answered; try later", 503)
        return None

    def _held_after(self, needed: int) -> int:
        """The bytes that are held after bodies that have stalled are given up: as many as needed, the longest first."""
        now, held = asyncio.get_running_loop().time(), self._held
        for request, reading in sorted(self._reading.items(), key=lambda entry: entry[1].last):
            if needed <= 0 or now - reading.last < _STALLED_SECONDS:
                break
            if not reading.limit.expired():  # for another request, a moment ago
                reading.limit.reschedule(now)
            held, needed = held - request.state.held, needed - request.state.held
        return held

    async def _live(self, _: Request) -> Response:
        return JSONResponse({"live": True})

    async def _ready(self, _: Request) -> Response:
        return JSONResponse({"ready": self.is_ready}, 200 if self.is_ready else 503)

    async def _server(self, _: Request) -> Response:
        return JSONResponse(SERVER)

    async def _list(self, _: Request) -> Response:
        return JSONResponse({"models": [*self._models]})

    async def _model_ready(self, request: Request) -> Response:
        return JSONResponse({"name": self._model(request).name, "ready": self.is_ready}, 200 if self.is_ready else 503)

    async def _describe(self, request: Request) -> Response:
        model = self._model(request)
        return JSONResponse(model.loaded.metadata(model.name))

    async def _status(self, request: Request) -> Response:
        """As TensorFlow Serving says it, and as KServe's first protocol."""
        name = self._model(request).name
        state = {"version": VERSION, "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
        return JSONResponse({"name": name, "ready": self.is_ready, "model_version_status": [state]})

    async def _metadata(self, request: Request) -> Response:
        model = self._model(request)
        return JSONResponse(endpoints.signature(model.name, model.loaded))

    async def _verb(self, request: Request) -> Response:
        verb = request.path_params["verb"]
        raise RequestError(f"model {self._model(request).name!r} has no :{verb[:40]}; it has :predict", 404)

    async def _index(self, request: Request) -> Response:
        address = f"http://{request.scope['server'][0]}:{request.scope['server'][1]}"
        return JSONResponse(endpoints.index(self._loaded(), address))

    async def _openapi(self, _: Request) -> Response:
        return JSONResponse(endpoints.openapi(self._loaded()))

    def _loaded(self) -> dict[str, LoadedModel]:
        return {name: model.loaded for name, model in self._models.items()}

    async def _metrics(self, _: Request) -> Response:
        return Response(await asyncio.to_thread(metrics.text), headers={"content-type": metrics.CONTENT_TYPE})


async def _infer(model: ServedModel, request: Request, body: bytearray) -> Response:
    loaded = model.loaded
    length = request.headers.get(HEADER_LENGTH)
    wanted = await _read(["data"], length, read_request, body, length, loaded.tensors, loaded.outputs)
    results = await model.answer(loaded, wanted.feeds)
    async with request.app.state.http.holding_answer(results):
        content, header = await off_loop(size_of(results), write_response, model.name, wanted, results)
    if header is None:
        return await _response(request, content, "application/json", {})
    return await _response(request, content, "application/octet-stream", {HEADER_LENGTH: str(header)})


async def _predict(model: ServedModel, request: Request, body: bytearray) -> Response:
    loaded = model.loaded
    feeds, rows, asked = await _read(loaded.features, None, read_rows, body, loaded.features, loaded.outputs)
    results = await model.answer(loaded, feeds)
    results = {name: results[name] for name in asked}
    async with request.app.state.http.holding_answer(results):
        content = await off_loop(size_of(results), write_rows, results, rows)
    return await _response(request, content, "application/json", {})


async def _response(request: Request, content: bytearray, kind: str, headers: dict[str, str]) -> Response:
    """A response with a body, compressed as the client asks for."""
    encoding = answer_encoding(request.headers.get("accept-encoding", ""), len(content))
    if encoding is not None:
        content = await off_loop(len(content), compressed, content, encoding)
        headers = {**headers, "content-encoding": encoding, "vary": "accept-encoding"}
    return Response(memoryview(content), media_type=kind, headers=headers)


#: The bytes of requests and results that are read and written at once, and those of very large ones.
_LARGE, _HUGE = 1 << 16, 1 << 20
#: Read and write what is large, one request after another, so that the others share the processor with one of them; a
#: very large one does not keep large ones waiting.
_readers = {is_huge: OrderedThread("large requests") for is_huge in (False, True)}
#: Reads JSON with more than `_HUGE` characters next to long lists of numbers, and waits for it: numbers do not.
_process, _texts = ReadingProcess(), OrderedThread("large texts")

_R = TypeVar("_R")


async def off_loop(size: int, work: Callable[..., _R], *arguments: Any) -> _R:
    """What a function returns, called in another thread if it has much to do: health is answered meanwhile."""
    if size <= _LARGE:
        return work(*arguments)
    return await asyncio.wrap_future(_readers[size > _HUGE].submit(size, partial(work, *arguments)))


async def _read(
    keys: Iterable[str], length: str | None, work: Callable[..., _R], body: bytearray, *arguments: Any
) -> _R:
    """What a function reads in a body whose JSON has a length, in another process if it makes very many objects."""
    size = int(length) if length is not None and length.isdigit() else len(body)

    if size > _HUGE and len((await off_loop(size, cut, body, keys))[0]) > _HUGE:
        reading = partial(_process.call, with_held_texts, work, body, *arguments)
        return await asyncio.wrap_future(_texts.submit(size, reading))
    return await off_loop(len(body), work, body, *arguments)


def _trim() -> Callable[[int], object] | None:
    """What returns the memory that is free to the system; None if the C library has no such function."""
    try:
        found: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):  # Windows, macOS, musl
        return None
    return found


def size_of(results: Mapping[str, Array]) -> int:
    """About how many bytes results have as JSON."""
    return sum(array.size for array in results.values()) * 16


def find(models: Mapping[str, ServedModel], name: str, version: str) -> ServedModel:
    """The model of a name and version; no version is any.

    Raises:
        RequestError: There is none.
    """
    if name not in models:
        if name.endswith(":predict"):
            raise RequestError(f"{name} takes rows: send them by POST", 405)
        raise RequestError(f"there is no model {shown(name)}; there is {listed(map(repr, models))}", 404)
    if version not in ("", VERSION):
        raise RequestError(f"model {name!r} has no version {shown(version)}; it has {VERSION!r}", 404)
    return models[name]


def _repeated(request: Request) -> dict[str, str]:
    """The header with the id of a request, for its answer."""
    identifier = known_id(request.headers.get(_ID_HEADER, ""))
    return {_ID_HEADER: identifier} if identifier else {}


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    headers = _repeated(request) | ({"retry-after": "1"} if error.status == 503 else {})
    return JSONResponse({"error": str(error)}, error.status, headers)


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = f"{request.method} {request.url.path}: {error.detail}"
    return JSONResponse({"error": text}, error.status_code, error.headers)


async def _gone(_: Request, __: Exception) -> Response:
    return Response(status_code=499)  # which nobody reads


async def _failed(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"the server failed: {type(error).__name__}: {error}"}, 500)
