"""Ragged features in place of sparse ones: a model takes values and row splits where it took three tensors.

The coordinates and the dense shape are first computed from the splits, as in `tf.RaggedTensor.to_sparse`. The rules
then let lookups take the splits themselves. If the graph still uses the position of a value in its row after that, or
the length of the longest row, the feature stays sparse: an entry of a sparse tensor may be at any position.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, helper

from onnx_sparse.converters.rewriting.engine import Phase, rewrite
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rules.pruning import ColumnByGather, KeepColumn
from onnx_sparse.converters.rewriting.rules.ragged import PHASE
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.partitions import coordinates_of, dense_shape_of, of_splits
from onnx_sparse.models.graphs import names_of, read_names, rename
from onnx_sparse.models.tools.onnx_tools import infer_shapes
from onnx_sparse.schemas import DOMAIN, OPSET_VERSION
from onnx_sparse.schemas.declaration import dtype_name
from onnx_sparse.schemas.features import Feature, features_of, write_features

#: The element type of row splits: that of ids, as lookups take one type for both.
SPLITS_TYPE = TensorProto.INT64

#: Operators that pass the elements of their first input on, and use none of them.
_CARRIERS = frozenset(("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"))

_PHASES: tuple[Phase, ...] = ((ColumnByGather(), KeepColumn(), *PHASE),)


@dataclass(frozen=True)
class RaggedModel:
    """A model whose sparse features were made ragged.

    Attributes:
        model: The model.
        ragged: The features that were.
        reasons: By feature that was not, why.
    """

    model: ModelProto
    ragged: tuple[str, ...]
    reasons: Mapping[str, str]


def make_ragged(model: ModelProto) -> RaggedModel:
    """Make the sparse features of a model ragged, where the positions of values in their rows are not used.

    A feature's values keep their input; its coordinates and dense shape become one input, `<feature>_row_splits`.

    Args:
        model: A model that records its features; it is not changed.

    Raises:
        ValueError: The record of its features is not readable.
    """
    features = features_of(model)
    sparse = [feature for feature in features if feature.kind == "sparse"]
    obstacles = {feature.name: _obstacle(model, feature) for feature in sparse}
    reasons = {name: reason for name, reason in obstacles.items() if reason is not None}
    while True:
        chosen = [feature for feature in sparse if feature.name not in reasons]
        if not chosen:
            copy = ModelProto()
            copy.CopyFrom(model)
            return RaggedModel(copy, (), reasons)
        made, splits = _with_splits(model, features, chosen)
        made = infer_shapes(made)
        rewrite(made, _PHASES)
        # Several features may meet in a node, so what one keeps sparse can hold back another.
        used = {name: why for name, part in splits.items() if (why := _use_of_positions(made.graph, part)) is not None}
        if not used:
            made = infer_shapes(made)
            return RaggedModel(made, tuple(feature.name for feature in chosen), reasons)
        reasons |= used


def _obstacle(model: ModelProto, feature: Feature) -> str | None:
    """Why a feature cannot be ragged, whatever the graph does with it."""
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), Emitter.opset)
    if opset < Emitter.opset:
        return f"the model is of opset {opset}; {Emitter.opset} is needed"
    given = {value.name: value.type.tensor_type for value in model.graph.input}
    missing = [name for name in feature.inputs.values() if name not in given]
    if missing:
        return f"the model has no input {missing[0]!r}"
    indices, shape = (given[feature.inputs[role]] for role in ("indices", "dense_shape"))
    for role, kind in (("coordinates", indices), ("dense shape", shape)):
        if kind.elem_type != TensorProto.INT64:
            return f"its {role} are {dtype_name(kind.elem_type)}, not int64"
    dims = [*indices.shape.dim[1:2], *shape.shape.dim[:1]]
    ranks = [dim.dim_value for dim in dims if dim.HasField("dim_value")] + [len(feature.shape or ())]
    rank = next(filter(None, ranks), None)
    if rank != 2:
        return "its rank is not known" if rank is None else f"it has {rank} dimensions; rows of values have 2"
    return None


@dataclass(frozen=True)
class _Inserted:
    """The nodes that compute coordinates and a dense shape from splits.

    Attributes:
        nodes: Their names.
        positions: Those that compute the positions of values in their rows, and the length of the longest row.
    """

    nodes: Collection[str]
    positions: Sequence[str]


def _with_splits(
    model: ModelProto, features: Sequence[Feature], chosen: Sequence[Feature]
) -> tuple[ModelProto, dict[str, _Inserted]]:
    """A copy of the model in which the triples of some features are computed from row splits."""
    made = ModelProto()
    made.CopyFrom(model)
    names = names_of(made)
    graph = Graph(made.graph, names=names)
    inserted: dict[str, _Inserted] = {}
    renamed: dict[str, str] = {}
    new: dict[str, Feature] = {}
    for feature in chosen:
        splits = names.fresh(f"{feature.name}_row_splits")
        new[feature.name] = _ragged(feature, splits)
        if not graph.nodes:
            continue  # an input that nothing uses
        before = {node.name for node in graph.nodes}
        emit = graph.emitter(graph.nodes[0])
        values = graph.tensor(feature.inputs["values"])
        partition = of_splits(Tensor(splits, SPLITS_TYPE, (None,)), emit, emit.size(values, 0))
        renamed[coordinates_of([partition], emit).name] = feature.inputs["indices"]
        renamed[dense_shape_of([partition], emit).name] = feature.inputs["dense_shape"]
        positions = [graph.producer(tensor.name) for tensor in (partition.place, partition.longest)]
        inserted[feature.name] = _Inserted(
            {node.name for node in graph.nodes} - before, [node.name for node in positions if node is not None]
        )
    if all(imported.domain != DOMAIN for imported in made.opset_import):
        made.opset_import.add(domain=DOMAIN, version=OPSET_VERSION)
    graph.write_back()
    rename(made.graph.node, renamed)
    _replace_inputs(made.graph, [new[feature.name] for feature in chosen])
    write_features(made, [new.get(feature.name, feature) for feature in features])
    return made, inserted


def _ragged(feature: Feature, splits: str) -> Feature:
    """A sparse feature as a ragged one."""
    inputs = {"values": feature.inputs["values"], "row_splits": splits}
    return replace(feature, kind="ragged", inputs=inputs, source=dict(feature.inputs))


def _replace_inputs(graph: GraphProto, ragged: Sequence[Feature]) -> None:
    """Put splits behind values in place of coordinates and dense shapes."""
    sources = [feature.source or {} for feature in ragged]
    gone = {source[role] for source in sources for role in ("indices", "dense_shape")}
    splits = {feature.inputs["values"]: feature.inputs["row_splits"] for feature in ragged}
    inputs: list[ValueInfoProto] = []
    for value in graph.input:
        if value.name in gone:
            continue
        inputs.append(ValueInfoProto.FromString(value.SerializeToString()))
        if value.name in splits:
            inputs.append(helper.make_tensor_value_info(splits[value.name], SPLITS_TYPE, [None]))
    del graph.input[:]
    graph.input.extend(inputs)


def _use_of_positions(graph: GraphProto, inserted: _Inserted) -> str | None:
    """How the graph uses the positions of values in their rows, or the longest row; None if it does not."""
    outputs = {value.name for value in graph.output}
    for made, what in zip(inserted.positions, ("the positions of values in rows", "the longest row"), strict=True):
        reached = {name for node in graph.node if node.name == made for name in node.output}
        if reached & outputs:
            return f"the model returns {what}"
        for node in graph.node:  # in the order in which they run
            if not reached & read_names([node]):
                continue
            is_carrier = node.op_type in _CARRIERS and node.input[0] in reached
            if node.name not in inserted.nodes and not is_carrier:
                return f"node {node.name!r} ({node.op_type}) uses {what}"
            reached |= set(node.output)
            if reached & outputs:
                return f"the model returns {what}"
    return None
