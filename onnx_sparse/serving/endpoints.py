"""The addresses over HTTP, and what they say of themselves: `/`, OpenAPI's document, TensorFlow Serving's metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.rows.model_features import Features, InputType
from onnx_sparse.schemas.declaration import numpy_dtype
from onnx_sparse.schemas.features import Feature
from onnx_sparse.serving.tensors import datatype
from onnx_sparse.version import __version__

#: The name of a model's only signature and of its only version, for clients of TensorFlow Serving.
SIGNATURE, VERSION = "serving_default", "1"
#: The size of a dimension that a model leaves open, in an example.
_OPEN = 2


@dataclass(frozen=True)
class Endpoint:
    """An address.

    Attributes:
        method: HTTP's.
        path: The address; `{name}` is a model's name, `{version}` its version.
        handler: What answers.
        summary: What it is for.
        request: The schema of its body, in OpenAPI's document.
        response: The schema of its answer.
    """

    method: str
    path: str
    handler: str
    summary: str
    request: str = ""
    response: str = ""


def _of_versions(method: str, path: str, handler: str, summary: str, *schemas: str) -> list[Endpoint]:
    """An address of a model, with and without a version."""
    bases = ("{name}", "{name}/versions/{version}")
    return [Endpoint(method, path.replace("{name}", base), handler, summary, *schemas) for base in bases]


ENDPOINTS = (
    Endpoint("GET", "/", "index", "The models with their features, types, and a request for each"),
    Endpoint("GET", "/openapi.json", "openapi", "This description"),
    Endpoint("GET", "/v2", "server", "The server's name, version and extensions"),
    Endpoint("GET", "/v2/health/live", "live", "Whether the server runs"),
    Endpoint("GET", "/v2/health/ready", "ready", "Whether the server takes requests"),
    Endpoint("GET", "/v2/models", "list", "The names of the models"),
    *_of_versions("GET", "/v2/models/{name}", "describe", "The inputs and outputs of a model"),
    *_of_versions("GET", "/v2/models/{name}/ready", "model_ready", "Whether a model takes requests"),
    *_of_versions("POST", "/v2/models/{name}/infer", "infer", "The outputs for tensors", "Infer", "Inferred"),
    Endpoint("GET", "/v1/models", "list", "The names of the models"),
    *_of_versions(
        "GET", "/v1/models/{name}", "status", "The state of a model, for clients of TensorFlow Serving and KServe"
    ),
    *_of_versions("GET", "/v1/models/{name}/metadata", "metadata", "The signature, as TensorFlow Serving says it"),
    *_of_versions("POST", "/v1/models/{name}:predict", "predict", "The outputs for rows", "Predict", "Predicted"),
    *_of_versions("POST", "/v1/models/{name}:{verb}", "verb", "Refused: `:classify`, `:regress`, `:explain`"),
    Endpoint("GET", "/metrics", "metrics", "What is counted, for Prometheus"),
)


def example_row(features: Features) -> dict[str, Any]:
    """Values of each feature for one row."""
    return {name: _example(feature, features) for name, feature in features.items()}


def _example(feature: Feature, features: Features) -> Any:
    if feature.kind == "example":
        return {"b64": ""}
    kind = _values(feature, features)
    value = {"O": "text", "b": True, "f": 0.5, "V": 0.5}.get(numpy_dtype(kind.dtype).kind, 1)
    if feature.kind == "sparse":
        return [value] * _OPEN
    sizes = [_OPEN] * len(feature.row_splits) + [_OPEN if size is None else size for size in (kind.shape or ())[1:]]
    return np.full(sizes, value, object).tolist() if sizes else value


def _values(feature: Feature, features: Features) -> InputType:
    """The type of the input with the values of a feature."""
    return features.inputs[feature.inputs.get("values") or next(iter(feature.inputs.values()))]


def index(models: Mapping[str, Any], address: str) -> dict[str, Any]:
    """What a person who opens the server's address is told.

    Args:
        models: The loaded models by name.
        address: The server's, as its client calls it.
    """
    described = {}
    for name, loaded in models.items():
        features: Features = loaded.features
        body = json.dumps({"instances": [example_row(features)]})
        shell = body.replace("'", "'\\''")
        described[name] = {
            "features": {
                feature.name: {"kind": feature.kind, "type": datatype(_values(feature, features).dtype)}
                for feature in features.values()
            },
            "outputs": {value["name"]: value["datatype"] for value in loaded.metadata(name)["outputs"]},
            "example": f"curl {address}/v1/models/{name}:predict -d '{shell}'",
        }
    endpoints = {f"{each.method} {each.path}": each.summary for each in ENDPOINTS}
    return {"name": "onnx_sparse", "version": __version__, "models": described, "endpoints": endpoints}


def signature(name: str, loaded: Any) -> dict[str, Any]:
    """A model's metadata as TensorFlow Serving writes them; inputs are features, as `:predict` takes them."""
    features: Features = loaded.features
    inputs = {}
    for feature in features.values():
        kind = _values(feature, features)
        shape = kind.shape
        if feature.kind == "sparse":
            shape = (None, None)
        elif feature.kind == "ragged" and shape is not None:
            shape = (None,) * (1 + len(feature.row_splits)) + shape[1:]
        inputs[feature.name] = _tensor_info(feature.name, datatype(kind.dtype), shape)
    outputs = {
        value["name"]: _tensor_info(value["name"], value["datatype"], [s if s >= 0 else None for s in value["shape"]])
        for value in loaded.metadata(name)["outputs"]
    }
    method = {"inputs": inputs, "outputs": outputs, "method_name": "tensorflow/serving/predict", "defaults": {}}
    return {
        "model_spec": {"name": name, "signature_name": "", "version": VERSION},
        "metadata": {"signature_def": {"signature_def": {SIGNATURE: method}}},
    }


#: TensorFlow's names of element types, by the protocol's; the others differ in their first letters only.
_TENSORFLOW = {"FP32": "FLOAT", "FP64": "DOUBLE", "FP16": "HALF", "BF16": "BFLOAT16", "BYTES": "STRING"}


def _tensor_info(name: str, kind: str, shape: Sequence[int | None] | None) -> dict[str, Any]:
    dims = [{"size": str(-1 if size is None else size), "name": ""} for size in shape or ()]
    return {
        "dtype": f"DT_{_TENSORFLOW.get(kind, kind)}",
        "tensor_shape": {"dim": dims, "unknown_rank": shape is None},
        "name": name,
    }


def openapi(models: Mapping[str, Any]) -> dict[str, Any]:
    """OpenAPI's document of the server.

    Args:
        models: The loaded models by name.
    """
    paths: dict[str, Any] = {}
    rows = {name: {"value": {"instances": [example_row(loaded.features)]}} for name, loaded in models.items()}
    for each in ENDPOINTS:
        operation: dict[str, Any] = {"summary": each.summary, "responses": {}}
        known = {"name": {"enum": [*models]}, "version": {"enum": [VERSION]}, "verb": {}}
        named = {key: schema for key, schema in known.items() if f"{{{key}}}" in each.path}
        if named:
            operation["parameters"] = [
                {"name": key, "in": "path", "required": True, "schema": {"type": "string", **schema}}
                for key, schema in named.items()
            ]
        if each.request:
            content: dict[str, Any] = {"schema": {"$ref": f"#/components/schemas/{each.request}"}}
            if each.request == "Predict":
                content["examples"] = rows
            operation["requestBody"] = {"required": True, "content": {"application/json": content}}
        schema = {"$ref": f"#/components/schemas/{each.response}"} if each.response else {"type": "object"}
        kind = "text/plain" if each.path == "/metrics" else "application/json"
        operation["responses"]["200"] = {"description": "OK", "content": {kind: {"schema": schema}}}
        error = {"schema": {"$ref": "#/components/schemas/Error"}}
        operation["responses"]["default"] = {"description": "An error", "content": {"application/json": error}}
        paths.setdefault(each.path, {})[each.method.lower()] = operation
    info = {"title": "onnx_sparse", "version": __version__, "description": "Models over HTTP."}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": _schemas()}}


def _object(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": [*required], "properties": properties}


def _schemas() -> dict[str, Any]:
    text, anything = {"type": "string"}, {}  # type: ignore[var-annotated]
    types = sorted(datatype(dtype) for dtype in TensorProto.DataType.values() if dtype != TensorProto.UNDEFINED)
    sizes = {"type": "array", "items": {"type": "integer", "minimum": 0}}
    tensor = {"name": text, "datatype": {"enum": types}, "shape": sizes, "parameters": {"type": "object"}}
    tensors = {"type": "array", "items": _object(("name", "datatype", "shape"), **tensor, data={"type": "array"})}
    asked = {"type": "array", "items": _object(("name",), name=text, parameters={"type": "object"})}
    columns = {"inputs": anything, "instances": {"type": "array", "minItems": 1}}
    names = {"type": "array", "items": text}
    return {
        "Error": _object(("error",), error=text),
        "Infer": _object(("inputs",), inputs=tensors, outputs=asked, id=text, parameters={"type": "object"}),
        "Inferred": _object(("model_name", "outputs"), model_name=text, model_version=text, id=text, outputs=tensors),
        "Predict": _object((), **columns, signature_name={"enum": [SIGNATURE]}, outputs=names),
        "Predicted": _object((), predictions={"type": "array"}, outputs=anything),
    }
