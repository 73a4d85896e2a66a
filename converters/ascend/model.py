"""The ModelProto around the nodes of an emitter."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import ModelProto, ValueInfoProto, helper

from onnx_sparse import __version__
from onnx_sparse.converters.ascend.emitter import Emitter
from onnx_sparse.converters.ascend.tensors import Tensor

IR_VERSION = 10
#: The key in a model's metadata for notes on the conversion, line by line.
NOTES_KEY = "onnx_sparse.conversion_notes"


def value_info(tensor: Tensor) -> ValueInfoProto:
    """A graph's input or output."""
    if not tensor.dtype:  # the result of an operation that was kept unconverted
        return ValueInfoProto(name=tensor.name)
    return helper.make_tensor_value_info(tensor.name, tensor.dtype, tensor.shape)


def make_model(
    emit: Emitter, name: str, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto], *, source: str
) -> ModelProto:
    """The model; constants that nothing reads are left out."""
    used = {name for node in emit.nodes for name in node.input} | {value.name for value in outputs}
    graph = helper.make_graph(
        emit.nodes, name, inputs, outputs, initializer=[t for t in emit.initializers if t.name in used]
    )
    imports = [helper.make_opsetid(domain, number) for domain, number in emit.domains.items()]
    model = helper.make_model(
        graph,
        opset_imports=imports,
        ir_version=IR_VERSION,
        producer_name="onnx_sparse",
        producer_version=__version__,
        doc_string=f"converted from {source}",
    )
    if emit.notes:
        helper.set_model_props(model, {NOTES_KEY: "\n".join(emit.notes)})
    return model


def notes(model: ModelProto) -> list[str]:
    """The notes on the conversion that made a model."""
    return next((entry.value.splitlines() for entry in model.metadata_props if entry.key == NOTES_KEY), [])
