"""tf.raw_ops.Einsum: a matrix product of rearranged operands, for batches of any size.

tf2onnx reshapes with sizes that ONNX Runtime cannot infer for a batch without rows, and ONNX Runtime's own Einsum ends
the process on such a batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from onnx_sparse.converters.emitter import Emitter
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles

_ELLIPSIS = "\u0410\u0411\u0412\u0413\u0414\u0415\u0416\u0417"  # names of its dimensions, which no equation uses

#: A size that is known, or the tensor and the axis that have it.
_Size = int | tuple[Tensor, int]


@dataclass(frozen=True)
class _Term:
    """A tensor, the names of its dimensions, and the sizes of these; those of an ellipsis differ where one is 1."""

    tensor: Tensor
    names: str
    sizes: dict[str, _Size]


@handles(
    "Einsum",
    inputs=("inputs*",),
    to="MatMul",
    dtypes=("float16", "bfloat16", "float", "double", "int32", "int64"),
)
def einsum(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Multiply the operands from left to right; sum over each dimension as soon as nothing else needs it."""
    given, _, result = node.attributes["equation"].decode().replace(" ", "").partition("->")
    operands = node.all("inputs")
    terms = [_term(t, names) for names, t in zip(given.split(","), operands, strict=True)]
    spread = max((len(set(term.names) & set(_ELLIPSIS)) for term in terms), default=0)
    result = result.replace("...", _ELLIPSIS[len(_ELLIPSIS) - spread :])
    letters = [(n, size) for term in terms for n, size in term.sizes.items() if n not in _ELLIPSIS]
    known = {n: size for n, size in letters if isinstance(size, int)}
    product, *rest = [_diagonal(replace(term, sizes={**term.sizes, **known}), emit) for term in terms]
    while rest:
        factor, *rest = rest
        needed = {*result, *(name for term in rest for name in term.names)}
        product = _multiplied(_without(product, {*needed, *factor.names}, emit), factor, needed, emit)
    return (_ordered(_without(product, set(result), emit), result, emit).tensor,)


def _term(tensor: Tensor, names: str) -> _Term:
    """An operand; the names of its ellipsis are aligned at the end across operands."""
    if "..." in names:
        count = tensor.rank - len(names) + 3
        names = names.replace("...", _ELLIPSIS[len(_ELLIPSIS) - count :])
    sizes: dict[str, _Size] = {}
    for axis, name in enumerate(names):
        known = tensor.shape[axis] if tensor.shape else None
        sizes[name] = (tensor, axis) if known is None else known
    return _Term(tensor, names, sizes)


def _diagonal(term: _Term, emit: Emitter) -> _Term:
    """The elements of an operand at which dimensions of the same name have the same index."""
    twice = next((name for name in term.names if term.names.count(name) > 1), None)
    if twice is None:
        return term
    first, second = term.names.index(twice), term.names.rindex(twice)
    others = [axis for axis in range(len(term.names)) if axis not in (first, second)]
    moved = emit.op("Transpose", term.tensor, perm=[*others, first, second])
    names = "".join(term.names[axis] for axis in others)
    flat = _reshaped(moved, [*names, twice * 2], term.sizes, emit)
    known = term.sizes[twice]
    size = emit.constant(known) if isinstance(known, int) else emit.op("Squeeze", emit.size(*known))
    step = emit.op("Add", size, emit.constant(1))
    places = emit.op("Range", emit.constant(0), emit.op("Mul", size, size), step)
    return _diagonal(replace(term, tensor=emit.op("Gather", flat, places, axis=len(others)), names=names + twice), emit)


def _multiplied(left: _Term, right: _Term, needed: set[str], emit: Emitter) -> _Term:
    """A matrix product over the dimensions that both have and nothing else needs."""
    right = _without(right, {*needed, *left.names}, emit)
    shared = [name for name in left.names if name in right.names]
    batch, inner = ("".join(n for n in shared if (n in needed) == kept) for kept in (True, False))
    rows, columns = _others(left.names, shared), _others(right.names, shared)
    a = _ordered(left, batch + rows + inner, emit).tensor
    b = _ordered(right, batch + inner + columns, emit).tensor
    # Without a batch, MatMul takes the rows of a as they are. It cannot multiply a vector by an empty tensor.
    rows_in_one, columns_in_one = len(rows) != 1 if batch else not rows, len(columns) != 1
    if rows_in_one or len(inner) != 1:
        a = _reshaped(a, [*batch, *([rows] if rows_in_one else rows), inner], left.sizes, emit)
    if columns_in_one or len(inner) != 1:
        b = _reshaped(b, [*batch, inner, *([columns] if columns_in_one else columns)], right.sizes, emit)
    product = emit.op("MatMul", a, b)
    both = {n: _larger(left.sizes[n], right.sizes[n], (product, axis)) for axis, n in enumerate(batch)}
    sizes = right.sizes | left.sizes | both
    if rows_in_one or columns_in_one:
        product = _reshaped(product, list(batch + rows + columns), sizes, emit)
    return _Term(product, batch + rows + columns, sizes)


def _larger(one: _Size, other: _Size, product: _Size) -> _Size:
    """The size of a dimension in a product to which one factor is broadcast if its size is 1."""
    known = [size for size in (one, other) if isinstance(size, int)]
    if len(known) < 2 and set(known) <= {1}:
        return product
    return next((size for size in known if size != 1), 1)


def _others(names: str, some: list[str]) -> str:
    return "".join(name for name in names if name not in some)


def _without(term: _Term, needed: set[str], emit: Emitter) -> _Term:
    """The sum over the dimensions that are not needed."""
    axes = [axis for axis, name in enumerate(term.names) if name not in needed]
    if not axes:
        return term
    summed = emit.op("ReduceSum", term.tensor, emit.constant([*axes]), keepdims=0)
    return replace(term, tensor=summed, names="".join(name for name in term.names if name in needed))


def _ordered(term: _Term, names: str, emit: Emitter) -> _Term:
    if term.names == names:
        return term
    moved = emit.op("Transpose", term.tensor, perm=[term.names.index(name) for name in names])
    return replace(term, tensor=moved, names=names)


def _reshaped(tensor: Tensor, groups: list[str], sizes: dict[str, _Size], emit: Emitter) -> Tensor:
    """A tensor with one dimension for each group of names."""
    products = []
    for group in groups:
        known = [size for name in group if isinstance(size := sizes[name], int)]
        found = [size for name in group if not isinstance(size := sizes[name], int)]
        factors = [emit.size(source, axis) for source, axis in found]
        fixed = reduce(int.__mul__, known, 1)
        if fixed != 1 or not factors:
            factors.append(emit.constant([fixed]))
        products.append(reduce(lambda x, y: emit.op("Mul", x, y), factors))
    shape = emit.op("Concat", *products, axis=0) if products else emit.constant([])
    return emit.op("Reshape", tensor, shape, allowzero=1)
