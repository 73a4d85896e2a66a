"""An ONNX file that is fused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from onnx import ModelProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from faults.operations import Array, Body, Specs
from onnx_sparse.schemas.element_types import element_type


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
