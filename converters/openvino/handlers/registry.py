"""The registry of OpenVINO's handlers and what a handler works with.

An integer result may have another type than the layer's port: the driver casts it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.emitter import OpenVINOEmitter
from onnx_sparse.converters.openvino.handlers.attributes import is_read
from onnx_sparse.converters.openvino.ir import Layer, Network
from onnx_sparse.converters.openvino.ir.weights import Weights
from onnx_sparse.converters.tensor import Array, Shape, Tensor
from onnx_sparse.converters.writing import reads
from onnx_sparse.converters.writing.reads import Attributes, Inputs
from onnx_sparse.converters.writing.registry import Handler, Registry
from onnx_sparse.schemas.declaration import DType

#: The newest operator set whose operators are known.
NEWEST_OPSET = 17


@dataclass
class Converted:
    """The tensors of a converted graph.

    Attributes:
        parameters: The tensors of its Parameters by layer id, in the order of the file.
        results: The tensors that its Results read, by layer id, in the order of the file.
    """

    parameters: dict[int, Tensor] = field(default_factory=dict)
    results: dict[int, Tensor] = field(default_factory=dict)


class _Data(Attributes[str]):
    """The attributes of a layer. A type that its ports have, too, is read from these.

    Args:
        layer: The layer.
        op_type: Its operator with the version of the handler.
    """

    _TYPES = frozenset({"output_type", "index_element_type", "count_element_type", "classes_index_type",
                        "sequence_length_type", "roi_num_type"})  # fmt: skip

    def __init__(self, layer: Layer, op_type: str) -> None:
        super().__init__(layer.data)
        self._op_type = op_type
        self._precisions = {port.precision for port in layer.outputs}

    def says_nothing(self, name: str, value: str) -> bool:
        """Whether it is the type of an output, or one that OpenVINO's operator has not."""
        is_known_type = name in self._TYPES and value.strip().lower() in self._precisions
        return is_known_type or not is_read(self._op_type, name)


@dataclass(frozen=True)
class Node(reads.Node):
    """A layer as its handler sees it: `node[0]` is its first input.

    Attributes:
        layer: The layer in the file.
        inputs: The tensors it reads.
        results: The element type and shape of each output in the file; the type is None if the file does not name it.
        weights: The constants of the IR.
        convert_body: Converts a body into an emitter, given tensors for its Parameters by layer id.
        known: The value of an input, by position, if it is a constant, also one that a Convert decompresses; else None.
        attributes: The layer's attributes.
    """

    layer: Layer
    inputs: Inputs[Tensor]
    results: tuple[tuple[DType | None, Shape | None], ...]
    weights: Weights
    convert_body: Callable[[Network, OpenVINOEmitter, Mapping[int, Tensor]], Converted]
    known: Callable[[int], Array | None] = lambda _: None
    attributes: Attributes[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", _Data(self.layer, self.op_type))

    @property
    def op_type(self) -> str:
        """The operator with the version that its handler has: `Abs-1`."""
        return find_handler(self.layer).op_type

    def __getitem__(self, position: int) -> Tensor:
        if position >= len(self.inputs):
            raise Unsupported(f"it has {len(self.inputs)} inputs, and needs more")
        return self.inputs[position]

    def take(self, count: int) -> tuple[Tensor, ...]:
        """The first inputs. Several broadcast as in numpy, from which pdpd differs if `axis` is given."""
        if count > 1 and self.choice("auto_broadcast", ("numpy", "none", "pdpd"), "numpy") == "pdpd":
            raise Unsupported("auto_broadcast = 'pdpd' is not supported")
        return tuple(self[position] for position in range(count))

    def optional(self, position: int) -> Tensor | None:
        """An input, or None if it is omitted."""
        return self.inputs[position] if position < len(self.inputs) else None

    def ranked(self, position: int, least: int, most: int | None = None) -> Tensor:
        """An input whose rank must be known and between two.

        Raises:
            Unsupported: It has another rank, or an unknown one.
        """
        tensor = self[position]
        if tensor.rank < least or (most is not None and tensor.rank > most):
            wanted = f"{least} or more" if most is None else str(least) if most == least else f"{least} to {most}"
            raise Unsupported(f"the rank of input {position}, {tensor}, is not {wanted}")
        return tensor

    def has(self, key: str) -> bool:
        """Whether the layer has an attribute."""
        return key in self.attributes

    def text(self, key: str, default: str | None = None) -> str:
        """An attribute, in lower case."""
        value = self.attributes.get(key, default)
        if value is None:
            raise Unsupported(f"it has no attribute {key}")
        return value.strip().lower()

    def choice(self, key: str, choices: tuple[str, ...], default: str | None = None) -> str:
        """An attribute that is one of a few words."""
        value = self.text(key, default)
        if value not in choices:
            raise Unsupported(f"{key} = {value!r} is not supported; {', '.join(choices)} are")
        return value

    def flag(self, key: str, default: bool | None = None) -> bool:
        """A boolean attribute."""
        value = self.text(key, None if default is None else str(default))
        if value not in ("true", "false", "1", "0"):
            raise Unsupported(f"{key} = {value!r} is not a boolean")
        return value in ("true", "1")

    def integer(self, key: str, default: int | None = None) -> int:
        """An integer attribute."""
        value = self.text(key, None if default is None else str(default))
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", value):
            raise Unsupported(f"{key} = {value[:40]!r} is not an integer")
        return int(value)

    def number(self, key: str, default: float | None = None) -> float:
        """A float attribute."""
        value = self.text(key, None if default is None else repr(default))
        try:
            return float(value)
        except ValueError:
            raise Unsupported(f"{key} = {value[:40]!r} is not a number") from None

    def numbers(self, key: str, default: Sequence[float] | None = None) -> list[float]:
        """A list of floats, `"0.5, 2"`."""
        if default is not None and not self.has(key):
            return list(default)
        try:
            return [float(part) for part in re.split(r"[\s,]+", self.text(key)) if part]
        except ValueError:
            raise Unsupported(f"{key} = {self.text(key)[:40]!r} is not a list of numbers") from None

    def integers(self, key: str, default: Sequence[int] | None = None) -> list[int]:
        """A list of integers, `"1, 2"`."""
        if default is not None and not self.has(key):
            return list(default)
        parts = [part for part in re.split(r"[\s,]+", self.text(key)) if part]
        if not all(re.fullmatch(r"[+-]?[0-9]{1,18}", part) for part in parts):
            raise Unsupported(f"{key} = {self.text(key)[:40]!r} is not a list of integers")
        return [int(part) for part in parts]


#: The handlers by operator and the operator set that introduced its version: `Gather-8`.
HANDLERS = Registry(Handler)
handles = HANDLERS.handles

_STATE_IN_BODY = (
    "a state in the body of a loop; unroll the loop (openvino.passes.LowLatency2 in a passes.Manager) and save the IR "
    "again: states of the model itself become inputs and outputs"
)
#: Operators that will not be converted, and why.
NEVER = {
    "ReadValue": _STATE_IN_BODY,
    "Assign": _STATE_IN_BODY,
    "RandomUniform": "ONNX Runtime draws other random numbers than OpenVINO",
    "Multinomial": "ONNX Runtime draws other random numbers than OpenVINO",
}


_RAGGED, _PIECES, _WORDS = "lays out ragged rows", "splits words into pieces of a vocabulary", "a SentencePiece model"
#: The layers of openvino_tokenizers, and what they do.
TOKENIZERS = {
    "BPETokenizer": _PIECES,
    "ByteFallback": "turns names of bytes into bytes",
    "BytesToChars": "turns bytes into characters",
    "CaseFold": "lowers text",
    "CharsMapNormalization": "normalizes text",
    "CharsToBytes": "turns characters into bytes",
    "CombineSegments": "joins texts and special tokens",
    "EqualStr": "compares texts",
    "FuzeRagged": _RAGGED,
    "NormalizeUnicode": "normalizes text",
    "RaggedTensorPack": _RAGGED,
    "RaggedToDense": _RAGGED,
    "RaggedToRagged": _RAGGED,
    "RaggedToSparse": _RAGGED,
    "RegexNormalization": "replaces matches of a regular expression",
    "RegexSplit": "splits text at matches of a regular expression",
    "SentencepieceDetokenizer": _WORDS,
    "SentencepieceStreamDetokenizer": _WORDS,
    "SentencepieceTokenizer": _WORDS,
    "SpecialTokensSplit": "splits text at special tokens",
    "StringTensorPack": "makes texts of characters",
    "StringTensorUnpack": "makes characters of texts",
    "StringToHashBucket": "hashes texts",
    "TrieTokenizer": _PIECES,
    "Truncate": "cuts texts that are too long",
    "UTF8Validate": "checks UTF-8",
    "UnigramTokenizer": _PIECES,
    "VocabDecoder": "looks ids up in a vocabulary",
    "VocabEncoder": "looks words up in a vocabulary",
    "WordpieceTokenizer": _PIECES,
}


def find_handler(layer: Layer) -> Handler:
    """The handler of a layer: that of the newest version in its operator set.

    Raises:
        Unsupported: There is no such handler.
    """
    if layer.version == "extension" and (purpose := TOKENIZERS.get(layer.type)) is not None:
        raise Unsupported(
            f"it is of openvino_tokenizers ({purpose}), and none of OpenVINO's; tokenize outside of the model, with "
            "`tokenizers` or onnxruntime-extensions (gen_processing_models), and convert the rest of the model"
        )
    if (match := re.fullmatch(r"opset([0-9]{1,3})", layer.version)) is None:
        raise Unsupported(f"its operator set {layer.version[:40]!r} is not one of OpenVINO's")
    opset = int(match[1])
    if not 1 <= opset <= NEWEST_OPSET:
        raise Unsupported(f"its operator set {layer.version!r} is not known; opset1 to opset{NEWEST_OPSET} are")
    op_type = layer.type
    handlers = (HANDLERS.get(f"{op_type}-{version}") for version in range(opset, 0, -1))
    found = next(filter(None, handlers), None)
    if found is not None:
        return found
    if any(f"{op_type}-{version}" in HANDLERS for version in range(opset, NEWEST_OPSET + 1)):
        raise Unsupported(f"no converter for its version in {layer.version}")
    raise Unsupported(NEVER.get(layer.type, "no converter for this operator"))
