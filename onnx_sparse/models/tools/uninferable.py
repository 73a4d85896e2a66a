"""Nodes that shape inference cannot be shown: in some version of onnx they end the process.

A table says which operators they are of. It is what a walk over all operators of all versions finds
(`tests/torture/operators.py`). Operators that are newer than the walk count as found. A node of such an operator is
shown once it is as its schema demands and the types of all that it reads are known. Until then it is moved to a domain
that inference skips.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, defs

from onnx_sparse.models.graphs import all_nodes, attribute, every_node, graphs, subgraphs

#: What the domain of a node begins with while it is hidden.
_PREFIX = "onnx_sparse.hidden."

#: An equation of Einsum: onnx looks for the end of a term for ever if there is another sign in it.
_TERM = r"[A-Za-z]*(\.\.\.)?[A-Za-z]*"
_EQUATION = re.compile(rf"{_TERM}(,{_TERM})*(->{_TERM})?")


@dataclass(frozen=True)
class Fatal:
    """What inference must not be shown of an operator.

    Attributes:
        untyped: Whether it ends the process for an input of unknown type.
        is_legal: Whether the attributes of a node that is as the schema demands are no danger.
    """

    untyped: bool = True
    is_legal: Callable[[NodeProto], bool] = lambda _: True


#: The operators whose inference has ended a process or has no end, in any of their versions and any version of onnx.
FATAL: Mapping[tuple[str, str], Fatal] = {
    ("", "Einsum"): Fatal(untyped=False, is_legal=lambda node: _has_equation(node)),
    ("", "EyeLike"): Fatal(),
    ("", "RegexFullMatch"): Fatal(),
    ("", "Scan"): Fatal(is_legal=lambda node: 0 <= attribute(node, "num_scan_inputs", 0) <= len(node.input)),
    ("ai.onnx.ml", "DictVectorizer"): Fatal(),
    ("ai.onnx.ml", "LabelEncoder"): Fatal(),
    ("ai.onnx.ml", "OneHotEncoder"): Fatal(),
    ("ai.onnx.ml", "TreeEnsemble"): Fatal(),
}

#: The newest versions of the operator sets that were walked over.
WALKED = {"": 28, "ai.onnx.ml": 5, "ai.onnx.preview": 1, "ai.onnx.preview.training": 1}

#: A vector of more elements is no shape.
_WIDE = 10**5

#: The first IR version in which inference takes the types of initializers that are no inputs.
_TYPED_INITIALIZERS = 4


Inference = Callable[[ModelProto], ModelProto]


def infer_safely(model: ModelProto, infer: Inference, *, without: Collection[str] = ()) -> ModelProto:
    """What inference makes of a model, without the nodes for which it would end the process.

    Args:
        model: The model; it is not changed.
        infer: Shape inference, which returns a new model.
        without: Values whose readers are not shown, either.
    """
    shown = with_hidden(model, infer, without=without)
    if shown is model:
        return infer(model)
    unhide(shown)
    return shown


def wide_values(model: ModelProto) -> set[str]:
    """The values of one dimension that is declared as very large.

    Where the values of shapes are followed, a vector is taken for a shape of as many dimensions, each of which is
    made: one of 10 million elements, such as a table of keys, takes seconds and gigabytes.
    """
    names: set[str] = set()
    for graph in graphs(model.graph):
        names.update(t.name for t in graph.initializer if len(t.dims) == 1 and t.dims[0] > _WIDE)
        for value in (*graph.input, *graph.value_info, *graph.output):
            dims = value.type.tensor_type.shape.dim
            if len(dims) == 1 and dims[0].dim_value > _WIDE:
                names.add(value.name)
    return names


def with_hidden(model: ModelProto, infer: Inference, *, without: Collection[str] = ()) -> ModelProto:
    """The model with its types, whose nodes that inference cannot be shown are hidden; itself if it has none."""
    if not without and not any(map(_is_fatal, every_node(model))):
        return model
    shown = ModelProto()
    shown.CopyFrom(model)
    _hide(shown, without)
    while True:
        shown = infer(shown)
        if not _reveal(shown, without):  # by types that inference has just found
            return shown


def _hide(model: ModelProto, without: Collection[str]) -> None:
    """Move the nodes that inference cannot be shown to domains that it skips, which the model imports for them."""
    for node in every_node(model):
        if _is_fatal(node) or any(name in without for name in node.input):
            node.domain = _PREFIX + node.domain
    _reveal(model, without)
    functions = [(function.node, function.opset_import) for function in model.functions]
    for nodes, imports in [(model.graph.node, model.opset_import), *functions]:
        for domain in sorted({node.domain for node in all_nodes(nodes) if node.domain.startswith(_PREFIX)}):
            imports.add(domain=domain, version=1)


def unhide(model: ModelProto) -> list[NodeProto]:
    """Move the nodes back; returns them."""
    hidden = [node for node in every_node(model) if node.domain.startswith(_PREFIX)]
    for node in hidden:
        node.domain = node.domain.removeprefix(_PREFIX)
    for imports in (model.opset_import, *(function.opset_import for function in model.functions)):
        kept = [entry for entry in imports if not entry.domain.startswith(_PREFIX)]
        if len(kept) < len(imports):
            del imports[:]
            imports.extend(kept)
    return hidden


def may_be_inferred(node: NodeProto, typed: Collection[str], version: int) -> bool:
    """Whether inference can be shown a node.

    Args:
        node: The node, hidden or not.
        typed: The names of the values whose types are known.
        version: The version of its operator set.
    """
    domain = _standard(node.domain.removeprefix(_PREFIX))
    fatal = _fatal().get((domain, node.op_type))
    if fatal is None:
        return True
    try:
        schema = defs.get_schema(node.op_type, version, domain)
    except defs.SchemaError:  # inference does not know it, either
        return True
    declared: Mapping[str, Any] = schema.attributes
    kinds = {name: AttributeProto.AttributeType.Value(a.type.name) for name, a in declared.items()}
    given = {a.name: a.type for a in node.attribute if not a.ref_attr_name}
    return (
        schema.min_input <= len(node.input) <= schema.max_input
        and schema.min_output <= len(node.output) <= schema.max_output
        and len(given) == len(node.attribute)
        and given.keys() >= {name for name, a in declared.items() if a.required}
        and given.items() <= kinds.items()
        and not (fatal.untyped and any(name not in typed for name in node.input))
        and fatal.is_legal(node)
    )


def _has_equation(node: NodeProto) -> bool:
    equation = attribute(node, "equation", b"").replace(b" ", b"")
    return _EQUATION.fullmatch(equation.decode("latin-1")) is not None


def _is_fatal(node: NodeProto) -> bool:
    return (_standard(node.domain), node.op_type) in _fatal()


@cache
def _fatal() -> Mapping[tuple[str, str], Fatal]:
    """The table, with the operators that the installed onnx has in newer versions than were walked over."""
    schemas = defs.get_all_schemas_with_history()
    newer = {(s.domain, s.name) for s in schemas if s.domain in WALKED and s.since_version > WALKED[s.domain]}
    return {**dict.fromkeys(newer, Fatal()), **FATAL}


def _standard(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _reveal(model: ModelProto, without: Collection[str]) -> bool:
    """Move back the hidden nodes that inference can be shown now; whether there are any.

    Those of functions stay hidden: what they read depends on the caller.
    """
    versions = {_standard(i.domain): i.version for i in model.opset_import}
    shown = _inferable(model.graph, frozenset(), versions, model.ir_version >= _TYPED_INITIALIZERS)
    nodes = [node for node in shown if not any(name in without for name in node.input)]
    for node in nodes:
        node.domain = node.domain.removeprefix(_PREFIX)
    return bool(nodes)


def _inferable(
    graph: GraphProto, outer: frozenset[str], versions: Mapping[str, int], has_typed_initializers: bool
) -> Iterator[NodeProto]:
    """The hidden nodes of a graph and its subgraphs that inference can be shown."""
    values = (*graph.input, *graph.value_info, *graph.output)
    typed = outer.union(value.name for value in values if value.type.WhichOneof("value"))
    if has_typed_initializers:
        typed = typed.union(tensor.name for tensor in graph.initializer)
    for node in graph.node:
        if node.domain.startswith(_PREFIX):
            version = versions.get(_standard(node.domain.removeprefix(_PREFIX)), 0)
            if may_be_inferred(node, typed, version):
                yield node
        for inner in subgraphs(node):
            yield from _inferable(inner, typed, versions, has_typed_initializers)
