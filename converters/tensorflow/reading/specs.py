"""Which inputs of a signature are the parts of sparse and ragged tensors.

A signature has tensors only. It calls the function that was saved, whose own signature says more; if that was not kept,
the parts of an argument still have the argument's name in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensorflow.reading.element_types import NUMBERS
from onnx_sparse.converters.tensorflow.reading.ports import Port
from onnx_sparse.converters.tensorflow.reading.scopes import CALLS, Scope
from onnx_sparse.converters.tensorflow.reading.tensor_values import shape_of
from onnx_sparse.converters.verification.sample_inputs import CompositeSpecs, RaggedInput, SparseInput

#: How TypeSpecProto calls sparse and ragged tensors.
_SPARSE, _RAGGED = 1, 3
_INTEGERS = (NUMBERS["int32"], NUMBERS["int64"])


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


def _structured(signature: Any, names: Sequence[str]) -> CompositeSpecs | None:
    """The specs in a function's signature; None if it has other tensors than these."""
    left = list(names)
    sparse, ragged = [], []
    for spec in _leaves(signature):
        kind = spec.type_spec_value.type_spec_class if spec.WhichOneof("value") == "type_spec_value" else 0
        state = list(spec.type_spec_value.type_state.tuple_value.values)
        count = 3 if kind == _SPARSE else 1
        if kind == _RAGGED:
            if len(state) < 3:
                return None
            count = 1 + int(state[2].int64_value)
        elif kind not in (0, _SPARSE):
            return None
        if len(left) < count:
            return None
        parts, left = left[:count], left[count:]
        if kind == _SPARSE:
            indices, values, dense_shape = parts
            sparse.append(
                SparseInput(indices, values, dense_shape, shape_of(state[0].tensor_shape_value) if state else None)
            )
        elif count > 1:
            ragged.append(RaggedInput(parts[0], tuple(parts[1:])))
    return None if left else CompositeSpecs(tuple(sparse), tuple(ragged))


def shapes_of_arguments(signature: Any, count: int) -> list[tuple[int | None, ...] | None]:
    """The shape of each tensor that a function takes, None where its signature does not say it."""
    shapes: list[tuple[int | None, ...] | None] = []
    for spec in _leaves(signature):
        if spec.WhichOneof("value") == "tensor_spec_value":
            shapes.append(shape_of(spec.tensor_spec_value.shape))
        elif spec.type_spec_value.type_spec_class == _SPARSE:
            state = spec.type_spec_value.type_state.tuple_value.values
            dense = shape_of(state[0].tensor_shape_value) if state else None
            rank = None if dense is None else len(dense)
            shapes += [(None, rank), (None,), (rank,)]
        elif spec.type_spec_value.type_spec_class == _RAGGED:
            splits = spec.type_spec_value.type_state.tuple_value.values[2:3]
            shapes += [None, *[(None,)] * (int(splits[0].int64_value) if splits else 1)]
        else:
            return [None] * count
    return shapes if len(shapes) == count else [None] * count


def _leaves(value: Any) -> Iterator[Any]:
    kind = value.WhichOneof("value")
    if kind in ("list_value", "tuple_value"):
        for item in getattr(value, kind).values:
            yield from _leaves(item)
    elif kind == "dict_value":
        for key in sorted(value.dict_value.fields):
            yield from _leaves(value.dict_value.fields[key])
    elif kind == "named_tuple_value":
        for pair in value.named_tuple_value.values:
            yield from _leaves(pair.value)
    elif kind in ("tensor_spec_value", "type_spec_value"):
        yield value


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
