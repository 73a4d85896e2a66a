"""The version of ai.onnx that a model imports, and raising it where the function bodies need a later one."""

from __future__ import annotations

from onnx import GraphProto, ModelProto, version_converter

from onnx_sparse.graphs import subgraphs
from onnx_sparse.inlining import inlined
from onnx_sparse.onnx_tools import as_value_errors
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


def at_least_body_opset(model: ModelProto) -> ModelProto:
    """The model, raised to the opset of the function bodies if it is below; the given model may be changed.

    Raises:
        ValueError: onnx cannot convert the model.
    """
    opset = default_opset(with_default_opset(model))
    if opset >= BODY_OPSET:
        return model
    before = inlined(model) if model.functions else model  # the converter drops functions
    failed = f"the model's opset {opset} cannot be raised to {BODY_OPSET}, which function bodies need"
    with as_value_errors(model, failed):
        raised = version_converter.convert_version(before, BODY_OPSET)
    _restore(before.graph, raised.graph)
    return raised


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
