"""What Triton does with a repository of ours, without Triton: the checks and the batches of its ONNX Runtime backend.

Written after the backend's documentation and source (triton-inference-server/onnxruntime_backend, `ModelInstanceState`,
and triton-inference-server/backend, `BackendInputCollector`, `BackendOutputResponder`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

Array = np.ndarray[Any, Any]
Tensors = Mapping[str, Array]

NUMPY = {
    "TYPE_BOOL": np.bool_,
    "TYPE_INT32": np.int32,
    "TYPE_INT64": np.int64,
    "TYPE_FP32": np.float32,
    "TYPE_FP64": np.float64,
    "TYPE_STRING": np.object_,
}
ONNX = {
    "TYPE_BOOL": "tensor(bool)",
    "TYPE_INT32": "tensor(int32)",
    "TYPE_INT64": "tensor(int64)",
    "TYPE_FP32": "tensor(float)",
    "TYPE_FP64": "tensor(double)",
    "TYPE_STRING": "tensor(string)",
}


class Refused(Exception):  # noqa: N818 - what a server says, not a fault of the test
    """The server does not load the model, or refuses a request."""


class Server:
    """A model of a repository.

    Args:
        folder: The model's folder.
        config: What its config.pbtxt says.

    Raises:
        Refused: The configuration does not fit the model.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self.config = config
        self.most = config["max_batch_size"]
        options = onnxruntime.SessionOptions()
        for library in config.get("model_operations", {}).get("op_library_filename", []):
            options.register_custom_ops_library(library)
        self.session = onnxruntime.InferenceSession(folder / "1" / "model.onnx", options)
        self._check()

    def _check(self) -> None:
        made = self.config.get("batch_input", [])
        inputs = {value.name: value for value in self.session.get_inputs()}
        outputs = {value.name: value for value in self.session.get_outputs()}
        if len(inputs) != len(self.config["input"]) + len(made):
            raise Refused("another number of inputs")
        for batch_input in made:
            (target,) = batch_input["target_name"]
            if inputs[target].type != ONNX[batch_input["data_type"]] or batch_input["data_type"] != "TYPE_INT32":
                raise Refused(f"{target} has another type")
        for role, values in (("input", inputs), ("output", outputs)):
            for described in self.config[role]:
                value = values[described["name"]]
                shape = [size if isinstance(size, int) else -1 for size in value.shape]
                dims = described.get("reshape", {}).get("shape", described["dims"])
                if value.type != ONNX[described["data_type"]]:
                    raise Refused(f"{value.name} has another type")
                if not described["dims"] or 0 in described["dims"]:
                    raise Refused(f"{value.name} has no dims")
                if described.get("allow_ragged_batch"):
                    if shape != [-1]:
                        raise Refused(f"{value.name} is ragged and has the shape {shape}")
                elif not shape:
                    if dims != [1] * len(dims):
                        raise Refused(f"{value.name} is a scalar")
                elif shape != ([-1, *dims] if self.most else dims):
                    raise Refused(f"{value.name} has the shape {shape} and the dims {dims}")

    def answers(self, requests: Sequence[Tensors]) -> list[dict[str, Array]]:
        """The outputs of requests that are in one batch.

        Raises:
            Refused: A request does not fit the configuration, or cannot be in a batch with the others.
        """
        rows = [self._rows(request) for request in requests]
        if (self.most and sum(rows) > self.most) or (not self.most and len(requests) > 1):
            raise Refused("too many rows")
        feeds = {}
        for described in self.config["input"]:
            name = described["name"]
            parts = [request[name] for request in requests]
            if described.get("allow_ragged_batch"):
                feeds[name] = np.concatenate([part.reshape(-1) for part in parts])
                continue
            if len({part.shape[1:] for part in parts}) > 1:
                raise Refused(f"{name} has several shapes")
            joined = np.concatenate(parts) if self.most else parts[0]
            shape = described.get("reshape", {}).get("shape", joined.shape[1:])
            feeds[name] = joined.reshape(-1, *shape) if self.most else joined
        for batch_input in self.config.get("batch_input", []):
            assert batch_input["kind"] == "BATCH_ITEM_SHAPE_FLATTEN"
            shapes = [request[source].shape for request in requests for source in batch_input["source_input"]]
            each = [size for first, *others in shapes for _ in range(first) for size in others]
            feeds[batch_input["target_name"][0]] = np.array(each, np.int32)
        results = self.session.run(None, feeds)
        if not self.most:
            return [dict(zip([value.name for value in self.session.get_outputs()], results, strict=True))]
        ends = np.cumsum(rows)
        answers: list[dict[str, Array]] = [{} for _ in requests]
        for value, result in zip(self.session.get_outputs(), results, strict=True):
            if len(result) < ends[-1]:
                raise Refused(f"failed to split the output tensor {value.name}")
            dims = next(output["dims"] for output in self.config["output"] if output["name"] == value.name)
            for answer, end, count in zip(answers, ends, rows, strict=True):
                part = result[end - count : end]
                answer[value.name] = part.reshape(count, 1) if part.ndim == 1 and dims == [1] else part
        return answers

    def _rows(self, request: Tensors) -> int:
        """The rows of a request, which must fit the configuration."""
        named = {described["name"]: described for described in self.config["input"]}
        if named.keys() != request.keys():
            raise Refused("other inputs")
        for name, array in request.items():
            dims = named[name]["dims"]
            shape = array.shape[1:] if self.most else array.shape
            if array.dtype != NUMPY[named[name]["data_type"]]:
                raise Refused(f"{name} has another type")
            if len(shape) != len(dims) or any(d not in (-1, size) for d, size in zip(dims, shape, strict=True)):
                raise Refused(f"{name} has the shape {array.shape}")
        counts = {len(array) for array in request.values()} if self.most else {1}
        if len(counts) > 1:
            raise Refused("batch size does not match other inputs")
        return counts.pop()
