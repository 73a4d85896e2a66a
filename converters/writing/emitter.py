"""How handlers write ONNX nodes: standard operators, and the domain's in canonical form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.kernels.element_types import (
    attribute_names,
    computed_as_one,
    computed_in,
    input_variable,
    is_mixed,
    output_variable,
)
from onnx_sparse.converters.operator_types import bound_types, domain_shapes, result_type
from onnx_sparse.converters.tensor import Array, Shape, Tensor
from onnx_sparse.models.graphs import Names
from onnx_sparse.schemas import DOMAIN, OPS
from onnx_sparse.schemas.declaration import FLOATS, HALF_FLOATS, DType, dtype_name, element_type, numpy_dtype

#: Operators whose results depend on the order of numbers.
_EXTREMES = ("ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "TopK", "Unique")

#: The first operator set in which a Reshape takes a size of 0 as it is.
_WITH_ALLOWZERO = 14
#: The attributes by which an operator is told the type of its result.
_TYPE_OF_RESULT = ("dtype", "output_datatype")

#: The most elements of a constant whose value is still known after a Cast.
_SMALL = 4096


@dataclass(frozen=True)
class NewNode:
    """A node that an emitter is to add.

    Attributes:
        op_type: The operator.
        inputs: Its inputs; None is one that is omitted.
        dtypes: The element types of its results.
        shapes: Their shapes.
        domain: Its domain.
        attributes: Its attributes, without those that are omitted.
    """

    op_type: str
    inputs: Sequence[Tensor | None]
    dtypes: Sequence[DType]
    shapes: Sequence[Shape | None]
    domain: str
    attributes: dict[str, Any]

    def results(self, names: Iterable[str]) -> tuple[Tensor, ...]:
        """Its results by their names."""
        return tuple(Tensor(*result) for result in zip(names, self.dtypes, self.shapes, strict=True))


def _may_be_empty(axes: Tensor | None = None) -> bool:
    """Whether axes that are given may be none."""
    return axes is not None and (axes.shape is None or axes.shape[0] in (None, 0))


class Emitter(ABC):
    """Writes nodes to the graph under construction, which a subclass knows.

    Attributes:
        opset: The operator set in which nodes are written.
        kernels_of: The operator set of the model, whose kernels run them.
        names: The names of the model, from which new ones differ.
    """

    names: Names
    opset: ClassVar[int] = 18
    kernels_of: int = opset

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
        written = {name: value for name, value in attributes.items() if value is not None}
        return self._add(NewNode(op_type, inputs, dtypes, shapes or [None] * len(dtypes), domain, written))

    @abstractmethod
    def _add(self, new: NewNode) -> tuple[Tensor, ...]:
        """Add a node; returns its results."""

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

        If ONNX Runtime has no kernel for the element types of the operands, these go through wider ones.
        """
        self._check(op_type, inputs)
        if not any(t is not None for t in inputs):
            raise Unsupported(f"it has no inputs for {op_type}")
        if op_type.startswith("Reduce") and _may_be_empty(*inputs[1:]):
            attrs.setdefault("noop_with_empty_axes", 1)  # a list of no axes is not the same as no list: those are all
        if dtype is None:
            dtype = result_type(op_type, self.opset, [None if t is None else t.dtype for t in inputs], attrs)
        if shape is None:
            shape = self._shape_of_result(op_type, inputs)
        return self._known(op_type, inputs, attrs, self.ops(op_type, inputs, [dtype], [shape], **attrs)[0])

    def _check(self, op_type: str, inputs: Sequence[Tensor | None]) -> None:
        """Refuse a standard node that this source does not have; by default, every source has all.

        Raises:
            Unsupported: It does not.
        """
        return None

    def _shape_of_result(self, op_type: str, inputs: Sequence[Tensor | None]) -> Shape | None:
        """The shape of a standard node's result, where it is known without inference."""
        return None

    def _known(self, op_type: str, inputs: Sequence[Tensor | None], attrs: Mapping[str, Any], made: Tensor) -> Tensor:
        """The result of a standard node, with what is known of its value."""
        return made

    def ops(
        self,
        op_type: str,
        inputs: Sequence[Tensor | None],
        dtypes: Sequence[DType],
        shapes: Sequence[Shape | None] = (),
        **attrs: Any,
    ) -> tuple[Tensor, ...]:
        """Add a standard node with any number of results, also where ONNX Runtime computes it in wider types only.

        Args:
            op_type: The operator.
            inputs: Its inputs; None is one that is omitted.
            dtypes: The element types of its results; 0 of those that nothing reads.
            shapes: Their shapes; all unknown when omitted.
            attrs: Its attributes; None is one that is omitted.
        """
        wide = self.wider(op_type, inputs, dtypes)
        if not wide:
            return self.node(op_type, inputs, dtypes, shapes, **attrs)
        first = next((t for t in inputs if t is not None), None)  # random numbers are made of none
        shape = shapes[0] if shapes else None
        if op_type == "Relu" and first is not None and first.dtype not in FLOATS:  # floats do not hold all integers
            return (self.extreme("Max", first, self.like(0, first), shape),)
        if op_type in _EXTREMES and first is not None and first.dtype == TensorProto.UINT64:
            return self._extremes_of_uint64(op_type, inputs, dtypes, shapes, attrs)
        variables = [input_variable(op_type, k, self.kernels_of) for k in range(len(inputs))]
        given = [
            None if t is None else self.cast(t, wide.get(variable, t.dtype))
            for t, variable in zip(inputs, variables, strict=True)
        ]
        made = [wide.get(output_variable(op_type, k, self.kernels_of), dtype) for k, dtype in enumerate(dtypes)]
        if named := next((name for name in _TYPE_OF_RESULT if name in attribute_names(op_type, self.kernels_of)), None):
            attrs[named] = made[0]
        results = self.node(op_type, given, made, shapes, **attrs)
        return tuple(self.narrowed(op_type, t, dtype) if dtype else t for t, dtype in zip(results, dtypes, strict=True))

    def wider(self, op_type: str, inputs: Sequence[Tensor | None], dtypes: Sequence[DType] = ()) -> dict[str, DType]:
        """The types in which an operator is computed, by the type variables whose types have no kernel.

        Args:
            op_type: The operator.
            inputs: Its inputs.
            dtypes: The element types of its results, which attributes may say.
        """
        opset = self.kernels_of
        types = [(output_variable(op_type, k, opset), dtype) for k, dtype in enumerate(dtypes)]
        types += [(input_variable(op_type, k, opset), t.dtype) for k, t in enumerate(inputs) if t is not None]
        bound: dict[str, DType] = {}
        for variable, dtype in types:
            if dtype and variable and bound.setdefault(variable, dtype) != dtype:
                return {}  # which is not valid, and not to be hidden by casts
        mixed = {each for each in bound if len(bound) > 1 and is_mixed(op_type, bound, each, opset)}
        whole = computed_as_one(op_type, {each: bound[each] for each in mixed}, opset)
        wide = {
            variable: (whole if variable in mixed else 0)
            or computed_in(op_type, variable, dtype, opset, mixed=variable in mixed)
            for variable, dtype in bound.items()
        }
        return {variable: dtype for variable, dtype in wide.items() if dtype != bound[variable]}

    def _extremes_of_uint64(
        self,
        op_type: str,
        inputs: Sequence[Tensor | None],
        dtypes: Sequence[DType],
        shapes: Sequence[Shape | None],
        attrs: Mapping[str, Any],
    ) -> tuple[Tensor, ...]:
        """What depends on the order of uint64s, in that of int64s, which begins with the upper half."""
        data, *others = inputs
        assert data is not None
        half = self.constant(np.iinfo(np.int64).min)

        def flipped(tensor: Tensor) -> Tensor:
            # To add half of what there is turns the uppermost bit, too.
            return self.op("BitwiseXor" if self.opset >= 18 else "Add", tensor, half, shape=tensor.shape)

        wide = [TensorProto.INT64 if dtype == TensorProto.UINT64 else dtype for dtype in dtypes]
        results = self.node(op_type, [flipped(self.cast(data, TensorProto.INT64)), *others], wide, shapes, **attrs)
        return tuple(
            self.cast(flipped(t), dtype) if dtype == TensorProto.UINT64 else t
            for t, dtype in zip(results, dtypes, strict=True)
        )

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

    def wide(self, tensor: Tensor) -> Tensor:
        """Half floats as float32, in which several steps are computed; other types as they are."""
        return self.cast(tensor, TensorProto.FLOAT) if tensor.dtype in HALF_FLOATS else tensor

    def in_float32(self, compute: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """Compute half floats in float32 and round the result once to the first input's element type."""
        return self.cast(compute(*map(self.wide, inputs)), inputs[0].dtype)

    def like(self, value: float, tensor: Tensor) -> Tensor:
        """A scalar of a tensor's element type."""
        return self.constant(value, tensor.dtype)

    def int64(self, tensor: Tensor) -> Tensor:
        """The tensor as int64, ONNX's type of shapes, axes and counts."""
        return self.cast(tensor, TensorProto.INT64)

    def floats(self, tensor: Tensor) -> Tensor:
        """A tensor in a type of floats: its own, or float for other numbers."""
        return tensor if tensor.dtype in FLOATS else self.cast(tensor, TensorProto.FLOAT)

    def scalar(self, tensor: Tensor) -> Tensor:
        """A tensor of one element as a scalar."""
        if tensor.shape == ():
            return tensor
        if tensor.value is None:
            return self.op("Reshape", tensor, self.constant([]), shape=())
        if tensor.value.size != 1:
            raise Unsupported(f"{tensor} is not one number")
        return self.constant(tensor.value.reshape(()), tensor.dtype)

    def shape_of(self, tensor: Tensor, start: int | None = None, end: int | None = None) -> Tensor:
        """The shape of a tensor, or part of it, as int64."""
        dims = None if tensor.shape is None else tensor.shape[start:end]
        return self.op("Shape", tensor, shape=None if dims is None else (len(dims),), start=start, end=end)

    def reshaped(self, tensor: Tensor, sizes: Tensor, shape: Shape | None = None) -> Tensor:
        """A tensor in another shape, of which sizes may be 0 where the operator set allows it.

        Args:
            tensor: The tensor.
            sizes: The shape.
            shape: What is known of it.
        """
        allowzero = 1 if self.kernels_of >= _WITH_ALLOWZERO else None
        return self.op("Reshape", tensor, sizes, allowzero=allowzero, shape=shape)

    def size(self, tensor: Tensor, axis: int) -> Tensor:
        """The size of one dimension, as a vector of one element."""
        return self.op("Gather", self.shape_of(tensor), self.constant([axis]), shape=(1,))

    def count(self, tensor: Tensor, axis: int) -> Tensor:
        """The size of one dimension, as a vector of one element; a constant where it is known."""
        known = tensor.dim(axis)
        return self.size(tensor, axis) if known is None else self.constant([known])

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
