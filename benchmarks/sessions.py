"""Models that are timed: of one node, on bound inputs, and against the framework that they come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def session_options(threads: int) -> Any:
    """Options of sessions with so many threads."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    return options


def one_node_model(
    op_name: str,
    inputs: Mapping[str, Array],
    attributes: Mapping[str, str],
    shapes: Mapping[str, Any] | None = None,
) -> Any:
    """A model of one node of the domain, with the inputs' element types.

    Args:
        op_name: The operator.
        inputs: Its inputs by name.
        attributes: Its attributes.
        shapes: The declared shapes of inputs; the inputs' own when omitted.
    """
    from onnx import helper

    from onnx_sparse import DOMAIN, OPSET_VERSION
    from onnx_sparse.schemas import OPS
    from onnx_sparse.schemas.element_types import element_type

    op = OPS[op_name]
    given = [i for i in op.inputs if i.name in inputs]
    types = {i.name: element_type(inputs[i.name].dtype) for i in given}
    binding = {i.type: types[i.name] for i in given}
    shapes = {name: array.shape for name, array in inputs.items()} if shapes is None else shapes
    node = helper.make_node(
        op_name,
        [i.name if i.name in inputs else "" for i in op.inputs],
        [o.name for o in op.outputs],
        domain=DOMAIN,
        **attributes,
    )
    graph = helper.make_graph(
        [node],
        "case",
        [helper.make_tensor_value_info(i.name, types[i.name], shapes.get(i.name)) for i in given],
        [helper.make_tensor_value_info(o.name, op.bind(o.type, binding), None) for o in op.outputs],
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, OPSET_VERSION)]
    return helper.make_model(graph, ir_version=10, opset_imports=imports)


def identity_of(model: Any) -> Any:
    """A model with the same inputs and a node that computes nothing."""
    from onnx import ModelProto, helper

    made = ModelProto()
    made.CopyFrom(model)
    first, output = made.graph.input[0], made.graph.output[0]
    output.type.tensor_type.elem_type = first.type.tensor_type.elem_type
    made.graph.node[0].CopyFrom(helper.make_node("Identity", [first.name], [output.name]))
    return made


class BoundRun:
    """A run that leaves its outputs, which are new each time, in its binding.

    `run_with_ort_values` would do the same, but takes 30 us more for its outputs, of which the end is an exception in
    C++.
    """

    def __init__(self, session: Any, inputs: Mapping[str, Any]) -> None:
        """Bind the inputs: arrays, whose memory is used, or OrtValues."""
        import onnxruntime as ort

        self._session = session
        self._binding = session.io_binding()
        self._held = {  # the binding does not hold the arrays
            name: value if isinstance(value, ort.OrtValue) else ort.OrtValue.ortvalue_from_numpy(value)
            for name, value in inputs.items()
        }
        for name, value in self._held.items():
            self._binding.bind_ortvalue_input(name, value)
        self._names = [output.name for output in session.get_outputs()]

    def __call__(self) -> None:
        """Run the model."""
        self._binding.clear_binding_outputs()
        for name in self._names:
            self._binding.bind_output(name)
        self._session.run_with_iobinding(self._binding)

    def outputs(self) -> list[Array]:
        """Run the model and return copies of its outputs, in their order."""
        self()
        copies: list[Array] = self._binding.copy_outputs_to_cpu()
        return copies


@dataclass(frozen=True)
class Subject:
    """A model and a batch for it.

    Attributes:
        name: The name of the line.
        model: The converted model.
        feeds: A batch, by the names of the model's inputs.
        run: The framework's run of the batch; gives one array.
    """

    name: str
    model: Any
    feeds: Mapping[str, Array]
    run: Callable[[], Any]
