"""Operators that GE has from TensorFlow, under the same names, with the same inputs, attributes and meaning.

TensorFlow's adapter hands them on as they are, so TensorFlow's handlers convert them: a node is shown to them as the
node of TensorFlow's graph that it was.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from onnx import TensorProto

from onnx_sparse.converters.ascend.dtypes import ACL
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.ge.handlers import Node
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.registry import CoverageRow, Handler
from onnx_sparse.lazy_names import is_there

_DIAGONALS = ("MatrixDiag", "MatrixDiagPart", "MatrixSetDiag")
#: The operators. Their inputs and attributes were compared with those of GE's prototypes.
NAMES = frozenset({
    *("ApproximateEqual", "Atan2", "Bincount", "BroadcastArgs", "CheckNumerics", "DenseBincount"),
    *("DenseCountSparseOutput", "DenseToDenseSetOperation", "DenseToSparseSetOperation", "SparseToSparseSetOperation"),
    *("InTopKV2", "InvertPermutation", "ListDiff", "LowerBound", "UpperBound", "SetSize", "UnravelIndex"),
    *(f"{name}{version}" for name in _DIAGONALS for version in ("", "V2", "V3")), *("MatrixBandPart", "MatrixInverse"),
    *("RaggedBincount", "RaggedCountSparseOutput", "RaggedGather", "RaggedRange"),
    *("RaggedTensorToSparse", "RaggedTensorToTensor"),
    *("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits", "SparseAdd", "SparseBincount"),
    *("SparseConcat", "SparseCountSparseOutput", "SparseDenseCwiseAdd", "SparseDenseCwiseDiv", "SparseDenseCwiseMul"),
    *("SparseReduceMax", "SparseReduceSum", "SparseReorder", "SparseSlice", "SparseSoftmax", "SparseSparseMaximum"),
    *("SparseSparseMinimum", "SparseSplit", "SparseTensorDenseAdd", "SparseTensorDenseMatMul"),
    *("AsString", "DecodeBase64", "EncodeBase64", "ReduceJoin", "RegexFullMatch", "RegexReplace", "StaticRegexReplace"),
    *("StaticRegexFullMatch", "StringJoin", "StringLength", "StringLower", "StringNGrams", "StringSplit"),
    *("StringSplitV2", "StringStrip", "StringToHashBucketStrong", "StringToNumber", "StringUpper", "Substr"),
    *("UnicodeDecode", "UnicodeDecodeWithOffsets", "UnicodeEncode", "UnsortedSegmentJoin"),
})  # fmt: skip
#: GE's number of strings, which is in no other list because only operators of this module take them.
_STRING = 13


@cache
def handler(op_type: str) -> Handler | None:
    """The handler of an operator; None if it is none of these."""
    if op_type not in NAMES or not is_there("onnx_sparse.converters.tensorflow"):
        return None
    # imported only here, because TensorFlow's handlers are many
    from onnx_sparse.converters.tensorflow.handlers import find_handler

    own = find_handler(op_type)
    return Handler(op_type, _convert, own.to, own.notes, differs=own.differs)


def coverage() -> list[CoverageRow]:
    """The operators, sorted by name."""
    found = [own for name in sorted(NAMES) if (own := handler(name)) is not None]
    return [CoverageRow(own.op_type, own.to, "; ".join(filter(None, (own.notes, own.differs)))) for own in found]


def _convert(node: Node, emit: AscendEmitter) -> tuple[Tensor, ...]:
    from onnx_sparse.converters.tensorflow.handlers import find_handler
    from onnx_sparse.converters.tensorflow.importing.nodes import converted_by

    inputs = node.take(0, len(node.inputs))
    # AscendEmitter has what these handlers write with; the constants of megabytes that TensorFlow's keeps are no part.
    shared: Any = emit
    return converted_by(find_handler(node.op_type), _message(node), node.op_type, inputs, shared)[0]


def _message(node: Node) -> Any:
    """The node of TensorFlow's graph."""
    from onnx_sparse.converters.tensorflow.reading.element_types import NUMBERS, ONNX_TYPES
    from onnx_sparse.converters.tensorflow.reading.messages import NodeDef
    from onnx_sparse.converters.tensorflow.reading.operators import operators

    operator = operators()[node.op_type]
    numbers = {dtype: number for number, dtype in ONNX_TYPES.items()}
    types = {*operator.types, *(output.dtype for output in operator.outputs if output.dtype not in NUMBERS)}
    counts = {output.count for output in operator.outputs if output.count}
    message = NodeDef(name=node.op_type, op=node.op_type)
    for name, value in node.attributes.items():
        if name in types:
            dtype = TensorProto.STRING if value == _STRING else ACL.get(value, TensorProto.UNDEFINED)
            message.attr[name].type = numbers.get(dtype, 0)
        elif name.startswith("T") and name not in operator.defaults:
            continue  # a type that the edges say
        elif value is not None and (name in counts or not node.attributes.says_nothing(name, value)):
            _set(message.attr[name], value, name)
    place = 0
    for output in operator.outputs:
        described = node.results[place].dtype if place < len(node.results) else None
        if output.dtype in types and not message.attr[output.dtype].type:
            if described is None and output.dtype not in operator.types:
                raise Unsupported(f"the graph does not say the element type of its result {place}")
            default = operator.types.get(output.dtype, 0)
            message.attr[output.dtype].type = default if described is None else numbers.get(described, 0)
        place += message.attr[output.count].i if output.count else 1
    return message


def _set(attribute: Any, value: Any, name: str) -> None:
    if isinstance(value, list):
        kind = "s" if value and isinstance(value[0], str) else "f" if value and isinstance(value[0], float) else "i"
        getattr(attribute.list, kind).extend([v.encode() for v in value] if kind == "s" else value)
    elif isinstance(value, str):
        attribute.s = value.encode()
    elif isinstance(value, bool):
        attribute.b = value
    elif isinstance(value, int):
        attribute.i = value
    elif isinstance(value, float):
        attribute.f = value
    else:
        raise Unsupported(f"attribute {name} is a tensor")
