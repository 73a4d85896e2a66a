"""What Triton can join: rows of ragged and dense features, in a model that takes the lengths of rows.

Triton's ONNX Runtime backend joins the values of ragged inputs, and can make an input that says which shape the values
of each row had (`BATCH_ITEM_SHAPE_FLATTEN`). It could also make row splits, of which it counts one for each request
(`BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO`): a request of two rows would get the answers of the one behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onnx import TensorProto, helper

from onnx_sparse.models.graphs import names_of, put_nodes
from onnx_sparse.rows.model_features import Features
from onnx_sparse.schemas.features import METADATA_KEY

if TYPE_CHECKING:
    from onnx import ModelProto


def obstacle(session: Any, known: Features) -> str | None:
    """Why Triton cannot join requests of a model with these features; None where nothing is against it."""
    shapes = {value.name: list(value.shape) for value in (*session.get_inputs(), *session.get_outputs())}
    for name, feature in known.items():
        if feature.kind == "sparse":
            return (
                f"feature {name!r} is sparse, and Triton cannot join coordinates; "
                "`onnx-sparse convert --features ragged` makes such features ragged"
            )
        if feature.kind == "ragged":
            values = shapes[feature.inputs["values"]]
            if len(feature.row_splits) > 1:
                return f"feature {name!r} has rows of rows, and Triton joins plain rows only"
            if len(values) != 1 or isinstance(values[0], int):
                return f"feature {name!r} has values of the shape {values}, and Triton joins one dimension of any size"
        elif reason := _fixed("input", feature.inputs["values"], shapes):
            return reason
    for value in session.get_outputs():
        if reason := _fixed("output", value.name, shapes):
            return reason
    return None


def _fixed(role: str, name: str, shapes: Mapping[str, list[Any]]) -> str | None:
    shape = shapes[name]
    if not shape:
        return f"{role} {name!r} is a scalar, not one element for each row"
    return f"{role} {name!r} has a first dimension of fixed size, {shape[0]}" if isinstance(shape[0], int) else None


def take_row_lengths(model: ModelProto, known: Features) -> dict[str, str]:
    """Make a model take the lengths of rows, as int32, instead of row splits; it no longer records its features.

    Returns:
        Of each ragged input with values, the new input with the lengths of its rows.
    """
    graph, names = model.graph, names_of(model)
    lengths_of: dict[str, str] = {}
    nodes = []
    for feature in known.values():
        if feature.kind != "ragged":
            continue
        (splits,) = feature.row_splits
        values = feature.inputs["values"]
        lengths, wide, ends, begin, axis = (
            names.fresh(f"{values}_{part}") for part in ("row_lengths", "wide_lengths", "row_ends", "begin", "axis")
        )
        lengths_of[values] = lengths
        declared = next(value for value in graph.input if value.name == splits)
        dtype = declared.type.tensor_type.elem_type
        graph.input.remove(declared)
        graph.input.append(helper.make_tensor_value_info(lengths, TensorProto.INT32, [None]))
        graph.initializer.append(helper.make_tensor(begin, TensorProto.INT64, [1], [0]))
        graph.initializer.append(helper.make_tensor(axis, TensorProto.INT64, [], [0]))
        joined = splits if dtype == TensorProto.INT64 else names.fresh(f"{values}_row_splits")
        nodes += [
            helper.make_node("Cast", [lengths], [wide], to=TensorProto.INT64),
            helper.make_node("CumSum", [wide, axis], [ends]),
            helper.make_node("Concat", [begin, ends], [joined], axis=0),
        ]
        if joined != splits:
            nodes.append(helper.make_node("Cast", [joined], [splits], to=dtype))
    put_nodes(graph, [*nodes, *graph.node])
    kept = [entry for entry in model.metadata_props if entry.key != METADATA_KEY]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    return lengths_of
