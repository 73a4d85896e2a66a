"""ParseExample and ParseSequenceExample: the features in serialized tf.Example and tf.SequenceExample messages."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.schemas.declaration import DecidedSize, Example, Family, Input, Op, Output, Values
from onnx_sparse.schemas.element_types import DType

_FLOAT, _INT64, _STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING

#: The element types of features, in the order of the outputs, with the names of their lists in a message.
LISTS: dict[DType, str] = {_FLOAT: "a FloatList", _INT64: "an Int64List", _STRING: "a BytesList"}

NO_PYTHON_KERNELS = (
    "onnxruntime-extensions cuts messages at their first zero byte, and ends the process on bytes that are not UTF-8"
)

_BODY_NOTES = "It has no operator that reads the bytes of a string."

# What both have.
_FEATURES = (
    Input("serialized", "string", "B", "The messages.", Values("message")),
    Input("keys", "string", "F", "The names of the features.", Values("distinct")),
    Input("types", "int64", "F", "The element type of each feature, as in TensorProto.", Values("element_type")),
)
_DEFAULTS = (
    Input("float_defaults", "float", "X", "The defaults of the float features.", Values("default")),
    Input("int64_defaults", "int64", "Y", "The defaults of the int64 features.", Values("default")),
    Input("string_defaults", "string", "Z", "The defaults of the string features.", Values("default")),
)
_VALUES = (
    Output("float_values", "float", "P", "The values of the float features."),
    Output("int64_values", "int64", "Q", "The values of the int64 features.", holds_data=True),
    Output("string_values", "string", "S", "The values of the string features."),
)


def _value_count(batch: int, sizes: np.ndarray[Any, Any]) -> int | None:
    """How many values features of these sizes have together in all messages."""
    return None if (sizes < 0).any() else batch * sum(sizes.tolist())


def _values_of_type(dtype: DType) -> DecidedSize:
    return DecidedSize(("B", "types", "sizes"), lambda batch, types, sizes: _value_count(batch, sizes[types == dtype]))


def _context_values_of_type(dtype: DType) -> DecidedSize:
    def count(batch: int, types: Any, sizes: Any, in_lists: Any) -> int | None:
        return _value_count(batch, np.where(in_lists, -1, sizes)[types == dtype])

    return DecidedSize(("B", "types", "sizes", "in_lists"), count)


PARSE_EXAMPLE = Op(
    name="ParseExample",
    summary="Reads features from serialized tf.Example messages.",
    semantics="""
Feature f has the name `keys[f]` and values of the element type `types[f]`. All values of the features of one type are
in one output: feature after feature, and for each feature message after message. In message b, feature f has its values
number `row_splits[f, b]` to `row_splits[f, b+1] - 1`. A Split by `row_splits[:, B]` takes the output apart. For each
value of a `sparse` feature, `coordinates` has its message and its number in the message, also feature after feature.

- `sizes[f]` >= 0 is the number of values that each message must have; with -k the number is any multiple of k, so -1
  allows any number. Another number is an error.
- A message without the feature has its default values where `sizes[f]` >= 0, and no values otherwise. If the feature is
  `required`, it is an error.
- The defaults of one type are in one input: `sizes[f]` values for each feature f of this type that is not required and
  has `sizes[f]` >= 0. More or fewer are an error.
- A key that is twice in `keys`, and an element type other than float (1), int64 (7) and string (8) are errors.
- A list of another type than the feature's is an error.

Messages are read as TensorFlow reads them:

- Of several entries with the same key the last counts. The others need not have the type of the feature, and their
  values are ignored, but each must be a list of one of the three types or unset.
- A feature that is unset (it has no list, not even an empty one) is an empty list where `unset_is_empty`. Otherwise it
  is ignored, so that an entry before it counts.
- The key and the feature of an entry may come in either order. Without a key it is the empty string; without a feature
  the feature is unset.
- Values may be packed or not. Of a packed list the first piece counts, of several lists in one feature the first.
- Fields of a message other than its features are skipped; other fields inside the features are an error.
- A nested message may announce more bytes than there are: it ends where the message around it ends.
- Other malformed messages are errors. Features that are not in `keys` are ignored.
- An error names the first message that is at fault: that it is malformed, or else the first of `keys` at fault in it.

ONNX Runtime's C API takes any bytes, and `onnx_sparse.InferenceSession` takes bytes objects. ONNX Runtime's own Python
API takes messages as they are only in arrays of numpy's type `void`, in which all have the same number of bytes;
`onnx_sparse.example_array` makes such an array. See [text is bytes](../text.md).
""".strip(),
    source="tf.raw_ops.ParseExampleV2, whose sparse, dense and ragged outputs follow from values and row splits",
    inputs=(
        *_FEATURES,
        Input("sizes", "int64", "F", "How many values a message has of each feature."),
        Input("required", "bool", "F", "Whether each message must have the feature."),
        Input("unset_is_empty", "bool", "F", "Whether a feature that is unset is an empty list."),
        Input("sparse", "bool", "F", "Whether coordinates has the values of a feature."),
        *_DEFAULTS,
    ),
    outputs=(
        *_VALUES,
        Output("row_splits", "int64", "F, B + 1", "For each feature, where its values of each message begin."),
        Output("coordinates", "int64", "C, 2", "The coordinates of the values of sparse features.", holds_data=True),
    ),
    types={},
    decided={
        "P": _values_of_type(_FLOAT),
        "Q": _values_of_type(_INT64),
        "S": _values_of_type(_STRING),
        "C": DecidedSize(("B", "sizes", "sparse"), lambda batch, sizes, sparse: _value_count(batch, sizes[sparse])),
    },
    body_notes=_BODY_NOTES,
    no_python_kernels=NO_PYTHON_KERNELS,
    examples=(
        Example(
            "one value, one with a default, and any number of values",
            {},
            {
                "serialized": [
                    "\n6\n\x0b\n\x03age\x12\x04\x1a\x02\x08*\n\x14\n\x05words\x12\x0b\n\t\n\x02to\n\x03see"
                    "\n\x11\n\x05score\x12\x08\x12\x06\n\x04aaaA",
                    "\n\r\n\x0b\n\x03age\x12\x04\x1a\x02\x08\x07",
                ],
                "keys": ["age", "words", "score"],
                "types": [_INT64, _STRING, _FLOAT],
                "sizes": [1, -1, 1],
                "required": [True, False, False],
                "unset_is_empty": [False, True, False],
                "sparse": [False, True, False],
                "float_defaults": [0.5],
                "int64_defaults": [],
                "string_defaults": [],
            },
            {
                "float_values": [14.086274147033691, 0.5],
                "int64_values": [42, 7],
                "string_values": ["to", "see"],
                "row_splits": [[0, 1, 2], [0, 2, 2], [0, 1, 2]],
                "coordinates": [[0, 0], [0, 1]],
            },
        ),
    ),
)

PARSE_SEQUENCE_EXAMPLE = Op(
    name="ParseSequenceExample",
    summary="Reads features and lists of features from serialized tf.SequenceExample messages.",
    semantics="""
Feature f has the name `keys[f]` and values of the element type `types[f]`. It is a list of lists: where it is
`in_lists`, the message's feature list of that name, whose lists are its steps; else one list, the feature of the
message's context. All values of the features of one type are in one output: feature after feature, and for each
feature message after message and list after list. Its values in message b are in its lists number
`list_splits[f, b]` to `list_splits[f, b+1] - 1`; `lengths` has the number of values in each list, feature after
feature. A Split of `lengths` by `list_splits[:, B]`, and one of the values, take the outputs apart.

- `sizes[f]` >= 0 is the number of values that each list must have; with -k the number is any multiple of k, so -1
  allows any number. Another number is an error.
- A message without the feature has no lists of it where it is `in_lists`. In the context it has one list: its default
  values where `sizes[f]` >= 0, and no values otherwise. If the feature is `required`, it is an error.
- The defaults of one type are in one input: `sizes[f]` values for each feature f of this type that is neither required
  nor `in_lists` and has `sizes[f]` >= 0. More or fewer are an error.
- A key that is twice among the features of the context or among the feature lists, and an element type other than
  float (1), int64 (7) and string (8) are errors.
- A list of another type than the feature's is an error, unless it is of no known feature.

Messages are read as TensorFlow reads them:

- Of several entries with the same key the last counts; the others are ignored. An entry has its key first, then
  its content, and nothing else.
- A feature that has no list at all is an empty list. In the context, everything after the first list of a feature is
  ignored; in a feature list the next feature begins there. An empty list there ends with its length.
- Values may be packed or not. Of a packed list the first piece counts; pieces of floats have whole floats.
- Fields of a message other than its context and its feature lists are skipped; other fields inside these are an error.
- A nested message may announce more bytes than there are: it ends where the message around it ends.
- Other malformed messages are errors. Features that are not in `keys` are ignored.
- An error names the first message that is at fault: that it is malformed, or else the first of `keys` at fault in it.

See ParseExample for how to pass messages.
""".strip(),
    source="tf.raw_ops.ParseSequenceExampleV2, whose sparse, dense and ragged outputs follow from values and lengths",
    inputs=(
        *_FEATURES,
        Input("sizes", "int64", "F", "How many values a list of each feature has."),
        Input("required", "bool", "F", "Whether each message must have the feature."),
        Input("in_lists", "bool", "F", "Whether the feature is a feature list, not one of the context."),
        *_DEFAULTS,
    ),
    outputs=(
        *_VALUES,
        Output("list_splits", "int64", "F, B + 1", "For each feature, where its lists of each message begin."),
        Output("lengths", "int64", "N", "The number of values in each list."),
    ),
    types={},
    decided={
        "P": _context_values_of_type(_FLOAT),
        "Q": _context_values_of_type(_INT64),
        "S": _context_values_of_type(_STRING),
        "N": DecidedSize(("B", "in_lists"), lambda batch, in_lists: None if in_lists.any() else batch * len(in_lists)),
    },
    body_notes=_BODY_NOTES,
    no_python_kernels=NO_PYTHON_KERNELS,
    examples=(
        Example(
            "an age in the context, and words of each step",
            {},
            {
                "serialized": [
                    "\n\r\n\x0b\n\x03age\x12\x04\x1a\x02\x08*"
                    "\x12 \n\x1e\n\x05words\x12\x15\n\x0b\n\t\n\x02to\n\x03see\n\x06\n\x04\n\x02be",
                    "",
                ],
                "keys": ["age", "words"],
                "types": [_INT64, _STRING],
                "sizes": [1, -1],
                "required": [False, False],
                "in_lists": [False, True],
                "float_defaults": [],
                "int64_defaults": [18],
                "string_defaults": [],
            },
            {
                "float_values": [],
                "int64_values": [42, 18],
                "string_values": ["to", "see", "be"],
                "list_splits": [[0, 1, 2], [0, 2, 2]],
                "lengths": [1, 1, 2, 1],
            },
        ),
    ),
)

FAMILY = Family(
    "example_parsing",
    (PARSE_EXAMPLE, PARSE_SEQUENCE_EXAMPLE),
    origin="`tf.io.parse_example`, `tf.io.parse_sequence_example`, serving signatures",
)
