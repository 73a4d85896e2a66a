"""Traced functions as a source: tf.function, ConcreteFunction, Keras models."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.importing.input_shapes import with_shapes, without_shapes
from onnx_sparse.converters.tensorflow.lazy_imports import require
from onnx_sparse.converters.tensorflow.reading.argument_names import Argument, Path, result_names, with_names
from onnx_sparse.converters.tensorflow.reading.ports import Port, distinct, select
from onnx_sparse.converters.tensorflow.reading.specs import composite_specs
from onnx_sparse.converters.tensorflow.source import CapturedVariables, Source, as_array
from onnx_sparse.converters.tensorflow.traced_graph import model_of
from onnx_sparse.converters.verification.sample_inputs import CompositeSpecs, RaggedInput, SparseInput


class FunctionSource(Source):
    """A ConcreteFunction.

    Inputs keep the user's names: those of TensorSpecs. Outputs are named by their keys if the function returns a
    dictionary, else `output_0`, `output_1`, ... as in a SavedModel. ONNX requires all names to differ: an output with
    the name of an input gets the suffix `_1`.

    Args:
        concrete: The ConcreteFunction.
        name: A name for the model.
        inputs, outputs: The chosen inputs and outputs, in order; all when omitted.
        input_names: The names of the inputs, where the function's own say nothing.
        output_names: The names of the outputs, in the order in which the function returns them.
    """

    def __init__(
        self,
        concrete: Any,
        *,
        name: str,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        input_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
    ) -> None:
        self._concrete = concrete
        self._first: CapturedVariables | None = None
        # Captured tensors (variables, tables, constants made outside the function) come last and are not inputs.
        own = concrete.inputs[: len(concrete.inputs) - len(concrete.captured_inputs)]
        given = _ports(distinct(input_names or _input_names(concrete, own)), own)
        specs = _composite_specs(concrete.structured_input_signature, [port.name for port in given])
        arguments = [] if input_names else _arguments(concrete.structured_input_signature, given, own)
        self._all_inputs, specs = with_names(given, specs, arguments)
        names = list(output_names or _output_names(concrete.structured_outputs))
        if len(names) != len(concrete.outputs):
            names = [f"output_{k}" for k in range(len(concrete.outputs))]
        free = distinct(names, (port.name for port in self._all_inputs))
        results = _ports(names, concrete.outputs)
        self._all_outputs = tuple(port.renamed(name) for port, name in zip(results, free, strict=True))
        chosen, shapes = without_shapes(inputs)
        model = model_of(
            concrete,
            name,
            select(self._all_inputs, chosen, "input", subset=False),
            select(self._all_outputs, outputs, "output", subset=True),
        )
        if specs == CompositeSpecs():
            specs = composite_specs(model.graph, None, self._all_inputs)
        self.model = replace(with_shapes(model, shapes), specs=specs)

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Call the function."""
        tf = require("tensorflow")
        values = [tf.constant(feeds[p.name], getattr(tf.dtypes, p.dtype)) for p in self._all_inputs]
        # A call with arguments would need those that are no tensors, too; a trace does not tell what they were.
        results = self._concrete._call_flat(values, self._concrete.captured_inputs)
        results = tf.nest.flatten(results, expand_composites=True)
        by_name = dict(zip((p.name for p in self._all_outputs), results, strict=True))
        return [as_array(by_name[p.name].numpy()) for p in self.outputs]

    def reset(self) -> None:
        """See `Source`."""
        if self._first is None:
            self._first = CapturedVariables(self._concrete)
        self._first.restore()


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


def _arguments(signature: Any, ports: Sequence[Port], tensors: Sequence[Any]) -> list[Argument]:
    """The arguments in a signature, whose flattened parts are these inputs; none if it has other tensors."""
    tf = require("tensorflow")
    kinds = {tf.TensorSpec: "dense", tf.SparseTensorSpec: "sparse", tf.RaggedTensorSpec: "ragged"}
    found: list[Argument] = []
    position = 0
    for path, spec in _leaves(signature):
        count = sum(isinstance(leaf, tf.TensorSpec) for leaf in tf.nest.flatten(spec, expand_composites=True))
        parts = tuple(port.name for port in ports[position : position + count])
        if not count:  # an argument that is no tensor
            continue
        if type(spec) not in kinds or len(parts) < count:
            return []
        kind = kinds[type(spec)] if count > 1 else "dense"
        user = tensors[position].op.get_attr("_user_specified_name").decode("utf-8", "replace")
        found.append(Argument.of(user, path, parts, kind, getattr(spec, "name", None)))
        position += count
    return found if position == len(ports) else []


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """What a structure holds, in TensorFlow's order, with the keys and positions that lead to each."""
    if isinstance(value, Mapping):
        items: Iterable[tuple[Any, Any]] = sorted(value.items())
    elif isinstance(value, (tuple, list)):
        items = zip(getattr(value, "_fields", range(len(value))), value, strict=True)
    else:
        yield path, value
        return
    for key, item in items:
        yield from _leaves(item, (*path, key))


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


def _output_names(structure: Any) -> list[str]:
    """The names of the flattened outputs: dictionary keys, or positions as a SavedModel counts them."""
    tf = require("tensorflow")
    if structure is None:
        return []
    return result_names(
        (
            path,
            isinstance(value, (tf.SparseTensor, tf.SparseTensorSpec)),
            len(tf.nest.flatten(value, expand_composites=True)),
        )
        for path, value in _leaves(structure)
    )
