"""Einsum as matrix products of rearranged operands, for batches of any size and dimensions that broadcast.

ONNX Runtime's own Einsum ends the process on a batch without rows and on an ellipsis that broadcasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter

_ELLIPSIS = "\u0410\u0411\u0412\u0413\u0414\u0415\u0416\u0417"  # names of its dimensions, which no equation uses

#: A size that is known, or the tensor and the axis that have it.
_Size = int | tuple[Tensor, int]


@dataclass(frozen=True)
class _Term:
    """A tensor, the names of its dimensions, and the sizes of these; those of an ellipsis differ where one is 1."""

    tensor: Tensor
    names: str
    sizes: dict[str, _Size]


def einsum(equation: str, operands: Sequence[Tensor], emit: Emitter) -> Tensor:
    """Multiply the operands from left to right; sum over each dimension as soon as nothing else needs it.

    Raises:
        Unsupported: The equation does not fit the operands.
    """
    given, arrow, result = equation.replace(" ", "").partition("->")
    parts = given.split(",")
    if len(parts) != len(operands):
        raise Unsupported(f"equation {equation!r} has {len(parts)} terms for {len(operands)} inputs")
    if not arrow:  # the ellipsis, and in alphabetical order what occurs once
        once = sorted(name for name in set(given) - {",", "."} if given.count(name) == 1)
        result = "..." * ("..." in given) + "".join(once)
    terms = [_term(t, names) for names, t in zip(parts, operands, strict=True)]
    spread = max((len(set(term.names) & set(_ELLIPSIS)) for term in terms), default=0)
    terms = _without_ones(terms, emit)
    result = result.replace("...", _ELLIPSIS[len(_ELLIPSIS) - spread :])
    if set(result) - {name for term in terms for name in term.names}:
        raise Unsupported(f"equation {equation[:40]!r} has no such result")
    letters = [(n, size) for term in terms for n, size in term.sizes.items() if n not in _ELLIPSIS]
    known = {n: size for n, size in letters if isinstance(size, int)}
    product, *rest = [_diagonal(replace(term, sizes={**term.sizes, **known}), emit) for term in terms]
    while rest:
        factor, *rest = rest
        needed = {*result, *(name for term in rest for name in term.names)}
        product = _multiplied(_without(product, {*needed, *factor.names}, emit), factor, needed, emit)
    distinct = "".join(dict.fromkeys(result))
    return _on_diagonals(_ordered(_without(product, set(result), emit), distinct, emit).tensor, result, emit)


def _without_ones(terms: list[_Term], emit: Emitter) -> list[_Term]:
    """The operands without their dimensions of size 1 that another one has in full: a product broadcasts these."""
    sizes: dict[str, set[_Size]] = {}
    for term in terms:
        for name, size in term.sizes.items():
            sizes.setdefault(name, set()).add(size)
    full = {name for name, found in sizes.items() if any(size != 1 for size in found if isinstance(size, int))}
    kept = []
    for term in terms:
        axes = [axis for axis, name in enumerate(term.names) if name in full and term.sizes[name] == 1]
        if axes:
            names = "".join(name for axis, name in enumerate(term.names) if axis not in axes)
            sizes_left = {name: size for name, size in term.sizes.items() if name in names}
            term = _Term(emit.op("Squeeze", term.tensor, emit.constant(axes)), names, sizes_left)
        kept.append(term)
    return kept


def _term(tensor: Tensor, names: str) -> _Term:
    """An operand; the names of its ellipsis are aligned at the end across operands."""
    if "..." in names:
        count = tensor.rank - len(names) + 3
        if not 0 <= count <= len(_ELLIPSIS):
            raise Unsupported(f"a term {names[:40]!r} for {tensor}")
        names = names.replace("...", _ELLIPSIS[len(_ELLIPSIS) - count :])
    if tensor.shape is not None and len(names) != tensor.rank:
        raise Unsupported(f"a term of {len(names)} dimensions for {tensor}")
    sizes: dict[str, _Size] = {}
    for axis, name in enumerate(names):
        known = tensor.dim(axis)
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


def _on_diagonals(tensor: Tensor, result: str, emit: Emitter) -> Tensor:
    """The elements where the indices of dimensions of the same name are equal, and zeros elsewhere."""
    for axis, name in enumerate(result):
        first = result.index(name)
        if first == axis:
            continue
        size = emit.scalar(emit.size(tensor, first))
        places = emit.op("Range", emit.constant(0), size, emit.constant(1))
        rank = len({*result}) + sum(result.index(other) < k for k, other in enumerate(result[: axis + 1]))
        one, other = (
            emit.op("Reshape", places, emit.constant([-1 if k == place else 1 for k in range(rank)]))
            for place in (first, axis)
        )
        tensor = emit.op("Unsqueeze", tensor, emit.constant([axis]))
        tensor = emit.op("Where", emit.op("Equal", one, other), tensor, emit.like(0, tensor))
    return tensor


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
