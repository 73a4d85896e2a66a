"""Traced functions as a source: SavedModel signatures, tf.function, ConcreteFunction, Keras models."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensorflow.freeze import freeze_function
from onnx_sparse.converters.tensorflow.late_variables import LateVariables
from onnx_sparse.converters.tensorflow.lazy_imports import require
from onnx_sparse.converters.tensorflow.source import (
    Frozen,
    Port,
    Source,
    distinct,
    select,
)
from onnx_sparse.converters.verification.sample_inputs import CompositeSpecs, RaggedInput, SparseInput
from onnx_sparse.converters.writing.tensor import Array


class FunctionSource(Source):
    """A ConcreteFunction.

    Inputs keep the user's names: the keys of a signature, the names of TensorSpecs. Outputs are named by their keys if
    the function returns a dictionary, else `output_0`, `output_1`, ... as in a SavedModel. ONNX requires all names to
    differ: an output with the name of an input gets the suffix `_1`.
    """

    def __init__(
        self,
        concrete: Any,
        *,
        name: str,
        trackable: Any = None,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        input_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        late: LateVariables | None = None,
    ) -> None:
        """Wrap a function.

        Args:
            concrete: The ConcreteFunction.
            name: A name for the model.
            trackable: The object that holds its lookup tables; the function itself when omitted.
            inputs, outputs: The chosen inputs and outputs, in order; all when omitted.
            input_names: The names of the inputs, where the function's own say nothing.
            output_names: The names of the outputs, in the order in which the function returns them.
            late: Those of its variables whose values are not in memory.
        """
        self.name = name
        self._late = late or LateVariables({})
        self._concrete = concrete
        self._trackable = concrete if trackable is None else trackable
        # Captured tensors (variables, tables, constants made outside the function) come last and are not inputs.
        own = concrete.inputs[: len(concrete.inputs) - len(concrete.captured_inputs)]
        self._all_inputs = _ports(distinct(input_names or _input_names(concrete, own)), own)
        names = list(output_names or _output_names(concrete.structured_outputs))
        if len(names) != len(concrete.outputs):
            names = [f"output_{k}" for k in range(len(concrete.outputs))]
        self._all_outputs = _ports(distinct(names, (p.name for p in self._all_inputs)), concrete.outputs)
        self.inputs = select(self._all_inputs, inputs, "input", subset=False)
        self.outputs = select(self._all_outputs, outputs, "output", subset=True)
        self.specs = _specs(concrete, {port.tensor: port.name for port in self._all_inputs})

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Call the function."""
        tf = require("tensorflow")
        self._late.read(self._concrete.captured_inputs)
        values = [tf.constant(feeds[p.name], getattr(tf.dtypes, p.dtype)) for p in self._all_inputs]
        # A call with arguments would need those that are no tensors, too; a trace does not tell what they were.
        results = self._concrete._call_flat(values, self._concrete.captured_inputs)
        results = tf.nest.flatten(results, expand_composites=True)
        by_name = dict(zip((p.name for p in self._all_outputs), results, strict=True))
        return [by_name[p.name].numpy() for p in self.outputs]

    def freeze(self) -> Frozen:
        """Turn variables and captured tensors into constants and read the lookup tables."""
        inputs = [port.tensor for port in self.inputs]
        outputs = list(dict.fromkeys(port.tensor for port in self.outputs))
        graph_def, lookup_tables, tables, derivation = freeze_function(
            self._trackable, self._concrete, inputs, outputs, self._late
        )
        return Frozen(self.name, graph_def, self.inputs, self.outputs, derivation, lookup_tables, tables)


def from_function(function: Any, *, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> FunctionSource:
    """A tf.function with an input_signature, or a ConcreteFunction.

    Raises:
        ConversionError: If the function has no single trace.
    """
    name: Any = getattr(function, "__name__", None) or getattr(function, "name", "function")
    if hasattr(function, "structured_outputs"):
        # A trace's name is bytes in some versions, and has a number.
        text = name.decode() if isinstance(name, bytes) else name
        plain = re.sub(r"^__inference_(.+)_\d+$", r"\1", text)
        return FunctionSource(function, name=plain, inputs=inputs, outputs=outputs)
    if function.input_signature is None:
        raise ConversionError(
            f"{name} has no input_signature; give it one, or convert function.get_concrete_function(...)"
        )
    return FunctionSource(function.get_concrete_function(), name=name, inputs=inputs, outputs=outputs)


def _ports(names: Sequence[str], tensors: Sequence[Any]) -> tuple[Port, ...]:
    ports = []
    for name, tensor in zip(names, tensors, strict=True):
        shape = None if tensor.shape.rank is None else tuple(tensor.shape.as_list())
        ports.append(Port(name, tensor.name, tensor.dtype.base_dtype.name, shape))
    return tuple(ports)


def _input_names(concrete: Any, tensors: Sequence[Any]) -> list[str]:
    tf = require("tensorflow")
    graph_names = [tensor.op.name for tensor in tensors]
    leaves = tf.nest.flatten(concrete.structured_input_signature, expand_composites=True)
    specs = [leaf for leaf in leaves if isinstance(leaf, tf.TensorSpec)]
    if len(specs) != len(tensors):
        return graph_names
    # The components of a SparseTensorSpec have no names of their own; TensorFlow calls them sp, sp_1, sp_2.
    return [spec.name or name for spec, name in zip(specs, graph_names, strict=True)]


def _specs(concrete: Any, names: Mapping[str, str]) -> CompositeSpecs:
    """The sparse and ragged tensors that a function takes.

    The signature of a loaded SavedModel has only tensors. It calls the function that was saved, whose own signature
    says more; if that was not kept, the parts of an argument still have the argument's name in common.

    Args:
        concrete: The function.
        names: The names of its inputs by tensor.
    """
    specs = _composite_specs(concrete.structured_input_signature, list(names.values()))
    if specs != CompositeSpecs():
        return specs
    for operation in concrete.graph.get_operations():
        if operation.type not in ("PartitionedCall", "StatefulPartitionedCall"):
            continue
        called = concrete.graph._get_function(operation.get_attr("f").name)
        given = [names.get(tensor.name) for tensor in operation.inputs]
        own = [name for name in given if name is not None]
        if called is None or given[: len(own)] != own:  # captured tensors come last
            return specs
        types = require("tensorflow.core.function.polymorphism.function_type")
        structure = types.to_structured_signature(called.function_type)[0]
        if _has_leaves(structure, operation.inputs[: len(own)]):
            return _composite_specs(structure, own)
        return _parts_of_arguments(called.definition, own)
    return specs


def _has_leaves(structure: Any, tensors: Sequence[Any]) -> bool:
    """Whether the flattened parts of a signature are these tensors; a loaded function may not know its signature."""
    tf = require("tensorflow")
    leaves = [leaf for leaf in tf.nest.flatten(structure, expand_composites=True) if isinstance(leaf, tf.TensorSpec)]
    return len(leaves) == len(tensors) and all(
        leaf.dtype == tensor.dtype and leaf.shape.is_compatible_with(tensor.shape)
        for leaf, tensor in zip(leaves, tensors, strict=True)
    )


def _parts_of_arguments(definition: Any, names: Sequence[str]) -> CompositeSpecs:
    """The sparse and ragged tensors among the arguments of a FunctionDef, by the names that its user gave to them."""
    tf = require("tensorflow")
    sparse: list[SparseInput] = []
    ragged: list[RaggedInput] = []
    arguments: dict[str, list[tuple[str, Any, list[int] | None]]] = {}
    for k, (name, argument) in enumerate(zip(names, definition.signature.input_arg, strict=False)):
        attributes = definition.arg_attr[k].attr
        shapes = attributes["_output_shapes"].list.shape
        shape = None if not shapes or shapes[0].unknown_rank else [dim.size for dim in shapes[0].dim]
        user = attributes["_user_specified_name"].s.decode() or name
        arguments.setdefault(user, []).append((name, tf.dtypes.as_dtype(argument.type), shape))
    for parts in arguments.values():
        while parts:
            name, dtype, shape = parts.pop(0)
            ranks = [len(part[2]) for part in parts if part[2] is not None]
            if dtype == tf.int64 and shape is not None and len(shape) == 2 and ranks[:2] == [1, 1]:
                sparse.append(SparseInput(name, parts[0][0], parts[1][0]))
                del parts[:2]
                continue
            splits = []
            while parts and parts[0][1] in (tf.int32, tf.int64) and parts[0][2] is not None and len(parts[0][2]) == 1:
                splits.append(parts.pop(0)[0])
            if splits:
                ragged.append(RaggedInput(name, tuple(splits)))
    return CompositeSpecs(tuple(sparse), tuple(ragged))


def _composite_specs(signature: Any, ports: Sequence[str]) -> CompositeSpecs:
    """The sparse and ragged tensors in a signature, whose flattened parts are inputs of these names."""
    tf = require("tensorflow")
    sparse: list[SparseInput] = []
    ragged: list[RaggedInput] = []
    position = 0
    for spec in tf.nest.flatten(signature):
        leaves = tf.nest.flatten(spec, expand_composites=True)
        parts = ports[position : position + sum(isinstance(leaf, tf.TensorSpec) for leaf in leaves)]
        position += len(parts)
        if isinstance(spec, tf.SparseTensorSpec) and len(parts) == 3:
            indices, values, dense_shape = parts
            shape = None if spec.shape.rank is None else tuple(spec.shape.as_list())
            sparse.append(SparseInput(indices, values, dense_shape, shape))
        elif isinstance(spec, tf.RaggedTensorSpec) and len(parts) > 1:
            ragged.append(RaggedInput(parts[0], tuple(parts[1:])))
    return CompositeSpecs(tuple(sparse), tuple(ragged))


def _output_names(structure: Any, prefix: str = "") -> list[str]:
    """The names of the flattened outputs: dictionary keys, or positions as a SavedModel counts them."""
    tf = require("tensorflow")
    if structure is None:
        return []
    if isinstance(structure, Mapping):
        items = [(str(key), structure[key]) for key in sorted(structure)]
    elif isinstance(structure, (tuple, list)):
        keys = getattr(structure, "_fields", None) or [
            f"{'' if prefix else 'output_'}{k}" for k in range(len(structure))
        ]
        items = list(zip(keys, structure, strict=True))
    else:
        name = prefix or "output_0"
        if isinstance(structure, (tf.SparseTensor, tf.SparseTensorSpec)):
            return [f"{name}_{part}" for part in ("indices", "values", "dense_shape")]
        count = len(tf.nest.flatten(structure, expand_composites=True))
        return [name] if count == 1 else [f"{name}_{k}" for k in range(count)]
    return [name for key, value in items for name in _output_names(value, f"{prefix}_{key}" if prefix else key)]
