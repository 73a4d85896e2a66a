"""Nodes of the domain that converters write have the contract's types; a source node with other types is refused."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.operator_types import _allowed, bound_types
from onnx_sparse.schemas import OPS


def test_type_variables_are_bound_by_the_inputs_that_are_given():
    types = {"data": TensorProto.FLOAT16, "segment_ids": TensorProto.INT32}
    assert bound_types(OPS["SegmentSum"], types) == {"T": TensorProto.FLOAT16, "I": TensorProto.INT32}


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"mask": TensorProto.FLOAT}, "MaskedFill: input mask is float; expected one of: bool, int8"),
        (
            {"x": TensorProto.INT8, "value": TensorProto.INT32},
            "MaskedFill: input value is int32 but x is int8; both must have the same type",
        ),
    ],
)
def test_types_that_the_operator_does_not_take_are_refused_with_the_same_message(types, message):
    with pytest.raises(Unsupported) as refused:
        bound_types(OPS["MaskedFill"], types)
    assert str(refused.value) == message


def test_the_types_of_parameters_follow_from_the_constraints() -> None:
    """Of every operator: onnx 1.20 says the types of a variable, and not those of a parameter."""
    schemas = [schema for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain]
    assert len(schemas) > 400
    for schema in schemas:
        for parameter in (*schema.inputs, *schema.outputs):
            assert _allowed(schema, parameter.type_str) == parameter.types, (schema.name, parameter.name)
