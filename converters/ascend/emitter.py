"""Writes ONNX nodes for the handlers, with the shapes of their results and the NPU's rules for element types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from onnx_sparse.converters.ascend.shapes import broadcast, broadcast_equal, element_count
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.operator_types import check_types
from onnx_sparse.converters.tensor import Shape, Tensor, shape_text
from onnx_sparse.converters.writing.emitter import NewNode
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter
from onnx_sparse.converters.writing.lowering.slicing import split_by_sizes
from onnx_sparse.models.graphs import Names
from onnx_sparse.schemas.declaration import DType

#: The most elements in all constants that handlers compute: a small file must not become a large model.
_MOST_COMPUTED = 2**25
#: The operator set from which the axes of all reductions are inputs; those of ReduceSum were before.
_WITH_AXES_AS_INPUTS = 18
_FLOAT16_RANGE = (-65504.0, 65504.0)
#: The operators whose inputs broadcast to the shape of the result, which ONNX's inference would say more slowly.
_ELEMENTWISE = frozenset(
    {"Abs", "Add", "And", "Ceil", "Clip", "Cos", "Div", "Equal", "Erf", "Exp", "Floor", "Greater", "GreaterOrEqual",
     "Less", "LessOrEqual", "Log", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pow", "Reciprocal", "Relu", "Round",
     "Sigmoid", "Sign", "Sin", "Softmax", "Sqrt", "Sub", "Tanh", "Where", "Xor"}
)  # fmt: skip
#: The key in a model's metadata for notes on the conversion, line by line.
NOTES_KEY = "onnx_sparse.conversion_notes"


class AscendEmitter(InferringEmitter):
    """The graph, or the body of a control-flow operator, under construction.

    Args:
        taken: Names that belong to the source's own tensors.
        saturate: Whether values beyond float16 become the largest float16 of their sign, as on 310P and 910A.
        outer: The emitter of the graph, if this is a body in it.

    Attributes:
        notes: Notes for the user: a hidden Reshape that was inserted, an assumption that was made.
    """

    def __init__(
        self, taken: Iterable[str] = (), *, saturate: bool = False, outer: AscendEmitter | None = None
    ) -> None:
        super().__init__(*((Names(taken),) if outer is None else (outer.names, outer.domains)))
        self._saturate = saturate
        self.notes: list[str] = []
        self._computed = 0

    def body(self) -> AscendEmitter:
        """An emitter for a body within this graph."""
        return AscendEmitter(saturate=self._saturate, outer=self)

    def _check(self, op_type: str, inputs: Sequence[Tensor | None]) -> None:
        """Refuse a standard operator that does not take inputs of these element types."""
        check_types(op_type, self.opset, inputs)

    def _shape_of_result(self, op_type: str, inputs: Sequence[Tensor | None]) -> Shape | None:
        """The shape to which elementwise inputs broadcast."""
        return broadcast(*(None if t is None else t.shape for t in inputs)) if op_type in _ELEMENTWISE else None

    def _add(self, new: NewNode) -> tuple[Tensor, ...]:
        if not new.domain:
            self._check(new.op_type, new.inputs)
        return super()._add(new)

    def model(
        self, name: str, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto], *, doc: str = ""
    ) -> ModelProto:
        """The model of the finished graph, with the notes."""
        model = super().model(name, inputs, outputs, doc=doc)
        if self.notes:
            helper.set_model_props(model, {NOTES_KEY: "\n".join(self.notes)})
        return model

    def spend(self, elements: int) -> None:
        """Count the elements of a constant before it is computed.

        Raises:
            Unsupported: The graph's computed constants would become too large.
        """
        self._computed += elements
        if self._computed > _MOST_COMPUTED:
            raise Unsupported(f"computed constants have {self._computed} elements; up to {_MOST_COMPUTED} are made")

    def cast(self, tensor: Tensor, dtype: DType) -> Tensor:
        """Cast a tensor; it is returned as it is if it has that element type.

        Every half float that an operation computes is a cast from float32, so this is the one place of overflow.
        """
        if self._saturate and dtype == TensorProto.FLOAT16 and tensor.dtype not in (dtype, TensorProto.BOOL):
            wide = super().cast(tensor, TensorProto.FLOAT)
            tensor = self.op("Clip", wide, *(self.like(bound, wide) for bound in _FLOAT16_RANGE), shape=wide.shape)
        return super().cast(tensor, dtype)

    def extreme(self, op_type: str, one: Tensor, other: Tensor, shape: Shape | None = None) -> Tensor:
        """Max or Min of two tensors of one element type, by default of the shape to which both broadcast."""
        return super().extreme(op_type, one, other, broadcast(one.shape, other.shape) if shape is None else shape)

    def arithmetic(self, op_type: str, *inputs: Tensor) -> Tensor:
        """An elementwise operator on inputs of one element type; half floats go through float32 and are rounded once.

        ONNX Runtime lacks these operators for bfloat16 and, on a CPU, for float16. It would compute float16 in float32
        itself, but without the rounding between two operators that the NPU does.
        """
        if any(t.dtype != inputs[0].dtype for t in inputs):
            raise Unsupported(f"its inputs are of different element types: {', '.join(map(str, inputs))}")
        given = list(map(self.wide, inputs))
        is_extreme = op_type in ("Max", "Min") and len(given) == 2
        made = self.extreme(op_type, given[0], given[1]) if is_extreme else self.op(op_type, *given)
        return made if made.dtype == TensorProto.BOOL else self.cast(made, inputs[0].dtype)

    def reshape(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """Reshape a tensor; it is returned as it is if it has that shape."""
        if tensor.shape == tuple(shape):
            return tensor
        count = element_count(tensor.shape)
        if count is not None and count != element_count(tuple(shape)):
            raise Unsupported(f"{tensor} does not fit into {shape_text(tuple(shape))}")
        return self.op("Reshape", tensor, self.constant(shape), shape=tuple(shape), allowzero=int(0 in shape) or None)

    def transpose(self, tensor: Tensor, perm: Sequence[int]) -> Tensor:
        """Transpose a tensor; it is returned as it is if its axes keep their order."""
        rank = len(perm) if tensor.shape is None else tensor.rank
        if sorted(perm) != list(range(rank)):
            raise Unsupported(f"{list(perm)} is not a permutation of the axes of {tensor}")
        if list(perm) == list(range(rank)):
            return tensor
        shape = (None,) * rank if tensor.shape is None else tuple(tensor.shape[axis] for axis in perm)
        return self.op("Transpose", tensor, shape=shape, perm=list(perm))

    def slice(self, tensor: Tensor, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int]) -> Tensor:
        """The part from starts (>= 0) to ends along axes."""
        shape = list(tensor.shape or ())
        for start, end, axis in zip(starts, ends, axes, strict=True):
            size = shape[axis]
            if start > end or (size is not None and not 0 <= start <= end <= size):
                raise Unsupported(f"slice {start}:{end} of axis {axis} is not within {tensor}")
            shape[axis] = end - start
        if tuple(shape) == tensor.shape:
            return tensor
        bounds = (self.constant(list(v)) for v in (starts, ends, axes))
        return self.op("Slice", tensor, *bounds, shape=tuple(shape))

    def split(self, tensor: Tensor, axis: int, sizes: Sequence[int]) -> tuple[Tensor, ...]:
        """Parts of the given sizes along an axis."""
        total = tensor.dim(axis)
        if any(size < 0 for size in sizes) or (total is not None and sum(sizes) != total):
            raise Unsupported(f"{tensor} cannot be split into {list(sizes)} along axis {axis}")
        return split_by_sizes(self, tensor, axis, self.constant(sizes), len(sizes))

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """The tensors one after the other along an axis."""
        shapes = [t.shape for t in tensors if t.shape is not None]
        if len(tensors) == 1:
            return tensors[0]
        if any(t.dtype != tensors[0].dtype for t in tensors):
            raise Unsupported(f"its inputs are of different element types: {', '.join(map(str, tensors))}")
        if any(len(s) != len(shapes[0]) for s in shapes):
            raise Unsupported(f"its inputs are of different ranks: {', '.join(map(str, tensors))}")
        if len(shapes) < len(tensors):
            return self.op("Concat", *tensors, axis=axis)
        axis = tensors[0].axis(axis)
        rest = broadcast_equal([(*s[:axis], 1, *s[axis + 1 :]) for s in shapes])
        along = [s[axis] for s in shapes]
        total = None if None in along else sum(d for d in along if d is not None)
        return self.op("Concat", *tensors, shape=(*rest[:axis], total, *rest[axis + 1 :]), axis=axis)

    def reduce(self, op_type: str, tensor: Tensor, axes: Sequence[int], *, keepdims: bool) -> Tensor:
        """ReduceSum, ReduceMax, ReduceMin, ReduceMean or another reduction along axes."""
        if op_type == "ReduceSum" or self.opset >= _WITH_AXES_AS_INPUTS:
            return self.op(op_type, tensor, self.constant(list(axes)), keepdims=int(keepdims))
        return self.op(op_type, tensor, axes=list(axes), keepdims=int(keepdims))

    def matmul(self, left: Tensor, right: Tensor) -> Tensor:
        """numpy's matmul of two tensors of rank 2 or more."""
        a, b = left.shape or (), right.shape or ()
        if left.rank < 2 or right.rank < 2 or (None not in (a[-1], b[-2]) and a[-1] != b[-2]):
            raise Unsupported(f"{left} and {right} cannot be multiplied")
        batch = broadcast(a[:-2], b[:-2]) or ()
        return self.op("MatMul", left, right, shape=(*batch, a[-2], b[-1]))


def notes(model: ModelProto) -> list[str]:
    """The notes on the conversion that made a model."""
    return next((entry.value.splitlines() for entry in model.metadata_props if entry.key == NOTES_KEY), [])
