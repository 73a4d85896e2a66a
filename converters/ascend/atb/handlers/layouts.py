"""ATB TransdataOperation, and the NPU's format FRACTAL_NZ: [..., columns / 16, rows, 16]."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.ascend.atb.handlers.registry import Node, handles, refuse
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor

_BLOCK, _BLOCK_INT8 = 16, 32
_TRANSDATA = {"UNDEFINED": 0, "FRACTAL_NZ_TO_ND": 1, "ND_TO_FRACTAL_NZ": 2}


def block_size(tensor: Tensor) -> int:
    """The columns of a block."""
    return _BLOCK_INT8 if tensor.dtype == TensorProto.INT8 else _BLOCK


def from_nz(emit: AscendEmitter, tensor: Tensor) -> Tensor:
    """[..., blocks, rows, 16] as [..., rows, columns]."""
    if tensor.rank < 3:
        raise Unsupported(f"{tensor} has the format FRACTAL_NZ but not its shape; dump it as ND")
    *outer, blocks, rows, size = tensor.dims
    last = tensor.rank - 1
    ordered = emit.transpose(tensor, [*range(last - 2), last - 1, last - 2, last])
    return emit.reshape(ordered, [*outer, rows, blocks * size])


def to_nz(emit: AscendEmitter, tensor: Tensor, size: int) -> Tensor:
    """[..., rows, columns] as [..., columns / size, rows, size]."""
    *outer, rows, columns = tensor.dims
    parted = emit.reshape(tensor, [*outer, rows, columns // size, size])
    last = parted.rank - 1
    return emit.transpose(parted, [*range(last - 2), last - 1, last - 2, last])


@handles("Transdata", to="Pad, Reshape, Transpose, Slice", exact=True)
def transdata(node: Node, emit: AscendEmitter) -> Tensor:
    """TransdataOperation: between ND and FRACTAL_NZ, whose sizes are multiples of the block's."""
    (x,) = node.take(1)
    kind = node.params.enum("transdataType", _TRANSDATA, 0)
    if kind == _TRANSDATA["ND_TO_FRACTAL_NZ"]:
        if x.rank not in (2, 3):
            refuse("ERROR_INVALID_TENSOR_DIM", f"{x}: 2 or 3 axes expected")
        whole = emit.reshape(x, [1, *x.dims][-3:])
        size = block_size(x)
        batch, rows, columns = whole.dims
        more = [0, 0, 0, 0, -rows % _BLOCK, -columns % size]
        wide = emit.wide(whole)
        shape = (batch, rows + more[4], columns + more[5])
        padded = emit.op("Pad", wide, emit.constant(more), shape=shape) if any(more) else wide
        return to_nz(emit, emit.cast(padded, x.dtype), size)
    if kind != _TRANSDATA["FRACTAL_NZ_TO_ND"]:
        refuse("ERROR_INVALID_PARAM", f"transdataType {kind} is not one of ATB's")
    crops = node.params.integers("outCrops")
    if x.rank != 4 or len(crops) != 2:
        refuse("ERROR_INVALID_PARAM", f"outCrops {crops} do not fit {x}")
    return emit.slice(from_nz(emit, x), [0, 0], crops, [1, 2])
