"""The registry of GE's operators and what a handler works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onnx_sparse.converters.ascend.ge.graph import Description
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing import reads
from onnx_sparse.converters.writing.reads import Attributes, Inputs
from onnx_sparse.converters.writing.registry import Handler, Registry
from onnx_sparse.converters.writing.registry import Results as Results


class NodeAttributes(Attributes[Any]):
    """The attributes of a node."""

    #: Types and numbers of tensors, by TensorFlow's names, which the descriptions and the edges say, too.
    _SAID_ELSEWHERE = frozenset({"N", "T", "SrcT", "DstT", "Tidx", "Tindices", "Tparams", "Taxis", "Tshape", "Tperm",
                                 "Tdim", "Tmultiples", "Tlen", "Tpaddings", "Index", "num_split", "num", "Tk", "TI",
                                 "Tnumsegments", "Tsegmentids", "Tshift", "Tblock_shape", "Tcrops", "Tout",
                                 "index_type", "index_types", "indices_type"})  # fmt: skip
    #: Attributes of TensorFlow's operators that only its gradients, kernels and shape functions read.
    _NOT_OF_RESULTS = frozenset({"grad_a", "grad_b", "grad_x", "grad_y", "sparse_gradient", "validate_indices",
                                 "incompatible_shape_error"})  # fmt: skip

    def says_nothing(self, name: str, value: Any) -> bool:
        """Whether it is GE's own note on a node (names before fusion, streams) or has no effect on what it computes."""
        is_default = name == "bad_indices_policy" and value in ("", "DEFAULT", "ERROR")
        return name.startswith("_") or name in self._SAID_ELSEWHERE | self._NOT_OF_RESULTS or is_default


@dataclass(frozen=True)
class Node(reads.Node):
    """An operator as its handler sees it.

    Attributes:
        op_type: Its type.
        inputs: The tensors it reads; None is an optional input that is omitted.
        attributes: Its attributes.
        results: The graph's descriptions of its results.
    """

    op_type: str
    inputs: Inputs[Tensor | None]
    attributes: NodeAttributes
    results: tuple[Description, ...]

    def take(self, least: int, most: int | None = None) -> tuple[Tensor, ...]:
        """The inputs; their number must be from `least` to `most`, and none in the middle may be omitted."""
        given = list(self.inputs)
        while given and given[-1] is None:
            given.pop()
        if not least <= len(given) <= (least if most is None else most):
            raise Unsupported(f"it has {len(given)} inputs, {least} expected")
        found = tuple(tensor for tensor in given if tensor is not None)
        if len(found) < len(given):
            raise Unsupported("an optional input in the middle is omitted")
        return found

    def optional(self, least: int, most: int) -> tuple[tuple[Tensor, ...], tuple[Tensor | None, ...]]:
        """The first `least` inputs, which must be given, and those after them up to `most`; None is one omitted."""
        if len(self.inputs) > most:
            raise Unsupported(f"it has {len(self.inputs)} inputs, {least} to {most} expected")
        first = tuple(tensor for tensor in self.inputs[:least] if tensor is not None)
        if len(first) < least:
            raise Unsupported(f"it has {len(first)} of the first {least} inputs")
        return first, (*self.inputs, *(None,) * most)[least:most]

    def integer(self, name: str, default: int | None = None) -> int:
        """An attribute that is a whole number."""
        value = self._number(name, default)
        if not isinstance(value, int):
            raise Unsupported(f"attribute {name} is {value}; a whole number expected")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """An attribute that is a number."""
        return float(self._number(name, default))

    def flag(self, name: str, default: bool = False) -> bool:
        """An attribute that is true or false."""
        return bool(self._number(name, default))

    def integers(self, name: str) -> list[int]:
        """An attribute that is a list of whole numbers; a single number is a list of one, None an empty list."""
        value = self.attributes.get(name)
        items = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(item, int) for item in items):
            raise Unsupported(f"attribute {name} is not a list of whole numbers")
        return [int(item) for item in items]

    def _number(self, name: str, default: float | None) -> float:
        value = self.attributes.get(name)
        if value is None:
            if default is None:
                raise Unsupported(f"attribute {name} is missing")
            return default
        if not isinstance(value, int | float):
            raise Unsupported(f"attribute {name} is not a number")
        return value


#: The handlers by operator.
HANDLERS = Registry(Handler)
handles = HANDLERS.handles
