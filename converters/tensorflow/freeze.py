"""A traced function as a GraphDef: variables become constants, captured tables are read, large tables set aside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from onnx_sparse.converters.tensorflow.derived_tables import derive_tables
from onnx_sparse.converters.tensorflow.explanation import Derivation
from onnx_sparse.converters.tensorflow.large_tables import is_large, set_aside, with_rows
from onnx_sparse.converters.tensorflow.late_variables import LateVariables
from onnx_sparse.converters.tensorflow.lazy_imports import require
from onnx_sparse.converters.tensorflow.loops_of_tensorflow_1 import with_functions
from onnx_sparse.converters.writing.tensor import Array

#: The attributes of functions, and of their calls, by which Grappler does not inline them.
_KEEP_FUNCTIONS = ("_XlaMustCompile", "_noinline", "_xla_compile_id")


def freeze_function(
    trackable: Any, concrete: Any, inputs: Sequence[str], outputs: Sequence[str], late: LateVariables
) -> tuple[Any, dict[bytes, tuple[Array, Array]], dict[str, Array], Derivation]:
    """Freeze a ConcreteFunction.

    Args:
        trackable: The object that holds its lookup tables.
        concrete: The function; it is left as it was.
        inputs, outputs: Its tensors.
        late: The variables whose values are not in memory.

    Returns:
        The graph; the keys and values of its lookup tables by shared name; large embedding tables by the placeholder
        that stands in for them; the outcome of the rules for tables.
    """
    tf, loader = require("tensorflow"), require("tf2onnx.tf_loader")
    tables: dict[str, Array] = {}
    derivations: list[Derivation] = []

    def freeze(function: Any, input_names: list[str], output_names: list[str], large_model: bool) -> Any:
        graph_def, values = _without_variables(function, late)
        derivations.append(derive_tables(graph_def, values, output_names))
        found = set_aside(graph_def, values, output_names)
        tables.update(found)
        graph_def = loader.fix_freezing_errors_part2(loader.fix_freezing_errors(graph_def))
        with tf.Graph().as_default():  # Grappler's export is refused in eager mode, though it does not use this graph
            fetches = [*input_names, *(f"{name}:0" for name in found)]
            graph_def = with_functions(graph_def, [*fetches, *output_names])
            return with_rows(loader.tf_optimize(fetches, output_names, graph_def), found)

    with (
        tf.device("/cpu:0"),
        _captures_restored(concrete),
        _without_table_initializers(concrete),
        mock.patch.object(loader, "from_function", freeze),
    ):
        graph_def, lookup_tables = loader.from_trackable(trackable, concrete, list(inputs), list(outputs), False)
    return graph_def, lookup_tables, tables, derivations[0]


def _without_variables(concrete: Any, late: LateVariables) -> tuple[Any, dict[str, Array]]:
    """The function's graph with constants for its variables, and the values of those whose contents are not in it.

    TensorFlow's own converter gets large variables without their contents, so that it has nothing to copy.
    """
    converter = require("tensorflow.python.framework.convert_to_constants")
    tensor_util = require("tensorflow.python.framework.tensor_util")
    make_tensor_proto = tensor_util.make_tensor_proto
    full: dict[int, Array] = {}

    captured_values: Any = converter._FunctionConverterDataInEager

    class LightVariables(captured_values):  # type: ignore[misc]  # TensorFlow has no types
        def _eval(self, tensor: Any) -> Any:
            if not hasattr(tensor, "handle"):
                return tensor.numpy()
            value = np.asarray(tensor.read_value())  # shares TensorFlow's memory; numpy() would copy
            stored = late.value(value)
            value = value if stored is None else stored
            if not is_large(value):
                return value
            hollow = np.broadcast_to(np.zeros((), value.dtype), value.shape)
            full[id(hollow)] = value
            return hollow

    def make_hollow(values: Any, dtype: Any = None, shape: Any = None, *args: Any, **kwargs: Any) -> Any:
        if id(values) not in full:
            return make_tensor_proto(values, dtype, shape, *args, **kwargs)
        proto = make_tensor_proto(0, dtype)
        proto.ClearField("tensor_shape")
        for size in shape:
            proto.tensor_shape.dim.add(size=size)
        return proto

    without_switches = converter.disable_lower_using_switch_merge
    with (
        mock.patch.object(tensor_util, "make_tensor_proto", make_hollow),
        # The first step before TensorFlow inlines the functions.
        mock.patch.object(
            converter, "disable_lower_using_switch_merge", lambda graph_def: inlinable(without_switches(graph_def))
        ),
    ):
        data = LightVariables(func=concrete, lower_control_flow=False, aggressive_inlining=True)
        graph_def, _ = converter._replace_variables_by_constants(converter_data=data)
    values = {name: full[id(entry.numpy)] for name, entry in data.tensor_data.items() if id(entry.numpy) in full}
    return graph_def, values


def inlinable(graph_def: Any) -> Any:
    """The graph, changed in place, without the attributes that keep Grappler from inlining functions.

    `jit_compile` and `noinline` say how TensorFlow is to run a function; they change nothing in what it computes.
    """
    functions = graph_def.library.function
    for holder in (*graph_def.node, *functions, *(node for function in functions for node in function.node_def)):
        for name in _KEEP_FUNCTIONS:
            holder.attr.pop(name, None)
    return graph_def


@contextmanager
def _without_table_initializers(concrete: Any) -> Iterator[None]:
    """Hide a TensorFlow 1 model's collection of table initializers.

    It names nodes that are no longer in the graph of a signature, which Grappler would refuse for that reason.
    """
    initializers = concrete.graph.get_collection_ref("table_initializer")
    hidden = list(initializers)
    initializers.clear()
    try:
        yield
    finally:
        initializers.extend(hidden)


@contextmanager
def _captures_restored(concrete: Any) -> Iterator[None]:
    """Give a function back the captured tables that tf2onnx removes to freeze it.

    tf2onnx does this itself only in old TensorFlow versions; a function without its captures can no longer be called.
    """
    captures = getattr(concrete.graph, "function_captures", None)
    if captures is None:
        yield
        return
    internal, external = dict(captures.by_val_internal), dict(captures.by_val_external)
    inputs = list(getattr(concrete, "_captured_inputs", ()))
    try:
        yield
    finally:
        # Captures are in the order of the function's last inputs, so the dictionaries are filled from scratch.
        for current, saved in ((captures.by_val_internal, internal), (captures.by_val_external, external)):
            current.clear()
            current.update(saved)
        if hasattr(concrete, "_captured_inputs"):
            concrete._captured_inputs[:] = inputs
