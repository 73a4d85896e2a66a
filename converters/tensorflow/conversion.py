"""`convert`: reads, converts, rewrites and checks a TensorFlow model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import ModelProto

from onnx_sparse.converters import pipeline
from onnx_sparse.converters.errors import ConversionError, Unsupported
from onnx_sparse.converters.pipeline import Draft
from onnx_sparse.converters.rewriting.explanation import Attempt, count_nodes
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.explanation import Explanation
from onnx_sparse.converters.tensorflow.feature_record import record_features
from onnx_sparse.converters.tensorflow.importing.conversion import Imported, to_onnx
from onnx_sparse.converters.tensorflow.importing.input_shapes import with_ranks
from onnx_sparse.converters.tensorflow.large_tables import attach
from onnx_sparse.converters.tensorflow.lazy_imports import quietly
from onnx_sparse.converters.tensorflow.load import load
from onnx_sparse.converters.tensorflow.passes import passes
from onnx_sparse.converters.tensorflow.reading.model import Model
from onnx_sparse.models.large_models import referring


@referring
def convert(
    source: Any,
    *,
    tag: str | None = None,
    signature: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    lookup_tables: Mapping[str, tuple[Any, Any]] | None = None,
    check_ids: bool = False,
    progress: Callable[[str], None] | None = None,
    explain: Callable[[Explanation], None] | None = None,
    tables: MutableMapping[str, Array] | None = None,
) -> ModelProto:
    """Convert a TensorFlow model to ONNX with operators of the domain `onnx_sparse`.

    Only Keras files need TensorFlow.

    Args:
        source: A SavedModel directory, a frozen GraphDef (`.pb`, `.pbtxt`), the `.meta` file of a checkpoint, a
            `.keras` or HDF5 file; or in memory a Keras model (of Keras 3 or `tf_keras`), a tf.function with an
            input_signature, a ConcreteFunction, or what `load` returned.
        tag: Which graph of a SavedModel that has several; the one for serving when omitted.
        signature: Which signature of a SavedModel; `serving_default`, or the only one, when omitted.
        inputs: The inputs, in this order. In a GraphDef any tensors (`"a:0"`); the placeholders when omitted. An input
            may have a shape after its name if the model leaves it open, `"x:0[-1,3]"`; -1 is any size.
        outputs: The outputs, in this order. In a GraphDef any tensors; the tensors that nothing consumes when omitted.
        lookup_tables: For a GraphDef, which has none itself, the keys and values of its lookup tables, by the names of
            the nodes that make these or by their shared names.
        check_ids: Whether all lookups refuse negative ids, which ONNX counts from the end. By default, lookups refuse
            the negative ids of inputs that TensorFlow refuses.
        progress: Called with `"loading"`, `"converting"`, `"rewriting"` and `"checking"` as these begin.
        explain: Called once, with the numbers of nodes and the outcome of every rewriting rule.
        tables: A dictionary that receives the embedding tables of a model larger than 1 GiB, by initializer. Their data
            is then not in the model, and no copy of it is made. Give it to `verify` as well.

    Returns:
        A model of IR version 10 in canonical form. Inputs and outputs have the names that they have in the source: the
        keys of a signature, the names of TensorSpecs and Keras inputs, the names in `inputs` and `outputs`.

    Raises:
        ConversionError: The source cannot be read, or nodes cannot be converted: the error lists all of them.
    """
    tell = progress or (lambda stage: None)
    tell("loading")
    with quietly():
        loaded = load(source, tag=tag, signature=signature, inputs=inputs, outputs=outputs, lookup_tables=lookup_tables)
    tell("converting")
    made, converted = _converted(with_ranks(loaded.model, _tried).fresh(), tell, check_ids=check_ids)
    attach(made, converted.tables, tables)
    record_features(made, loaded.specs)
    if explain is not None:
        explain(
            Explanation(
                source_nodes=converted.source_nodes,
                nodes_before=converted.nodes,
                nodes=count_nodes(made),
                attempts=converted.attempts,
            )
        )
    return made


@dataclass
class _Converted:
    """What else is known of a converted model.

    Attributes:
        tables: The values of the inputs that stand in for large tables.
        source_nodes: How many nodes of the source computed something.
        nodes: How many nodes the model had before it was rewritten.
        attempts: The outcome of the rules.
    """

    tables: dict[str, Array]
    source_nodes: int
    nodes: int
    attempts: tuple[Attempt, ...]


def _tried(model: Model) -> None:
    """Convert a model as far as the ranks of its inputs are known."""
    if all(port.shape is not None for port in model.inputs):
        _converted(model)
    else:
        _imported(model)


def _imported(model: Model) -> Imported:
    try:
        return to_onnx(model)
    except Unsupported as reason:
        raise ConversionError(f"{model.name} cannot be converted: {reason}") from None


def _converted(
    model: Model, tell: Callable[[str], None] = lambda stage: None, *, check_ids: bool = False
) -> tuple[ModelProto, _Converted]:
    """The finished model, in which large tables are inputs."""
    imported = _imported(model)
    tell("rewriting")
    splits = frozenset(name for ragged in model.specs.ragged for name in ragged.splits)
    draft = Draft(imported.model, positions=splits)
    made = pipeline.run(draft, passes(check_ids=check_ids), tell)
    attempts = (*imported.attempts, *draft.attempts)
    return made, _Converted(imported.tables, imported.source_nodes, draft.rewritten_from or 0, attempts)
