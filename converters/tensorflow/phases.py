"""The rules for TensorFlow's lookups, in their order."""

from __future__ import annotations

from onnx import ModelProto

from onnx_sparse.converters.rewriting import engine
from onnx_sparse.converters.rewriting.explanation import Attempt
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Rule
from onnx_sparse.converters.rewriting.rules import ragged
from onnx_sparse.converters.rewriting.rules.dropped_ids import DropNegative
from onnx_sparse.converters.rewriting.rules.empty_rows import DefaultRow, ZeroRow
from onnx_sparse.converters.rewriting.rules.gathered_rows import (
    LookupOfColumn,
    ReducedLookup,
    UnsortedLookup,
)
from onnx_sparse.converters.rewriting.rules.known_shapes import KnownShape, SameShape, SameSparseShape, WholeSlice
from onnx_sparse.converters.rewriting.rules.lookups import DirectLookup, WeightedMean, WeightedSum, WeightPerId
from onnx_sparse.converters.rewriting.rules.means import MeanOfSlices
from onnx_sparse.converters.rewriting.rules.pruning import (
    AndTrue,
    ColumnByGather,
    KeepByMask,
    KeepColumn,
    KeepOnce,
)
from onnx_sparse.converters.rewriting.rules.row_splits import RowsOfSplits
from onnx_sparse.converters.rewriting.rules.stacks import StackByReshape

#: Phases of rules; those of one phase are applied together until none fires. First lookups take in their weights, while
#: ids and weights are still filled alike; when the sums that divide them have been found, those without weights follow.
#: Then filled rows are removed, then the remains of pruning; then lookups get as many weights as ids, and those of
#: ragged tensors take row splits. In the end come gathered rows that nothing else has taken in, and lookups that drop
#: negative ids themselves; then what is left is written in the way in which ONNX Runtime is fast.
PHASES: tuple[tuple[Rule[Graph], ...], ...] = (
    (WholeSlice(), KnownShape(), DirectLookup(), WeightedSum(), SameShape(), SameSparseShape()),
    (WeightedMean(), MeanOfSlices()),
    (ReducedLookup(),),
    (DefaultRow(), ZeroRow(), SameShape(), SameSparseShape()),
    (
        ColumnByGather(),
        AndTrue(),
        KeepByMask(),
        RowsOfSplits(),
        KeepColumn(),
        KeepOnce(),
        KnownShape(),
        SameShape(),
        SameSparseShape(),
    ),
    (WeightPerId(),),
    ragged.PHASE,
    (UnsortedLookup(), LookupOfColumn(), DropNegative()),
    (StackByReshape(),),
)


def rewrite(model: ModelProto) -> list[Attempt]:
    """Rewrite a converted model in place. The types of its tensors must have been inferred.

    Returns:
        The rules that fired, in order, and then, node by node, those that did not.
    """
    return engine.rewrite(model, PHASES)
