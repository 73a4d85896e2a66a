"""The known differences between OpenVINO's CPU plugin and OpenVINO's own specifications.

Measured with the wheel 2026.4.1. `verify` names them next to a difference that they may explain, which still fails.
"""

from __future__ import annotations

from dataclasses import dataclass

from onnx_sparse.converters.openvino.ir import Layer, Network


@dataclass(frozen=True)
class Fault:
    """A known fault of OpenVINO's CPU plugin.

    Attributes:
        op_type: The operator; empty for any.
        precision: The element types, on any port, for which it occurs; empty for any.
        reason: What the plugin does.
    """

    op_type: str
    precision: tuple[str, ...]
    reason: str


_WIDE = ("i64", "u64")

FAULTS = (
    Fault("SegmentMax", ("f16", "bf16", "f64", "i64", "u64", "u32", "i16", "u16"),
          "LOWEST is the lowest value of the type it computes in, not that of the tensor"),
    Fault("SegmentMax", (), "NaN is ignored, and a segment of -inf has maximum -3.4e38"),
    Fault("SegmentMax", (), "with no rows the output is not initialized, or the process ends"),
    Fault("SparseFillEmptyRows", (), "entries with equal coordinates do not keep their order"),
    Fault("SparseFillEmptyRows", (), "with no entries, int64 indices and dynamic shapes it fails with 'ptr is Null'"),
    Fault("SparseFillEmptyRows", (), "the indicator of empty rows makes Select, LogicalNot and NonZero fail"),
    Fault("EmbeddingSegmentsSum", (), "segments whose ids are not sorted are summed wrongly, without an error"),
    Fault("EmbeddingSegmentsSum", (), "weights with dynamic shapes fail with 'to_shape was called on a dynamic shape'"),
    Fault("EmbeddingSegmentsSum", (), "a table without rows gives an output that is not initialized"),
    Fault("EmbeddingBagOffsets", (), "an empty bag at the end gives numbers that are not initialized"),
    Fault("EmbeddingBagOffsetsSum", (), "an empty bag at the end gives numbers that are not initialized"),
    Fault("Divide", ("i8", "i16", "i32", "i64"), "integers are divided toward zero although m_pythondiv is true"),
    Fault("Divide", ("u8", "i8"), "with dynamic shapes, quotients are rounded to the nearest integer"),
    Fault("Unique", ("u8", "i8"), "along an axis, the positions of the first elements are not initialized"),
    Fault("Unique", (), "sorted values among which there is a NaN are in any order, with other positions and counts"),
    Fault("NormalizeL2", (), "without axes, data of other ranks than 2 to 4 are normalized to numbers other than 1"),
    Fault("LRN", (), "bias is taken for 1"),
    Fault("LRN", (), "over the first axis of a matrix the neighbors are others"),
    Fault("Interpolate", (), "mode cubic of several axes, other than the last two, takes other elements"),
    Fault("Round", (), "half_away_from_zero rounds the largest number below a half up"),
    Fault("AvgPool", (), "a window that reaches beyond counted paddings is divided by all of its size"),
    Fault("MaxPool", (), "with dynamic shapes the paddings of auto_pad same_upper and same_lower are ignored"),
    *(Fault(f"{name}Sequence", (), "with dynamic shapes the lengths of the sequences are ignored")
      for name in ("LSTM", "GRU", "RNN")),
    *(Fault(name, ("u8", "i8"), "a sum or product beyond the type's range is taken for its end, before it is divided")
      for name in ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceL2")),
    Fault("AdaptiveAvgPool", ("u8", "i8"), "of whole axes, a sum beyond the type's range is taken for its end"),
    Fault("StridedSlice", (), "with shrink_axis_mask or new_axis_mask, masked or negative bounds take other elements"),
    *(Fault(name, ("u8", "i8"), "results beyond the type's range are taken for its ends, where they should wrap")
      for name in ("Add", "Subtract", "Multiply", "Power", "Einsum")),
    Fault("SquaredDifference", ("u8", "i8"), "the result is 0"),
    Fault("PReLU", (), "with dynamic shapes, slopes that are not one per channel give no elements"),
    Fault("Const", ("u8", "i8", "u4", "i4"),
          "compressed weights with a scale along the axis that a MatMul sums over are scaled wrongly"),
    Fault("ScatterElementsUpdate", ("i8", "i16", "i32", "i64"), "a mean of integers is rounded toward zero"),
    *(Fault(name, (), "a length beyond the data's gives numbers that are not initialized")
      for name in ("RDFT", "IRDFT")),
    Fault("NonMaxSuppression", (), "of no boxes the number is not initialized"),
    Fault("MatrixNms", (), "of no boxes the numbers are not initialized"),
    Fault("MulticlassNms", (), "with nms_eta, a box at the score's threshold is compared with the last kept one only"),
    Fault("MulticlassNms", (), "scores that differ by less than 1e-6 are in any order"),
    Fault("Proposal", (), "the scores after the last box are not initialized"),
    Fault("Proposal", (), "with fewer than 8 boxes the process ends"),
    Fault("DeformableConvolution", (), "bilinear_interpolation_pad is that of the first of otherwise equal layers"),
    Fault("Proposal", (), "boxes of equal scores are in any order"),
    Fault("MatrixNms", (), "equal scores of a class are in any order"),
    Fault("MulticlassNms", (), "of no boxes the numbers are not initialized"),
    Fault("ROIAlign", (), "with sampling_ratio 0, the results of boxes that end before they begin are not initialized"),
    *(Fault(name, (), "boxes of equal scores are in any order")
      for name in ("GenerateProposals", "ExperimentalDetectronGenerateProposalsSingleImage")),
    Fault("ErfInv", (), "the result is wrong by up to 0.01 % of it, and from 0.9966 by up to 0.5 %"),
    Fault("ExperimentalDetectronTopKROIs", (), "the rows after the last box are not initialized"),
    Fault("ExperimentalDetectronTopKROIs", (), "boxes of equal chances are in any order"),
    Fault("ExperimentalDetectronDetectionOutput", (), "of no boxes the numbers are not initialized"),
    Fault("NMSRotated", (), "of no boxes the number is not initialized"),
    Fault("NMSRotated", (), "at an overlap of 1, equal boxes may be dropped"),
    Fault("FakeConvert", (), "NaN becomes the lowest number of the type"),
    Fault("FakeConvert", ("f32",), "with f8e5m2, numbers that round up to 2**-15 or a lower power become twice that"),
    Fault("BinaryConvolution", (), "after a FakeQuantize to other numbers than 0 and 1, all are taken for -1"),
    Fault("", _WIDE, "64-bit integers are computed in 32 bits"),
    Fault("", ("f64",), "float64 is computed in float32"),
)  # fmt: skip


def faults_of(network: Network) -> list[str]:
    """The faults that may occur in a network, as text."""
    found: dict[str, None] = {}
    for fault in FAULTS:
        if any(_shows(fault, layer) for layer in network.layers.values()):
            found[f"{fault.op_type or 'every operator'}: {fault.reason}"] = None
    return list(found)


def _shows(fault: Fault, layer: Layer) -> bool:
    if fault.op_type and layer.type != fault.op_type:
        return False
    precisions = {port.precision for port in (*layer.inputs, *layer.outputs)}
    return not fault.precision or not precisions.isdisjoint(fault.precision)
