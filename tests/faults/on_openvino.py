"""An IR, run by OpenVINO's plugin."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from onnx import ModelProto

from faults.operations import Array, Body, Named, Numpy, Specs, named


class OpenVino(Named):
    """An IR, run by OpenVINO's plugin."""

    without: ClassVar[frozenset[str]] = frozenset(("places of NaN", "strings", "unique", "backward slice from before"))
    propagates_nan = False
    names: ClassVar[Mapping[str, str]] = named("divide maximum minimum sign relu", clip="clamp")

    def __init__(self) -> None:
        import openvino
        import openvino.opset15 as operators

        self.openvino, self.o = openvino, operators
        self.library = operators

    def constant(self, array: Array) -> Any:
        return self.o.constant(np.asarray(array))

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
