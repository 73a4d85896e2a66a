"""Writes ONNX nodes into the graph that torch's exporter builds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript.values import Op, Opset

from onnx_sparse.converters.tensor import Array, Shape, Tensor
from onnx_sparse.converters.writing.emitter import Emitter, NewNode
from onnx_sparse.models.graphs import Names
from onnx_sparse.schemas import DOMAIN, OPSET_VERSION
from onnx_sparse.schemas.declaration import DType

#: Operators that make a tensor by repeating a smaller one.
_REPEATING = ("Expand", "Tile")

#: Marks a Gather whose ids may count from the end; torch refuses such ids in all other functions that look rows up.
_FROM_END = "onnx_sparse.from_end"


class TorchEmitter(Emitter):
    """The nodes of one call of an operator.

    The exporter's tensors are values of onnx_ir, most of which have no name until the graph is finished; here each has
    one by which it is found again.
    """

    def __init__(self) -> None:
        self.names = Names()
        self._values: dict[str, ir.Value] = {}
        self._made: set[str] = set()
        self._constants: dict[tuple[Any, ...], str] = {}

    def tensor(self, value: ir.Value) -> Tensor:
        """A value of the exporter as a tensor."""
        name = self.names.fresh(value.name or "value")
        self._values[name] = value
        shape = None if value.shape is None else tuple(d if isinstance(d, int) else None for d in value.shape.dims)
        return Tensor(name, int(value.dtype or 0), shape)

    def value(self, tensor: Tensor) -> ir.Value:
        """The exporter's value of a tensor."""
        return self._values[tensor.name]

    def result(self, tensor: Tensor) -> ir.Value:
        """The exporter's value of a result, which it will name: one that no other result is, and no input."""
        if tensor.name not in self._made:
            tensor = self.op("Identity", tensor, shape=tensor.shape)
        self._made.remove(tensor.name)
        return self.value(tensor)

    def _add(self, new: NewNode) -> tuple[Tensor, ...]:
        opset = Opset(new.domain, OPSET_VERSION if new.domain == DOMAIN else self.opset)
        given = [None if tensor is None else self.value(tensor) for tensor in new.inputs]
        made = Op(opset, new.op_type)(*given, **new.attributes)
        values = made if isinstance(made, Sequence) else [made]
        results = new.results([self.names.fresh(new.op_type) for _ in new.dtypes])
        for value, result in zip(values, results, strict=True):
            value.type = ir.TensorType(ir.DataType(result.dtype))
            if result.shape is not None:
                value.shape = ir.Shape(result.shape)
            self._values[result.name] = value
            self._made.add(result.name)
        return results

    def _add_constant(self, array: Array, dtype: DType, name: str) -> str:
        """Add a constant; equal ones are shared."""
        key = (dtype, array.shape, array.tobytes())
        if key not in self._constants:
            tensor = ir.Tensor(np.ascontiguousarray(array).reshape(array.shape), dtype=ir.DataType(dtype))
            (made,) = self.node("Constant", [], [dtype], [array.shape], value=tensor)
            self._constants[key] = made.name
        return self._constants[key]

    def same_size(self, one: Tensor, axis: int, other: Tensor, other_axis: int) -> bool:
        """Whether two dimensions are known to have the same size: one number, or one symbol."""
        shapes = self.value(one).shape, self.value(other).shape
        if shapes[0] is None or shapes[1] is None:
            return False
        a, b = shapes[0][axis], shapes[1][other_axis]
        return a == b and (isinstance(a, int) or a.value is not None)

    def repeated(self, tensor: Tensor) -> Tensor | None:
        """The tensor that Expand or Tile repeats to make this one, if one of them does."""
        producer = self.value(tensor).producer()
        if producer is None or producer.domain or producer.op_type not in _REPEATING or producer.inputs[0] is None:
            return None
        return self.tensor(producer.inputs[0])

    def gathered(self, table: Tensor, ids: Tensor, axis: int) -> Tensor:
        """Slices of a tensor along an axis, by ids of any shape; negative ones count from the end."""
        shape = None
        if table.shape is not None and ids.shape is not None:
            shape = (*table.shape[:axis], *ids.shape, *table.shape[axis + 1 :])
        made = self.op("Gather", table, ids, axis=axis, shape=shape)
        producer = self.value(made).producer()
        if producer is not None:
            producer.meta[_FROM_END] = True
        return made

    def looked_up(self, tensor: Tensor) -> tuple[Tensor, Tensor] | None:
        """The table and the ids [rows], int64, of the rows that this tensor holds, if they were looked up."""
        producer = self.value(tensor).producer()
        if producer is None or producer.domain or producer.op_type != "Gather":
            return None
        table, ids = (self.tensor(value) for value in producer.inputs if value is not None)
        if table.shape is None or table.rank != tensor.rank or table.axis(producer.attributes.get_int("axis", 0)) != 0:
            return None
        wide = self.int64(ids)
        if _FROM_END in producer.meta:
            negative = self.op("Less", wide, self.constant(0), shape=(None,))
            from_start = self.op("Add", wide, self.count(table, 0), shape=(None,))
            wide = self.op("Where", negative, from_start, wide, shape=(None,))
        return table, wide

    def factors(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """The two tensors that were multiplied to make this one; none if it was made otherwise."""
        producer = self.value(tensor).producer()
        if producer is None or producer.domain or producer.op_type != "Mul":
            return ()
        return tuple(self.tensor(value) for value in producer.inputs if value is not None)

    def by_torchlib(self, function: str, *arguments: Tensor | list[Tensor | None], **options: bool) -> Tensor:
        """What torch's exporter writes itself, by the name of its function."""
        from onnxscript.function_libs.torch_lib.ops import core

        def given(argument: Tensor | list[Tensor | None] | None) -> Any:
            if isinstance(argument, list):
                return [given(one) for one in argument]
            return None if argument is None else self.value(argument)

        made = self.tensor(getattr(core, function)(*map(given, arguments), **options))
        self._made.add(made.name)
        return made

    def is_made_by(self, tensor: Tensor, op_type: str) -> bool:
        """Whether a standard operator made a tensor."""
        producer = self.value(tensor).producer()
        return producer is not None and not producer.domain and producer.op_type == op_type

    def is_zeros(self, tensor: Tensor) -> bool:
        """Whether every element is known to be 0."""
        value = self.value(tensor)
        while (producer := value.producer()) is not None and not producer.domain:
            if producer.op_type == "Constant":
                constant = ir.convenience.get_const_tensor(value)
                return constant is not None and not constant.numpy().any()
            if producer.op_type == "ConstantOfShape":
                fill = producer.attributes.get("value")
                return fill is None or not fill.as_tensor().numpy().any()
            if producer.op_type not in ("Expand", "Cast", "CastLike", "Identity") or producer.inputs[0] is None:
                return False
            value = producer.inputs[0]
        return False

    def vector(self, number: Tensor | float) -> Tensor:
        """A whole number, which torch may know only when the model runs, as an int64 vector of one element."""
        if isinstance(number, Tensor):
            return self.op("Reshape", self.int64(number), self.constant([1]), shape=(1,))
        return self.constant([int(number)])

    def size(self, tensor: Tensor, axis: int) -> Tensor:
        """The size of one dimension, as a vector of one element.

        A tensor that repeats one number need not be made for that: its size is known before.
        """
        sizes = self._sizes_to_repeat(self.value(tensor))
        if sizes is not None:
            return self.op("Slice", sizes, self.constant([axis]), self.constant([axis + 1]), shape=(1,))
        return self.op("Shape", tensor, shape=(1,), start=axis, end=axis + 1)

    def _sizes_to_repeat(self, value: ir.Value) -> Tensor | None:
        """The shape with which a tensor is made that repeats one number."""
        value = _before_casts(value)
        producer = value.producer()
        if producer is None or producer.domain or producer.op_type not in ("ConstantOfShape", "Expand"):
            return None
        *repeated, sizes = producer.inputs
        if sizes is None or not all(one is not None and _is_one_number(_before_casts(one)) for one in repeated):
            return None
        return self.int64(self.tensor(sizes))

    def shape_of(self, tensor: Tensor, start: int | None = None, end: int | None = None) -> Tensor:
        """The shape of a tensor, or part of it, as int64; a constant where it is known."""
        if tensor.shape is not None and None not in tensor.shape[start:end]:
            return self.constant(tensor.shape[start:end])
        return super().shape_of(tensor, start, end)

    def full(self, value: float, dtype: DType, shape: Tensor) -> Tensor:
        """A tensor of a shape with one value in every element."""
        sizes = None if shape.value is None else tuple(int(size) for size in shape.value)
        rank = None if shape.shape is None else shape.shape[0]
        known: Shape | None = sizes if sizes is not None else None if rank is None else (None,) * rank
        return self.op("Expand", self.constant(value, dtype), shape, shape=known)

    def column(self, vector: Tensor, rows: Tensor) -> Tensor:
        """A vector [n] with as many dimensions as `rows`, of which all but the first are 1."""
        if rows.rank == 1:
            return vector
        known = None if vector.shape is None else vector.shape[0]
        ones = [1] * (rows.rank - 1)
        return self.op("Unsqueeze", vector, self.constant(list(range(1, rows.rank))), shape=(known, *ones))


def _before_casts(value: ir.Value) -> ir.Value:
    """The value with the same elements that others were made of by casts."""
    while (producer := value.producer()) is not None and producer.op_type in ("Cast", "CastLike", "Identity"):
        if producer.domain or producer.inputs[0] is None:
            break
        value = producer.inputs[0]
    return value


def _is_one_number(value: ir.Value) -> bool:
    """Whether a value is a constant of one element and no more dimensions than what it is expanded to may have."""
    constant = ir.convenience.get_const_tensor(value)
    return constant is not None and constant.shape.rank() <= 1 and constant.size == 1
