"""The roads by which patterns with known faults of ONNX Runtime come; each writes the same operations in its way."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from onnx import ModelProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from onnx_sparse.schemas.declaration import element_type

Array = np.ndarray[Any, Any]
#: The inputs of a pattern: their element types and ranks.
Specs = Sequence[tuple[str, int]]
#: Computes the outputs of a pattern with a road's operations.
Body = Callable[..., Sequence[Any]]


class Numpy:
    """The answers of integer operations, which OpenVINO's plugin computes in 32 bits or as floats."""

    def divide(self, x: Array, y: Array) -> Array:
        return np.floor_divide(x, y)

    def maximum(self, x: Array, y: Array) -> Array:
        return np.maximum(x, y)

    def minimum(self, x: Array, y: Array) -> Array:
        return np.minimum(x, y)

    def sign(self, x: Array) -> Array:
        return np.sign(x)

    def relu(self, x: Array) -> Array:
        return np.maximum(x, 0)

    def clip(self, x: Array, low: int, high: int) -> Array:
        return np.clip(x, low, high)

    def reduce(self, kind: str, x: Array, axis: int, keep: bool) -> Array:
        options = {"dtype": x.dtype} if kind in ("sum", "prod") else {}
        return np.asarray(getattr(np, kind)(x, axis=axis, keepdims=keep, **options))

    def one_hot(self, ids: Array, depth: Array) -> Array:
        return (ids[:, None] == np.arange(depth)).astype(np.float32)

    def run(self, body: Body, inputs: Sequence[Array]) -> list[Array]:
        with np.errstate(all="ignore"):
            return [*body(self, *inputs)]


class Torch:
    """torch.export and torch's exporter."""

    #: Faults that it does not share, or has no operation for.
    without: ClassVar[frozenset[str]] = frozenset(
        ("one hot", "parts", "unique", "strings", "backward slice", "backward slice from before")
    )
    propagates_nan = True

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self._layers: dict[Any, Any] = {}

    def constant(self, array: Array) -> Any:
        return self.torch.from_numpy(np.asarray(array))

    def divide(self, x: Any, y: Any) -> Any:
        return self.torch.div(x, y, rounding_mode="floor")

    def maximum(self, x: Any, y: Any) -> Any:
        return self.torch.maximum(x, y)

    def minimum(self, x: Any, y: Any) -> Any:
        return self.torch.minimum(x, y)

    def sign(self, x: Any) -> Any:
        return self.torch.sign(x)

    def relu(self, x: Any) -> Any:
        return self.torch.relu(x)

    def clip(self, x: Any, low: int, high: int) -> Any:
        return self.torch.clamp(x, low, high)

    def reduce(self, kind: str, x: Any, axis: int, keep: bool) -> Any:
        if kind in ("max", "min"):
            return getattr(self.torch, f"a{kind}")(x, axis, keepdim=keep)
        options = {} if kind == "mean" else {"dtype": x.dtype}
        return getattr(self.torch, kind)(x, axis, keepdim=keep, **options)

    def place(self, kind: str, x: Any, axis: int) -> Any:
        return getattr(self.torch, f"arg{kind}")(x, axis)

    def transpose(self, x: Any, order: Sequence[int]) -> Any:
        return x.permute(*order)

    def matmul(self, x: Any, y: Any) -> Any:
        return x @ y

    def einsum(self, equation: str, *operands: Any) -> Any:
        return self.torch.einsum(equation, *operands)

    def flatten(self, x: Any, start: int) -> Any:
        return self.torch.flatten(x, start)

    def split(self, x: Any, count: int, axis: int) -> Sequence[Any]:
        return self.torch.split(x, x.shape[axis] // count, axis) if x.shape[axis] else (x,) * count

    def reverse(self, x: Any) -> Any:
        return x[self.torch.arange(x.shape[0] - 1, -1, -1)]

    def places(self, x: Any) -> Any:
        return self.torch.nonzero(x)

    def scatter_add(self, x: Any, ids: Any, updates: Any) -> Any:
        return self.torch.index_put(x, (ids,), updates, accumulate=True)

    def distinct(self, x: Any) -> Sequence[Any]:
        return self.torch.unique(x, return_inverse=True, return_counts=True)

    def grid_sample(self, x: Any, places: Any, mode: str, padding: str, aligned: bool) -> Any:
        return self.torch.nn.functional.grid_sample(x, places, mode, padding, aligned)

    def log_sigmoid(self, x: Any) -> Any:
        return self.torch.log(self.torch.sigmoid(x))

    def recurrent(self, kind: str, x: Any, weights: Sequence[Array], *, both: bool) -> Any:
        key = (kind, both, weights[0].tobytes())
        if key not in self._layers:
            torch = self.torch
            layer = getattr(torch.nn, kind)(weights[0].shape[-1], weights[1].shape[-1], bidirectional=both)
            values = dict(zip(("weight_ih", "weight_hh"), weights, strict=True))
            with torch.no_grad():
                for name, parameter in layer.named_parameters():
                    given = values.get(name.split("_l0")[0])
                    parameter.copy_(torch.zeros(()) if given is None else torch.from_numpy(given))
            self._layers[key] = layer.eval()
        return self._layers[key](x)[0]

    def run(self, body: Body, inputs: Sequence[Array]) -> list[Array]:
        with self.torch.no_grad():
            return [t.numpy() for t in body(self, *map(self.torch.from_numpy, inputs))]

    def convert(
        self, bodies: Sequence[Body], specs: Sequence[Specs], examples: Sequence[Sequence[Array]]
    ) -> ModelProto:
        from onnx_sparse.converters.torch import export

        torch, road = self.torch, self
        counts = [len(spec) for spec in specs]

        for body, example in zip(bodies, examples, strict=True):
            self.run(body, example)  # so that its layers are there

        class Module(torch.nn.Module):  # type: ignore[name-defined,misc]
            def __init__(self) -> None:
                super().__init__()
                self.layers = torch.nn.ModuleList(road._layers.values())

            def forward(self, *flat: Any) -> tuple[Any, ...]:
                results: list[Any] = []
                for body, start, count in zip(bodies, np.cumsum([0, *counts]), counts, strict=False):
                    results += body(road, *flat[start : start + count])
                return tuple(results)

        flat = tuple(torch.from_numpy(array) for example in examples for array in example)
        auto = torch.export.Dim.AUTO
        shapes = tuple(dict.fromkeys(range(t.dim()), auto) for t in flat)
        return export(Module(), flat, dynamic_shapes=(shapes,))


class TensorFlow:
    """A tf.function."""

    without: ClassVar[frozenset[str]] = frozenset(("recurrent", "places of NaN", "far places"))
    propagates_nan = True

    def __init__(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow as tf

        self.tf = tf

    def constant(self, array: Array) -> Any:
        return self.tf.constant(array)

    def divide(self, x: Any, y: Any) -> Any:
        return x // y

    def maximum(self, x: Any, y: Any) -> Any:
        return self.tf.maximum(x, y)

    def minimum(self, x: Any, y: Any) -> Any:
        return self.tf.minimum(x, y)

    def sign(self, x: Any) -> Any:
        return self.tf.sign(x)

    def relu(self, x: Any) -> Any:
        return self.tf.nn.relu(x)

    def clip(self, x: Any, low: int, high: int) -> Any:
        return self.tf.clip_by_value(x, low, high)

    def reduce(self, kind: str, x: Any, axis: int, keep: bool) -> Any:
        return getattr(self.tf, f"reduce_{kind}")(x, axis, keepdims=keep)

    def transpose(self, x: Any, order: Sequence[int]) -> Any:
        return self.tf.transpose(x, order)

    def matmul(self, x: Any, y: Any) -> Any:
        return self.tf.matmul(x, y)

    def einsum(self, equation: str, *operands: Any) -> Any:
        return self.tf.einsum(equation, *operands)

    def flatten(self, x: Any, start: int) -> Any:
        shape = self.tf.shape(x)
        return self.tf.reshape(x, self.tf.concat([shape[:start], [self.tf.reduce_prod(shape[start:])]], 0))

    def split(self, x: Any, count: int, axis: int) -> Sequence[Any]:
        return self.tf.split(x, count, axis)

    def reverse(self, x: Any) -> Any:
        return self.tf.gather(x, self.tf.range(self.tf.shape(x)[0] - 1, -1, -1))

    def places(self, x: Any) -> Any:
        return self.tf.where(x)

    def scatter_add(self, x: Any, ids: Any, updates: Any) -> Any:
        return self.tf.tensor_scatter_nd_add(x, ids[:, None], updates)

    def one_hot(self, ids: Any, depth: Any) -> Any:
        return self.tf.one_hot(ids, self.tf.cast(depth, self.tf.int32))

    def unique(self, x: Any) -> Any:
        return self.tf.raw_ops.UniqueV2(x=x, axis=[0])[0]

    def distinct(self, x: Any) -> Sequence[Any]:
        return self.tf.unique_with_counts(x)

    def slice(self, x: Any, start: Any, end: Any, step: int) -> Any:
        return self.tf.strided_slice(x, start, end, self.tf.constant([step], self.tf.int64))

    def log_sigmoid(self, x: Any) -> Any:
        return self.tf.math.log(self.tf.sigmoid(x))

    def words(self, x: Any, ids: Any) -> Any:
        return self.tf.gather(self.tf.strings.as_string(x), ids)

    def run(self, body: Body, inputs: Sequence[Array]) -> list[Array]:
        return [np.asarray(t.numpy()) for t in body(self, *map(self.tf.constant, inputs))]

    def convert(
        self, bodies: Sequence[Body], specs: Sequence[Specs], examples: Sequence[Sequence[Array]]
    ) -> ModelProto:
        from onnx_sparse.converters.tensorflow import convert

        tf = self.tf
        counts = [len(spec) for spec in specs]

        def call(*flat: Any) -> dict[str, Any]:
            results: list[Any] = []
            for body, start, count in zip(bodies, np.cumsum([0, *counts]), counts, strict=False):
                results += body(self, *flat[start : start + count])
            return {f"y{k:03}": result for k, result in enumerate(results)}

        signature = [
            tf.TensorSpec([None] * rank, dtype, f"x{k}")
            for k, (dtype, rank) in enumerate(item for spec in specs for item in spec)
        ]
        return convert(tf.function(call, input_signature=signature, autograph=False))


class OpenVino:
    """An IR, run by OpenVINO's plugin."""

    without: ClassVar[frozenset[str]] = frozenset(("places of NaN", "strings", "unique", "backward slice from before"))
    propagates_nan = False

    def __init__(self) -> None:
        import openvino
        import openvino.opset15 as operators

        self.openvino, self.o = openvino, operators

    def constant(self, array: Array) -> Any:
        return self.o.constant(np.asarray(array))

    def divide(self, x: Any, y: Any) -> Any:
        return self.o.divide(x, y)

    def maximum(self, x: Any, y: Any) -> Any:
        return self.o.maximum(x, y)

    def minimum(self, x: Any, y: Any) -> Any:
        return self.o.minimum(x, y)

    def sign(self, x: Any) -> Any:
        return self.o.sign(x)

    def relu(self, x: Any) -> Any:
        return self.o.relu(x)

    def clip(self, x: Any, low: int, high: int) -> Any:
        return self.o.clamp(x, low, high)

    def reduce(self, kind: str, x: Any, axis: int, keep: bool) -> Any:
        return getattr(self.o, f"reduce_{kind}")(x, self._axis(axis), keep)

    def transpose(self, x: Any, order: Sequence[int]) -> Any:
        return self.o.transpose(x, self.constant(np.array(order)))

    def matmul(self, x: Any, y: Any) -> Any:
        return self.o.matmul(x, y, False, False)

    def einsum(self, equation: str, *operands: Any) -> Any:
        return self.o.einsum([*operands], equation)

    def flatten(self, x: Any, start: int) -> Any:
        rank = len(x.get_output_partial_shape(0))
        shape = self.o.shape_of(x)
        first = self.o.gather(shape, self.constant(np.arange(start)), self._axis(0))
        last = self.o.gather(shape, self.constant(np.arange(start, rank)), self._axis(0))
        sizes = self.o.concat([first, self.o.reduce_prod(last, self._axis(0), True)], 0)
        return self.o.reshape(x, sizes, False)

    def split(self, x: Any, count: int, axis: int) -> Sequence[Any]:
        made = self.o.split(x, self.constant(np.array(axis)), count)
        return [self.o.add(made.output(k), self.constant(np.zeros((), np.float32))) for k in range(count)]

    def reverse(self, x: Any) -> Any:
        size = self.o.squeeze(self.o.gather(self.o.shape_of(x), self._axis(0), self._axis(0)), self._axis(0))
        minus = self.constant(np.array(-1))
        return self.o.gather(x, self.o.range(self.o.add(size, minus), minus, minus, "i64"), self._axis(0))

    def places(self, x: Any) -> Any:
        return self.o.transpose(self.o.non_zero(x), self.constant(np.array([1, 0])))

    def scatter_add(self, x: Any, ids: Any, updates: Any) -> Any:
        return self.o.scatter_nd_update(x, self.o.unsqueeze(ids, self._axis(1)), updates, "sum")

    def distinct(self, x: Any) -> Sequence[Any]:
        return self.o.unique(x, None, False, "i64", "i64").outputs()

    def slice(self, x: Any, start: Any, end: Any, step: int) -> Any:
        return self.o.slice(x, start, end, self.constant(np.array([step])), self._axis(0))

    def grid_sample(self, x: Any, places: Any, mode: str, padding: str, aligned: bool) -> Any:
        return self.o.grid_sample(x, places, {"align_corners": aligned, "mode": mode, "padding_mode": padding})

    def log_sigmoid(self, x: Any) -> Any:
        return self.o.log(self.o.sigmoid(x))

    def one_hot(self, ids: Any, depth: Any) -> Any:
        on, off = (self.constant(np.array(number, np.float32)) for number in (1, 0))
        return self.o.one_hot(ids, depth, on, off, -1)

    def recurrent(self, kind: str, x: Any, weights: Sequence[Array], *, both: bool) -> Any:
        ways = 2 if both else 1
        gates, units = weights[0].shape[0] // weights[1].shape[-1], weights[1].shape[-1]
        first = self.o.transpose(x, self.constant(np.array([1, 0, 2])))
        rows = self.o.gather(self.o.shape_of(first), self._axis(0), self._axis(0))
        steps = self.o.gather(self.o.shape_of(first), self._axis(1), self._axis(0))
        zero = self.constant(np.zeros((), np.float32))
        sizes = self.o.concat([rows, self.constant(np.array([ways, units]))], 0)
        state = self.o.broadcast(zero, sizes)
        counts = self.o.broadcast(self.o.convert(steps, "i32"), rows)
        values = [np.stack([w] * ways) for w in (*weights, np.zeros(gates * units, np.float32))]
        held = [self.constant(value.astype(np.float32)) for value in values]
        way = "bidirectional" if both else "forward"
        layer = {"LSTM": "lstm_sequence", "GRU": "gru_sequence", "RNN": "rnn_sequence"}[kind]
        states = [state, state] if kind == "LSTM" else [state]
        return self.o.add(getattr(self.o, layer)(first, *states, counts, *held, units, way).output(0), zero)

    def _axis(self, axis: int) -> Any:
        return self.constant(np.array([axis]))

    def run(self, body: Body, inputs: Sequence[Array]) -> list[Array]:
        if all(array.dtype.kind in "iu" for array in inputs):
            return Numpy().run(body, inputs)
        specs = [(array.dtype.name, array.ndim) for array in inputs]
        options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
        compiled = self.openvino.Core().compile_model(self._model([body], [specs]), "CPU", options)
        return [np.array(value) for value in compiled([*inputs]).values()]

    def _model(self, bodies: Sequence[Body], specs: Sequence[Specs]) -> Any:
        parameters, results = [], []
        for body, spec in zip(bodies, specs, strict=True):
            given = [self.o.parameter([-1] * rank, np.dtype(dtype)) for dtype, rank in spec]
            parameters += given
            results += body(self, *given)
        for k, parameter in enumerate(parameters):
            parameter.output(0).get_tensor().set_names({f"x{k}"})
        return self.openvino.Model(results, parameters, "patterns")

    def convert(
        self, bodies: Sequence[Body], specs: Sequence[Specs], examples: Sequence[Sequence[Array]]
    ) -> ModelProto:
        from onnx_sparse.converters.openvino import convert

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "patterns.xml"
            self.openvino.save_model(self._model(bodies, specs), path, compress_to_fp16=False)
            return convert(path)


class Onnx:
    """An ONNX file that is fused; onnx's own evaluator runs it."""

    without: ClassVar[frozenset[str]] = frozenset(
        ("recurrent", "mean", "places in a scalar", "far places", "backward slice from before")
    )
    propagates_nan = False

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def _node(self, op_type: str, *inputs: str, count: int = 1, **attributes: Any) -> Any:
        names = [f"t{len(self._nodes)}_{k}" for k in range(count)]
        self._nodes.append(helper.make_node(op_type, [*inputs], names, **attributes))
        return names if count > 1 else names[0]

    def constant(self, array: Any) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def divide(self, x: str, y: str) -> str:
        return self._node("Div", x, y)

    def maximum(self, x: str, y: str) -> str:
        return self._node("Max", x, y)

    def minimum(self, x: str, y: str) -> str:
        return self._node("Min", x, y)

    def sign(self, x: str) -> str:
        return self._node("Sign", x)

    def relu(self, x: str) -> str:
        return self._node("Max", x, self.constant(np.int64(0)))

    def clip(self, x: str, low: int, high: int) -> str:
        return self._node("Clip", x, *(self.constant(np.int64(end)) for end in (low, high)))

    def reduce(self, kind: str, x: str, axis: int, keep: bool) -> str:
        return self._node(f"Reduce{kind.capitalize()}", x, self.constant(np.array([axis])), keepdims=int(keep))

    def place(self, kind: str, x: str, axis: int) -> str:
        return self._node(f"Arg{kind.capitalize()}", x, axis=axis, keepdims=0)

    def transpose(self, x: str, order: Sequence[int]) -> str:
        return self._node("Transpose", x, perm=[*order])

    def matmul(self, x: str, y: str) -> str:
        return self._node("MatMul", x, y)

    def einsum(self, equation: str, *operands: str) -> str:
        return self._node("Einsum", *operands, equation=equation)

    def flatten(self, x: str, start: int) -> str:
        sizes = self._node("Slice", self._node("Shape", x), *(self.constant(np.array([k])) for k in (0, start)))
        rest = self._node("Slice", self._node("Shape", x), *(self.constant(np.array([k])) for k in (start, 9)))
        product = self._node("ReduceProd", rest, keepdims=1)
        return self._node("Reshape", x, self._node("Concat", sizes, product, axis=0), allowzero=1)

    def split(self, x: str, count: int, axis: int) -> Sequence[str]:
        return self._node("Split", x, count=count, axis=axis, num_outputs=count)

    def reverse(self, x: str) -> str:
        size = self._node("Squeeze", self._node("Shape", x, start=0, end=1))
        minus = self.constant(np.int64(-1))
        return self._node("Gather", x, self._node("Range", self._node("Add", size, minus), minus, minus))

    def places(self, x: str) -> str:
        return self._node("Transpose", self._node("NonZero", x), perm=[1, 0])

    def scatter_add(self, x: str, ids: str, updates: str) -> str:
        places = self._node("Unsqueeze", ids, self.constant(np.array([1])))
        return self._node("ScatterND", x, places, updates, reduction="add")

    def one_hot(self, ids: str, depth: str) -> str:
        return self._node("OneHot", ids, depth, self.constant(np.array([0, 1], np.float32)))

    def unique(self, x: str) -> str:
        return self._node("Unique", x, axis=0)

    def distinct(self, x: str) -> Sequence[str]:
        return self._node("Unique", x, count=4)

    def slice(self, x: str, start: str, end: str, step: int) -> str:
        return self._node("Slice", x, start, end, *(self.constant(np.array([n])) for n in (0, step)))

    def log_sigmoid(self, x: str) -> str:
        return self._node("Log", self._node("Sigmoid", x))

    def words(self, x: str, ids: str) -> str:
        return self._node("Gather", self._node("Cast", x, to=8), ids)

    def _model(self, bodies: Sequence[Body], specs: Sequence[Specs], examples: Sequence[Sequence[Array]]) -> ModelProto:
        self.__init__()  # type: ignore[misc]
        inputs, outputs, position = [], [], 0
        for body, spec in zip(bodies, specs, strict=True):
            names = [f"x{position + k}" for k in range(len(spec))]
            position += len(spec)
            inputs += [
                helper.make_tensor_value_info(name, element_type(np.dtype(dtype)), [None] * rank)
                for name, (dtype, rank) in zip(names, spec, strict=True)
            ]
            outputs += body(self, *names)
        graph = helper.make_graph(self._nodes, "patterns", inputs, [], self._constants)
        graph.output.extend(helper.make_value_info(name, helper.make_tensor_type_proto(0, None)) for name in outputs)
        for value in graph.output:
            value.ClearField("type")
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
        import onnx

        return onnx.shape_inference.infer_shapes(model)

    def run(self, body: Body, inputs: Sequence[Array]) -> list[Array]:
        specs = [(array.dtype.name, array.ndim) for array in inputs]
        model = self._model([body], [specs], [inputs])
        feeds = {f"x{k}": array for k, array in enumerate(inputs)}
        return [np.asarray(value) for value in ReferenceEvaluator(model).run(None, feeds)]

    def convert(
        self, bodies: Sequence[Body], specs: Sequence[Specs], examples: Sequence[Sequence[Array]]
    ) -> ModelProto:
        import onnx_sparse

        return onnx_sparse.fuse(self._model(bodies, specs, examples))


ROADS = {"tensorflow": TensorFlow, "torch": Torch, "openvino": OpenVino, "onnx": Onnx}
