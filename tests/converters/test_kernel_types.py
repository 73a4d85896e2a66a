"""The table of ONNX Runtime's kernels: an operator must load with every element type in it."""

from __future__ import annotations

import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from onnx_sparse.converters.writing.kernel_types import KERNELS, operands

#: Shapes of the inputs after the only operand: axes, sizes.
OTHERS = {"CumSum": [[]], "Expand": [[2]], "Pad": [[4]], "Tile": [[2]], "TopK": [[1]]}
#: Operators whose inputs and attributes must fit together; the converters' own tests run them.
STRUCTURED = {
    "AveragePool",
    "BatchNormalization",
    "Clip",
    "Conv",
    "ConvTranspose",
    "DepthToSpace",
    "GatherND",
    "GridSample",
}
STRUCTURED |= {"LRN", "MaxPool", "Range", "Resize", "ReverseSequence", "SpaceToDepth"}


def one_node(op_type: str, dtype: int) -> onnx.ModelProto:
    opset = 19 if dtype == TensorProto.STRING else 18  # the first opset in which strings can be compared
    schema = onnx.defs.get_schema(op_type, opset)
    shapes = OTHERS.get(op_type, [])
    before = operands(op_type).start or 0
    count = 2 if op_type in ("Max", "Min") else schema.min_input - before - len(shapes)
    inputs = [helper.make_tensor_value_info("condition", TensorProto.BOOL, [3, 3])][:before]
    inputs += [helper.make_tensor_value_info(f"x{k}", dtype, [3, 3]) for k in range(count)]
    inputs += [helper.make_tensor_value_info(f"n{k}", TensorProto.INT64, shape) for k, shape in enumerate(shapes)]
    outputs = [helper.make_empty_tensor_value_info(f"y{k}") for k in range(schema.min_output)]
    node = helper.make_node(op_type, [v.name for v in inputs], [v.name for v in outputs])
    if op_type == "Mod" and dtype in (TensorProto.FLOAT, TensorProto.DOUBLE):
        node.attribute.append(helper.make_attribute("fmod", 1))
    graph = helper.make_graph([node], "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


@pytest.mark.parametrize("op_type", sorted(KERNELS.keys() - STRUCTURED))
def test_the_types_of_the_table_have_kernels(op_type: str) -> None:
    for dtype in KERNELS[op_type]:
        session = ort.InferenceSession(one_node(op_type, dtype).SerializeToString())
        assert session.get_outputs()
