"""The options of the road from Ascend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from onnx_sparse.settings import FilePath, only_python, option

Overflow = Literal["saturate", "ieee"]


@dataclass(frozen=True, kw_only=True)
class FillOptions:
    """What `replay` has, too: values that a dump of Ascend's loses, and that float16 cannot hold."""

    GROUP: ClassVar = "options for Ascend's graphs"

    fill_value: float | None = field(
        default=None,
        metadata=option("the fill value that the dump lost, an infinity or NaN: --fill-value=-inf", "NUMBER"),
    )
    fp16_overflow: Overflow | None = field(
        default=None,
        metadata=option(
            "values beyond float16: saturate to 65504 in every operation (310P, 910A), or become infinite with ieee "
            "(Ascend 950); default: fill values saturate, computed values become infinite (Atlas A2, A3)",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Options(FillOptions):
    """The options of a conversion from Ascend."""

    GROUP: ClassVar = FillOptions.GROUP
    EXAMPLES: ClassVar = """
onnx-sparse convert layer.json -o layer.onnx --input-spec x:float16:2,3
onnx-sparse convert export.air -o model.onnx --fp16-overflow saturate
"""

    inputs: Sequence[str] | Mapping[str, Any] | None = field(
        default=None,
        metadata=only_python(
            "element types and shapes of inputs that neither the file nor a dump says: `{'x': ('float16', (2, 3))}`, "
            "or texts as in `input_spec`; an unknown dimension is `?`, or None"
        ),
    )
    input_spec: Sequence[str] = field(
        default=(),
        metadata=option(
            "an input's element type and shape, if the file lacks them; write ? for an unknown dimension",
            "NAME:DTYPE:2,3",
        ),
    )
    tensors: FilePath | None = field(
        default=None,
        metadata=option("the dump's tensors: a folder or a csv file (default: searched for next to the graph)", "PATH"),
    )
    keep_unknown: bool = field(
        default=False,
        metadata=option(
            "keep unsupported operations as nodes of the domain ascend.atb; a model with such nodes does not run",
        ),
    )
