"""The Open Inference Protocol over gRPC: the service `inference.GRPCInferenceService`, which KServe and Triton have."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias

import grpc
import grpc.aio
import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from onnx_sparse.models.data.message_classes import declare_messages
from onnx_sparse.rows.columns import Array
from onnx_sparse.schemas.features import listed
from onnx_sparse.serving import packed_numbers
from onnx_sparse.serving.endpoints import VERSION
from onnx_sparse.serving.errors import RequestError, refuse_extensions, shown
from onnx_sparse.serving.http_app import SERVER, HttpApp, find, off_loop, size_of
from onnx_sparse.serving.inference_requests import chosen, known_output
from onnx_sparse.serving.served_model import ServedModel, one_line
from onnx_sparse.serving.tensors import Tensors, datatype_of, to_bytes, to_strings

_log = logging.getLogger("onnx_sparse.serving")

_SERVICE = "inference.GRPCInferenceService"
_HEALTH = "grpc.health.v1.Health"
#: The services with a health; the empty name is the server.
_WITH_HEALTH = ("", _SERVICE)
_SERVING, _NOT_SERVING, _SERVICE_UNKNOWN = 1, 2, 3

#: Nested messages have other names than in the protocol's file; names are not sent. Repeated numbers are packed, which
#: looks like bytes: a `PackedRequest` reads them as these, and a `PackedResponse` writes them so.
_message = declare_messages(
    "inference",
    """
Empty
Live live=1:bool
Ready ready=1:bool
ModelName name=1:string version=2:string
ServerMetadata name=1:string version=2:string extensions=3:string*
ModelMetadata name=1:string versions=2:string* platform=3:string inputs=4:TensorMetadata* outputs=5:TensorMetadata*
TensorMetadata name=1:string datatype=2:string shape=3:int64*
Parameter |bool_param=1:bool |int64_param=2:int64 |string_param=3:string |double_param=4:double |uint64_param=5:uint64
Contents bool_contents=1:bool* int_contents=2:int32* int64_contents=3:int64* uint_contents=4:uint32*
  uint64_contents=5:uint64* fp32_contents=6:float* fp64_contents=7:double* bytes_contents=8:bytes*
Tensor name=1:string datatype=2:string shape=3:int64* parameters=4:{Parameter} contents=5:Contents
RequestedOutput name=1:string parameters=2:{Parameter}
InferRequest model_name=1:string model_version=2:string id=3:string parameters=4:{Parameter} inputs=5:Tensor*
  outputs=6:RequestedOutput* raw_input_contents=7:bytes*
PackedContents bool_contents=1:bytes* int_contents=2:bytes* int64_contents=3:bytes* uint_contents=4:bytes*
  uint64_contents=5:bytes* fp32_contents=6:bytes* fp64_contents=7:bytes* bytes_contents=8:bytes*
PackedTensor name=1:string datatype=2:string shape=3:int64* parameters=4:{Parameter} contents=5:PackedContents
PackedRequest model_name=1:string model_version=2:string id=3:string parameters=4:{Parameter} inputs=5:PackedTensor*
  outputs=6:RequestedOutput* raw_input_contents=7:bytes*
InferResponse model_name=1:string model_version=2:string id=3:string parameters=4:{Parameter} outputs=5:Tensor*
  raw_output_contents=6:bytes*
PackedResponse model_name=1:string model_version=2:string id=3:string parameters=4:{Parameter} outputs=5:PackedTensor*
  raw_output_contents=6:bytes*
""",
)

#: The status is an enumeration, which is sent as a number.
_health = declare_messages(
    "grpc.health.v1",
    """
HealthCheckRequest service=1:string
HealthCheckResponse status=1:int32
""",
)

#: The field of `Contents` for each of the protocol's types; the others have none, and are sent as bytes.
_FIELDS = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    "INT64": "int64_contents",
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
#: Of messages that have more bytes, one is read or written at a time.
_LARGE = 1 << 23
_STATUS = {
    404: grpc.StatusCode.NOT_FOUND,
    500: grpc.StatusCode.INTERNAL,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}

_Answer: TypeAlias = Callable[[Any], Awaitable[Any]]


class GrpcService:
    """The methods of the service.

    Args:
        models: The models by name.
        http: The other protocol's application, which knows whether the server is ready.
    """

    def __init__(self, models: Mapping[str, ServedModel], http: HttpApp) -> None:
        self._models, self._http = models, http
        self._large = asyncio.Lock()

    def handlers(self) -> grpc.GenericRpcHandler:
        """What a gRPC server is given."""
        methods = {
            "ServerLive": ("Empty", self._live),
            "ServerReady": ("Empty", self._ready),
            "ModelReady": ("ModelName", self._model_ready),
            "ServerMetadata": ("Empty", self._server),
            "ModelMetadata": ("ModelName", self._describe),
        }
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(_refusing(answer), _message(request).FromString, _serialized)
            for name, (request, answer) in methods.items()
        }
        handlers["ModelInfer"] = grpc.unary_unary_rpc_method_handler(
            _refusing(self._infer), lambda content: [content]
        )  # of bytes, which may be many, and which go when they have been read
        return grpc.method_handlers_generic_handler(_SERVICE, handlers)

    def health_handlers(self) -> grpc.GenericRpcHandler:
        """The standard service of health, for Kubernetes' probes and load balancers."""
        of_request = _health("HealthCheckRequest").FromString
        handlers = {
            "Check": grpc.unary_unary_rpc_method_handler(_refusing(self._check), of_request, _serialized),
            "Watch": grpc.unary_stream_rpc_method_handler(self._watch, of_request, _serialized),
        }
        return grpc.method_handlers_generic_handler(_HEALTH, handlers)

    def _status(self) -> Any:
        return _health("HealthCheckResponse")(status=_SERVING if self._http.is_ready else _NOT_SERVING)

    async def _check(self, request: Any) -> Any:
        if request.service not in _WITH_HEALTH:
            raise RequestError(
                f"there is no service {shown(request.service)}; there is {listed(_WITH_HEALTH[1:])}", 404
            )
        return self._status()

    async def _watch(self, request: Any, _: Any) -> AsyncIterator[Any]:
        """The status now, and when the server is about to end."""
        is_known = request.service in _WITH_HEALTH
        yield self._status() if is_known else _health("HealthCheckResponse")(status=_SERVICE_UNKNOWN)
        await self._http.draining.wait()
        if is_known:
            yield self._status()

    async def _live(self, _: Any) -> Any:
        return _message("Live")(live=True)

    async def _ready(self, _: Any) -> Any:
        return _message("Ready")(ready=self._http.is_ready)

    async def _model_ready(self, request: Any) -> Any:
        find(self._models, request.name, request.version)
        return _message("Ready")(ready=self._http.is_ready)

    async def _server(self, _: Any) -> Any:
        return _message("ServerMetadata")(**SERVER)

    async def _describe(self, request: Any) -> Any:
        model = find(self._models, request.name, request.version)
        return _message("ModelMetadata")(**model.loaded.metadata(model.name))

    async def _infer(self, held: list[bytes]) -> bytes:
        with self._http.holding(len(held[0])):
            return await self._answered(held)

    def _turn(self, size: int) -> AbstractAsyncContextManager[Any]:
        """A block in which a large message is read or written, when it is in memory several times: one at a time."""
        return self._large if size > _LARGE else nullcontext()

    async def _answered(self, held: list[bytes]) -> bytes:
        content = held.pop()
        size = len(content)
        try:
            async with self._turn(size):
                request = await off_loop(size, _message("PackedRequest").FromString, content)
        except DecodeError as error:
            raise RequestError(f"the request is not an InferRequest: {error}") from error
        model = find(self._models, request.model_name, request.model_version)
        begun, status, identifier = perf_counter(), 500, request.id
        try:
            loaded = model.loaded
            async with self._turn(size):
                feeds = await off_loop(size, _feeds, request, content, loaded.tensors)
            for output in request.outputs:
                known_output(output.name, loaded.outputs)
            holders = [("the request", request), *((f"input {shown(t.name)}", t) for t in request.inputs)]
            holders += [(f"output {shown(output.name)}", output) for output in request.outputs]
            for where, holder in holders:
                refuse_extensions(holder.parameters, where)
            asked = [output.name for output in request.outputs]
            is_raw = bool(request.raw_input_contents)
            del content, request, holders, holder  # which may be large
            results = await model.answer(loaded, feeds)
            del feeds
            async with self._http.holding_answer(results, is_text=False):
                make = partial(_response, model.name, identifier, asked, is_raw=is_raw)
                async with self._turn(size_of(results)):
                    response: bytes = await off_loop(size_of(results), make, results)
            status = 200
            return response
        except RequestError as error:
            status = error.status
            raise
        except UnicodeDecodeError:
            status = 400
            raise
        finally:
            self._http.requests.answered(model.name, "grpc", status, begun, identifier)


def _serialized(message: Any) -> bytes:
    return bytes(message.SerializeToString())


def _refusing(answer: _Answer) -> Callable[[Any, Any], Awaitable[Any]]:
    """A method that reports errors as the protocol does."""

    async def method(request: Any, context: Any) -> Any:
        try:
            return await answer(request)
        except RequestError as error:
            await context.abort(_STATUS.get(error.status, grpc.StatusCode.INVALID_ARGUMENT), str(error))
        except UnicodeDecodeError as error:  # of a name or another text, which protobuf decodes when it is read
            text = f"a text of the request is not UTF-8: {error.reason} at byte {error.start} of {shown(error.object)}"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        except Exception as error:
            _log.exception("a request failed")
            text = str(RequestError(f"the server failed: {type(error).__name__}: {error}"))
            await context.abort(grpc.StatusCode.INTERNAL, text)

    return method


def _feeds(request: Any, content: bytes, tensors: Tensors) -> dict[str, Array]:
    """The inputs of the model, from a request and its bytes.

    Raises:
        RequestError: They do not fit.
    """
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise RequestError(f"the request has {len(request.inputs)} inputs and {len(raw)} raw_input_contents")
    feeds: dict[str, Array] = {}
    for position, tensor in enumerate(request.inputs):
        name = tensor.name
        shape, count = tensors.check(name, tensor.datatype, list(tensor.shape))
        if name in feeds:
            raise RequestError(f"input {name!r} is there twice")
        if raw:
            if tensor.HasField("contents"):
                raise RequestError(f"input {name!r} has contents, next to raw_input_contents")
            feeds[name] = tensors.from_bytes(name, raw[position], shape, count)
            continue
        field = _FIELDS.get(tensor.datatype)
        if field is None:
            raise RequestError(f"input {name!r}: {tensor.datatype} has no field in contents; use raw_input_contents")
        if filled := [other.name for other, _ in tensor.contents.ListFields() if other.name != field]:
            raise RequestError(f"input {name!r}: {tensor.datatype} is sent in {field}, not in {filled[0]}")
        values: Any = list(getattr(tensor.contents, field))
        if field != "bytes_contents":
            values = packed_numbers.numbers(field, values)
            if values is None or len(values) != count:  # protobuf also allows numbers that are not packed
                try:
                    given = _message("InferRequest").FromString(content).inputs[position]
                except DecodeError as error:
                    raise RequestError(
                        f"input {name!r}: {field} is not packed as protobuf packs it: {error}"
                    ) from error
                values = np.array(getattr(given.contents, field), None if values is None else values.dtype)
        feeds[name] = tensors.from_values(name, values, shape, count)
    return feeds


def _response(
    name: str, identifier: str, outputs: Sequence[str], results: Mapping[str, Array], *, is_raw: bool
) -> bytes:
    """The response, serialized: raw where the request is, or where an output has no field."""
    response = _message("PackedResponse")(model_name=name, model_version=VERSION, id=identifier)
    asked = chosen(dict.fromkeys(outputs, True), [*results], True)
    is_raw = is_raw or any(datatype_of(results[output]) not in _FIELDS for output in asked)
    for output in asked:
        array = results[output]
        kind = datatype_of(array)
        tensor = response.outputs.add(name=output, datatype=kind, shape=array.shape)
        if is_raw:
            response.raw_output_contents.append(to_bytes(array))
        else:
            field = _FIELDS[kind]
            values = to_strings(array) if kind == "BYTES" else [packed_numbers.packed(field, array)] * bool(array.size)
            getattr(tensor.contents, field).extend(values)
    return bytes(response.SerializeToString())


async def start(service: GrpcService, port: int, host: str, most_bytes: int, *, shares_port: bool) -> grpc.aio.Server:
    """Start a server of the service.

    Args:
        service: The service.
        port: Where it listens.
        host: The address.
        most_bytes: The largest message that it takes.
        shares_port: Whether other processes listen there, too.

    Raises:
        OSError: It cannot listen there.
    """
    options = [
        ("grpc.max_receive_message_length", most_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", int(shares_port)),
    ]
    server = grpc.aio.server(options=options)
    server.add_generic_rpc_handlers((service.handlers(), service.health_handlers()))
    try:
        server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except RuntimeError as error:
        raise OSError(f"gRPC cannot listen on {host}:{port}: {one_line(error)}") from error
    await server.start()
    return server
