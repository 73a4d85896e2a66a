"""The rules for existing ONNX files, in their order."""

from __future__ import annotations

from onnx_sparse.converters.rewriting.engine import Phase
from onnx_sparse.converters.rewriting.rules.bags import BagsInLoop, BagsInSequence
from onnx_sparse.converters.rewriting.rules.dropped_ids import DropNegative
from onnx_sparse.converters.rewriting.rules.exported_lookups import LookupOfUniqueRows, WeightedMeanOfRows
from onnx_sparse.converters.rewriting.rules.known_branches import KnownBranch
from onnx_sparse.converters.rewriting.rules.label_encoders import LargeDictionary
from onnx_sparse.converters.rewriting.rules.means import MeanOfSlices
from onnx_sparse.converters.rewriting.rules.scatters import ScatteredRows
from onnx_sparse.converters.rewriting.rules.tf2onnx_empty_rows import (
    DefaultOfFilledRows,
    FilledRows,
    MeanOfFilledRows,
    ZeroOfEmptyRows,
)
from onnx_sparse.converters.rewriting.rules.tf2onnx_reshape import ReshapedCoordinates
from onnx_sparse.converters.rewriting.rules.tf2onnx_segments import PaddedSegments, SegmentCounts

#: Phases of rules. First branches that are always taken, and large dictionaries; then reductions are found, then what
#: they divide by, then the filled rows that they reduce, whose coordinates may have been reshaped; and what was dropped
#: before.
PHASES: tuple[Phase, ...] = (
    (KnownBranch(), LargeDictionary()),
    (PaddedSegments(), SegmentCounts(), ScatteredRows(), BagsInSequence(), BagsInLoop()),
    (LookupOfUniqueRows(),),
    (WeightedMeanOfRows(), MeanOfFilledRows(), MeanOfSlices()),
    (DefaultOfFilledRows(), ZeroOfEmptyRows(), FilledRows()),
    (ReshapedCoordinates(),),
    (DropNegative(),),
)
