"""The registry of handlers and what a handler works with.

A handler is a function of a source node and an emitter that returns the node's outputs in TensorFlow's order:

    @handles("SparseReshape", inputs=("input_indices", "input_shape", "new_shape"))
    def sparse_reshape(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
        return emit.domain_op("SparseReshape", node.inputs)

A handler that cannot convert a node raises `Unsupported` with the reason; the driver collects these, so that a user
sees all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnx_sparse.converters.errors import Unsupported as Unsupported
from onnx_sparse.converters.tensorflow.source import Array
from onnx_sparse.schemas import OPS
from onnx_sparse.schemas.declaration import DType, dtype_name

if TYPE_CHECKING:
    from onnx_sparse.converters.tensorflow.handlers.emitter import Emitter


@dataclass(frozen=True)
class Tensor:
    """A tensor: its name, its element type (a TensorProto.DataType), its shape (None: rank or dimension unknown).

    A constant also has its value.
    """

    name: str
    dtype: DType
    shape: tuple[int | None, ...] | None = None
    value: Array | None = field(default=None, compare=False)

    def known_rank(self, what: str) -> int:
        """The rank.

        Raises:
            Unsupported: If it is not known; `what` names the tensor.
        """
        if self.shape is None:
            raise Unsupported(f"the rank of {what} is not known")
        return len(self.shape)


@dataclass(frozen=True)
class SourceNode:
    """A TensorFlow node as its handler sees it: `node["indices"]` is the input that TensorFlow calls `indices`.

    If the node uses a lookup table, `table` holds its keys and values, or None if they are not known.
    """

    name: str
    op_type: str
    inputs: Mapping[str, Tensor]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    table: tuple[Array, Array] | None = field(default=None, compare=False)

    def __getitem__(self, input_name: str) -> Tensor:
        return self.inputs[input_name]

    def all(self, input_name: str) -> list[Tensor]:
        """The tensors of an input that is a list, `"values*"` in the declaration of its handler."""
        return [tensor for name, tensor in self.inputs.items() if name.rpartition("_")[0] == input_name]


HandlerFunction = Callable[[SourceNode, "Emitter"], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Handler:
    """How one TensorFlow operator is converted.

    Attributes:
        op_type: The TensorFlow operator.
        inputs: TensorFlow's names of its inputs, in order.
        to: The operator that the node becomes: one of the domain, or the standard one that does the work.
        convert: The function that converts it.
        notes: Where the result differs from TensorFlow, for the coverage table.
        types: The element types; if empty, those of the domain's operator.
        partial: Whether it takes only nodes whose first input has one of these types; tf2onnx converts the others.
    """

    op_type: str
    inputs: tuple[str, ...]
    to: str
    convert: HandlerFunction
    notes: str = ""
    types: tuple[str, ...] = ()
    partial: bool = False

    def names(self, count: int) -> list[str]:
        """The names of `count` inputs; tensors of a list are numbered: `values_0`, `values_1`."""
        lists = [name for name in self.inputs if name.endswith("*")]
        if not lists:
            return list(self.inputs)
        each = (count - len(self.inputs) + len(lists)) // len(lists)
        numbered = {name: [f"{name.removesuffix('*')}_{k}" for k in range(each)] for name in lists}
        return [given for name in self.inputs for given in numbered.get(name, [name])]

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The element types that are converted; `("int64",)` if the domain's operator has no type variable."""
        return self.types or tuple(dtype_name(t) for t in OPS[self.to].types.get("T", ())) or ("int64",)


_FAST_IS_CONVERTED = "tf.strings.to_hash_bucket_fast (Keras: Hashing without a salt) is converted"

_NOT_PARSED = (
    "serialized tf.Example messages are not parsed in ONNX; convert a signature whose inputs are the features, "
    "or of a frozen graph the part behind the parser, by the inputs that are given"
)
_NOT_JOINED = "text is not put together in ONNX; do that before the model"
_NOT_SPLIT = "text is not taken apart in ONNX; do that before the model"

#: Why some operators that might be expected to be converted are not.
REFUSALS: dict[str, str] = {
    **dict.fromkeys(("ParseExample", "ParseExampleV2", "ParseSequenceExample", "ParseSequenceExampleV2"), _NOT_PARSED),
    **dict.fromkeys(("ParseSingleExample", "ParseSingleSequenceExample", "DecodeProtoV2"), _NOT_PARSED),
    **dict.fromkeys(("StringJoin", "ReduceJoin", "UnsortedSegmentJoin", "StringFormat", "StringNGrams"), _NOT_JOINED),
    **dict.fromkeys(("StringSplit", "StringSplitV2", "Substr", "StringStrip", "StringLength"), _NOT_SPLIT),
    **dict.fromkeys(("RegexReplace", "StaticRegexReplace", "RegexFullMatch", "StaticRegexFullMatch"), _NOT_SPLIT),
    "SparseCrossV2": "text is not put together in ONNX; tf.sparse.cross_hashed is converted",
    "StringToHashBucket": f"TensorFlow may change its hash from version to version; {_FAST_IS_CONVERTED}",
    "StringToHashBucketStrong": f"no operator has its keyed hash, SipHash; {_FAST_IS_CONVERTED}",
}

#: The handlers by TensorFlow operator.
HANDLERS: dict[str, Handler] = {}


def handles(
    *op_types: str,
    inputs: tuple[str, ...],
    to: str = "",
    notes: str = "",
    dtypes: tuple[str, ...] = (),
    partial: bool = False,
) -> Callable[[HandlerFunction], HandlerFunction]:
    """Register the decorated function as the handler of TensorFlow operators.

    Args:
        op_types: The operators.
        inputs: TensorFlow's names of their inputs, in order; one that ends in `*` is a list of N tensors.
        to: The operator that they become; the domain's of the same name when omitted.
        notes: Where the result differs from TensorFlow.
        dtypes: The element types, where `to` is a standard operator.
        partial: Whether tf2onnx converts nodes whose first input is of another type.
    """

    def register(function: HandlerFunction) -> HandlerFunction:
        for op_type in op_types:
            if op_type in HANDLERS:
                raise ValueError(f"{op_type} has a handler already")
            HANDLERS[op_type] = Handler(op_type, inputs, to or op_type, function, notes, dtypes, partial)
        return function

    return register
