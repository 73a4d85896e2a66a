"""The record of a model's states: which inputs take what a run before returned, as JSON in the model's metadata.

ONNX has no state that outlasts a run. A model with states therefore has a pair for each: an input, `past.NAME`, and an
output, `present.NAME`, which is the input of the next run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto

Array = np.ndarray[Any, Any]

#: The key of the record in a model's metadata_props.
METADATA_KEY = "onnx_sparse.states"
#: The version of the record's form.
VERSION = 1


@dataclass(frozen=True)
class State:
    """A state of a model.

    Attributes:
        name: Its name.
        past: The input that takes its value.
        present: The output that returns its next value.
        shape: The shape of its value before the first run. If the model computes that value itself, the first size is
            0: no elements stand for it.
        value: What each element of it is.
    """

    name: str
    past: str
    present: str
    shape: tuple[int, ...]
    value: float | bool | str = 0

    def initial(self, dtype: np.dtype[Any]) -> Array:
        """The value before the first run, in the element type of the input."""
        return np.full(self.shape, self.value, dtype)


def write_states(model: ModelProto, states: Iterable[State]) -> None:
    """Record the states of a model in its metadata."""
    kept = [entry for entry in model.metadata_props if entry.key != METADATA_KEY]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    written = [{**vars(state), "shape": list(state.shape)} for state in states]
    if written:
        record = json.dumps({"version": VERSION, "states": written}, ensure_ascii=False)
        model.metadata_props.add(key=METADATA_KEY, value=record)


def states_of(model: ModelProto) -> tuple[State, ...]:
    """The states that a model records; none if it has no record.

    Raises:
        ValueError: Its record is not valid or of a later version, or names an input or output that the model lacks.
    """
    record = next((entry.value for entry in model.metadata_props if entry.key == METADATA_KEY), None)
    if record is None:
        return ()
    return read_states(record, (v.name for v in model.graph.input), (v.name for v in model.graph.output))


def read_states(record: str, inputs: Iterable[str], outputs: Iterable[str]) -> tuple[State, ...]:
    """The states of a record.

    Args:
        record: The record.
        inputs: The names of the model's inputs.
        outputs: The names of its outputs.

    Raises:
        ValueError: It is not such a record, or one of a later version, or names an input or output that is not there.
    """
    try:
        content = json.loads(record)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the metadata {METADATA_KEY} are not JSON: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("states"), list):
        raise ValueError(f"the metadata {METADATA_KEY} have no list of states")
    if content.get("version") != VERSION:
        raise ValueError(f"the metadata {METADATA_KEY} are of version {content.get('version')!r}; {VERSION} is read")
    found = tuple(map(_state, content["states"]))
    for kind, named, known in (
        ("input", [state.past for state in found], {*inputs}),
        ("output", [state.present for state in found], {*outputs}),
    ):
        if unknown := [name for name in named if name not in known]:
            raise ValueError(f"the metadata {METADATA_KEY} name {unknown[0]!r}, which is no {kind} of the model")
        if len({*named}) < len(named):
            raise ValueError(f"the metadata {METADATA_KEY} name an {kind} of the model twice")
    return found


def _state(entry: Any) -> State:
    if not isinstance(entry, Mapping):
        raise ValueError(f"the metadata {METADATA_KEY} have {entry!r} as a state")
    for key in ("name", "past", "present"):
        if not isinstance(entry.get(key), str):
            raise ValueError(f"the metadata {METADATA_KEY} have {entry.get(key)!r} as the {key} of a state")
    shape, value = entry.get("shape"), entry.get("value", 0)
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"the metadata {METADATA_KEY} have {shape!r} as the shape of a state")
    if not isinstance(value, int | float | str):
        raise ValueError(f"the metadata {METADATA_KEY} have {value!r} as the value of a state")
    return State(entry["name"], entry["past"], entry["present"], tuple(shape), value)
