"""Element types without a kernel."""

from __future__ import annotations

import pytest
from onnx import TensorProto, parser

from onnx_sparse import fuse


@pytest.mark.parametrize("kind", ["uint32", "uint64", "int64", "double"])
def test_numbers_that_are_moved_are_not_rounded(kind: str) -> None:
    """Of a rank that is not known, elements cannot be gathered; the floats that have a kernel do not hold them."""
    model = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 18]>
        g (x) => ({kind}[a, b] y) <int64[2] sizes = {{2, 5}}> {{
          y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric"> (x, , , sizes)
        }}"""
    )
    tensor = model.graph.input[0].type.tensor_type
    tensor.elem_type = TensorProto.DataType.Value(kind.upper())
    with pytest.warns(UserWarning, match="'x' is"):
        fuse(model)
