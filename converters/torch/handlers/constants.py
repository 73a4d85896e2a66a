"""Numbers as tensors: torch's exporter rounds each to float32 before it casts it to the type of the tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.schemas.declaration import FLOATS

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter

#: The types that torch gives to numbers.
_OWN: dict[type, int] = {bool: TensorProto.BOOL, int: TensorProto.INT64, float: TensorProto.FLOAT}


@handles("aten.scalar_tensor.default", "prims.scalar_tensor.default", to="Constant, Cast")
def scalar_tensor(node: Node, emit: TorchEmitter) -> Tensor:
    """A number in a type, by default float."""
    return _number(node, "s", node.optional_integer("dtype") or TensorProto.FLOAT, emit)


@handles("aten.full.default", to="Expand")
def full(node: Node, emit: TorchEmitter) -> Tensor:
    """A number in every element of a shape, by default in the number's own type."""
    number, sizes = node.number("fill_value"), [emit.vector(size) for size in node.numbers("size")]
    own = number.dtype if isinstance(number, Tensor) else _OWN[type(number)]
    made = _number(node, "fill_value", node.optional_integer("dtype") or own, emit)
    shape = emit.op("Concat", *sizes, axis=0, shape=(len(sizes),)) if sizes else emit.constant([])
    return emit.op(
        "Expand", made, shape, shape=tuple(None if size.value is None else int(size.value[0]) for size in sizes)
    )


@handles("aten.full_like.default", to="Expand")
def full_like(node: Node, emit: TorchEmitter) -> Tensor:
    """A number in every element, by default in the type of a tensor of that shape."""
    like = node.tensor("self")
    number = _number(node, "fill_value", node.optional_integer("dtype") or like.dtype, emit)
    return emit.op("Expand", number, emit.shape_of(like), shape=like.shape)


@handles("aten.arange.default", "aten.arange.start", "aten.arange.start_step", to="Range")
def arange(node: Node, emit: TorchEmitter) -> Tensor:
    """Numbers from one to before another, floats in double precision, as torch counts them.

    Of whole numbers from floats there are as many as of floats.
    """
    node.disregard("layout", "device", "pin_memory")
    given = {"start": 0, "end": 0, "step": 1}
    start, end, step = (node.number(name) if node.has(name) else number for name, number in given.items())
    types = [number.dtype if isinstance(number, Tensor) else _OWN[type(number)] for number in (start, end, step)]
    of_floats = TensorProto.FLOAT in types or TensorProto.DOUBLE in types
    dtype = node.optional_integer("dtype") or (TensorProto.FLOAT if of_floats else TensorProto.INT64)
    computed = TensorProto.DOUBLE if of_floats or dtype in FLOATS else TensorProto.INT64

    def as_scalar(number: Tensor | float, dtype: int = computed) -> Tensor:
        if isinstance(number, Tensor):
            return emit.scalar(emit.cast(number, dtype))
        return emit.constant(int(number) if dtype == TensorProto.INT64 else number, dtype)

    made = emit.op("Range", as_scalar(start), as_scalar(end), as_scalar(step), shape=(None,))
    if of_floats and dtype not in FLOATS:
        whole = [as_scalar(number, TensorProto.INT64) for number in (start, step)]
        places = emit.op("Range", emit.constant(0), emit.scalar(emit.count(made, 0)), emit.constant(1), shape=(None,))
        made = emit.op("Add", whole[0], emit.op("Mul", places, whole[1]))
    return emit.cast(made, dtype)


def _number(node: Node, name: str, dtype: int, emit: TorchEmitter) -> Tensor:
    # All results are contiguous.
    node.disregard(*filter(node.has, ("layout", "device", "pin_memory", "memory_format")))
    number = node.number(name)
    return emit.cast(number, dtype) if isinstance(number, Tensor) else emit.constant(number, dtype)
