"""All inference operations of ATB, and why some of them have no handler."""

from __future__ import annotations

from onnx_sparse.converters.ascend.atb.handlers import HANDLERS
from onnx_sparse.converters.writing.registry import CoverageRow

_OTHER_RANKS = "a model of one rank does not exchange tensors; `replay` computes it from the dump of all ranks"
_PAIRS = "it exchanges tensors with another rank, whose operation is at another place in the graph"
_RANDOM = "it draws random numbers of the NPU's host"
_UNUSED = "no model in the public sources uses it"
_PARTLY_DEFINED = "its public definition does not cover what models use of it"
#: The operations without a handler, by name, with the reason.
NOT_CONVERTED = {
    "AllGatherV": _OTHER_RANKS,
    "AllToAllV": _OTHER_RANKS,
    "AllToAllVV2": _OTHER_RANKS,
    "ReduceScatterV": _OTHER_RANKS,
    "Send": _PAIRS,
    "Recv": _PAIRS,
    "TopkToppSampling": _RANDOM,
    "Multinomial": _RANDOM,
    "LinearSparse": "its compressed weights are not decompressed",
    "RmsNormWithStride": _UNUSED,
    "LayerNormWithStride": _UNUSED,
    "ReshapeAndCacheWithStride": _UNUSED,
    "ReshapeAndCacheOmni": _UNUSED,
    "GroupedMatmulWithRouting": _UNUSED,
    "GroupedMatmulInplaceAdd": _UNUSED,
    "GmmDeqSwigluQuantGmmDeq": _PARTLY_DEFINED,
    "MmDeqSwigluQuantMmDeq": _UNUSED,
    "RingMLA": _PARTLY_DEFINED,
    "MlaPreprocess": _PARTLY_DEFINED,
    "RelayAttention": _UNUSED,
    "RazorFusionAttention": _UNUSED,
}


def why_not(kind: str) -> str:
    """Why an operation without a handler is not converted."""
    reason = NOT_CONVERTED.get(kind)
    return f"this operation is not supported: {reason}" if reason else "this operation is not supported"


def coverage() -> list[CoverageRow]:
    """Every operation of ATB: what it becomes, and whether all of it, a part of it or nothing is converted."""
    rows = []
    for name in sorted({*HANDLERS, *NOT_CONVERTED}):
        handler = HANDLERS.get(name)
        if handler is None:
            rows.append(CoverageRow(f"{name}Operation", "", NOT_CONVERTED[name], state="not"))
            continue
        lacks = f"not: {handler.lacks}" if handler.lacks else ""
        notes = "; ".join(filter(None, (handler.notes, lacks)))
        state = "partly" if handler.lacks else "have"
        rows.append(CoverageRow(f"{name}Operation", handler.to, notes, state=state))
    return rows
