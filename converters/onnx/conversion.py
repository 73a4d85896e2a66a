"""`convert`: from an ONNX file to the same model with operators of the domain."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from onnx import ModelProto

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.onnx.fusing import fuse
from onnx_sparse.converters.rewriting import Rewriting
from onnx_sparse.models.canonical import canonicalize

if TYPE_CHECKING:
    from onnx_sparse.models.model_files import ModelSource


def convert(
    source: ModelSource,
    *,
    repair_scatter: str | Iterable[str] | None = None,
    check_ids: bool = False,
    explain: Callable[[Rewriting], None] | None = None,
    progress: Callable[[str], None] | None = None,
) -> ModelProto:
    """Convert an ONNX model to one in which operators of the domain `onnx_sparse` replace what exporters wrote.

    `onnx_sparse.fuse` does the same for a ModelProto.

    Args:
        source: A file, whose external data are read, too; a ModelProto; its bytes; or an `onnx_ir.Model`.
        repair_scatter: As for `onnx_sparse.fuse`.
        check_ids: Whether all lookups refuse negative ids, which ONNX counts from the end.
        explain: Called once, with the numbers of nodes and the outcome of every rule.
        progress: Called with `"loading"` and `"converting"` as these begin.

    Returns:
        A new model in canonical form.

    Raises:
        ConversionError: It is not an ONNX model, or it is malformed.
    """
    tell = progress or (lambda stage: None)
    tell("loading")
    try:
        model = canonicalize(source)
        tell("converting")
        return fuse(model, explain=explain, repair_scatter=repair_scatter, check_ids=check_ids)
    except (OSError, ValueError) as error:
        raise ConversionError(str(error)) from error
