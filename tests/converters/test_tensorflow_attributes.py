"""An attribute of a TensorFlow operator is converted, does not matter, or is refused by name and value."""

from __future__ import annotations

import inspect
import re

import pytest

tf = pytest.importorskip("tensorflow")
from tensorflow.python.framework import op_def_registry  # noqa: E402
from tf2onnx.handler import tf_op  # noqa: E402

from onnx_sparse.converters.tensorflow.attributes import _CONVERTED, is_known, unknown_attributes  # noqa: E402
from onnx_sparse.converters.tensorflow.handlers import HANDLERS  # noqa: E402
from onnx_sparse.converters.tensorflow.tf2onnx_bridge import OPSET  # noqa: E402

#: tf2onnx leaves these where they are: the standard operator calls them the same.
PASSED_ON = {("Cumsum", "exclusive"), ("Cumsum", "reverse"), ("LeakyRelu", "alpha"), ("LRN", "beta"), ("LRN", "bias")}
PASSED_ON |= {(f"FusedBatchNorm{version}", "epsilon") for version in ("", "V2", "V3")}
PASSED_ON |= {("CudnnRNN", "is_training")}  # dropout, for which it matters, is read
#: Read before tf2onnx sees the graph, and passed on as JSON.
PASSED_ON |= {
    (op_type, name)
    for op_type in ("ParseSequenceExample", "ParseSequenceExampleV2", "ParseSingleSequenceExample")
    for name in ("context_dense_shapes", "feature_list_dense_shapes")
}

tfonnx = pytest.importorskip("tf2onnx.tfonnx")  # registers tf2onnx's handlers
BY_OPERATOR = {**tf_op.create_mapping(OPSET, []), **HANDLERS}


def optional_attributes():
    """Every attribute with a default of every operator that has a handler."""
    for op_type in sorted(BY_OPERATOR):
        declared = op_def_registry.get(op_type)
        for attribute in declared.attr if declared is not None else ():
            if attribute.HasField("default_value") and attribute.type not in ("type", "list(type)"):
                yield op_type, attribute


def source_of(op_type):
    """The source of the module in which an operator's handler is; tf2onnx's handlers share functions."""
    handler = BY_OPERATOR[op_type]
    return inspect.getsource(inspect.getmodule(handler[0] if isinstance(handler, tuple) else handler.function))


def test_attributes_said_to_be_converted_are_read():
    read = {}
    for op_type, attribute in optional_attributes():
        name = attribute.name
        if name in _CONVERTED and (op_type, name) not in PASSED_ON:
            source = read.setdefault(op_type, source_of(op_type))
            assert re.search(rf"""['"]{name}['"]""", source), f"{op_type} does not read {name}"


def test_every_other_attribute_is_refused():
    """With a value other than its default, whatever the operator."""
    refused = set()
    for op_type, attribute in optional_attributes():
        node = tf.compat.v1.NodeDef(name="node", op=op_type)
        default = attribute.default_value
        kind = default.WhichOneof("value")
        if is_known(attribute) or kind not in ("b", "i", "f", "s"):
            continue
        value = node.attr[attribute.name]
        if kind == "b":
            value.b = not default.b
        elif kind == "s":
            value.s = b"something else"
        else:
            setattr(value, kind, 77)
        graph = tf.compat.v1.GraphDef(node=[node])
        (found,) = unknown_attributes(graph)
        assert attribute.name in found.reason
        refused.add((op_type, attribute.name))
    assert {("Cast", "Truncate")} <= refused
