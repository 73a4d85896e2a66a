"""tf.raw_ops.If, StatelessIf, Case and StatelessCase: branches, of which one is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import GraphProto, TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Shape, Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import GraphNode, structure
from onnx_sparse.converters.tensorflow.importing.context import Context
from onnx_sparse.converters.tensorflow.importing.values import Value, VariantOfBranch
from onnx_sparse.converters.tensorflow.reading.conditions import functions
from onnx_sparse.converters.tensorflow.reading.element_types import VARIANT
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.scopes import Origin, Scope
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter


def _branches(context: Context, scope: Scope, node: NodeDef) -> list[Scope]:
    """The scopes of the branches; their arguments are tensors of the caller."""
    key = (id(scope), node.name)
    if key not in context.branches:
        given = [(scope, tensor) for tensor in node.input if not tensor.startswith("^")][1:]
        context.branches[key] = [
            context.keep(scope.function(name, given, f"{scope.name}{node.name}/{k}/", scope.frame.body(), node))
            for k, name in enumerate(functions(node))
        ]
    return context.branches[key]


def _reads(context: Context, scope: Scope, node: NodeDef) -> list[Any]:
    """The condition, and what the branches read from outside."""
    found = [scope.origins(node)[0]]
    for branch in _branches(context, scope, node):
        found += outer_origins(context, branch, _without(_variants(node), branch.results()))
    return found


def _variants(node: NodeDef) -> set[int]:
    """Which results of a node are variants: in graphs that have a gradient, its branches return what that reads."""
    types = node.attr["Tout"].list.type if "Tout" in node.attr else ()
    return {k for k, number in enumerate(types) if number == VARIANT}


def _without(variants: set[int], origins: Sequence[Any]) -> list[Any]:
    return [origin for k, origin in enumerate(origins) if k not in variants]


def outer_origins(context: Context, scope: Scope, wanted: Sequence[Any]) -> list[Any]:
    """The origins outside of a body, and the values that stand for themselves, that origins in it need."""
    found: dict[tuple[int, str, int], Any] = {}
    seen: set[tuple[int, str]] = set()
    waiting = [*wanted]
    while waiting:
        origin = waiting.pop()
        if not isinstance(origin, Origin):
            found[id(origin), "", 0] = origin
            continue
        if origin.scope.frame is not scope.frame:
            found[id(origin.scope), origin.node, origin.output] = origin
            continue
        key = (id(origin.scope), origin.node)
        if key not in seen:
            seen.add(key)
            try:
                read = context.read_by(origin.scope, origin.scope.nodes[origin.node])
            except Unsupported:  # which is recorded when the node is converted
                continue
            waiting += read
    return list(found.values())


@structure(
    *("If", "StatelessIf", "Case", "StatelessCase"),
    reads=_reads,
    ignored=("then_branch", "else_branch", "branches", "output_shapes"),  # which scopes read
)
def branch(node: GraphNode, emit: InferringEmitter) -> tuple[Value, ...]:
    """An If, or for several branches, an If in an If."""
    context, scope = node.context, node.scope
    (condition,) = context.tensors(node.origins()[:1])
    scopes = _branches(context, scope, node)
    if not scopes:
        raise Unsupported("it has no branches")
    variants = _variants(scope.nodes[node.name])
    found = [_without(variants, each.results()) for each in scopes]
    context.convert([origin for origins in found for origin in origins])  # to list all that cannot be
    results = [context.tensors(origins) for origins in found]
    node.begin()
    dtypes = [tensor.dtype for tensor in results[0]]
    if any([tensor.dtype for tensor in each] != dtypes for each in results):
        raise Unsupported("its branches return different types")
    shapes = [common_shape([each[k].shape for each in results]) for k in range(len(dtypes))]
    made = iter(_written(node, condition, scopes, results, dtypes, shapes, emit) if dtypes else ())
    return tuple(VariantOfBranch() if k in variants else next(made) for k in range(len(dtypes) + len(variants)))


def _written(
    node: GraphNode,
    condition: Tensor,
    scopes: Sequence[Scope],
    results: Sequence[Sequence[Tensor]],
    dtypes: Sequence[int],
    shapes: Sequence[Shape | None],
    emit: InferringEmitter,
) -> tuple[Tensor, ...]:
    """The branches of a node, whose results are these, as one If or several."""
    graphs = [
        branch_graph(each.frame.emit, made, f"{node.name}_{k}")
        for k, (each, made) in enumerate(zip(scopes, results, strict=True))
    ]
    if node.op in ("If", "StatelessIf"):
        return written_if(truth(condition, emit), graphs[1], graphs[0], dtypes, shapes, emit)
    # An index out of range takes the last branch.
    made = None
    last = len(graphs) - 1
    if last == 0:
        chosen = emit.constant(True, TensorProto.BOOL)
        return written_if(chosen, graphs[0], graphs[0], dtypes, shapes, emit)
    graph = graphs[last]
    index = emit.int64(emit.scalar(condition))
    below = emit.op("Less", index, emit.constant(0))
    index = emit.op("Where", below, emit.constant(last), index)
    for k in range(last - 1, -1, -1):
        inner = emit if k == 0 else emit.body()
        is_chosen = inner.op("Equal", index, inner.constant(k))
        made = written_if(is_chosen, graphs[k], graph, dtypes, shapes, inner)
        if k:
            graph = inner.graph(f"{node.name}_else_{k}", [], [value_info(tensor) for tensor in made])
    assert made is not None
    return made


def written_if(
    condition: Tensor,
    then_branch: GraphProto,
    else_branch: GraphProto,
    dtypes: Sequence[int],
    shapes: Sequence[Shape | None],
    emit: InferringEmitter,
) -> tuple[Tensor, ...]:
    """An If of two finished branches."""
    return emit.node("If", [condition], dtypes, shapes, then_branch=then_branch, else_branch=else_branch)


def branch_graph(emit: InferringEmitter, results: Sequence[Tensor], name: str) -> GraphProto:
    """The graph of a branch, which has no inputs; its results must be made in it, under names of their own."""
    emit.begin(name)
    names = [emit.names.fresh(f"{name}/result_{k}") for k in range(len(results))]
    outputs = emit.name_outputs(results, names, start=0)
    return emit.graph(name, [], [value_info(tensor) for tensor in outputs])


def truth(condition: Tensor, emit: InferringEmitter) -> Tensor:
    """A condition as TensorFlow takes it: a scalar that is not 0, or else a tensor or string that is not empty."""
    if condition.dtype == TensorProto.STRING:
        raise Unsupported("its condition is a string")
    if condition.shape is not None and len(condition.shape):
        return emit.op("Greater", emit.op("Size", condition, shape=()), emit.constant(0))
    return emit.cast(condition, TensorProto.BOOL)


def common_shape(shapes: Sequence[Shape | None]) -> Shape | None:
    """What is known of a tensor that has one of several shapes."""
    first = shapes[0]
    for shape in shapes[1:]:
        if first is None or shape is None or len(first) != len(shape):
            return None
        first = tuple(a if a == b else None for a, b in zip(first, shape, strict=True))
    return first
