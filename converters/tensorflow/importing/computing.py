"""Tensors that are computed while a model is converted, such as the keys of its lookup tables."""

from __future__ import annotations

import numpy as np
from onnx import TypeProto, ValueInfoProto, helper, numpy_helper

from onnx_sparse.converters.errors import Unsupported, first_line
from onnx_sparse.converters.tensor import Array, Tensor
from onnx_sparse.converters.tensorflow.importing.emitter import TensorFlowEmitter
from onnx_sparse.converters.writing.graph_emitter import IR_VERSION, value_info
from onnx_sparse.models.graphs import needed_nodes, read_names


def computed(emit: TensorFlowEmitter, tensor: Tensor, what: str) -> Array:
    """The value of a tensor of a graph that depends on constants only.

    Args:
        emit: The graph under construction.
        tensor: The tensor.
        what: What it is, for the error.

    Raises:
        Unsupported: It depends on inputs, or ONNX Runtime cannot compute it.
    """
    nodes = needed_nodes(emit.nodes, [tensor.name])
    wanted = {tensor.name} | read_names(nodes)
    made = {name for node in nodes for name in node.output}
    constants = [held for held in emit.initializers if held.name in wanted]
    constants += [numpy_helper.from_array(emit.large[name], name) for name in sorted(wanted & emit.large.keys())]
    if wanted - made - {held.name for held in constants} - {""}:
        raise Unsupported(f"{what} depends on the inputs of the model")
    from onnxruntime import InferenceSession  # not before: the command line forks while no such library is there

    graph = helper.make_graph(nodes, "constant", [], [_unshaped(value_info(tensor))], constants)
    opsets = [helper.make_opsetid(domain, version) for domain, version in emit.domains.items()]
    try:
        content = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION).SerializeToString()
        session = InferenceSession(content, providers=["CPUExecutionProvider"])
        (value,) = session.run(None, {})
    except Exception as error:  # whatever ONNX Runtime raises
        raise Unsupported(f"{what} cannot be computed: {first_line(error)}") from error
    return np.asarray(value)


def _unshaped(value: ValueInfoProto) -> ValueInfoProto:
    value.type.CopyFrom(TypeProto(tensor_type=TypeProto.Tensor(elem_type=value.type.tensor_type.elem_type)))
    return value
