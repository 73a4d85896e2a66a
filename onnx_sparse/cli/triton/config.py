"""The configuration of a model for Triton, `config.pbtxt`, as its ONNX Runtime backend checks it against the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx_sparse.errors import CommandError, printable

#: The first line of a configuration, by which one of our own is recognized.
MARK = "# Written by onnx-sparse triton."

#: Triton's data types by the names of ONNX Runtime's; it has no others.
_DATA_TYPES = {
    "tensor(bool)": "BOOL",
    "tensor(uint8)": "UINT8",
    "tensor(uint16)": "UINT16",
    "tensor(uint32)": "UINT32",
    "tensor(uint64)": "UINT64",
    "tensor(int8)": "INT8",
    "tensor(int16)": "INT16",
    "tensor(int32)": "INT32",
    "tensor(int64)": "INT64",
    "tensor(float16)": "FP16",
    "tensor(bfloat16)": "BF16",
    "tensor(float)": "FP32",
    "tensor(double)": "FP64",
    "tensor(string)": "STRING",
}
#: The fields whose values are names of an enumeration.
_ENUMERATIONS = ("data_type", "kind")


@dataclass(frozen=True)
class Batching:
    """How requests are batched.

    Attributes:
        most: The most rows of a batch; 0 for none.
        delay: How many microseconds a request waits for others.
        lengths: Of each ragged input, the model's input with the lengths of its rows.
    """

    most: int
    delay: int
    lengths: Mapping[str, str]


def model_config(
    name: str, session: Any, batching: Batching, *, library: str | None, instances: int, threads: int | None
) -> dict[str, Any]:
    """The configuration of a model, field by field as in Triton's message `ModelConfig`.

    Args:
        name: The model's name in the repository.
        session: A session of it: the backend compares the shapes that ONNX Runtime says.
        batching: How requests are batched.
        library: The path at which the server finds the native library, if the model needs it.
        instances: How many sessions there are.
        threads: How many threads each has; None for ONNX Runtime's default.

    Raises:
        CommandError: Triton has no such inputs or outputs.
    """
    made = set(batching.lengths.values())
    config: dict[str, Any] = {
        "name": name,
        "backend": "onnxruntime",
        "max_batch_size": batching.most,
        "input": [_tensor("input", value, batching) for value in session.get_inputs() if value.name not in made],
        "output": [_tensor("output", value, batching) for value in session.get_outputs()],
    }
    if batching.lengths:
        config["batch_input"] = [
            {
                "kind": "BATCH_ITEM_SHAPE_FLATTEN",
                "target_name": [lengths],
                "data_type": "TYPE_INT32",
                "source_input": [values],
            }
            for values, lengths in batching.lengths.items()
        ]
    if batching.most:
        config["dynamic_batching"] = {"max_queue_delay_microseconds": batching.delay}
    config["instance_group"] = [{"count": instances, "kind": "KIND_CPU"}]
    if threads is not None:
        config["parameters"] = [{"key": "intra_op_thread_count", "value": {"string_value": str(threads)}}]
    if library is not None:
        config["model_operations"] = {"op_library_filename": [library]}
    return config


def _tensor(role: str, value: Any, batching: Batching) -> dict[str, Any]:
    """An input or output: its shape is without the rows of a batch, and has one element where nothing is left."""
    if value.type not in _DATA_TYPES:
        raise CommandError(f"{role} {printable(value.name)} is a {value.type}, which Triton does not have")
    dims = [size if isinstance(size, int) else -1 for size in value.shape]
    if value.name in batching.lengths:
        dims = [-1, -1]
    if 0 in dims:
        raise CommandError(f"{role} {printable(value.name)} has the shape {dims}; Triton has no dimensions of size 0")
    described = {"name": value.name, "data_type": f"TYPE_{_DATA_TYPES[value.type]}"}
    dims = dims[1:] if batching.most else dims
    if value.name in batching.lengths:
        return {**described, "dims": dims, "allow_ragged_batch": True}
    if dims:
        return {**described, "dims": dims}
    return {**described, "dims": [1], **({"reshape": {"shape": []}} if batching.most else {})}


def config_text(config: Mapping[str, Any]) -> str:
    """A configuration in protobuf's text form."""
    return "\n".join([MARK, *_lines(config, ""), ""])


def _lines(message: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, value in message.items():
        if isinstance(value, Sequence) and not isinstance(value, str) and not (value and isinstance(value[0], Mapping)):
            yield f"{indent}{name}: [{', '.join(_scalar(name, item) for item in value)}]"
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping):
                yield f"{indent}{name} {{"
                yield from _lines(item, f"{indent}  ")
                yield f"{indent}}}"
            else:
                yield f"{indent}{name}: {_scalar(name, item)}"


def _scalar(name: str, value: bool | int | str) -> str:
    if isinstance(value, str) and name not in _ENUMERATIONS:
        plain = (chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:03o}" for b in value.encode())
        return f'"{"".join(plain)}"'
    return str(value).lower() if isinstance(value, bool) else str(value)
