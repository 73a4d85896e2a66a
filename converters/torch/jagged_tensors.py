"""Nested tensors of the jagged layout, as the values and offsets that torch.export knows.

While a module is exported, a stand-in takes the place of each nested tensor that its forward makes, or that is its
input. Functions of elements and of the last dimension are those of the values; those of a row are segment reductions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

_INSTEAD = "pass values() and offsets() as inputs and compute with these"


@dataclass(frozen=True, eq=False)
class JaggedTensor:
    """Rows of different lengths, one after the other: a nested tensor [rows, lengths, ...].

    Attributes:
        elements: The values [elements, ...].
        starts: Where each row begins among them, and the last one ends [rows + 1].
        longest: The length to which torch pads rows: a number, or whether it is that of the longest row; torch takes
            the number of all elements where it has not been told the lengths.
    """

    elements: torch.Tensor
    starts: torch.Tensor
    longest: int | bool = False

    @classmethod
    def of(cls, nested: torch.Tensor) -> JaggedTensor:
        """The parts of a nested tensor.

        Raises:
            NotImplementedError: Its ragged dimension is not the second, or there are holes between its rows.
        """
        if nested.layout != torch.jagged or nested._ragged_idx != 1 or nested._lengths is not None:
            raise NotImplementedError(f"a nested tensor that is not jagged in dimension 1 without holes; {_INSTEAD}")
        return cls(nested.values(), nested.offsets(), nested._maybe_max_seqlen is not None)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """What torch calls for one of its functions with such a tensor."""
        name, options = getattr(func, "__name__", str(func)), dict(kwargs or {})
        if name in _BY_ROW:
            return _BY_ROW[name](*args, **options)
        if name not in _OF_ELEMENTS:
            raise NotImplementedError(f"{name} of a nested tensor is not converted; {_INSTEAD}")
        first = next(given for given in (*args, *options.values()) if isinstance(given, JaggedTensor))
        return first.with_elements(func(*map(_parts, args), **{key: _parts(value) for key, value in options.items()}))

    def __getattr__(self, name: str) -> Any:
        if name in _BY_ROW:
            return lambda *args, **kwargs: _BY_ROW[name](self, *args, **kwargs)
        if name in _OF_ELEMENTS:
            method = getattr(self.elements, name)
            return lambda *args, **kwargs: self.with_elements(method(*map(_parts, args), **kwargs))
        raise AttributeError(f"{name} of a nested tensor is not converted; {_INSTEAD}")

    def with_elements(self, elements: torch.Tensor) -> JaggedTensor:
        """Rows of the same lengths with other elements."""
        return JaggedTensor(elements, self.starts, self.longest)

    def values(self) -> torch.Tensor:
        """The elements."""
        return self.elements

    def offsets(self) -> torch.Tensor:
        """Where each row begins, and the last one ends."""
        return self.starts

    def lengths(self) -> torch.Tensor:
        """The length of each row."""
        return self.starts.diff()

    def dim(self) -> int:
        """The rank."""
        return int(self.elements.dim()) + 1

    def size(self, dim: int) -> int:
        """A size, other than that of the ragged dimension.

        Raises:
            NotImplementedError: It is that.
        """
        if dim % self.dim() == 1:
            raise NotImplementedError(f"the size of the ragged dimension; {_INSTEAD}")
        size: int = self.starts.shape[0] - 1 if dim % self.dim() == 0 else self.elements.shape[dim % self.dim() - 1]
        return size

    @property
    def dtype(self) -> torch.dtype:
        """The type of the elements."""
        return self.elements.dtype

    @property
    def device(self) -> torch.device:
        """Where the elements are."""
        return self.elements.device

    @property
    def is_nested(self) -> bool:
        """That it is nested."""
        return True


def _operator(name: str) -> Callable[..., JaggedTensor]:
    def operator(self: JaggedTensor, *others: Any) -> JaggedTensor:
        return self.with_elements(getattr(self.elements, name)(*map(_parts, others)))

    return operator


for _name in "add radd sub rsub mul rmul truediv rtruediv pow matmul neg abs gt ge lt le eq ne".split():  # noqa: SIM905
    setattr(JaggedTensor, f"__{_name}__", _operator(f"__{_name}__"))


def _parts(value: Any) -> Any:
    return value.elements if isinstance(value, JaggedTensor) else value


def _longest(nested: JaggedTensor) -> int:
    """The length to which torch pads rows."""
    if nested.longest is False:
        count: int = nested.elements.shape[0]
        return count
    if nested.longest is not True:
        return nested.longest
    lengths = torch.nn.functional.pad(nested.lengths(), (0, 1))
    longest = int(lengths.max())
    torch._check(longest >= 0)
    return longest


def _padded(nested: JaggedTensor, padding: float, output_size: Any = None) -> torch.Tensor:
    longest = _longest(nested) if output_size is None else output_size[1]
    return torch.ops.aten._jagged_to_padded_dense_forward(nested.elements, [nested.starts], [longest], padding)


def _reduced(reduction: str) -> Callable[..., Any]:
    def reduce(nested: JaggedTensor, dim: Any = None, keepdim: bool = False, **options: Any) -> Any:
        dims = [dim] if isinstance(dim, int) else list(dim or [])
        along = [one % nested.dim() for one in dims]
        if 1 not in along and 0 not in along and along:
            function = getattr(torch, {"max": "amax", "min": "amin"}.get(reduction, reduction))
            return nested.with_elements(function(nested.elements, [one - 1 for one in along], keepdim, **options))
        if along != [1] or options:
            raise NotImplementedError(f"{reduction} of a nested tensor over these dimensions; {_INSTEAD}")
        made = torch.segment_reduce(nested.elements, reduction, offsets=nested.starts)
        return made.unsqueeze(1) if keepdim else made

    return reduce


def _softmax(nested: JaggedTensor, dim: int, *_: Any, **options: Any) -> JaggedTensor:
    if dim % nested.dim() != 1:
        return nested.with_elements(torch.softmax(nested.elements, dim % nested.dim() - 1, **options))
    rows = torch.repeat_interleave(torch.arange(nested.size(0)), nested.lengths(), output_size=nested.elements.shape[0])
    largest = torch.segment_reduce(nested.elements, "max", offsets=nested.starts)
    exponentials = (nested.elements - largest.index_select(0, rows)).exp()
    sums = torch.segment_reduce(exponentials, "sum", offsets=nested.starts)
    return nested.with_elements(exponentials / sums.index_select(0, rows))


#: What is computed of whole rows.
_BY_ROW: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("to_padded_tensor", "nested_to_padded_tensor"), _padded),
    "sum": _reduced("sum"),
    "mean": _reduced("mean"),
    "amax": _reduced("max"),
    "amin": _reduced("min"),
    "softmax": _softmax,
}

#: What is computed of each element, or of the last dimensions.
_OF_ELEMENTS = frozenset(
    [
        *("relu", "gelu", "silu", "elu", "selu", "celu", "tanh", "sigmoid", "exp", "log", "sqrt", "abs", "neg", "erf"),
        *("leaky_relu", "hardtanh", "softplus", "logsigmoid", "mish", "dropout", "linear", "layer_norm", "rms_norm"),
        *("embedding", "where", "clamp", "pow", "add", "sub", "mul", "div", "matmul", "masked_fill", "to", "float"),
        *("double", "long", "int", "bool", "type", "sin", "cos", "square", "reciprocal", "rsqrt", "log1p", "expm1"),
    ]
)


@contextmanager
def jagged_tensors_replaced() -> Iterator[None]:
    """While this lasts, stand-ins take the place of nested tensors that a module's forward makes."""
    from torch.fx import _symbolic_trace
    from torch.nested._internal import nested_tensor

    made, traced = nested_tensor.nested_view_from_values_offsets_lengths, _symbolic_trace.is_fx_tracing

    def make(values: torch.Tensor, offsets: torch.Tensor, lengths: Any, **options: Any) -> JaggedTensor:
        if lengths is not None or options.get("ragged_idx", 1) != 1:
            raise NotImplementedError(f"a nested tensor that is not jagged in dimension 1 without holes; {_INSTEAD}")
        longest = options.get("max_seqlen")
        return JaggedTensor(values, offsets, False if longest is None else longest)

    nested_tensor.nested_view_from_values_offsets_lengths = make
    _symbolic_trace.is_fx_tracing = lambda: False
    try:
        yield
    finally:
        nested_tensor.nested_view_from_values_offsets_lengths = made
        _symbolic_trace.is_fx_tracing = traced
