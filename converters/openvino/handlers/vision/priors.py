"""The boxes that a detector begins with: PriorBox and PriorBoxClustered, in the arithmetic of float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter

_F32 = TensorProto.FLOAT
#: Aspect ratios that are nearer to each other are one.
_NEAR = 1e-6


#: No size or ratio comes near it.
_TOO_LARGE = 2**24
#: More boxes than any detector begins with in a cell.
_TOO_MANY = 2**12

_ONE = np.float32(1)


@dataclass(frozen=True)
class _Prior:
    """A box of every cell.

    Attributes:
        size: Its size, or the smaller of two.
        larger: The larger of the two sizes of whose product the root is taken.
        ratio: The root of its aspect ratio.
        back: How far the first of the boxes that share a cell is before its center.
        on: How far the box is from the first one.
        is_fixed: Whether it is one of a fixed size, which is cut at the image's edges.
    """

    size: np.float32
    larger: np.float32 | None = None
    ratio: np.float32 = _ONE
    back: tuple[float, float] = (0, 0)
    on: tuple[float, float] = (0, 0)
    is_fixed: bool = False


@handles("PriorBox-1", "PriorBox-8", to="Range, Mul, Concat", notes="Without fixed sizes that are odd.")
def prior_box(node: Node, emit: Emitter) -> Tensor:
    """PriorBox-1 and PriorBox-8: (height and width of the cells, of the image) to boxes and variances [2, ..]."""
    priors = _fixed(node) + _sized(node)
    if len(priors) != (count := _declared_count(node)):
        raise Unsupported(f"its attributes make {len(priors)} boxes per cell; {count} are declared")
    is_scaled = node.flag("scale_all_sizes", True)
    cells, image = _height_and_width(node[0], emit), _height_and_width(node[1], emit)
    scale = emit.like(1, image[0]) if is_scaled else image[0]
    sizes = emit.op("Mul", _constant(emit, [p.size for p in priors]), scale)
    if any(p.larger is not None for p in priors):
        larger = _constant(emit, [_ONE if p.larger is None else p.larger for p in priors])
        joined = emit.op("Sqrt", emit.op("Mul", sizes, larger))
        sizes = emit.op("Where", emit.constant(np.array([p.larger is not None for p in priors])), joined, sizes)
    halves = emit.op("Mul", sizes, emit.like(0.5, sizes))
    ratios = _constant(emit, [p.ratio for p in priors])
    step = np.float32(node.number("step", 0))
    edges = []
    for axis, half in enumerate((emit.op("Div", halves, ratios), emit.op("Mul", halves, ratios))):
        centers = _centers(node, emit, step, axis, cells, image)
        for shifts in zip(*((-p.back[0], p.back[1], p.on[axis]) for p in priors), strict=True):
            if any(shifts):
                centers = emit.op("Add", centers, _constant(emit, shifts))
        inverse = emit.op("Div", emit.like(1, image[axis]), image[axis])
        edges.append([emit.op("Mul", emit.op(op, centers, half), inverse) for op in ("Sub", "Add")])
    if any(p.is_fixed for p in priors):
        edges = [[emit.op("Max", low, emit.like(0, low)), emit.op("Min", high, emit.like(1, high))]
                 for low, high in edges]  # fmt: skip
    return _result(node, emit, edges, cells, len(priors))


def _centers(
    node: Node, emit: Emitter, step: np.float32, axis: int, cells: tuple[Tensor, Tensor], image: tuple[Tensor, Tensor]
) -> Tensor:
    """The cells' centers along an axis: [cells, 1, 1] for y, [cells, 1] for x."""
    if not step:
        distance = emit.op("Div", image[axis], cells[axis])
    elif node.flag("scale_all_sizes", True):
        distance = _number(emit, step)
    else:  # as MXNet: a part of the height; -1 is that of a cell
        distance = emit.op("Div", image[0], cells[0]) if step == -1 else emit.op("Mul", image[0], _number(emit, step))
    given = np.float32(node.number("offset", 0))
    offset = given if step else np.float32(0.5)
    return _grid(emit, cells, axis, offset, distance)


def _grid(emit: Emitter, cells: tuple[Tensor, Tensor], axis: int, offset: np.float32, distance: Tensor) -> Tensor:
    numbers = emit.op("Range", _number(emit, 0), cells[axis], _number(emit, 1))
    column = emit.op("Unsqueeze", numbers, emit.constant([1, 2] if axis == 0 else [1]))
    return emit.op("Mul", emit.op("Add", column, _number(emit, offset)), distance)


def _number(emit: Emitter, value: float | np.float32) -> Tensor:
    return emit.constant(value, _F32)


def _floats(node: Node, key: str) -> list[np.float32]:
    found = [np.float32(number) for number in node.numbers(key, [])]
    if not all(0 <= number < _TOO_LARGE for number in found):
        raise Unsupported(f"{key} = {node.text(key)[:40]!r}")
    return found


def _constant(emit: Emitter, numbers: Sequence[float | np.float32]) -> Tensor:
    return emit.constant(np.array(numbers, np.float32))


def _height_and_width(sizes: Tensor, emit: Emitter) -> tuple[Tensor, Tensor]:
    height, width = (emit.cast(emit.op("Gather", sizes, emit.constant(k)), _F32) for k in (0, 1))
    return height, width


def _ratios(node: Node) -> list[np.float32]:
    """The aspect ratios, of which 1 is the first, each once; with `flip`, each with its inverse."""
    found = [_ONE]
    for ratio in _given_ratios(node):
        if all(abs(ratio - other) >= _NEAR for other in found):
            found += [ratio, _ONE / ratio] if node.flag("flip", False) else [ratio]
    return found


def _given_ratios(node: Node) -> list[np.float32]:
    ratios = _floats(node, "aspect_ratio")
    if not all(ratios):
        raise Unsupported("an aspect_ratio of 0")
    return ratios


def _fixed(node: Node) -> list[_Prior]:
    """The boxes of fixed sizes, `density` * `density` of each."""
    sizes, densities, given = (_floats(node, key) for key in ("fixed_size", "density", "fixed_ratio"))
    if len(sizes) > len(densities):
        raise Unsupported(f"{len(sizes)} fixed sizes with {len(densities)} densities")
    if sum(int(density) ** 2 for density in densities) * max(len(given), len(_ratios(node))) > _TOO_MANY:
        raise Unsupported(f"more than {_TOO_MANY} boxes per cell")
    made = []
    for size, density in zip(sizes, densities, strict=False):
        if int(size) % 2:  # half of it is whole in OpenVINO's reference, which folds constants, and not in the plugin
            raise Unsupported(f"a fixed size of {int(size)}, which is odd: OpenVINO's own kernels differ")
        count = int(density)
        shift = int(size / np.float32(count)) if count else 0
        # The box of ratio 1 has a whole size.
        shapes = [(size, np.sqrt(ratio)) for ratio in given]
        if not given:
            others = [ratio for ratio in _ratios(node) if abs(ratio - 1) >= _NEAR]
            shapes = [(np.float32(int(size)), _ONE), *((size, np.sqrt(ratio)) for ratio in others)]
        back = (int(size) / 2, shift / 2)
        made += [
            _Prior(whole, None, ratio, back, (row * shift, column * shift), is_fixed=True)
            for whole, ratio in shapes
            for row in range(count)
            for column in range(count)
        ]
    return made


def _sized(node: Node) -> list[_Prior]:
    """The boxes of the sizes from `min_size` to `max_size`."""
    smallest, largest = (_floats(node, key) for key in ("min_size", "max_size"))
    others = [np.sqrt(ratio) for ratio in _ratios(node) if abs(ratio - 1) >= _NEAR]
    is_scaled = node.flag("scale_all_sizes", True)
    made = []
    joined_first = node.flag("min_max_aspect_ratios_order", True)
    for k, size in enumerate(smallest):
        joined = [_Prior(size, largest[k])] if k < len(largest) else []
        source = size if is_scaled else smallest[0]
        stretched = [_Prior(source, None, ratio) for ratio in others if is_scaled or k == len(smallest) - 1]
        parts = (joined, stretched) if joined_first else (stretched, joined)
        made += [_Prior(size), *parts[0], *parts[1]]
    return made


def _declared_count(node: Node) -> int:
    """How many boxes a cell has by the operator's rule for its shape."""
    given = _given_ratios(node)
    inverses = [_ONE / ratio for ratio in given] if node.flag("flip", False) else []
    count = len({round(float(ratio) / _NEAR) for ratio in (_ONE, *given, *inverses)})
    fixed = len(node.numbers("fixed_size", []))
    smallest, largest = (len(node.numbers(key, [])) for key in ("min_size", "max_size"))
    made = count * smallest + largest if node.flag("scale_all_sizes", True) else count + smallest - 1
    if fixed:
        made = count * fixed
    for density in node.numbers("density", []):
        made += (len(node.numbers("fixed_ratio", [])) or count) * (int(density) ** 2 - 1)
    return made


@handles("PriorBoxClustered-1", to="Range, Mul, Concat")
def prior_box_clustered(node: Node, emit: Emitter) -> Tensor:
    """PriorBoxClustered-1: boxes of given heights and widths."""
    heights, widths = (_floats(node, key) for key in ("height", "width"))
    if len(heights) != len(widths):
        raise Unsupported(f"{len(widths)} widths with {len(heights)} heights")
    cells, image = _height_and_width(node[0], emit), _height_and_width(node[1], emit)
    step, offset = (np.float32(node.number(key, 0)) for key in ("step", "offset"))
    steps = [np.float32(node.number(key, 0)) or step for key in ("step_h", "step_w")]
    edges = []
    for axis, sizes in enumerate((heights, widths)):
        distance = _number(emit, steps[axis]) if any(steps) else emit.op("Div", image[axis], cells[axis])
        centers, half = (
            _grid(emit, cells, axis, offset, distance),
            _constant(emit, [size / np.float32(2) for size in sizes]),
        )
        edges.append([emit.op("Div", emit.op(op, centers, half), image[axis]) for op in ("Sub", "Add")])
    return _result(node, emit, edges, cells, len(widths))


def _result(node: Node, emit: Emitter, edges: list[list[Tensor]], cells: tuple[Tensor, Tensor], count: int) -> Tensor:
    """Boxes and variances, of edges [rows, 1, boxes] and [columns, boxes]."""
    sizes = [emit.op("Unsqueeze", emit.int64(t), emit.constant([0])) for t in cells]
    shape = emit.op("Concat", *sizes, emit.constant([count]), axis=0)
    (top, bottom), (left, right) = edges
    columns = [
        emit.op("Unsqueeze", emit.op("Expand", t, shape), emit.constant([-1])) for t in (left, top, right, bottom)
    ]
    boxes = emit.op("Reshape", emit.op("Concat", *columns, axis=-1), emit.constant([1, -1, 4]))
    if node.flag("clip", False):
        boxes = emit.op("Clip", boxes, emit.like(0, boxes), emit.like(1, boxes))
    variance = np.array(node.numbers("variance", []) or [0.1], np.float32)
    if variance.size not in (1, 4):
        raise Unsupported(f"{variance.size} variances")
    variances = emit.op("Expand", emit.constant(np.broadcast_to(variance, (1, 1, 4))), emit.shape_of(boxes))
    return emit.op("Reshape", emit.op("Concat", boxes, variances, axis=0), emit.constant([2, -1]))
