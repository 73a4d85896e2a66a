"""`translation_table`: how torch's exporter writes operators of the domain."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from onnx_sparse.converters.torch.handlers import HANDLERS, Arguments, Node, TorchHandler
from onnx_sparse.converters.torch.lazy_imports import of_exporter, require

#: What torch decomposes itself: these of torch's exporter ignore label_smoothing, need rows, channels or floats, or
#: take a number for close to an infinite one, and 0 times an infinite weight for 0.
_DECOMPOSED = (
    "aten.cross_entropy_loss.default",
    "aten.group_norm.default",
    "aten.isclose.default",
    "aten.prelu.default",
    "aten._prelu_kernel.default",
    "aten.nll_loss.default",
    "aten.nll_loss_forward.default",
    "aten.softmax.int",
    "aten.log_softmax.int",
    "aten.special_softmax.default",
    "aten.special_log_softmax.default",
)


def translation_table(*, masked_fill: bool = False) -> dict[Any, Callable[..., Any]]:
    """The operators that become operators of the domain, for `torch.onnx.export`.

        torch.onnx.export(model, args, "model.onnx", dynamo=True, custom_translation_table=translation_table())

    Such a file runs in `onnx_sparse.InferenceSession`, or in any session with which the domain is registered.

    Args:
        masked_fill: Whether `masked_fill` becomes MaskedFill, too; torch's exporter writes Where.

    Returns:
        A function for each overload of an operator that this version of torch has.

    Raises:
        ConversionError: torch or onnxscript is not installed.
    """
    require("torch")
    require("onnxscript")
    table = {}
    for name, handler in HANDLERS.items():
        overload = overload_of(name)
        if overload is not None and (masked_fill or not handler.opt_in):
            table[overload] = _translation(overload, handler)
    return table


@contextmanager
def without_wrong_translations(more: Sequence[str] = ()) -> Iterator[None]:
    """Let torch decompose what its exporter writes wrongly: without some arguments, or for floats alone; and `more`."""
    registry, read = of_exporter("_registration", "ONNXRegistry.from_torchlib")

    def from_torchlib(*args: Any, **named: Any) -> Any:
        read_registry = read(*args, **named)
        for overload in filter(None, map(overload_of, (*_DECOMPOSED, *more))):
            read_registry.functions.pop(overload.name(), None)
        return read_registry

    aten = require("torch").ops.aten
    ours = {
        aten.std_mean.correction: _standard_deviation_and_mean,
        aten._softmax_backward_data.default: _softmax_gradient,
        aten.upsample_linear1d.default: _linear_row,
        aten.upsample_linear1d.vec: _linear_row_of_vectors,
    }
    decompositions = require("torch._decomp").decomposition_table
    with patch.object(registry, "from_torchlib", staticmethod(from_torchlib)), patch.dict(decompositions, ours):
        yield


def _standard_deviation_and_mean(
    x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Any, Any]:
    """The two by themselves: torch takes the root of a variance that is rounded, and may be infinite."""
    options = {"dim": dim, "correction": correction, "keepdim": keepdim}
    aten = require("torch").ops.aten
    return aten.std.correction(x, **options), aten.var_mean.correction(x, **options)[1]


def _softmax_gradient(grad_output: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    """In torch's order: its decomposition multiplies before it subtracts, and overflows elsewhere."""
    torch = require("torch")
    is_half = grad_output.dtype in (torch.float16, torch.bfloat16)
    grad, made = (x.float() if is_half else x for x in (grad_output, output))
    return ((grad - (grad * made).sum(dim, keepdim=True)) * made).to(input_dtype)


def _linear_row_of_vectors(x: Any, output_size: Any, align_corners: bool, scale_factors: Any) -> Any:
    """The same, of a size or of a factor."""
    if output_size is None:
        (factor,) = scale_factors
        return _linear_row(x, [require("torch").sym_int(x.shape[-1] * factor)], align_corners, factor)
    return _linear_row(x, output_size, align_corners)


def _linear_row(x: Any, output_size: Any, align_corners: bool, scales: float | None = None) -> Any:
    """Weighted sums of neighbors: torch's decomposition adds differences, which are NaN next to an infinity."""
    torch = require("torch")
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    (count,), size = output_size, x.shape[-1]
    if align_corners:
        step = (size - 1) / (count - 1) if count > 1 else 0.0
    else:
        step = 1 / scales if scales is not None and scales > 0 else size / count
    numbers = torch.arange(count, device=x.device).to(wide.dtype)
    at = (step * numbers if align_corners else step * (numbers + 0.5) - 0.5).clamp(min=0)
    if isinstance(size, int) and size == count:  # as torch's kernel: each element by itself
        at = numbers
        before = after = numbers.long()
    else:
        before = at.long()
        after = (before + 1).clamp(max=size - 1)
    weight = (at - before).clamp(0, 1)
    aten = torch.ops.aten
    first, second = (aten._unsafe_index(wide, [None, None, places]) for places in (before, after))
    return (first * (1 - weight) + second * weight).to(x.dtype)


def overload_of(name: str) -> Any:
    """The overload of an operator by its name, `aten.index_add.default`; None if this version of torch lacks it."""
    found = require("torch").ops
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            return None
    return found


def _translation(overload: Any, handler: TorchHandler) -> Callable[..., Any]:
    from onnx_sparse.converters.torch.emitter import TorchEmitter

    def translate(*positional: Any, **named: Any) -> Any:
        emit = TorchEmitter()
        node = Node(_bound(overload, positional, named, emit))
        values = [emit.result(result) for result in handler.convert(node, emit)]
        return values if len(values) > 1 else values[0]

    return _untyped(translate, handler.op_type)


def stand_in(overload: Any) -> Callable[..., Any]:
    """A translation that says nothing about what an operator computes."""
    from onnx_sparse.converters.torch.emitter import TorchEmitter

    def translate(*positional: Any, **named: Any) -> Any:
        emit = TorchEmitter()
        values = [emit.result(emit.constant([])) for _ in overload._schema.returns]
        return values if len(values) != 1 else values[0]

    return _untyped(translate, str(overload))


def _untyped(translate: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The exporter derives types of arguments from a signature, which these functions do by themselves."""
    translate.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
    translate.__name__ = name.replace(".", "_")
    return translate


def _bound(overload: Any, positional: Sequence[Any], named: Mapping[str, Any], emit: Any) -> Arguments:
    """The arguments by the names in the operator's schema, with values of the exporter as tensors."""
    import onnx_ir as ir

    def as_tensors(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [as_tensors(one) for one in value]
        return emit.tensor(value) if isinstance(value, ir.Value) else value

    arguments = {}
    for place, declared in enumerate(overload._schema.arguments):
        given = place < len(positional)
        value = positional[place] if given else named.get(declared.name, declared.default_value)
        arguments[declared.name] = as_tensors(value)
    defaults = {declared.name: declared.default_value for declared in overload._schema.arguments}
    return Arguments(arguments, defaults)
