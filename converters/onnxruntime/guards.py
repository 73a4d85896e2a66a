"""Every known fault of ONNX Runtime with its cure.

A fault is a class in a module of this package. One test runs its example in ONNX Runtime as it is, which tells whether
the fault is still there, and guarded; others draw models of every road around it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from onnx import ModelProto

from onnx_sparse.converters.onnxruntime.activations import (
    LogSoftmaxOfDouble,
    LogSumExpOfHalf,
    SmallSigmoid,
    SmallSoftplus,
    SmallSwish,
)
from onnx_sparse.converters.onnxruntime.empty_tensors import (
    DepthOfZero,
    EmptySlices,
    EqualParts,
    ExpandToNothing,
    InferredSize,
    JoinedSizes,
    MeanOfNothing,
    NegativeAxes,
)
from onnx_sparse.converters.onnxruntime.fused_shapes import GeluOfFewAxes, MeanWithoutAxis
from onnx_sparse.converters.onnxruntime.gathers import (
    GatherOfRange,
    GatherOfStrings,
    OutputOfBranch,
    PlacesInScalar,
    ReducingScatter,
)
from onnx_sparse.converters.onnxruntime.guard import Example, Guard, Known
from onnx_sparse.converters.onnxruntime.integer_ranges import integer_ranges
from onnx_sparse.converters.onnxruntime.integers import (
    DivisionByMinusOne,
    IntegerProduct,
    IntegerSum,
    WideComparison,
    WideExtreme,
)
from onnx_sparse.converters.onnxruntime.missing_kernels import (
    GemmOfIntegers,
    MissingKernel,
    OneHotTypes,
    RearrangedTypes,
    SumOfIntegers,
)
from onnx_sparse.converters.onnxruntime.normalization import VarianceOfGroups
from onnx_sparse.converters.onnxruntime.not_a_number import ExtremeOfNaN, PlaceOfNaN, SignOfNaN
from onnx_sparse.converters.onnxruntime.pooling import PoolOfNaN, ShortInput
from onnx_sparse.converters.onnxruntime.powers import IntegerPower
from onnx_sparse.converters.onnxruntime.products import (
    EmptyBatch,
    EmptyEinsum,
    EmptyIntegerProduct,
    ProductByVector,
    TransposedProduct,
    moved_transpositions,
)
from onnx_sparse.converters.onnxruntime.ranks import BatchFirst, LimitsOfRange, RankOfImage
from onnx_sparse.converters.onnxruntime.recurrent import NoRows
from onnx_sparse.converters.onnxruntime.resizing import NearestOfOtherTypes, NegativeResizedAxes, ResizedAxes
from onnx_sparse.converters.onnxruntime.sampling import FarPlaces
from onnx_sparse.converters.onnxruntime.scans import ScanAxes, ScanOfNoSteps
from onnx_sparse.converters.onnxruntime.slices import BackwardSliceFromBefore, BackwardSliceToTheLargest
from onnx_sparse.converters.onnxruntime.transforms import TransformOfAnyLength
from onnx_sparse.converters.onnxruntime.unique import EachNaN, OneNaN
from onnx_sparse.converters.rewriting.engine import rewrite_once
from onnx_sparse.converters.rewriting.explanation import Attempt
from onnx_sparse.models.tools.onnx_tools import LARGEST_PROTO, infer_shapes

__all__ = ["GUARDS", "Example", "Guard", "guard"]


#: What writes operators that have faults of their own.
_FIRST: tuple[type[Guard], ...] = (
    OutputOfBranch,
    EmptyEinsum,
    ReducingScatter,
    VarianceOfGroups,
    SumOfIntegers,
    ScanAxes,
    ScanOfNoSteps,
    BatchFirst,
    FarPlaces,
    RankOfImage,
    LimitsOfRange,
    NegativeResizedAxes,
    NearestOfOtherTypes,
    ResizedAxes,
    RearrangedTypes,
    OneHotTypes,
    GemmOfIntegers,
    MissingKernel,
)

#: Guards of numbers, then those of shapes: the first write reductions.
_NUMBERS: tuple[type[Guard], ...] = (
    SmallSwish,
    SmallSigmoid,
    SmallSoftplus,
    IntegerPower,
    DivisionByMinusOne,
    WideComparison,
    WideExtreme,
    IntegerSum,
    IntegerProduct,
    ExtremeOfNaN,
    PlaceOfNaN,
    SignOfNaN,
    LogSoftmaxOfDouble,
    LogSumExpOfHalf,
    MeanWithoutAxis,
    MeanOfNothing,
    TransformOfAnyLength,
)
_SHAPES: tuple[type[Guard], ...] = (
    NegativeAxes,
    InferredSize,
    JoinedSizes,
    EqualParts,
    EmptySlices,
    OneNaN,
    EachNaN,
    DepthOfZero,
    ProductByVector,
    TransposedProduct,
    EmptyBatch,
    EmptyIntegerProduct,
    GatherOfRange,
    GatherOfStrings,
    PlacesInScalar,
    NoRows,
    ShortInput,
    PoolOfNaN,
    BackwardSliceToTheLargest,
    BackwardSliceFromBefore,
    ExpandToNothing,
    GeluOfFewAxes,
)

#: Every known fault.
GUARDS = (*_FIRST, *_NUMBERS, *_SHAPES)

#: What OpenVINO and ONNX leave open: NaN among numbers, and means of nothing. OpenVINO's answers are ONNX Runtime's.
#: Inputs that are shorter than a window are refused by OpenVINO and torch.
UNSPECIFIED = (ExtremeOfNaN, PlaceOfNaN, PoolOfNaN, MeanOfNothing, ShortInput)


def guard(
    model: ModelProto,
    *,
    positions: Collection[str] = (),
    omitted: Sequence[type[Guard]] = (),
    keeps_bits: bool = False,
) -> list[Attempt]:
    """Replace, in place, every node of which ONNX Runtime's result may be wrong, or end the process.

    Args:
        model: A model whose types have been inferred; the more shapes are known, the fewer nodes are replaced.
        positions: Inputs whose integers are positions or sizes, beside those that operators take as such.
        omitted: Guards that the source's own answers do not need.
        keeps_bits: Whether the source's answers are ONNX Runtime's: their bits are kept where they are right.

    Returns:
        The guards that replaced a node, and those whose cure the model's opset has not.
    """
    attempts = _applied(model, _FIRST, Known(keeps_bits=keeps_bits), omitted)
    if any(attempt.fired for attempt in attempts) and model.ByteSize() < LARGEST_PROTO:
        model.CopyFrom(infer_shapes(model))
    known = Known(integer_ranges(model, positions), moved_transpositions(model), keeps_bits)
    return attempts + _applied(model, (*_NUMBERS, *_SHAPES), known, omitted)


def _applied(
    model: ModelProto, guards: Sequence[type[Guard]], known: Known, omitted: Sequence[type[Guard]]
) -> list[Attempt]:
    return rewrite_once(model, [[kind(known)] for kind in guards if kind not in omitted])
