"""Sessions of models with states: what a run returns as a state's present value is its past value in the next run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_sparse.schemas.declaration import numpy_dtype
from onnx_sparse.schemas.states import METADATA_KEY, State, read_states
from onnx_sparse.sessions.bfloat16 import to_ort_value
from onnx_sparse.sessions.runtime import array_of_value
from onnx_sparse.shown import Shown

if TYPE_CHECKING:
    import onnxruntime as ort

Array = np.ndarray[Any, Any]


class StatefulSession(Shown):
    """Runs a model with states step by step.

        stream = onnx_sparse.StatefulSession(onnx_sparse.InferenceSession("running_sum.onnx"), {"past": "present"})
        stream.run(["sum"], {"x": np.float32(2)})  # 2
        stream.run(["sum"], {"x": np.float32(3)})  # 5

    The states stay in ONNX Runtime between the steps and are not copied. One object is one stream: make another one of
    the same session for each stream that goes on at the same time.

    Args:
        session: The session of a model that records its states, as `onnx-sparse convert` writes them.
        states: For a model that does not record them: the output with the next value, by the input with the last one.
            Such a state begins with zeros; sizes that the model leaves open are 0.

    Raises:
        ValueError: The model has no states, or `states` names an input or output that it does not have.
    """

    def __init__(self, session: ort.InferenceSession, states: Mapping[str, str] | None = None) -> None:
        self._session = session
        inputs = {value.name: value for value in session.get_inputs()}
        outputs = [value.name for value in session.get_outputs()]
        if states is None:
            record = session.get_modelmeta().custom_metadata_map.get(METADATA_KEY)
            if record is None:
                raise ValueError("the model records no states: name them, {input: output, ...}")
            self.states = read_states(record, inputs, outputs)
        else:
            for past, present in states.items():
                if past not in inputs:
                    raise ValueError(f"{past!r} is not an input of the model; it has {', '.join(inputs)}")
                if present not in outputs:
                    raise ValueError(f"{present!r} is not an output of the model; it has {', '.join(outputs)}")
            sizes = {past: [s if isinstance(s, int) else 0 for s in inputs[past].shape] for past in states}
            self.states = tuple(State(k, k, present, tuple(sizes[k])) for k, present in states.items())
        pasts, presents = {s.past for s in self.states}, {s.present for s in self.states}
        #: The names of the inputs and outputs that are no states.
        self.input_names = [name for name in inputs if name not in pasts]
        self.output_names = [name for name in outputs if name not in presents]
        self._types = {name: value.type for name, value in inputs.items()}
        self._dtypes = {s.past: _dtype(inputs[s.past].type) for s in self.states}
        self._values: dict[str, Any] = {}
        self.reset()

    @property
    def _title(self) -> str:
        names = (", ".join(names) for names in (self.input_names, self.output_names))
        return f"{' -> '.join(names)}, states {', '.join(state.name for state in self.states)}"

    def reset(self) -> None:
        """Give all states the values that they have before the first run."""
        self._values = {s.past: to_ort_value(s.initial(self._dtypes[s.past])) for s in self.states}

    def get_states(self) -> dict[str, Array]:
        """The values of the states that the next run begins with, by name."""
        values = [array_of_value(self._values[s.past]) for s in self.states]
        return {s.name: value for s, value in zip(self.states, values, strict=True)}

    def set_states(self, values: Mapping[str, Array]) -> None:
        """Set some of the states, by name.

        Raises:
            ValueError: The model has no state of a name, or an array has another element type.
        """
        known = {s.name: s.past for s in self.states}
        for name, value in values.items():
            if name not in known:
                raise ValueError(f"the model has no state {name!r}; it has {', '.join(known)}")
            wanted = self._dtypes[known[name]]
            if value.dtype != wanted:
                raise ValueError(f"state {name!r} is {wanted}; {value.dtype} is given")
        self._values |= {known[name]: to_ort_value(value.copy()) for name, value in values.items()}

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Any]:
        """One step: run the model on the states and keep their next values.

        Args:
            output_names: The outputs to return; all but the states when None.
            input_feed: The inputs apart from the states.
            run_options: As ONNX Runtime's.

        Raises:
            Exception: As the session's `run`; the states are then those from before.
        """
        wanted = list(output_names) if output_names else self.output_names
        presents = [s.present for s in self.states]
        feed = {name: to_ort_value(self._as_array(name, value)) for name, value in input_feed.items()} | self._values
        results = self._session.run_with_ort_values([*wanted, *presents], feed, run_options)
        self._values = {s.past: value for s, value in zip(self.states, results[len(wanted) :], strict=True)}
        return [array_of_value(value) for value in results[: len(wanted)]]

    def _as_array(self, name: str, value: Any) -> Any:
        """A list of numbers as an array of the input's type, as ONNX Runtime takes it; anything else as it is."""
        is_list = isinstance(value, list) and name in self._types
        return np.asarray(value, _dtype(self._types[name])) if is_list else value


def _dtype(text: str) -> np.dtype[Any]:
    """The numpy type of an element type that ONNX Runtime writes as `tensor(int64)`."""
    from onnx import TensorProto

    return numpy_dtype(TensorProto.DataType.Value(text.removeprefix("tensor(").removesuffix(")").upper()))
