"""Writes ONNX nodes: standard operators for the handlers, with the shapes of their results, and the domain's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from onnx_sparse.converters.ascend.standard_types import check_types
from onnx_sparse.converters.ascend.tensors import Shape, Tensor, Unsupported, broadcast, element_count, shape_text
from onnx_sparse.converters.operator_types import bound_types
from onnx_sparse.converters.ort_kernels import computed_in, operands
from onnx_sparse.schemas import DOMAIN, OPS
from onnx_sparse.schemas.declaration import HALF_FLOATS, DType, numpy_dtype

Array = np.ndarray[Any, Any]

#: The default opset of the models: the first with LayerNormalization; reductions take their axes as attributes.
OPSET = 17
#: The most elements in all constants that handlers compute: a small file must not become a large model.
_MOST_COMPUTED = 2**25
#: Stands for "broadcast from the inputs", because None means unknown.
_BROADCAST: Any = object()


class Emitter:
    """The graph under construction.

    Attributes:
        nodes: Its nodes so far.
        initializers: Its constants.
        values: The values of constants by name, for handlers that need them.
        notes: Notes for the user: a hidden Reshape that was inserted, an assumption that was made.
        domains: The operator sets that the nodes need.
    """

    def __init__(self, reserved: Sequence[str] = ()) -> None:
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.values: dict[str, Array] = {}
        self.notes: list[str] = []
        self.domains: dict[str, int] = {"": OPSET}
        self._taken = dict.fromkeys(reserved, 1)
        self._constants: dict[tuple[Any, ...], Tensor] = {}
        self._prefix = ""
        self._prefixes: dict[str, int] = {}
        self._start = 0
        self._count = 0
        self._computed = 0

    def begin(self, name: str) -> None:
        """Name the following nodes after a node of the source."""
        self._prefix, self._start, self._count = _free(name, self._prefixes), len(self.nodes), 0

    def fresh(self, wanted: str) -> str:
        """An unused name."""
        return _free(wanted, self._taken)

    def name_outputs(self, results: Sequence[Tensor], names: Sequence[str]) -> tuple[Tensor, ...]:
        """Give the results of the current source node their names in the source.

        A result that this node did not make, or that serves two outputs, goes through an Identity.
        """
        made = {output for node in self.nodes[self._start :] for output in node.output}
        renames: dict[str, str] = {}
        named = []
        for result, name in zip(results, names, strict=True):
            if result.name in made and result.name not in renames:
                renames[result.name] = name
            else:
                self.nodes.append(helper.make_node("Identity", [result.name], [name], name=f"{name}_identity"))
                if result.name in self.values:
                    self.values[name] = self.values[result.name]
            named.append(result.renamed(name))
        for node in self.nodes[self._start :]:
            for field in (node.input, node.output):
                for position, used in enumerate(field):
                    if used in renames:
                        field[position] = renames[used]
        return tuple(named)

    def node(
        self,
        op_type: str,
        inputs: Sequence[Tensor],
        results: Sequence[tuple[DType, Shape | None]],
        *,
        domain: str = "",
        version: int = 1,
        **attributes: Any,
    ) -> tuple[Tensor, ...]:
        """Add a node; its results have the given element types and shapes.

        Raises:
            Unsupported: It is a standard operator that does not take inputs of these element types.
        """
        if domain:
            self.domains[domain] = version
        else:
            check_types(op_type, inputs, OPSET)
        self._count += 1
        label = f"{self._prefix}/{op_type}_{self._count}"
        outputs = [
            Tensor(self.fresh(f"{label}:{position}" if position else label), *result)
            for position, result in enumerate(results)
        ]
        names = [t.name for t in inputs]
        self.nodes.append(
            helper.make_node(op_type, names, [t.name for t in outputs], name=label, domain=domain, **attributes)
        )
        return tuple(outputs)

    def op(
        self, op_type: str, *inputs: Tensor, dtype: DType | None = None, shape: Shape | None = _BROADCAST, **attrs: Any
    ) -> Tensor:
        """Add a standard node with one result; by default with the first operand's type and the broadcast shape of all.

        If ONNX Runtime has no kernel for that type, operands of the type go through a wider one.
        """
        result = broadcast(*(t.shape for t in inputs)) if shape is _BROADCAST else shape
        span = operands(op_type)
        first = inputs[span][0].dtype
        wide = computed_in(op_type, first)
        given = list(inputs)
        if wide != first:
            check_types(op_type, inputs, OPSET)
            given[span] = [self.cast(t, wide) if t.dtype == first else t for t in inputs[span]]
        (made,) = self.node(op_type, given, [(wide if dtype is None else dtype, result)], **attrs)
        return made if dtype is not None else self.cast(made, first)

    def domain_op(self, op_type: str, *inputs: Tensor, shape: Shape | None) -> Tensor:
        """Add a node of the domain with one result, whose type follows from its schema."""
        op = OPS[op_type]
        types = bound_types(op, {i.name: tensor.dtype for i, tensor in zip(op.inputs, inputs, strict=True)})
        result = (op.bind(op.outputs[0].type, types), shape)
        return self.node(op_type, inputs, [result], domain=DOMAIN)[0]

    def constant(self, value: Any, dtype: DType = TensorProto.INT64, name: str = "") -> Tensor:
        """A constant; equal small constants are shared."""
        array = np.asarray(value).astype(numpy_dtype(dtype), copy=False)
        key = (dtype, array.shape, array.tobytes()) if array.size <= 64 and not name else None
        if key in self._constants:
            return self._constants[key]
        tensor = Tensor(name or self.fresh(f"constant_{len(self.initializers)}"), dtype, array.shape)
        if name:
            self._taken.setdefault(name, 1)
        self.initializers.append(numpy_helper.from_array(array, tensor.name))
        self.values[tensor.name] = array
        if key is not None:
            self._constants[key] = tensor
        return tensor

    def spend(self, elements: int) -> None:
        """Count the elements of a constant before it is computed.

        Raises:
            Unsupported: The graph's computed constants would become too large.
        """
        self._computed += elements
        if self._computed > _MOST_COMPUTED:
            raise Unsupported(f"computed constants have {self._computed} elements; up to {_MOST_COMPUTED} are made")

    def like(self, value: float, tensor: Tensor) -> Tensor:
        """A scalar of a tensor's element type."""
        return self.constant(value, tensor.dtype)

    def cast(self, tensor: Tensor, dtype: DType) -> Tensor:
        """Cast a tensor; it is returned as it is if it has that element type."""
        return tensor if tensor.dtype == dtype else self.op("Cast", tensor, dtype=dtype, to=dtype)

    def wide(self, tensor: Tensor) -> Tensor:
        """Half floats as float32, in which the NPU computes; other types as they are."""
        return self.cast(tensor, TensorProto.FLOAT) if tensor.dtype in HALF_FLOATS else tensor

    def in_float32(self, compute: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """Compute in float32 and round the result once to the first input's element type."""
        return self.cast(compute(*map(self.wide, inputs)), inputs[0].dtype)

    def arithmetic(self, op_type: str, *inputs: Tensor, dtype: DType | None = None) -> Tensor:
        """An elementwise operator on inputs of one element type; half floats go through float32 and are rounded once.

        ONNX Runtime lacks these operators for bfloat16 and, on a CPU, for float16. It would compute float16 in float32
        itself, but without the rounding between two operators that the NPU does.
        """
        if any(t.dtype != inputs[0].dtype for t in inputs):
            raise Unsupported(f"its inputs are of different element types: {', '.join(map(str, inputs))}")
        if inputs[0].dtype not in HALF_FLOATS:
            return self.op(op_type, *inputs, dtype=dtype)
        wide = self.op(op_type, *map(self.wide, inputs), dtype=dtype)
        return wide if dtype is not None else self.cast(wide, inputs[0].dtype)

    def reshape(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """Reshape a tensor; it is returned as it is if it has that shape."""
        if tensor.shape == tuple(shape):
            return tensor
        count = element_count(tensor.shape)
        if count is not None and count != element_count(tuple(shape)):
            raise Unsupported(f"{tensor} does not fit into {shape_text(tuple(shape))}")
        return self.op("Reshape", tensor, self.constant(shape), shape=tuple(shape))

    def transpose(self, tensor: Tensor, perm: Sequence[int]) -> Tensor:
        """Transpose a tensor; it is returned as it is if its axes keep their order."""
        if list(perm) == list(range(tensor.rank)):
            return tensor
        if sorted(perm) != list(range(tensor.rank)):
            raise Unsupported(f"{list(perm)} is not a permutation of the axes of {tensor}")
        shape = tensor.shape or ()
        return self.op("Transpose", tensor, shape=tuple(shape[axis] for axis in perm), perm=list(perm))

    def slice(self, tensor: Tensor, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int]) -> Tensor:
        """The part from starts (>= 0) to ends along axes, whose sizes must be known."""
        shape = list(tensor.shape or ())
        for start, end, axis in zip(starts, ends, axes, strict=True):
            size = shape[axis]
            if size is not None and not 0 <= start < end <= size:
                raise Unsupported(f"slice {start}:{end} of axis {axis} is not within {tensor}")
            shape[axis] = end - start
        if tuple(shape) == tensor.shape:
            return tensor
        bounds = (self.constant(list(v)) for v in (starts, ends, axes))
        return self.op("Slice", tensor, *bounds, shape=tuple(shape))

    def split(self, tensor: Tensor, axis: int, sizes: Sequence[int]) -> tuple[Tensor, ...]:
        """Parts of the given sizes along an axis."""
        shape = tensor.shape or ()
        total = shape[axis]
        if any(size <= 0 for size in sizes) or (total is not None and sum(sizes) != total):
            raise Unsupported(f"{tensor} cannot be split into {list(sizes)} along axis {axis}")
        results = [(tensor.dtype, (*shape[:axis], size, *shape[axis + 1 :])) for size in sizes]
        return self.node("Split", [tensor, self.constant(list(sizes))], results, axis=axis)

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """The tensors one after the other along an axis (>= 0)."""
        shapes = [t.shape for t in tensors]
        if len(tensors) == 1:
            return tensors[0]
        if any(t.dtype != tensors[0].dtype for t in tensors):
            raise Unsupported(f"its inputs are of different element types: {', '.join(map(str, tensors))}")
        if any(s is None for s in shapes):
            return self.op("Concat", *tensors, shape=None, axis=axis)
        known = [s for s in shapes if s is not None]
        if any(len(s) != len(known[0]) for s in known):
            raise Unsupported(f"its inputs are of different ranks: {', '.join(map(str, tensors))}")
        rest = broadcast_equal([(*s[:axis], 1, *s[axis + 1 :]) for s in known])
        along = [s[axis] for s in known]
        total = None if None in along else sum(d for d in along if d is not None)
        return self.op("Concat", *tensors, shape=(*rest[:axis], total, *rest[axis + 1 :]), axis=axis)

    def reduce(self, op_type: str, tensor: Tensor, axes: Sequence[int], *, keepdims: bool) -> Tensor:
        """ReduceSum, ReduceMax, ReduceMin or ReduceMean along axes (>= 0)."""
        shape: list[int | None] = [
            1 if axis in axes else size for axis, size in enumerate(tensor.shape or ()) if keepdims or axis not in axes
        ]
        if op_type == "ReduceSum":  # the only one whose axes are an input in this opset
            return self.op(op_type, tensor, self.constant(list(axes)), shape=tuple(shape), keepdims=int(keepdims))
        return self.op(op_type, tensor, shape=tuple(shape), axes=list(axes), keepdims=int(keepdims))

    def matmul(self, left: Tensor, right: Tensor) -> Tensor:
        """numpy's matmul of two tensors of rank 2 or more."""
        a, b = left.shape or (), right.shape or ()
        if left.rank < 2 or right.rank < 2 or (None not in (a[-1], b[-2]) and a[-1] != b[-2]):
            raise Unsupported(f"{left} and {right} cannot be multiplied")
        batch = broadcast(a[:-2], b[:-2]) or ()
        return self.op("MatMul", left, right, shape=(*batch, a[-2], b[-1]))


def _free(wanted: str, taken: dict[str, int]) -> str:
    """The name, or a free one of name_1, name_2, ...; `taken` has the next number, as many may want the same name."""
    name = wanted
    while name in taken:
        name = f"{wanted}_{taken[wanted]}"
        taken[wanted] += 1
    taken[name] = 1
    return name


def broadcast_equal(shapes: Sequence[Shape]) -> Shape:
    """The common shape of all, as far as it is known.

    Raises:
        Unsupported: They differ.
    """
    result: list[int | None] = []
    for dims in zip(*shapes, strict=True):
        sizes = {d for d in dims if d is not None}
        if len(sizes) > 1:
            raise Unsupported(f"shapes {', '.join(map(shape_text, shapes))} do not fit together")
        result.append(sizes.pop() if sizes else None)
    return tuple(result)
