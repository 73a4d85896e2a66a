"""How handlers write ONNX nodes: standard operators, and the domain's in canonical form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.operator_types import bound_types, domain_shapes, result_type
from onnx_sparse.converters.tensor import Array, Shape, Tensor
from onnx_sparse.converters.writing.kernel_types import computed_in, operands
from onnx_sparse.schemas import DOMAIN, OPS
from onnx_sparse.schemas.declaration import FLOATS, DType, dtype_name, element_type, numpy_dtype

#: Operators whose results depend on the order of numbers.
_EXTREMES = ("ReduceMax", "ReduceMin", "ArgMax", "ArgMin")

#: The most elements of a constant whose value is still known after a Cast.
_SMALL = 4096


class Emitter(ABC):
    """Writes nodes to the graph under construction, which a subclass knows.

    Attributes:
        opset: The default opset of the model.
    """

    opset: ClassVar[int] = 18

    @abstractmethod
    def node(
        self,
        op_type: str,
        inputs: Sequence[Tensor | None],
        dtypes: Sequence[DType],
        shapes: Sequence[Shape | None] = (),
        *,
        domain: str = "",
        **attributes: Any,
    ) -> tuple[Tensor, ...]:
        """Add a node as it is.

        Args:
            op_type: The operator.
            inputs: Its inputs; None is one that is omitted.
            dtypes: The element types of its results.
            shapes: Their shapes; all unknown when omitted.
            domain: Its domain.
            attributes: Its attributes; None is one that is omitted.

        Returns:
            One tensor per element type.
        """

    @staticmethod
    def _results(names: Iterable[str], dtypes: Sequence[DType], shapes: Sequence[Shape | None]) -> tuple[Tensor, ...]:
        """The results of a node."""
        known = shapes or [None] * len(dtypes)
        return tuple(Tensor(*result) for result in zip(names, dtypes, known, strict=True))

    @abstractmethod
    def _add_constant(self, array: Array, dtype: DType, name: str) -> str:
        """Add a constant under this or, if it is empty, a new name; returns its name."""

    def constant(self, value: Any, dtype: DType | None = None, name: str = "") -> Tensor:
        """A constant: by default of an array's own element type, or int64 for integers and lists of integers.

        Raises:
            Unsupported: It is a number where the element type is that of strings, or beyond the integers of the type.
        """
        if dtype is None:
            dtype = element_type(value.dtype) if isinstance(value, np.ndarray) else int(TensorProto.INT64)
        if dtype == TensorProto.STRING and np.asarray(value).dtype.kind not in "OSU":
            raise Unsupported("it computes with strings")
        try:
            array = np.asanyarray(value).astype(numpy_dtype(dtype), copy=False)  # a mapped file stays one
        except OverflowError:
            raise Unsupported(f"a number is too large for {dtype_name(dtype)}") from None
        return Tensor(self._add_constant(array, dtype, name), dtype, array.shape, array)

    def op(
        self, op_type: str, *inputs: Tensor | None, dtype: DType | None = None, shape: Shape | None = None, **attrs: Any
    ) -> Tensor:
        """Add a standard node with one result, by default of the element type that the operator's schema says.

        If ONNX Runtime has no kernel for the element type of the operands, these go through a wider one.
        """
        span = operands(op_type)
        if not any(t is not None for t in inputs[span]):
            raise Unsupported(f"it has no inputs for {op_type}")
        if dtype is None:
            dtype = result_type(op_type, self.opset, [None if t is None else t.dtype for t in inputs], attrs)
        first = next(t for t in inputs[span] if t is not None).dtype
        wide = computed_in(op_type, first)
        if wide == first:
            return self.node(op_type, inputs, [dtype], [shape], **attrs)[0]
        if op_type == "Relu" and first not in FLOATS:  # floats do not hold all integers
            (x,) = (t for t in inputs if t is not None)
            return self.extreme("Max", x, self.like(0, x), shape)
        if op_type in _EXTREMES and first == TensorProto.UINT64:
            return self._extreme_of_uint64(op_type, inputs, shape, attrs)
        given = list(inputs)
        given[span] = [self.cast(t, wide) if t is not None and t.dtype == first else t for t in inputs[span]]
        made = result_type(op_type, self.opset, [None if t is None else t.dtype for t in given], attrs)
        return self.narrowed(op_type, self.node(op_type, given, [made], [shape], **attrs)[0], dtype)

    def _extreme_of_uint64(
        self, op_type: str, inputs: Sequence[Tensor | None], shape: Shape | None, attrs: Mapping[str, Any]
    ) -> Tensor:
        """The extreme of uint64, or its place, in the order of int64, which begins with the upper half."""
        data, *axes = inputs
        assert data is not None
        half = self.constant(np.iinfo(np.int64).min)
        flipped = self.op("BitwiseXor", self.cast(data, TensorProto.INT64), half, shape=data.shape)
        extreme = self.op(op_type, flipped, *axes, shape=shape, **attrs)
        if op_type.startswith("Arg"):
            return extreme
        return self.cast(self.op("BitwiseXor", extreme, half, shape=shape), TensorProto.UINT64)

    def narrowed(self, op_type: str, tensor: Tensor, dtype: DType) -> Tensor:
        """What an operator computed in a wider type, in its own: a float as an integer is cut off."""
        return self.cast(tensor, dtype)

    def extreme(self, op_type: str, one: Tensor, other: Tensor, shape: Shape | None = None) -> Tensor:
        """Max or Min of two tensors of one element type.

        ONNX Runtime compares the lower halves of int64s with equal upper halves as if they were signed; its comparisons
        are right.
        """
        if one.dtype != TensorProto.INT64:
            return self.op(op_type, one, other, shape=shape)
        is_first = self.op("GreaterOrEqual" if op_type == "Max" else "LessOrEqual", one, other)
        return self.op("Where", is_first, one, other, shape=shape)

    def cast(self, tensor: Tensor, dtype: DType) -> Tensor:
        """Cast a tensor; it is returned as it is if it has that element type."""
        value = tensor.value
        if tensor.dtype == dtype:
            return tensor
        if value is not None and value.size <= _SMALL and TensorProto.STRING not in (dtype, tensor.dtype):
            with np.errstate(all="ignore"):
                return self.constant(value.astype(numpy_dtype(dtype)), dtype)
        return self.node("Cast", [tensor], [dtype], [tensor.shape], to=dtype)[0]

    def like(self, value: float, tensor: Tensor) -> Tensor:
        """A scalar of a tensor's element type."""
        return self.constant(value, tensor.dtype)

    def scalar(self, tensor: Tensor) -> Tensor:
        """A tensor of one element as a scalar."""
        if tensor.shape == ():
            return tensor
        if tensor.value is None:
            return self.op("Reshape", tensor, self.constant([]), shape=())
        if tensor.value.size != 1:
            raise Unsupported(f"{tensor} is not one number")
        return self.constant(tensor.value.reshape(()), tensor.dtype)

    def shape_of(self, tensor: Tensor) -> Tensor:
        """The shape of a tensor, as int64."""
        return self.op("Shape", tensor, shape=None if tensor.shape is None else (len(tensor.shape),))

    def size(self, tensor: Tensor, axis: int) -> Tensor:
        """The size of one dimension, as a vector of one element."""
        return self.op("Gather", self.shape_of(tensor), self.constant([axis]), shape=(1,))

    def domain_op(
        self, op_type: str, inputs: Mapping[str, Tensor | None], attributes: Mapping[str, str] | None = None
    ) -> tuple[Tensor, ...]:
        """Add a node of the domain in canonical form: every attribute, input and output is written.

        Args:
            op_type: The operator.
            inputs: Its inputs by name; an optional input that is None or omitted gets its sentinel.
            attributes: Values of attributes; others get their defaults.

        Raises:
            Unsupported: The operator does not take an input's element type, rank or size.
        """
        op = OPS[op_type]
        given = {name: tensor for name, tensor in inputs.items() if tensor is not None}
        types = bound_types(op, {name: tensor.dtype for name, tensor in given.items()})
        arguments = []
        for declared in op.inputs:
            dtype = types.get(declared.type, TensorProto.INT64)
            arguments.append(given.get(declared.name) or self.constant(declared.sentinel_array(dtype), dtype))
        dtypes = [op.bind(output.type, types) for output in op.outputs]
        written = op.with_defaults(attributes or {})
        return self.node(op_type, arguments, dtypes, domain_shapes(op, given, written), domain=DOMAIN, **written)
