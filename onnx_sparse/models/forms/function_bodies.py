"""Models that need no kernels of ours: function bodies are embedded in them, or inlined to standard ONNX."""

from __future__ import annotations

from collections import defaultdict

from onnx import FunctionProto, ModelProto, NodeProto

from onnx_sparse.models.domain_nodes import DomainNode, domain_nodes
from onnx_sparse.models.files.large_models import around_large_tensors
from onnx_sparse.models.graphs import all_nodes, graphs, names_of
from onnx_sparse.models.key_lookups import use_dictionaries
from onnx_sparse.models.tools.inlining import without_calls_of_functions
from onnx_sparse.models.tools.onnx_tools import as_value_errors, inline_functions, with_inferred_types
from onnx_sparse.models.tools.opsets import default_opset, in_body_opset
from onnx_sparse.schemas import DOMAIN
from onnx_sparse.schemas.function_body import ML_DOMAIN, Known, binding_name, function_proto, read_values

#: The lowest IR version in which a model can have functions.
_BODY_IR_VERSION = 8


@around_large_tensors
def embed_functions(model: ModelProto) -> ModelProto:
    """Add the function bodies of the domain's operators that a model uses, as model-local functions.

        portable = onnx_sparse.embed_functions(onnx.load("model.onnx"))

    The result runs in plain ONNX Runtime without onnx_sparse. Sessions with registered kernels use these instead of the
    bodies. Bodies assume legal input and report no errors. If a model needs several bodies of one operator, say for two
    element types, the body that most nodes need has the operator's name, and the others have names of their own.
    `onnx_sparse.InferenceSession` uses kernels for all of them; other sessions only for the operator's name.

    Convert to float16 first: bodies hold element types, which converters do not change.

    Args:
        model: Any model; it is not changed.

    Returns:
        A new model. Where it has bodies, its default opset is at least 18, because runtimes read bodies in the model's
        opset, and its IR version is at least 8, which has functions.

    Raises:
        ValueError: A node's op_type is not in the domain, or is an operator without a function body; its attributes or
            element types are illegal or cannot be inferred; onnx cannot raise the model's opset.
    """
    result = without_calls_of_functions(model)
    use_dictionaries(result)
    if not any(node.domain == DOMAIN for node in all_nodes(result.graph.node)):
        return result
    result = with_inferred_types(in_body_opset(result))
    names = names_of(result)
    bodies, expanded = _Bodies(), _Bodies()
    in_maps = _made_in_sequence_maps(result)
    for found in domain_nodes(result):
        # Who changes a constant of the model changes what a node computes, so no body depends on a constant's value.
        known = Known(shapes=found.known().shapes)
        outputs = [o.name for o in found.op.outputs]
        body = _body(found, default_opset(result), found.given(), known, outputs)
        found.write_out(names)  # some runtimes take only calls that give all inputs and outputs
        _drop_last_inputs(body, found.node)
        (bodies if in_maps.isdisjoint(found.node.output) else expanded).add(found, body)
    result.ir_version = max(result.ir_version, _BODY_IR_VERSION)
    inlined = expanded.named(apart="InSequenceMap")
    result.functions.extend([*inlined, *bodies.named()])
    if inlined:
        with as_value_errors(result, "function bodies in a SequenceMap cannot be inlined"):
            result = inline_functions(result, [(f.domain, f.name) for f in inlined])
    return result


def _made_in_sequence_maps(model: ModelProto) -> set[str]:
    """What nodes in the bodies of SequenceMaps make.

    ONNX Runtime makes a Loop of a SequenceMap, and then does not find the values of functions that its body calls.
    """
    maps = [node for node in all_nodes(model.graph.node) if node.op_type == "SequenceMap" and not node.domain]
    bodies = [attribute.g for node in maps for attribute in node.attribute if attribute.name == "body"]
    return {output for body in bodies for node in all_nodes(body.node) for output in node.output if output}


@around_large_tensors
def lower(model: ModelProto, *, opset: int | None = None) -> ModelProto:
    """Replace the domain's nodes by their function bodies: standard ONNX only.

        plain = onnx_sparse.lower(onnx.load("model.onnx"))

    What the model tells about a node (constants, ranks, outputs that nothing reads) makes its body smaller. Convert to
    float16 before: bodies hold element types, which converters do not change.

    Args:
        model: Any model; it is not changed.
        opset: The version of ai.onnx that the result imports, from 18 to the newest that the installed onnx knows; the
            model's own when omitted, or 18 where that is lower.

    Returns:
        A new model without nodes of the domain and without its opset import.

    Raises:
        ValueError: As `embed_functions`; or onnx cannot convert the model to the opset.
    """
    result = without_calls_of_functions(model)
    if opset is not None or any(node.domain == DOMAIN for node in all_nodes(result.graph.node)):
        result = _inlined(with_inferred_types(in_body_opset(result, opset)))
    imports = [i for i in result.opset_import if i.domain != DOMAIN]
    del result.opset_import[:]
    result.opset_import.extend(imports)
    return result


def _inlined(model: ModelProto) -> ModelProto:
    """The model with the bodies of its nodes in their places; the given model is changed, too."""
    names, read = names_of(model), _read_anywhere(model)
    bodies = _Bodies()
    unread: set[str] = set()
    for found in domain_nodes(model):
        node, known = found.node, found.known()
        given = found.given() - _sentinels(found, known)
        known = Known(known.shapes, {name: array for name, array in known.constants.items() if name in given})
        found.write_out(names)
        wanted = [o.name for o, value in zip(found.op.outputs, node.output, strict=True) if value in read]
        body = _body(found, default_opset(model), given, known, wanted or [found.op.outputs[0].name])
        outputs = dict(zip((o.name for o in found.op.outputs), node.output, strict=True))
        inputs = dict(zip((i.name for i in found.op.inputs), node.input, strict=True))
        used = _read_in(body)
        body.input[:] = [name for name in body.input if name in used]
        node.output[:] = [outputs[name] for name in body.output]
        node.input[:] = [inputs[name] for name in body.input]
        unread.update(set(inputs.values()).difference(node.input))
        bodies.add(found, body)
    model.functions.extend(bodies.named())
    _import_ml(model)
    model.ir_version = max(model.ir_version, _BODY_IR_VERSION)
    called = [(f.domain, f.name) for f in model.functions if f.domain == DOMAIN]
    if called:
        with as_value_errors(model, "function bodies cannot be inlined"):
            model = inline_functions(model, called)
    _drop_unread(model, unread)
    _name_nodes(model)
    return model


def _import_ml(model: ModelProto) -> None:
    """Let a model and its functions import the same opset of ai.onnx.ml, which onnx's inliner requires.

    Raises:
        ValueError: The model imports an older one than its functions.
    """
    imports = [i for function in model.functions for i in function.opset_import if i.domain == ML_DOMAIN]
    if not imports:
        return
    own = next((i for i in model.opset_import if i.domain == ML_DOMAIN), None)
    if own is None:
        model.opset_import.append(imports[0])
    elif own.version < imports[0].version:
        raise ValueError(f"the model imports opset {own.version} of {ML_DOMAIN}; bodies need {imports[0].version}")
    for imported in imports:
        imported.version = own.version if own else imported.version


class _Bodies:
    """The bodies that the nodes of a model need: nodes with equal bodies share one."""

    def __init__(self) -> None:
        self._bodies: dict[bytes, FunctionProto] = {}
        self._nodes: dict[bytes, list[DomainNode]] = defaultdict(list)

    def add(self, found: DomainNode, body: FunctionProto) -> None:
        """Add the body of a node."""
        named = FunctionProto()
        named.CopyFrom(body)
        named.name = found.op.name
        key = named.SerializeToString(deterministic=True)
        self._bodies.setdefault(key, body)
        self._nodes[key].append(found)

    def named(self, *, apart: str = "") -> list[FunctionProto]:
        """The bodies, each under a name of its own, by which its nodes now call it.

        The body of an operator that most nodes need has the operator's name: kernels can take the place of that one.
        Names tell the others apart, and not overloads, which not all tools know.

        Args:
            apart: What follows each name, to tell the bodies from others of the model.
        """
        taken = set()
        for key in sorted(self._bodies, key=lambda key: -len(self._nodes[key])):
            body, nodes = self._bodies[key], self._nodes[key]
            name, number = nodes[0].op.name, 1
            while name in taken:
                name, number = body.name if number == 1 else f"{body.name}_{number}", number + 1
            taken.add(name)
            body.name = name + apart
            for found in nodes:
                found.node.op_type = body.name
        return list(self._bodies.values())


def _body(found: DomainNode, opset: int, given: frozenset[str], known: Known, outputs: list[str]) -> FunctionProto:
    """The body of a node, for some of its outputs; its name tells it from those of other bindings."""
    missing = [i.name for i in found.op.inputs if not i.optional and i.name not in given]
    if missing:
        raise ValueError(f"{found.label}: input {missing[0]} is required")
    attributes = found.op.with_defaults(found.attributes())
    types = found.binding()
    for variable, legal in found.op.types.items():
        if variable not in types and all(i.optional for i in found.op.inputs if i.type == variable):
            types[variable] = legal[-1]
        if variable not in types:
            raise ValueError(
                f"{found.label}: its element type {variable} cannot be inferred; declare the types of its inputs"
            )
    body = function_proto(found.op, types, attributes, given, opset, known=known, outputs=outputs)
    if body is None:
        reason = f"the operator has no function body: standard ONNX cannot express it. {found.op.body_notes}".strip()
        raise ValueError(f"{found.label}: {reason}")
    body.name = binding_name(found.op, types, attributes, given)
    return body


def _drop_last_inputs(body: FunctionProto, call: NodeProto) -> None:
    """Remove the last inputs that a body does not read; tools that remove them from functions leave them in calls."""
    used = _read_in(body)
    while body.input[-1] not in used:
        del body.input[-1], call.input[-1]


def _read_in(body: FunctionProto) -> set[str]:
    read: set[str] = set()
    return read.union(*map(read_values, body.node))


def _sentinels(found: DomainNode, known: Known) -> frozenset[str]:
    """The inputs that the node is known to give as their sentinels."""
    absent = set()
    for declared in found.op.inputs:
        constant = known.constants.get(declared.name)
        is_empty = declared.sentinel == () and known.shapes.get(declared.name) == (0,)
        if declared.optional and (is_empty or (constant is not None and declared.is_sentinel(constant))):
            absent.add(declared.name)
    return frozenset(absent)


def _read_anywhere(model: ModelProto) -> set[str]:
    """The names of all values that nodes read or graphs give."""
    read: set[str] = set()
    for graph in graphs(model.graph):
        read.update(value.name for value in graph.output)
        for node in graph.node:
            read.update(node.input)
    return read


def _name_nodes(model: ModelProto) -> None:
    """Name the nodes that have no name: some fusions of ONNX Runtime 1.21 give theirs the name of the node before."""
    nodes = [node for graph in graphs(model.graph) for node in graph.node]
    names = {node.name for node in nodes}
    for node in nodes:
        if not node.name and node.output and node.output[0] not in names:
            node.name = node.output[0]


def _drop_unread(model: ModelProto, names: set[str]) -> None:
    """Remove the constants of some names that nothing reads."""
    while names := names - _read_anywhere(model):
        dropped = names
        names = set()
        for graph in graphs(model.graph):
            given = {value.name for value in graph.input}
            for position in reversed(range(len(graph.node))):
                node = graph.node[position]
                if node.op_type in ("Constant", "Identity") and dropped.issuperset(node.output):
                    names.update(node.input)
                    del graph.node[position]
            for position in reversed(range(len(graph.initializer))):
                name = graph.initializer[position].name
                if name in dropped and name not in given:
                    del graph.initializer[position]
