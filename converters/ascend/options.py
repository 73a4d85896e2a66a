"""The options of the road from Ascend."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from onnx_sparse.converters.ascend.given_inputs import InputSpec

Overflow = Literal["saturate", "ieee"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a conversion from Ascend.

    Attributes:
        inputs: Element types and shapes of the graph's inputs that neither the file nor a dump says:
            `["x:float16:2,3"]` or `{"x": ("float16", (2, 3))}`; an unknown dimension is `?`, or None.
        tensors: A dump's records of the tensors: a csv, a dump's folder, or the folder of the layer's tensors. When
            omitted, the dump is searched for next to the graph, where the tools put it.
        fill_value: The value of FillOperations whose own value, an infinity or NaN, was lost as null in the dump.
        fp16_overflow: What becomes of values beyond float16: `saturate`: the largest float16, in every operation
            (310P, 910A); `ieee`: an infinity (Ascend 950). When omitted, FillOperation's value saturates and all that
            is computed becomes an infinity (Atlas A2, A3).
        keep_unknown: Keep operations that are not supported as nodes of the domain `ascend.atb`.
    """

    inputs: Sequence[str] | Mapping[str, InputSpec] | None = None
    tensors: str | os.PathLike[str] | None = None
    fill_value: float | None = None
    fp16_overflow: Overflow | None = None
    keep_unknown: bool = False

    def __post_init__(self) -> None:
        if self.fp16_overflow not in (None, "saturate", "ieee"):
            raise ValueError(f"fp16_overflow {self.fp16_overflow!r} is neither 'saturate' nor 'ieee'")
