"""The order of dimensions of images, and the windows that slide over them, in TensorFlow's attributes and in ONNX's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnx_sparse.converters.errors import UnknownShape, Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node
from onnx_sparse.converters.tensorflow.importing.emitter import TensorFlowEmitter

_ALL = 2**63 - 1


class Layout:
    """The order of dimensions of a node, and its windows in ONNX's."""

    def __init__(self, node: Node, x: Tensor, emit: TensorFlowEmitter) -> None:
        self._node, self._x, self._emit = node, x, emit
        text = node.attributes["data_format"]
        form = text.decode() if isinstance(text, bytes) else str(text)
        if form not in ("NHWC", "NCHW", "NDHWC", "NCDHW"):
            raise Unsupported(f"its attribute data_format = {form!r} is not converted")
        self._is_last = form.endswith("C")
        self._rank = len(form)
        if x.rank != self._rank:
            raise Unsupported(f"{x} is not of rank {self._rank}")
        self._spatial = range(1, self._rank - 1) if self._is_last else range(2, self._rank)
        self.channels = x.dim(-1 if self._is_last else 1)

    def rank_of(self, weight: Tensor) -> int:
        """The rank of a filter.

        Raises:
            Unsupported: It has another rank than the images.
        """
        if weight.rank != self._rank:
            raise Unsupported(f"its filter {weight} is not of rank {self._rank}")
        return self._rank

    def first(self, x: Tensor) -> Tensor:
        """The tensor with channels before the spatial dimensions."""
        return self._emit.op("Transpose", x, perm=[0, self._rank - 1, *self._spatial]) if self._is_last else x

    def under(self, size: str | Sequence[int | None]) -> tuple[Tensor, dict[str, Any]]:
        """The tensor with channels first, without what no window reaches, and ONNX's attributes for the windows.

        Args:
            size: The attribute with the size of the windows, or the sizes of a filter.
        """
        x, emit, windows = self.first(self._x), self._emit, self.windows(size)
        if "auto_pad" not in windows:
            return x, windows
        widths = windows.get("kernel_shape", size)
        for axis, width, stride in zip(range(2, self._rank), widths, windows["strides"], strict=True):
            if width is not None and width < stride:  # where ONNX Runtime would have negative borders
                count = emit.op("Div", emit.op("Sub", emit.size(x, axis), emit.constant([1])), emit.constant([stride]))
                end = emit.op("Add", emit.op("Mul", count, emit.constant([stride])), emit.constant([width]))
                x = emit.op("Slice", x, emit.constant([0]), end, emit.constant([axis]))
        return x, windows

    def convolved(self, weight: Tensor, convolve: Callable[..., Tensor]) -> Tensor:
        """A convolution in the node's own order; of rows that are a little shorter than the windows, none.

        Args:
            weight: The filter, whose spatial dimensions come first.
            convolve: Makes the convolution of a tensor with channels first, by ONNX's attributes for windows.
        """
        emit, steps, dilations = self._emit, self._of("strides"), self._of("dilations")
        sizes = [weight.dim(k) for k in range(len(steps))]
        reaches = [
            emit.constant([dilation * (width - 1) + 1])
            if width is not None
            else emit.op(
                "Sub", emit.op("Mul", emit.size(weight, k), emit.constant([dilation])), emit.constant([dilation - 1])
            )
            for k, (width, dilation) in enumerate(zip(sizes, dilations, strict=True))
        ]
        is_open = None in (self._x.dim(axis) for axis in self._spatial)
        if self._node.attributes["padding"] == b"SAME" and (
            (None in sizes and max(*steps, *dilations) > 1) or (is_open and min(max(dilations), max(steps)) > 1)
        ):
            bordered = self._bordered(emit.op("Concat", *reaches, axis=0), steps)
            return self.last(convolve(bordered, {"strides": steps, "dilations": dilations}))
        x, windows = self.under(sizes)
        pads, short = windows.get("pads", [0] * 2 * len(steps)), []
        for k, (reach, stride) in enumerate(zip(reaches, steps, strict=True)):
            size, borders = x.dim(k + 2), pads[k] + pads[k + len(steps)]
            if "auto_pad" in windows:
                continue
            known = None if reach.value is None else int(reach.value[0]) - borders
            if known is None or (known > 0 if size is None else size < known):
                inside = emit.op("Sub", reach, emit.constant([borders]))
                missing = emit.op("Sub", inside, emit.size(x, k + 2))
                one, most = emit.constant([1]), emit.constant([2 * stride - 1])
                is_short = emit.op(
                    "And", emit.op("GreaterOrEqual", missing, one), emit.op("LessOrEqual", missing, most)
                )
                short.append((k + 2, is_short, emit.op("Where", is_short, missing, emit.constant([0]))))
        if not short:
            return self.last(convolve(x, windows))
        axes = emit.constant([axis for axis, *_ in short])
        before = emit.constant([0] * len(short))
        ends = emit.op("Concat", before, *(missing for *_, missing in short), axis=0)
        made = convolve(emit.op("Pad", x, ends, emit.like(0, x), axes), windows)
        is_short = emit.op("Concat", *(each for _, each, _ in short), axis=0)
        kept = emit.op("Where", is_short, emit.constant([0]), emit.constant([_ALL]))
        return self.last(emit.op("Slice", made, before, kept, axes))

    def _bordered(self, reach: Tensor, strides: Sequence[int]) -> Tensor:
        """The tensor with channels first and zeros around it, so many that each step along it has a window."""
        x, emit = self.first(self._x), self._emit
        axes = emit.constant([*range(2, self._rank)])
        size, stride = emit.op("Gather", emit.shape_of(x), axes), emit.constant(strides)
        one, two, zeros = emit.constant([1]), emit.constant([2]), emit.constant([0] * len(strides))
        last = emit.op("Div", emit.op("Sub", emit.op("Add", size, stride), one), stride)
        end = emit.op("Add", emit.op("Mul", emit.op("Sub", last, one), stride), reach)
        missing = emit.op("Max", emit.op("Sub", end, size), zeros)
        before = emit.op("Div", missing, two)
        borders = emit.op("Concat", before, emit.op("Sub", missing, before), axis=0)
        return emit.op("Pad", x, borders, emit.like(0, x), axes)

    def last(self, x: Tensor) -> Tensor:
        """The tensor in the node's own order."""
        return self._emit.op("Transpose", x, perm=[0, *range(2, self._rank), 1]) if self._is_last else x

    def windows(self, size: str | Sequence[int | None]) -> dict[str, Any]:
        """ONNX's attributes for windows of the size that an attribute says, or of a filter's."""
        attributes = self._node.attributes
        found: dict[str, Any] = {"strides": self._of("strides")}
        if isinstance(size, str):
            found["kernel_shape"] = self._of(size)
        else:
            found["dilations"] = self._of("dilations")
        padding = attributes["padding"].decode()
        pads = list(attributes["explicit_paddings"]) if "explicit_paddings" in attributes else []
        if padding == "EXPLICIT":
            if len(pads) != 2 * self._rank:
                raise Unsupported(f"its attribute explicit_paddings = {pads} has not two numbers for each dimension")
            found["pads"] = [pads[2 * d] for d in self._spatial] + [pads[2 * d + 1] for d in self._spatial]
        elif padding == "SAME":
            if isinstance(size, str) or max(found["dilations"]) == 1:
                found["auto_pad"] = "SAME_UPPER"
            else:  # which ONNX Runtime does not pad by itself
                found["pads"] = self._pads(size, found["strides"], found["dilations"])
        elif padding != "VALID":
            raise Unsupported(f"its attribute padding = {padding!r} is not converted")
        return found

    def spatial_sizes(self, sizes: Tensor) -> list[int] | None:
        """The spatial ones of the sizes in a tensor; None where they are known only at run time."""
        known = self._emit.known_sizes(sizes)
        found = [size for d, size in enumerate(known or ()) if d in self._spatial and size is not None]
        return found if len(found) == len(self._spatial) else None

    def transposed_windows(self, kernel: Sequence[int], sizes: Sequence[int]) -> dict[str, Any]:
        """ONNX's attributes for a transposed convolution whose result has given sizes."""
        strides, dilations = self._of("strides"), self._of("dilations")
        padding = self._node.attributes["padding"]
        has_pads = "explicit_paddings" in self._node.attributes
        pads = [int(number) for number in self._node.attributes["explicit_paddings"]] if has_pads else []
        before, after, extra = [], [], []
        for k, (size, stride, dilation, width) in enumerate(zip(sizes, strides, dilations, kernel, strict=True)):
            reach = dilation * (width - 1) + 1
            if padding == b"EXPLICIT":
                d = self._spatial[k]
                start, end = pads[2 * d : 2 * d + 2]
                steps = (size + start + end - reach) // stride + 1
            else:
                steps = -(-size // stride) if padding == b"SAME" else (size - reach) // stride + 1
                total = max((steps - 1) * stride + reach - size, 0) if padding == b"SAME" else 0
                start, end = total // 2, total - total // 2
            before.append(start)
            after.append(end)
            extra.append(size - ((steps - 1) * stride + reach - start - end))
        if min(extra) < 0:
            raise Unsupported(f"its input_sizes {list(sizes)} do not fit")
        return {"strides": strides, "dilations": dilations, "pads": [*before, *after], "output_padding": extra}

    def transposed(self, x: Tensor, weight: Tensor, sizes: Tensor) -> Tensor:
        """A transposed convolution of channels first whose result has sizes that may be known only at run time.

        Args:
            x: What is convolved, channels first.
            weight: The filter in ONNX's order.
            sizes: The sizes of all dimensions of the result, in the node's order.
        """
        emit, rank = self._emit, self._rank
        strides, dilations = self._of("strides"), self._of("dilations")
        whole = emit.op("ConvTranspose", x, weight, strides=strides, dilations=dilations)
        size = emit.op("Gather", emit.int64(sizes), emit.constant([*self._spatial]))
        axes, zeros = emit.constant([*range(2, rank)]), emit.constant([0] * (rank - 2))
        full = emit.op("Gather", emit.shape_of(whole), axes)
        start = emit.op("Div", emit.op("Max", emit.op("Sub", full, size), zeros), emit.constant(2))
        padding = self._node.attributes["padding"]
        if padding == b"VALID":
            start = zeros
        elif padding == b"EXPLICIT":
            start = emit.constant([int(self._node.attributes["explicit_paddings"][2 * d]) for d in self._spatial])
        # Behind what the windows reach, the result is 0.
        missing = emit.op("Max", emit.op("Sub", emit.op("Add", start, size), full), zeros)
        longer = emit.op("Pad", whole, emit.op("Concat", zeros, missing, axis=0), emit.like(0, whole), axes)
        return emit.op("Slice", longer, start, emit.op("Add", start, size), axes)

    def _pads(self, sizes: Sequence[int | None], strides: Sequence[int], dilations: Sequence[int]) -> list[int]:
        """The border for a result of the input's size divided by the strides."""
        before, after = [], []
        for d, size, stride, dilation in zip(self._spatial, sizes, strides, dilations, strict=True):
            dim = self._x.dim(d)
            if size is None or (dim is None and stride != 1):
                raise UnknownShape(f"the whole shape of {self._x} must be known for a dilated filter with strides")
            # With a stride of 1, the border does not depend on the input's size.
            overlap = dilation * (size - 1) + 1 - (1 if dim is None else dim - (-(-dim // stride) - 1) * stride)
            before.append(max(overlap, 0) // 2)
            after.append(max(overlap, 0) - before[-1])
        return [*before, *after]

    def _of(self, name: str) -> list[int]:
        given = [int(number) for number in self._node.attributes[name]] or [1] * self._rank
        if len(given) != self._rank or any(given[d] != 1 for d in range(self._rank) if d not in self._spatial):
            raise Unsupported(f"its attribute {name} = {given} is not converted")
        return [given[d] for d in self._spatial]
