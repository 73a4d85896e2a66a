"""Which inputs of a signature are the parts of sparse and ragged tensors.

A signature has tensors only. It calls the function that was saved, whose own signature says more; if that was not kept,
the parts of an argument still have the argument's name in common.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensorflow.reading.argument_names import Argument, Path
from onnx_sparse.converters.tensorflow.reading.element_types import NUMBERS
from onnx_sparse.converters.tensorflow.reading.ports import Port
from onnx_sparse.converters.tensorflow.reading.scopes import CALLS, Scope
from onnx_sparse.converters.tensorflow.reading.tensor_values import shape_of
from onnx_sparse.converters.verification.sample_inputs import CompositeSpecs, RaggedInput, SparseInput

#: How TypeSpecProto calls sparse and ragged tensors.
_SPARSE, _RAGGED = 1, 3
_INTEGERS = (NUMBERS["int32"], NUMBERS["int64"])
#: The functions that TensorFlow puts between a signature and the function that it calls are named like this.
_WRAPPER = "__inference_signature_wrapper"


def composite_specs(graph: Scope, objects: Any, ports: Sequence[Port]) -> CompositeSpecs:
    """The sparse and ragged tensors that a signature takes, as far as the model says.

    Args:
        graph: The graph.
        objects: The SavedObjectGraph; None if the model has none.
        ports: The inputs of the signature.
    """
    fed = [port.tensor for port in ports]
    for called, given in _called(graph, fed, depth=2):
        names = [ports[k].name for k in given]
        known = objects.concrete_functions if objects is not None else {}
        if called in known:
            specs = _structured(known[called].canonicalized_input_signature, names)
            if specs is not None:
                return specs
        function = graph.library.functions[called]
        if any("_user_specified_name" in function.arg_attr[k].attr for k in function.arg_attr):
            specs = _parts_of_arguments(function, names)
            if specs != CompositeSpecs():
                return specs
    return CompositeSpecs()


def _called(scope: Scope, fed: Sequence[str], depth: int) -> Iterator[tuple[str, list[int]]]:
    """The functions that take the inputs, the innermost first, with the numbers of the inputs that each takes."""
    numbers = {tensor.removesuffix(":0"): k for k, tensor in enumerate(fed)}
    for node in scope.nodes.values():
        if node.op not in CALLS:
            continue
        taken = [numbers.get(tensor.removesuffix(":0")) for tensor in node.input if not tensor.startswith("^")]
        given = [number for number in taken if number is not None]
        name = node.attr["f"].func.name
        if not given or taken[: len(given)] != given or name not in scope.library.functions:
            continue  # captured tensors come last
        if depth > 1:
            arguments = [argument.name for argument in scope.library[name].signature.input_arg]
            inner = [arguments[given.index(k)] if k in given else "" for k in range(len(fed))]
            try:
                yield from _called(scope.call(node), inner, depth - 1)
            except Unsupported:  # which is an error where the call is converted
                return
        yield name, given


def arguments_of(graph: Scope, objects: Any, ports: Sequence[Port]) -> list[Argument]:
    """The arguments of the function that a signature calls, in which the inputs are; none where the model says none.

    Args: See `composite_specs`.
    """
    known = objects.concrete_functions if objects is not None else {}
    for called, given in reversed([*_called(graph, [port.tensor for port in ports], depth=2)]):
        if called in known and not called.startswith(_WRAPPER):
            function, names = graph.library.functions[called], [ports[k].name for k in given]
            attributes = [function.arg_attr[k].attr if k in function.arg_attr else {} for k in range(len(given))]
            users = [each["_user_specified_name"].s.decode("utf-8", "replace") if each else "" for each in attributes]
            return _arguments(known[called].canonicalized_input_signature, names, users)
    return []


def _arguments(signature: Any, names: Sequence[str], users: Sequence[str]) -> list[Argument]:
    """The arguments in a function's signature; none if it has other tensors than these.

    Args:
        signature: The signature.
        names: What its tensors are called.
        users: What its user, or else its parameter, calls them.
    """
    found: list[Argument] = []
    position = 0
    for path, spec in specs_in(signature):
        described = kind_of_spec(spec)
        if described is None or position + described[1] > len(names):
            return []
        kind, count = described
        tensors, parameter = tuple(names[position : position + count]), users[position]
        position += count
        of_parameter = re.compile(re.escape(parameter) + r"(_\d+)?")
        if all(map(of_parameter.fullmatch, tensors)):
            found.append(Argument.of(parameter, path, tensors, kind, spec.tensor_spec_value.name))
        else:  # the signature gives a name
            found.append(Argument(tensors[0], (), tensors, kind))
    return found if position == len(names) else []


def _structured(signature: Any, names: Sequence[str]) -> CompositeSpecs | None:
    """The specs in a function's signature; None if it has other tensors than these."""
    left = list(names)
    sparse, ragged = [], []
    for _, spec in specs_in(signature):
        if (described := kind_of_spec(spec)) is None or len(left) < described[1]:
            return None
        kind, count = described
        parts, left = left[:count], left[count:]
        if kind == "sparse":
            state = spec.type_spec_value.type_state.tuple_value.values
            shape = shape_of(state[0].tensor_shape_value) if state else None
            indices, values, dense_shape = parts
            sparse.append(SparseInput(indices, values, dense_shape, shape))
        elif kind == "ragged":
            ragged.append(RaggedInput(parts[0], tuple(parts[1:])))
    return None if left else CompositeSpecs(tuple(sparse), tuple(ragged))


def kind_of_spec(spec: Any) -> tuple[str, int] | None:
    """Whether a spec is that of a dense, sparse or ragged tensor, and the number of its parts; None if of none."""
    kind = spec.type_spec_value.type_spec_class if spec.WhichOneof("value") == "type_spec_value" else 0
    if kind == _SPARSE:
        return "sparse", 3
    if kind == _RAGGED:
        state = spec.type_spec_value.type_state.tuple_value.values
        if len(state) < 3:
            return None
        depth = int(state[2].int64_value)
        return "ragged" if depth else "dense", 1 + depth
    return None if kind else ("dense", 1)


def shapes_of_arguments(signature: Any, count: int) -> list[tuple[int | None, ...] | None]:
    """The shape of each tensor that a function takes, None where its signature does not say it."""
    shapes: list[tuple[int | None, ...] | None] = []
    for _, spec in specs_in(signature):
        if spec.WhichOneof("value") == "tensor_spec_value":
            shapes.append(shape_of(spec.tensor_spec_value.shape))
        elif spec.type_spec_value.type_spec_class == _SPARSE:
            state = spec.type_spec_value.type_state.tuple_value.values
            dense = shape_of(state[0].tensor_shape_value) if state else None
            rank = None if dense is None else len(dense)
            shapes += [(None, rank), (None,), (rank,)]
        elif spec.type_spec_value.type_spec_class == _RAGGED:
            state = spec.type_spec_value.type_state.tuple_value.values
            depth = int(state[2].int64_value) if len(state) > 2 else 1
            rows = shape_of(state[0].tensor_shape_value) if len(state) > 2 else None
            shapes += [None if rows is None else (None, *rows[depth + 1 :]), *[(None,)] * depth]
        else:
            return [None] * count
    return shapes if len(shapes) == count else [None] * count


def specs_in(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The specs of tensors in a structure, in TensorFlow's order, with the keys and positions that lead to each."""
    kind = value.WhichOneof("value")
    if kind in ("list_value", "tuple_value"):
        items = [*enumerate(getattr(value, kind).values)]
    elif kind == "dict_value":
        items = [(key, value.dict_value.fields[key]) for key in sorted(value.dict_value.fields)]
    elif kind == "named_tuple_value":
        items = [(pair.key, pair.value) for pair in value.named_tuple_value.values]
    else:
        items = []
    for key, item in items:
        yield from specs_in(item, (*path, key))
    if kind in ("tensor_spec_value", "type_spec_value"):
        yield path, value


def _parts_of_arguments(function: Any, names: Sequence[str]) -> CompositeSpecs:
    """The sparse and ragged tensors among the arguments of a function, by the names that its user gave to them."""
    sparse: list[SparseInput] = []
    ragged: list[RaggedInput] = []
    arguments: dict[str, list[tuple[str, int, tuple[int | None, ...] | None]]] = {}
    for k, (name, argument) in enumerate(zip(names, function.signature.input_arg, strict=False)):
        attributes = function.arg_attr[k].attr if k in function.arg_attr else {}
        shapes = attributes["_output_shapes"].list.shape if "_output_shapes" in attributes else ()
        user = attributes["_user_specified_name"].s.decode("utf-8", "replace") if attributes else ""
        shape = shape_of(shapes[0]) if shapes else None
        arguments.setdefault(user or name, []).append((name, argument.type, shape))
    for parts in arguments.values():
        while parts:
            name, dtype, shape = parts.pop(0)
            ranks = [len(part[2]) for part in parts if part[2] is not None]
            if dtype == NUMBERS["int64"] and shape is not None and len(shape) == 2 and ranks[:2] == [1, 1]:
                sparse.append(SparseInput(name, parts[0][0], parts[1][0]))
                del parts[:2]
                continue
            splits = []
            while parts and parts[0][1] in _INTEGERS and parts[0][2] is not None and len(parts[0][2]) == 1:
                splits.append(parts.pop(0)[0])
            if splits:
                ragged.append(RaggedInput(name, tuple(splits)))
    return CompositeSpecs(tuple(sparse), tuple(ragged))
