"""The registry of TensorFlow's handlers and what a handler works with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from onnx_sparse.converters.tensor import Array, Tensor
from onnx_sparse.converters.writing import registry
from onnx_sparse.converters.writing.reads import Attributes, Readable, Reads
from onnx_sparse.schemas import OPS
from onnx_sparse.schemas.declaration import DType, dtype_name


@dataclass(frozen=True)
class Node(Readable):
    """A TensorFlow node as its handler sees it: `node["indices"]` is the input that TensorFlow calls `indices`.

    If the node uses a lookup table, `table` holds its keys and values, or None if they are not known. `dtypes` are the
    element types of its results, by the order of its outputs.
    """

    name: str
    op_type: str
    inputs: Attributes[Tensor]
    attributes: Attributes[Any] = field(default_factory=lambda: Attributes({}))
    table: tuple[Array, Array] | None = field(default=None, compare=False)
    dtypes: tuple[DType, ...] = ()

    def parts(self) -> Iterable[Reads]:
        """See `Readable`."""
        return self.inputs, self.attributes

    def __getitem__(self, input_name: str) -> Tensor:
        return self.inputs[input_name]

    def all(self, input_name: str) -> list[Tensor]:
        """The tensors of an input that is a list, `"values*"` in the declaration of its handler."""
        return [self.inputs[name] for name in self.inputs if name.rpartition("_")[0] == input_name]


@dataclass(frozen=True, kw_only=True)
class Handler(registry.Handler):
    """How one TensorFlow operator is converted.

    Attributes:
        inputs: TensorFlow's names of its inputs, in order; one that ends in `*` is a list of N tensors.
        dtypes: The element types, where `to` is a standard operator; else those of the domain's operator.
    """

    inputs: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.dtypes:  # the domain's operators without a type variable are on int64
            types = tuple(dtype_name(t) for t in OPS[self.to].types.get("T", ()))
            object.__setattr__(self, "dtypes", types or ("int64",))

    def names(self, count: int) -> list[str]:
        """The names of `count` inputs; tensors of a list are numbered: `values_0`, `values_1`."""
        lists = [name for name in self.inputs if name.endswith("*")]
        if not lists:
            return list(self.inputs)
        each = (count - len(self.inputs) + len(lists)) // len(lists)
        numbered = {name: [f"{name.removesuffix('*')}_{k}" for k in range(each)] for name in lists}
        return [given for name in self.inputs for given in numbered.get(name, [name])]


_OTHERS_ARE_CONVERTED = "tf.strings.to_hash_bucket_fast and _strong (Keras: Hashing) are converted"

_NOT_PARSED = (
    "of serialized messages, only tf.Example and tf.SequenceExample are parsed in ONNX; convert a signature whose "
    "inputs are the features: pass them, or for a frozen graph the tensors after the parser, as inputs"
)
_TOKENIZER = (
    "this kernel of tensorflow_text is not converted; convert the graph from the tensors of ids on, by the inputs that "
    "are given, and run the tokenizer before the model (onnxruntime-extensions has kernels of BERT's and "
    "SentencePiece's)"
)
_JSON = "JSON is not parsed in ONNX; convert a signature that takes serialized tf.Example messages"
_PICTURE = "pictures are not decoded in ONNX; convert the graph from the pixels on, by the inputs that are given"
_NOT_COMPLEX = "ONNX Runtime has no complex tensors"

_IN_PYTHON = (
    "the code of a Python function is not in the file; write it with TensorFlow's operators and save the model again, "
    "or pass what it returns as an input"
)
_COMPILED = (
    "its code is StableHLO of JAX, not TensorFlow's operators; convert with jax2tf and native_serialization=False, and "
    "save the model again"
)
_FORESTS = "the trees of TensorFlow Decision Forests are not in the graph; export the model with ydf (to_onnx)"
_ON_DEVICE = "the model was rewritten for a device; convert the model that was saved before {}"
_ELSEWHERE = (
    "its table is in a service or library that the file does not hold; export it as a TensorFlow variable first"
)

#: Why some operators that might be expected to be converted are not.
REFUSALS: dict[str, str] = {
    "DecodeProtoV2": _NOT_PARSED,
    "DecodeJSONExample": _JSON,
    **dict.fromkeys(
        ("DecodeJpeg", "DecodePng", "DecodeGif", "DecodeBmp", "DecodeImage", "DecodeAndCropJpeg"), _PICTURE
    ),
    **dict.fromkeys(
        (
            *("WhitespaceTokenizeWithOffsets", "WordpieceTokenizeWithOffsets"),
            "TFText>FastWordpieceTokenizeWithOffsets",
            *("TFText>FastBertNormalize", "FastWordpieceTokenizeWithOffsets", "SentencepieceOp"),
            *("SentencepieceTokenizeOp", "SentencepieceTokenizeWithOffsetsOp", "SentencepieceDetokenizeOp"),
            *("CaseFoldUTF8", "NormalizeUTF8", "UnicodeScriptTokenizeWithOffsets"),
        ),
        _TOKENIZER,
    ),
    **dict.fromkeys(("Angle", "FFT3D", "IFFT3D", "RFFT3D", "IRFFT3D"), _NOT_COMPLEX),
    **dict.fromkeys(("PyFunc", "PyFuncStateless", "EagerPyFunc"), _IN_PYTHON),
    **dict.fromkeys(("XlaCallModule", "XlaLaunch"), _COMPILED),
    **dict.fromkeys(
        ("SimpleMLInferenceOp", "SimpleMLInferenceOpWithHandle", "SimpleMLLoadModelFromPathWithHandle"), _FORESTS
    ),
    "TRTEngineOp": _ON_DEVICE.format("TF-TRT converted it"),
    **dict.fromkeys(
        ("TPUPartitionedCall", "TPUOrdinalSelector", "TPUReplicate", "TPUExecute", "TPUCompilationResult"),
        _ON_DEVICE.format("it was exported for TPUs"),
    ),
    **dict.fromkeys(
        ("MonolithHashTableLookup", "KvResourceGather", "TFRA>CuckooHashTableFind", "TFRA>RedisTableFind"), _ELSEWHERE
    ),
    "StringToHashBucket": f"TensorFlow may change its hash from version to version; {_OTHERS_ARE_CONVERTED}",
}

#: The handlers by TensorFlow operator.
HANDLERS = registry.Registry(Handler)
handles = HANDLERS.handles
