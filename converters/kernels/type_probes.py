"""Which element types ONNX Runtime's CPU kernels take: a node of each operator and type is loaded.

A session that loads has a kernel for the node, or kernels for the nodes of its function body. Recurrent layers are also
run: their kernels refuse some types only then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice, product
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, defs, helper
from onnx.defs import OpSchema

from onnx_sparse.converters.kernels.table import MIXED
from onnx_sparse.schemas.declaration import DType, dtype_name, numpy_dtype

_OPTION = OpSchema.FormalParameterOption
#: Values of attributes that a kernel must have.
_ATTRIBUTES: dict[str, Any] = {
    "kernel_shape": [1, 1], "axis": 0, "axes": [0], "blocksize": 1, "size": 1, "equation": "i->i", "shape": [2],
    "direction": "LEFT", "pooled_shape": [1, 1], "scales": [1.0] * 4, "spatial_scale": 1.0, "perm": [0],
    "num_groups": 1, "to": 1, "dtype": 1, "epsilon": 1e-5, "pads": [0, 0], "starts": [0], "ends": [1], "k": 1,
}  # fmt: skip
_OF_OPERATOR: dict[str, dict[str, Any]] = {
    **{name: {"hidden_size": 1} for name in ("LSTM", "GRU", "RNN")},
    "BitShift": {"direction": "LEFT"},
    "Upsample": {"mode": "nearest", "scales": [1.0] * 4},
    "RegexFullMatch": {"pattern": "a"},
    "TfIdfVectorizer": {"min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "mode": "TF",
                        "ngram_counts": [0], "ngram_indexes": [0], "pool_int64s": [1]},
}  # fmt: skip
#: Operators with graphs, of sequences, or whose kernels are chosen by several types together.
_OTHERS = frozenset({"If", "Loop", "Scan", "Optional", "OptionalGetElement", "OptionalHasElement", "SequenceMap",
                     "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
                     "SequenceLength", "SplitToSequence", "ConcatFromSequence", "Constant", "OneHot"})  # fmt: skip
#: The types with which the other variables are tried, in order.
_USUAL = [
    int(TensorProto.DataType.Value(name)) for name in ("FLOAT", "INT64", "INT32", "BOOL", "UINT8", "INT8", "STRING")
]
#: The shapes of the inputs of recurrent layers, by the number of gates.
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
#: How attributes that say the type of a result are named.
_TYPES = ("to", "dtype", "output_dtype", "output_datatype")

Binding = Mapping[str, DType]


def refused_types(opset: int) -> Iterator[tuple[str, str]]:
    """The types that the installed version does not take: the operator with its type variable, and the type."""
    for name in sorted({schema.name for schema in defs.get_all_schemas() if not schema.domain} - _OTHERS):
        if not defs.has(name, opset):
            continue
        schema = defs.get_schema(name, opset)
        if schema.deprecated:
            continue
        # A function body is made of other operators, whose kernels depend on the operator set.
        is_function = any(getattr(schema, name) for name in ("has_function", "has_context_dependent_function"))
        for variable, refused in _refused(name, opset if is_function else max(schema.since_version, 7)):
            yield f"{name} {variable}", refused


@cache
def _refused(name: str, opset: int) -> tuple[tuple[str, str], ...]:
    schema = defs.get_schema(name, opset)
    types = {each.type_param_str: _numbers(each.allowed_type_strs) for each in schema.type_constraints}
    types = {variable: sorted(found, key=_preference) for variable, found in types.items() if found}
    tried = islice(product(*(found[:6] for found in types.values())), 300)
    base = next((b for b in (dict(zip(types, b, strict=True)) for b in tried) if loads(schema, b, opset)), None)
    refused = []
    for variable, found in types.items():
        for dtype in found:
            if base is not None and loads(schema, base | {variable: dtype}, opset):
                continue
            alike = {other: dtype if dtype in allowed else allowed[0] for other, allowed in types.items()}
            is_loaded = base is not None and len(types) > 1 and loads(schema, alike, opset)
            refused.append((variable, (MIXED if is_loaded else "") + dtype_name(dtype)))
    return tuple(refused)


def _preference(dtype: DType) -> int:
    return _USUAL.index(dtype) if dtype in _USUAL else len(_USUAL)


def _numbers(types: Iterable[str]) -> list[DType]:
    names = [text.removeprefix("tensor(").removesuffix(")") for text in types if text.startswith("tensor(")]
    return [int(TensorProto.DataType.Value(name.upper())) for name in names if not name.startswith("complex")]


def loads(schema: OpSchema, binding: Binding, opset: int) -> bool:
    """Whether a session loads a node whose type variables have these types."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = _model(schema, binding, opset)
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        if schema.name in _GATES and not {TensorProto.BFLOAT16}.intersection(binding.values()):
            session.run(None, _of_recurrence(model, _GATES[schema.name]))
    except Exception:  # ONNX Runtime's exceptions have no common base class
        return False
    return True


def _model(schema: OpSchema, binding: Binding, opset: int) -> ModelProto:
    """A node with all inputs that have a variable type, and of the others with those that it must have."""
    own = {name: value for name, value in _OF_OPERATOR.get(schema.name, {}).items() if name in schema.attributes}
    needed = {name for name, each in schema.attributes.items() if each.required and name not in own}
    written = own | {name: _ATTRIBUTES[name] for name in needed}
    inputs = [
        (f"x{k}", binding.get(each.type_str) or _numbers([each.type_str])[0])
        if each.option != _OPTION.Optional or each.type_str in binding
        else ("", 0)
        for k, each in enumerate(schema.inputs)
    ]
    outputs = [
        (f"y{k}", binding.get(each.type_str) or _numbers([each.type_str])[0])
        for k, each in enumerate(schema.outputs)
        if not k or each.option != _OPTION.Optional
    ]
    made, read = schema.outputs[0].type_str, {each.type_str for each in schema.inputs}
    if made in binding and made not in read:
        written |= {name: binding[made] for name in _TYPES if name in schema.attributes}
        if "value" in schema.attributes:
            zero: Any = [b""] if binding[made] == TensorProto.STRING else [0]
            written["value"] = helper.make_tensor("value", binding[made], [1], zero)
    while not inputs[-1][0] if inputs else False:
        inputs.pop()
    node = helper.make_node(schema.name, [n for n, _ in inputs], [n for n, _ in outputs], **written)
    given = [_value(*each) for each in inputs if each[0]]
    graph = helper.make_graph([node], "g", given, [_value(*each) for each in outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def _of_recurrence(model: ModelProto, gates: int) -> dict[str, np.ndarray[Any, Any]]:
    """One step of one row with one unit."""
    shapes = ([1, 1, 1], [1, gates, 1], [1, gates, 1], [1, 2 * gates], [1], [1, 1, 1], [1, 1, 1], [1, 3])
    inputs = ((value.name, value.type.tensor_type.elem_type) for value in model.graph.input)
    return {name: np.ones(shape, numpy_dtype(dtype)) for (name, dtype), shape in zip(inputs, shapes, strict=False)}


def _value(name: str, dtype: DType) -> ValueInfoProto:
    return ValueInfoProto(name=name, type=helper.make_tensor_type_proto(dtype, None))
