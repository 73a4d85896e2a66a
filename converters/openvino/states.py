"""ReadValue and Assign: states that outlast a run, which become pairs of inputs and outputs.

`past.NAME` takes the value of the variable NAME, `present.NAME` returns its next one. Before the first run a variable
has the value of ReadValue's input. If all its elements are equal, the model's record says so; if not, or if the model
computes it, a past without elements along the first axis stands for it.
"""

from __future__ import annotations

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.element_types import ONNX_TYPES
from onnx_sparse.converters.openvino.emitter import OpenVINOEmitter
from onnx_sparse.converters.openvino.ir import Layer, Network
from onnx_sparse.converters.openvino.model_ports import element_type, parse_shape, port_shape
from onnx_sparse.converters.tensor import Array, Shape, Tensor
from onnx_sparse.converters.writing.states import Pairs, States
from onnx_sparse.schemas.declaration import DType

READ, ASSIGN = "ReadValue", "Assign"


class Variables:
    """The variables of a network.

    Args:
        network: The network.
        emitter: Receives the nodes.
    """

    def __init__(self, network: Network, emitter: OpenVINOEmitter) -> None:
        self._states = States(emitter)
        self._reserved: set[str] = set()
        self._assigned: dict[str, Tensor] = {}
        for layer in network.layers.values():
            name = layer.data.get("variable_id")
            if layer.type == READ and name and name not in self._reserved:
                self._reserved.add(name)
                self._states.reserve(name)

    def __bool__(self) -> bool:
        return bool(self._reserved)

    def read(self, layer: Layer, initial: Tensor | None, constant: Array | None) -> Tensor:
        """The value that a ReadValue reads.

        Args:
            layer: The layer.
            initial: Its input; None for zeros.
            constant: The value of that input, if it is known.
        """
        name = layer.data.get("variable_id")
        if not name:
            raise Unsupported("it has no variable_id")
        if name in self._states:
            return self._states.value(name)
        dtype, shape = _declared(layer, initial)
        if shape is None:
            raise Unsupported(
                f"the rank of the variable {name!r} is not known; give the model's inputs a rank in OpenVINO "
                "(model.reshape) and save the IR again"
            )
        return self._states.begin(name, Tensor("", dtype, shape), initial, constant)

    def assign(self, layer: Layer, value: Tensor) -> Tensor:
        """Make a value the next one of a variable, and return it. An Assign may come before the ReadValue."""
        name = layer.data.get("variable_id", "")
        if name not in self._reserved:
            raise Unsupported(f"no ReadValue reads its variable {name!r}")
        if name in self._assigned:
            raise Unsupported(f"another Assign gives the variable {name!r} a value")
        self._assigned[name] = value
        return value

    def finish(self, kept: set[str]) -> Pairs:
        """The inputs and outputs of the states.

        Args:
            kept: The names of the tensors that the model returns otherwise.
        """
        return self._states.finish(self._assigned, kept)


def _declared(layer: Layer, initial: Tensor | None) -> tuple[DType, Shape | None]:
    """The type and shape of a variable: what the layer says, else those of its output or of its initial value."""
    port = layer.outputs[0] if layer.outputs else None
    precision = layer.data.get("variable_type") or (port.precision if port else "")
    if initial is None or precision in ONNX_TYPES:
        dtype: DType = element_type(precision, "the type of the variable")
    else:
        dtype = initial.dtype
    text = layer.data.get("variable_shape")
    shape = None if text is None else parse_shape(text)
    if shape is None and port is not None:
        shape = port_shape(port)
    if shape is None and initial is not None:
        shape = None if initial.shape is None else (None,) * len(initial.shape)
    return dtype, shape
