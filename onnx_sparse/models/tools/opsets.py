"""The version of ai.onnx that a model imports, and converting models to another one, as function bodies need it."""

from __future__ import annotations

from onnx import GraphProto, ModelProto, defs

from onnx_sparse.models.graphs import subgraphs
from onnx_sparse.models.tools.inlining import inlined
from onnx_sparse.models.tools.onnx_tools import as_value_errors, convert_version
from onnx_sparse.schemas.function_body import BODY_OPSET


def default_opset(model: ModelProto) -> int:
    """The version of ai.onnx that the model imports; 0 when it imports none.

    Raises:
        ValueError: It imports several.
    """
    versions = sorted({i.version for i in model.opset_import if i.domain in ("", "ai.onnx")})
    if len(versions) > 1:
        raise ValueError(f"the model imports several opsets of ai.onnx: {', '.join(map(str, versions))}")
    return versions[0] if versions else 0


def with_default_opset(model: ModelProto) -> ModelProto:
    """The same model, changed to import ai.onnx in the bodies' version where it did not import it.

    Raises:
        ValueError: It imports several versions.
    """
    if default_opset(model) == 0:
        imports = [i for i in model.opset_import if i.domain not in ("", "ai.onnx")]
        del model.opset_import[:]
        model.opset_import.extend(imports)
        model.opset_import.add(domain="", version=BODY_OPSET)
    return model


def in_body_opset(model: ModelProto, wanted: int | None = None) -> ModelProto:
    """The model in an opset that function bodies can be written in; the given model may be changed.

    Args:
        model: Any model.
        wanted: The opset; when omitted, the model's own, or that of the bodies where the model's is lower.

    Raises:
        ValueError: No body can be written in that opset, or onnx cannot convert the model to it.
    """
    opset = default_opset(with_default_opset(model))
    newest = defs.onnx_opset_version()
    if wanted is not None and not BODY_OPSET <= wanted <= newest:
        raise ValueError(f"opset {wanted}; function bodies are in opsets {BODY_OPSET} to {newest}")
    if opset == wanted or (wanted is None and opset >= BODY_OPSET):
        return model
    before = inlined(model) if model.functions else model  # the converter drops functions
    if wanted is None:
        failed = f"the model's opset {opset} cannot be raised to {BODY_OPSET}, which function bodies need"
    else:
        failed = f"the model's opset {opset} cannot be converted to {wanted}"
    with as_value_errors(model, failed):
        converted = convert_version(before, wanted or BODY_OPSET)
    _restore(before.graph, converted.graph)
    return converted


def in_opset(model: ModelProto, wanted: int) -> ModelProto:
    """A copy of the model that imports an opset; see `in_body_opset`."""
    copy = ModelProto()
    copy.CopyFrom(model)
    return in_body_opset(copy, wanted)


def _restore(before: GraphProto, after: GraphProto) -> None:
    """Put back what onnx's version converter drops."""
    for dropped in ("metadata_props", "quantization_annotation", "sparse_initializer"):
        if not getattr(after, dropped):
            getattr(after, dropped).extend(getattr(before, dropped))
    converted = {node.output[0]: node for node in after.node if node.output}
    for node in before.node:
        same = converted.get(node.output[0]) if node.output else None
        if same is None or same.op_type != node.op_type:
            continue
        if not same.metadata_props:
            same.metadata_props.extend(node.metadata_props)
        for inner, converted_inner in zip(subgraphs(node), subgraphs(same), strict=True):
            _restore(inner, converted_inner)
