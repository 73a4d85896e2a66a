"""tf.raw_ops.Einsum: a matrix product of rearranged operands, for batches of any size.

tf2onnx reshapes with sizes that ONNX Runtime cannot infer for a batch without rows, and ONNX Runtime's own Einsum ends
the process on such a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from onnx_sparse.converters.tensorflow.handlers.emitter import Emitter
from onnx_sparse.converters.tensorflow.handlers.registry import SourceNode, Tensor, Unsupported, handles

_ELLIPSIS = "\u0410\u0411\u0412\u0413\u0414\u0415\u0416\u0417"  # names of its dimensions, which no equation uses


@dataclass(frozen=True)
class _Term:
    """A tensor and the names of its dimensions."""

    tensor: Tensor
    names: str


@handles(
    "Einsum",
    inputs=("inputs*",),
    to="MatMul",
    dtypes=("float16", "bfloat16", "float", "double", "int32", "int64"),
)
def einsum(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """Multiply the operands from left to right; sum over each dimension as soon as nothing else needs it."""
    given, _, result = node.attributes["equation"].decode().replace(" ", "").partition("->")
    operands = node.all("inputs")
    terms = [_Term(t, _named(names, t)) for names, t in zip(given.split(","), operands, strict=True)]
    spread = max((len(set(term.names) & set(_ELLIPSIS)) for term in terms), default=0)
    result = result.replace("...", _ELLIPSIS[len(_ELLIPSIS) - spread :])
    sizes = {}
    for term in reversed(terms):
        for axis, name in enumerate(term.names):
            known = term.tensor.shape[axis] if term.tensor.shape else None
            sizes[name] = (term.tensor, axis) if known is None else known
    product, *rest = terms
    while rest:
        factor, *rest = rest
        needed = {*result, *(name for term in rest for name in term.names)}
        product = _multiplied(_without(product, {*needed, *factor.names}, emit), factor, needed, sizes, emit)
    return (_ordered(_without(product, set(result), emit), result, emit).tensor,)


def _named(names: str, tensor: Tensor) -> str:
    """The names of an operand's dimensions; those of an ellipsis are aligned at the end across operands."""
    if "..." in names:
        count = tensor.known_rank("an operand") - len(names) + 3
        names = names.replace("...", _ELLIPSIS[len(_ELLIPSIS) - count :])
    if len(set(names)) < len(names):
        raise Unsupported("a diagonal is taken: a dimension is named twice in an operand")
    return names


_Sizes = dict[str, "int | tuple[Tensor, int]"]


def _multiplied(left: _Term, right: _Term, needed: set[str], sizes: _Sizes, emit: Emitter) -> _Term:
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
        a = _reshaped(a, [*batch, *([rows] if rows_in_one else rows), inner], sizes, emit)
    if columns_in_one or len(inner) != 1:
        b = _reshaped(b, [*batch, inner, *([columns] if columns_in_one else columns)], sizes, emit)
    product = emit.like("MatMul", a, b)
    if rows_in_one or columns_in_one:
        product = _reshaped(product, list(batch + rows + columns), sizes, emit)
    return _Term(product, batch + rows + columns)


def _others(names: str, some: list[str]) -> str:
    return "".join(name for name in names if name not in some)


def _without(term: _Term, needed: set[str], emit: Emitter) -> _Term:
    """The sum over the dimensions that are not needed."""
    axes = [axis for axis, name in enumerate(term.names) if name not in needed]
    if not axes:
        return term
    summed = emit.like("ReduceSum", term.tensor, emit.integers(*axes), keepdims=0)
    return _Term(summed, "".join(name for name in term.names if name in needed))


def _ordered(term: _Term, names: str, emit: Emitter) -> _Term:
    if term.names == names:
        return term
    return _Term(emit.like("Transpose", term.tensor, perm=[term.names.index(name) for name in names]), names)


def _reshaped(tensor: Tensor, groups: list[str], sizes: _Sizes, emit: Emitter) -> Tensor:
    """A tensor with one dimension for each group of names."""
    products = []
    for group in groups:
        known = [size for name in group if isinstance(size := sizes[name], int)]
        found = [size for name in group if not isinstance(size := sizes[name], int)]
        factors = [emit.size(source, axis) for source, axis in found]
        fixed = reduce(int.__mul__, known, 1)
        if fixed != 1 or not factors:
            factors.append(emit.integers(fixed))
        products.append(reduce(lambda x, y: emit.ints("Mul", x, y), factors))
    shape = emit.ints("Concat", *products, axis=0) if products else emit.integers()
    return emit.like("Reshape", tensor, shape, allowzero=1)
