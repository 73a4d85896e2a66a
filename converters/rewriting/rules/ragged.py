"""Rules for lookups of ragged tensors: those that reduce by row ids made from splits take the splits."""

from __future__ import annotations

from onnx import NodeProto, TensorProto

from onnx_sparse.converters.rewriting.dropping import before_negative_are_dropped
from onnx_sparse.converters.rewriting.entries import column, is_row_gather, is_same, one_more_than_the_last, spread
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.ragged_rows import (
    ROW_SPLITS,
    RowIds,
    before_checking,
    bounds,
    columns_of,
    is_longest_row,
    is_place_in_row,
    is_row_count,
    part_of_column,
    row_ids,
    vectors_of,
)
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.models.graphs import attribute
from onnx_sparse.schemas.declaration import INDEX, dtype_name

_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE)


class ColumnOfCoordinates(Rule[Graph]):
    """A column of a matrix that was joined from columns becomes that column: a vector, or a matrix of one column.

    Equal.
    """

    name = "column-of-coordinates"
    anchors = ("Gather", "Squeeze")

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A column whose vector is known."""
        part = part_of_column(graph, node.output[0])
        if part is None and node.op_type == "Gather" and graph.shape(node.input[1]) == (1,):
            joined, at = columns_of(graph, node.input[0]), graph.integers(node.input[1])
            if joined is not None and at is not None and attribute(node, "axis", 0) == 1 and 0 <= at[0] < len(joined):
                part = joined[at[0]]
        return None if part is None else {"part": part}

    def rewrite(self, graph: Graph, node: NodeProto, part: str) -> None:
        """Pass the vector on."""
        graph.bypass(node, part)


class ShapeOfCoordinates(Rule[Graph]):
    """The shape of a matrix that was joined from columns becomes the size of one of them, and their number. Equal."""

    name = "shape-of-coordinates"
    anchors = ("Shape",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """The whole shape of such a matrix."""
        joined = None if node.attribute else columns_of(graph, node.input[0])
        return None if joined is None else {"joined": joined}

    def rewrite(self, graph: Graph, node: NodeProto, joined: list[str]) -> None:
        """Count the rows, not the matrix."""
        emit = graph.emitter(node)
        (rows,) = vectors_of(graph, joined[:1])
        graph.replace(node, "Concat", [emit.shape_of(graph.tensor(rows)), emit.constant([len(joined)])], axis=0)


class ValidCoordinates(Rule[Graph]):
    """Coordinates that were made of row splits are passed on without a check: it is the splits that are checked.

    Equal: they are in range, and in row-major order.
    """

    name = "valid-coordinates"
    anchors = ("ValidateSparseIndices",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """Rows between checked splits, joined with a column of positions in them."""
        joined = columns_of(graph, node.input[0])
        columns = vectors_of(graph, joined) if joined is not None else []
        rows = row_ids(graph, columns[0]) if len(columns) == 2 else None
        if rows is None or rows.kept is not None or before_checking(graph, rows.splits) == rows.splits:
            return None
        return {"rows": rows, "place": columns[1]}

    def check(self, graph: Graph, node: NodeProto, rows: RowIds, place: str) -> str | None:
        """The positions and the shape must be those of the same rows."""
        shape = graph.producer(node.input[1], "Concat")
        if shape is None or len(shape.input) != 2 or not is_row_count(graph, shape.input[0], rows.splits):
            return "the dense shape is not that of the rows"
        if not is_longest_row(graph, shape.input[1], rows.splits) or not is_place_in_row(graph, place, rows):
            return "it is not known that the second coordinates are positions in the rows"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, **_: object) -> None:
        """Pass the coordinates on."""
        graph.bypass(node, node.input[0])


class ElementOfShape(Rule[Graph]):
    """An element of a shape that was joined from single sizes becomes that size. Equal."""

    name = "element-of-shape"
    anchors = ("Gather", "Slice")

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """One element of a Concat of vectors of one element."""
        joined = graph.producer(node.input[0], "Concat")
        if joined is None or attribute(joined, "axis") != 0:
            return None
        at = _element(graph, node)
        if at is None or not 0 <= at < len(joined.input):
            return None
        is_single = all(graph.shape(name) == (1,) for name in joined.input[: at + 1])
        return {"size": joined.input[at]} if is_single else None

    def rewrite(self, graph: Graph, node: NodeProto, size: str) -> None:
        """Pass the size on, as a scalar where it was one."""
        if node.op_type == "Gather" and graph.shape(node.input[1]) == ():
            graph.replace(node, "Reshape", [size, graph.emitter(node).constant([])])
        else:
            graph.bypass(node, size)


class RowsOfFilled(Rule[Graph]):
    """Empty rows of a sparse tensor that are filled, of which only the rows are used, are filled in ragged form.

    TensorFlow's order of the entries is by row only, so columns play no part in it. Equal.
    """

    name = "rows-of-filled"
    anchors = ("SparseFillEmptyRows",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """Coordinates joined from rows and something else."""
        joined = columns_of(graph, node.input[2])
        if joined is None:
            return None
        (rows,) = vectors_of(graph, joined[:1])
        return {"rows": rows, "users": graph.users(node.output[0])}

    def check(self, graph: Graph, node: NodeProto, rows: str, users: list[NodeProto]) -> str | None:
        """Nothing may take more of the coordinates than their rows."""
        if attribute(node, "order") != b"row_stable":
            return "entries are sorted by columns, too"
        columns = [column(graph, user.output[0]) for user in users]
        if node.output[0] in graph.outputs or any(found is None or found.index for found in columns):
            return "the columns of the filled rows are used"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, rows: str, users: list[NodeProto]) -> None:
        """Fill the rows without columns."""
        values, shape, _, default = (graph.tensor(name) for name in node.input)
        emit = graph.emitter(node)
        count = emit.cast(emit.op("Gather", shape, emit.constant(0), shape=(), axis=0), TensorProto.INT64)
        inputs = {
            "value_rowids": emit.cast(graph.tensor(rows), TensorProto.INT64),
            "values": values,
            "nrows": count,
            "default_value": default,
        }
        filled, *others = emit.domain_op("RaggedFillEmptyRows", inputs)
        made = emit.cast(filled, graph.dtype(node.output[0]))
        for user in users:
            graph.bypass(user, made.name)
        for place, other in enumerate(others, start=1):
            graph.bypass(node, emit.cast(other, graph.dtype(node.output[place])).name, place)


class BagsOfSplits(Rule[Graph]):
    """A lookup that reduces by row ids made from row splits takes the splits: EmbeddingBagOffsets.

    It leaves negative ids out itself where these were dropped before; others that were dropped with them (those of
    weights that are not positive) become negative. Where negative ones were kept, the splits count what was kept. The
    same entries are reduced in the same order: equal to the bit. What is checked is more: splits begin with 0, do not
    decrease, and end with the number of values.
    """

    name = "bags-of-splits"
    anchors = ("EmbeddingSegmentsSum", "EmbeddingSegmentsMean", "EmbeddingSegmentsSqrtN")

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A reduction by the rows between splits."""
        rows = row_ids(graph, node.input[2])
        return None if rows is None else {"rows": rows, "to_last": _is_to_last(graph, node)}

    def check(self, graph: Graph, node: NodeProto, rows: RowIds, to_last: bool) -> str | None:
        """The segments must be all rows, or those up to the last one with an entry."""
        if not to_last and not is_row_count(graph, node.input[3], rows.splits):
            return "the number of segments is not that of the rows"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, rows: RowIds, to_last: bool) -> None:
        """Reduce between the splits."""
        emit = graph.emitter(node)
        table, ids, _, _, default, weights = (graph.tensor(name) for name in node.input)
        drops = attribute(node, "negative_indices") == b"drop"
        dropped = None
        if not drops and not to_last and rows.kept is not None:
            dropped = before_negative_are_dropped(graph, node, rows.kept)
        if dropped is not None:
            ids, weights, rows = dropped.marked(graph, emit), graph.tensor(dropped.weights), RowIds(rows.splits)
            drops = True
        splits = _splits(graph, emit, rows)
        inputs = _bags(emit, table, ids, splits, emit.cast(default, TensorProto.INT64), weights)
        kind = f"EmbeddingBagOffsets{node.op_type.removeprefix('EmbeddingSegments')}"
        attributes = {**ROW_SPLITS, "negative_indices": "drop" if drops else "error"}
        if not to_last:
            graph.replace(node, kind, [*inputs.values()], **attributes)
            return
        # Rows up to the last one that has a value begin before the end, the others at the end.
        (bags,) = emit.domain_op(kind, inputs, attributes)
        last = emit.op("Gather", splits, emit.constant([-1]), shape=(1,), axis=0)
        graph.replace(node, "Compress", [bags, emit.op("Less", splits, last, shape=splits.shape)], axis=0)


class SumOfRows(Rule[Graph]):
    """Rows of a table that are gathered and summed by the rows of a ragged tensor become an EmbeddingBagOffsetsSum.

    The pattern is `UnsortedSegmentSum(Gather(table, ids), rows of splits, number of rows)`, as tf.reduce_sum makes it.
    Sums are equal up to rounding. An id that is out of range is an error, as in TensorFlow.
    """

    name = "sum-of-rows"
    anchors = ("UnsortedSegmentSum",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A sum of gathered rows by the rows between splits."""
        rows, gather = row_ids(graph, node.input[1]), graph.producer(node.input[0])
        return {"rows": rows, "gather": gather} if rows is not None and is_row_gather(gather) else None

    def check(self, graph: Graph, node: NodeProto, rows: RowIds, gather: NodeProto) -> str | None:
        """All rows must be summed, of a table of floats, and the gathered ones used for nothing else."""
        table, ids = gather.input
        if not is_row_count(graph, node.input[2], rows.splits):
            return "the number of segments is not that of the rows"
        if graph.dtype(table) not in _FLOATS or graph.dtype(ids) not in INDEX:
            return f"the table is {dtype_name(graph.dtype(table))}, the ids {dtype_name(graph.dtype(ids))}"
        if graph.rank(ids) != 1:
            return "the ids are not a vector"
        users = [user for user in graph.users(gather.output[0]) if user.op_type != "Shape"]
        if len(users) > 1 or gather.output[0] in graph.outputs:
            return "the gathered rows are used for something else"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, rows: RowIds, gather: NodeProto) -> None:
        """Look up and sum at once."""
        emit = graph.emitter(node)
        table, ids = (graph.tensor(name) for name in gather.input)
        none = emit.constant([], table.dtype)
        inputs = _bags(emit, table, ids, _splits(graph, emit, rows), emit.constant(-1), none)
        graph.replace(node, "EmbeddingBagOffsetsSum", [*inputs.values()], **ROW_SPLITS)


class LengthsOfRows(Rule[Graph]):
    """A quotient by the number of values in each row, counted by adding ones, takes the lengths between the splits.

    The pattern is `x / UnsortedSegmentSum(ones, rows of splits, number of rows)`, as tf.reduce_mean makes it. Equal, up
    to the 2**24 values of a row that float32 can count.
    """

    name = "lengths-of-rows"
    anchors = ("Div",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A quotient by a sum of ones."""
        count = graph.producer(node.input[1], "UnsortedSegmentSum")
        rows = row_ids(graph, count.input[1]) if count is not None else None
        if count is None or rows is None or rows.kept is not None or not _is_ones(graph, count.input[0]):
            return None
        return {"count": count, "rows": rows}

    def check(self, graph: Graph, node: NodeProto, count: NodeProto, rows: RowIds) -> str | None:
        """The divisor must have as many rows and columns as the dividend."""
        if not is_row_count(graph, count.input[2], rows.splits):
            return "the number of segments is not that of the rows"
        over, under = (graph.shape(name) for name in node.input)
        if over is None or under is None or None in over[1:] or over[1:] != under[1:]:
            return "it is not known that the counts are as many as what they divide"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, count: NodeProto, rows: RowIds) -> None:
        """Divide by the differences of the splits."""
        emit, splits = graph.emitter(node), graph.tensor(rows.splits)
        first, second, last = (emit.constant([at]) for at in (0, 1, -1))
        far = emit.constant([2**63 - 1])
        ends = emit.op("Slice", splits, second, far, shape=(None,))
        starts = emit.op("Slice", splits, first, last, shape=(None,))
        lengths = emit.cast(emit.op("Sub", ends, starts, shape=(None,)), graph.dtype(node.output[0]))
        inner = len(graph.shape(node.input[1]) or ()) - 1
        axes = emit.constant([*range(1, inner + 1)])
        divisor = emit.op("Unsqueeze", lengths, axes, shape=(None, *[1] * inner)) if inner else lengths
        graph.set_input(node, 1, divisor.name)


#: The rules that apply together to lookups of ragged tensors.
PHASE: tuple[Rule[Graph], ...] = (
    ValidCoordinates(),
    ColumnOfCoordinates(),
    ShapeOfCoordinates(),
    ElementOfShape(),
    RowsOfFilled(),
    BagsOfSplits(),
    SumOfRows(),
    LengthsOfRows(),
)


def _element(graph: Graph, node: NodeProto) -> int | None:
    """The position of the one element that a Gather or Slice takes of a vector; None if it takes anything else."""
    if node.op_type == "Gather":
        at = graph.integers(node.input[1]) if graph.shape(node.input[1]) in ((), (1,)) else None
        return at[0] if at is not None and attribute(node, "axis", 0) == 0 else None
    cut = bounds(graph, node)
    return cut[0] if cut is not None and cut[1] == cut[0] + 1 else None


def _is_to_last(graph: Graph, node: NodeProto) -> bool:
    """Whether the segments of a reduction are those up to its last id."""
    ids = one_more_than_the_last(graph, graph.without_casts(node.input[3]))
    return ids is not None and is_same(graph, ids, node.input[2])


def _splits(graph: Graph, emit: Emitter, rows: RowIds) -> Tensor:
    """The splits of the values that are kept, as int64."""
    if rows.kept is None:  # the lookup checks them itself
        return emit.cast(graph.tensor(before_checking(graph, rows.splits)), TensorProto.INT64)
    splits = emit.cast(graph.tensor(rows.splits), TensorProto.INT64)
    kept = emit.cast(graph.tensor(rows.kept), TensorProto.INT64)
    counts = emit.op("Concat", emit.constant([0]), emit.op("CumSum", kept, emit.constant(0)), shape=(None,), axis=0)
    return emit.op("Gather", counts, splits, shape=splits.shape, axis=0)


def _bags(
    emit: Emitter, table: Tensor, ids: Tensor, splits: Tensor, default: Tensor, weights: Tensor
) -> dict[str, Tensor]:
    """The inputs of EmbeddingBagOffsets."""
    return {
        "emb_table": table,
        "indices": emit.cast(ids, TensorProto.INT64),
        "offsets": splits,
        "default_index": default,
        "per_sample_weights": weights,
        "padding_index": emit.constant(-1),
    }


def _is_ones(graph: Graph, name: str) -> bool:
    """Whether a tensor is 1 everywhere."""
    filled = graph.producer(spread(graph, name), "Fill")
    return graph.uniform(name if filled is None else filled.input[1]) == 1
