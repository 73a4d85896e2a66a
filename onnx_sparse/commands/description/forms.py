"""The three forms of a model, and the tools that do not take each, or change what it computes."""

from __future__ import annotations

from onnx import ModelProto

from onnx_sparse.commands.inputs.model_graph import is_function_body, nodes

DOMAIN_FORM = "domain"
FUNCTIONS_FORM = "functions"
PLAIN_FORM = "plain"

#: What each form is.
FORMS = {
    DOMAIN_FORM: "uses the onnx_sparse operators, without fallback functions",
    FUNCTIONS_FORM: "uses the onnx_sparse operators, with fallback functions",
    PLAIN_FORM: "uses no onnx_sparse operators",
}

#: The tools that a form is not for, and what to do.
NOT_FOR = {
    DOMAIN_FORM: {
        "onnxruntime-node, onnxruntime-web": "they load no custom operators: give them --portable or --lower",
        "onnxruntime's quantize_static": "its calibration loads no custom operators: give it --lower",
        "onnxruntime's transformers optimizer": "from level 1 on it loads no custom operators: give it --lower",
        "OpenVINO": "it needs onnx_sparse.converters.openvino.extensions(), or --lower",
    },
    FUNCTIONS_FORM: {
        "onnx.version_converter": "it drops the functions: `convert --lower --opset N` writes another opset",
        "float16 converters": "they change the types of calls and not those in functions: convert to float16 first",
        "OpenVINO": "it reads no functions: it needs onnx_sparse.converters.openvino.extensions(model), or --lower",
    },
    PLAIN_FORM: {},
}


def form_of(model: ModelProto) -> str:
    """Which of the forms a model has."""
    ours = [placed.node for placed in nodes(model) if placed.is_ours]
    if not ours:
        return PLAIN_FORM
    bodies = {(f.name, f.overload) for f in model.functions if is_function_body(f)}
    return FUNCTIONS_FORM if all((node.op_type, node.overload) in bodies for node in ours) else DOMAIN_FORM
