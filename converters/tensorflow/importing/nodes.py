"""One node of TensorFlow's graph, converted by its handler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Shape, Tensor
from onnx_sparse.converters.tensorflow.importing.attributes import Attributes, MessageAttributes
from onnx_sparse.converters.tensorflow.importing.context import Context
from onnx_sparse.converters.tensorflow.importing.emitter import TensorFlowEmitter
from onnx_sparse.converters.tensorflow.importing.handler import Handler, Node
from onnx_sparse.converters.tensorflow.importing.refusals import REFUSALS
from onnx_sparse.converters.tensorflow.importing.values import Value
from onnx_sparse.converters.tensorflow.reading.element_types import ONNX_TYPES, REFERENCE, type_name
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.operators import operators
from onnx_sparse.converters.tensorflow.reading.scopes import Scope
from onnx_sparse.converters.tensorflow.reading.tensor_values import shape_of
from onnx_sparse.converters.writing import reads
from onnx_sparse.converters.writing.registry import Handler as AnyHandler


def converted_by(
    handler: Handler, node: NodeDef, name: str, inputs: Sequence[Tensor], emit: TensorFlowEmitter
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """The results of a node by its handler, and the element types that the operator declares.

    Raises:
        Unsupported: The node cannot be converted.
    """
    operator = operators().get(node.op)
    if operator is None:
        line = f"{node.op}(INPUTS) -> OUTPUT:TYPE"
        raise Unsupported(
            f'{handler.described} needs declare("{line}"); for an operator of TensorFlow, add the line to '
            "converters/tensorflow/reading/operators.txt"
        )
    types = [dtype for listed in operator.outputs_of(node.attr).values() for dtype in listed]
    for number in types:
        if number % REFERENCE not in ONNX_TYPES:
            raise Unsupported(REFUSALS.get(node.op) or f"its result is {type_name(number)}, a type that ONNX lacks")
    names = handler.names(len(inputs))
    if len(names) != len(inputs):
        raise Unsupported(f"it has {len(inputs)} inputs, not {len(names)}")
    attributes = Attributes(operator, node.attr)
    dtypes = tuple(int(ONNX_TYPES[number % REFERENCE]) for number in types)
    given = reads.Attributes(dict(zip(names, inputs, strict=True)), "input")
    seen = Node(name, node.op, given, attributes, dtypes)
    try:
        results = AnyHandler.convert(handler, seen, emit)
    except KeyError as error:
        raise Unsupported(f"it has no attribute {error.args[0]}") from None
    return results, dtypes


class GraphNode(reads.Node):
    """A node about the graph, and what is around it.

    Args:
        context: The conversion.
        scope: The scope of the node.
        node: The node.

    Attributes:
        name: Its name in its scope.
        op: Its operator.
        input: The names of the tensors that it reads.
        attr: Its attributes as TensorFlow's messages.
        attributes: The same with the defaults of the operator, as handlers of tensors see them.
    """

    def __init__(self, context: Context, scope: Scope, node: NodeDef) -> None:
        self.context, self.scope = context, scope
        self.name, self.op, self.input = node.name, node.op, node.input
        self.attr = MessageAttributes(operators()[node.op], node.attr)
        self.attributes = Attributes(operators()[node.op], self.attr)

    def parts(self) -> Iterable[reads.Reads]:
        """See `Node`."""
        return (self.attr,)

    def origins(self) -> list[Any]:
        """The origins of its inputs."""
        return self.scope.origins(self)

    def values(self) -> list[Value]:
        """The values of its inputs."""
        return self.context.values(self.origins())

    def tensors(self) -> list[Tensor]:
        """The values of its inputs, which are tensors.

        Raises:
            Unsupported: One is none.
        """
        return self.context.tensors(self.origins())

    def begin(self) -> None:
        """Name the nodes that are written next after it, where others have been converted since."""
        self.scope.frame.emit.begin(f"{self.scope.name}{self.name}")


def refuse_types(node: NodeDef) -> None:
    """Refuse a node with a type that tensors of ONNX Runtime do not have.

    Raises:
        Unsupported: It has one.
    """
    for name, attribute in node.attr.items():
        types = attribute.list.type if attribute.WhichOneof("value") == "list" else [attribute.type]
        for number in types:
            if number and number % REFERENCE not in ONNX_TYPES and not name.startswith("_"):
                raise Unsupported(f"its {name} is {type_name(number)}, which ONNX Runtime does not compute with")


def joined(found: Shape | None, declared: Shape | None) -> Shape | None:
    """What is known of a shape by what is found, and else by what is declared."""
    if declared is None or found is None or len(found) != len(declared):
        return declared if found is None else found
    return tuple(d if f is None else f for f, d in zip(found, declared, strict=True))


def declared_shapes(node: NodeDef) -> list[Shape | None]:
    """The shapes of a node's outputs, where the graph says them."""
    if "_output_shapes" not in node.attr:
        return []
    return [shape_of(shape) for shape in node.attr["_output_shapes"].list.shape]
