"""What an operator is: the vocabulary of a declaration.

One `Op` says everything about one operator: inputs, outputs, attributes, types, semantics in prose, function body and
worked examples. The registered `onnx.defs.OpSchema`, shape inference, the `FunctionProto`, the documentation page, the
kernels' dtype overloads and the contract tests are derived from it; none of them is written by hand.

Shapes are written as ONNX users write them: ``"K, ..."`` is a tensor of rank >= 1, ``""`` a scalar. An item is

- ``K``: a dimension. The same letter is the same size everywhere; the name of a scalar input is that input's value.
- ``dense_shape[0]``: a dimension that is the value of one element of an input.
- ``B - 1``, ``N + 1``: a dimension that is one less or one more than another; ``2 E``: one that is twice another;
  ``2``: a dimension of that size.
- ``...``: any number of dimensions, the same ones everywhere in one operator.
- ``*S``: a named group of any number of dimensions; ``*dims``, with an input's name, has that input's values as sizes.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.schemas.element_types import FLOATS as FLOATS
from onnx_sparse.schemas.element_types import HALF_FLOATS as HALF_FLOATS
from onnx_sparse.schemas.element_types import INDEX as INDEX
from onnx_sparse.schemas.element_types import NUMBERS as NUMBERS
from onnx_sparse.schemas.element_types import SIGNED_INTEGERS as SIGNED_INTEGERS
from onnx_sparse.schemas.element_types import UNSIGNED_INTEGERS as UNSIGNED_INTEGERS
from onnx_sparse.schemas.element_types import DType as DType
from onnx_sparse.schemas.element_types import dtype_name as dtype_name
from onnx_sparse.schemas.element_types import element_type as element_type
from onnx_sparse.schemas.element_types import numpy_dtype as numpy_dtype

DOMAIN = "onnx_sparse"
"""The domain of the operators, in a node's `domain` and a model's `opset_import`."""
OPSET_VERSION = 1
"""The version of the domain that models are written in."""


def shape_items(shape: str) -> list[str]:
    """The items of a declared shape: `["K", "..."]` of `"K, ..."`."""
    return [item.strip() for item in shape.split(",")] if shape else []


def is_group(item: str) -> bool:
    """Whether an item of a declared shape stands for any number of dimensions."""
    return item == "..." or item.startswith("*")


@dataclass(frozen=True)
class Values:
    """Which values of an input are legal, as far as one word can tell. The semantics say the rest.

    `kind` is one of

    - ``any``: every value of the type.
    - ``index``: integers in [low, of), `of` being a dimension of another input or a scalar input.
    - ``segment``: integers below the scalar input `of`, in any order.
    - ``sorted_segment``: integers >= 0 that do not decrease; those at or beyond the scalar input `of` are not used.
    - ``offsets``: integers in [0, of] that do not decrease, the first of them 0.
    - ``size``: integers >= low that count something: sizes of the output, buckets.
    - ``coordinates``: column c of each row is in [0, of[c]).
    - ``row_major``: coordinates in row-major order, none of them twice.
    - ``flags``: 0 and 1.
    - ``reshape``: integers >= -1, at most one of them -1, with the product of the input `of`.
    - ``distinct``: strings or integers, no two of them equal.
    - ``key_index``: the bytes of an index of the keys `of`.
    - ``element_type``: element types of the features of a tf.Example or the fields of a line.
    - ``message``: serialized tf.Example messages.
    - ``csv_record``: lines of comma-separated values.
    - ``base64``: strings in web-safe base64.
    - ``raw``: strings of the same number of bytes, of which numbers are made.
    - ``compressed``: compressed strings.
    - ``tensor_message``: a serialized TensorProto of TensorFlow.
    - ``program``: instructions of regular expressions, whose classes have the row splits `of`.
    - ``group``: numbers of groups of a regular expression.
    - ``increasing``: integers >= 0, each greater than the one before.
    - ``default``: values for messages without a feature, and lines with an empty field.
    - ``row_splits``: integers that begin with 0, do not decrease and end with `of`, a dimension or a scalar input.
    - ``position``: positions in the strings of the input `of`; negative ones count from the end.

    Illegal values are reported, and a test draws some for every input, unless they are not `checked`.
    """

    kind: str
    of: str = ""
    low: int = 0
    checked: bool = True


ANY = Values("any")


@dataclass(frozen=True)
class Input:
    """One input.

    `sentinel` is the value that means "not given" in canonical form; None marks a required input. An input that
    `broadcasts` has a shape that numpy broadcasts to `shape`. `values_under` names attributes and their values under
    which other `values` are legal. One that is `sparsely_read` may be large, and a run reads few of its elements:
    native kernels read these at any address, and get an aligned copy of other integers.
    """

    name: str
    type: str
    shape: str
    doc: str
    values: Values = ANY
    sentinel: int | tuple[()] | None = None
    broadcasts: bool = False
    values_under: Mapping[tuple[str, str], Values] = field(default_factory=dict)
    sparsely_read: bool = False

    def legal_values(self, attributes: Mapping[str, str]) -> Values:
        """Which values are legal in a node with these attributes."""
        return next((self.values_under[item] for item in attributes.items() if item in self.values_under), self.values)

    @property
    def optional(self) -> bool:
        """Whether the input may be omitted."""
        return self.sentinel is not None

    def is_sentinel(self, array: np.ndarray[Any, Any] | None) -> bool:
        """Whether an array means "not given"; None does, too."""
        if array is None or self.sentinel is None:
            return array is None
        return array.size == 0 if self.sentinel == () else bool(array == self.sentinel)

    def sentinel_array(self, dtype: DType) -> np.ndarray[Any, Any]:
        """The array that means "not given" in canonical form, in the element type that the node's other inputs need."""
        return np.array(self.sentinel, numpy_dtype(dtype))


@dataclass(frozen=True)
class Output:
    """One output.

    `items_under` names attributes and their values under which items of `shape` are others: `{"B": "B - 1"}`. Integers
    of a fixed type are positions or sizes unless the output `holds_data`.
    """

    name: str
    type: str
    shape: str
    doc: str
    optional: bool = False
    holds_data: bool = False
    items_under: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)

    def shape_with(self, attributes: Mapping[str, str]) -> str:
        """The shape in a node with these attributes."""
        items = shape_items(self.shape)
        for attribute in attributes.items():
            others = self.items_under.get(attribute, {})
            items = [others.get(item, item) for item in items]
        return ", ".join(items)


@dataclass(frozen=True)
class DecidedSize:
    """A size of outputs that values of inputs decide: the number of segments, when it is the last id + 1.

    `of` takes what `by` names, in that order: the values of inputs as arrays of legal types and ranks, and the sizes of
    dimensions. It returns None where illegal values have no size.
    """

    by: tuple[str, ...]
    of: Callable[..., int | None]


@dataclass(frozen=True)
class Attribute:
    """A string attribute with a closed set of legal values. Without a default it is required."""

    name: str
    choices: tuple[str, ...]
    doc: str
    default: str | None = None


@dataclass(frozen=True)
class Example:
    """A worked example: it is shown on the documentation page and is a contract test of that name.

    `inputs` and `outputs` map names to nested lists; `types` binds the type variables, `attributes` the attributes.
    """

    name: str
    types: Mapping[str, DType]
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Op:
    """One operator of the domain.

    Attributes:
        name: The ONNX op_type.
        summary: One sentence.
        semantics: What the operator does in every corner case (Markdown).
        source: Where the semantics come from: a specification's name, a TensorFlow op, an ATB operation.
        inputs, outputs, attributes: In ONNX order.
        types: The type variables and the element types each may take.
        decided: The sizes in the outputs' shapes that values decide, by their item there, as far as they are known
            without running the operator.
        body: Writes the function body for one binding of types and attributes on the `function_body.Body` that it gets;
            None where standard ONNX cannot express the operator.
        body_of_constants: Writes the body of a node whose inputs `read_by_body` are constants, where a model is
            lowered; None where that is `body`. It raises a ValueError where the constants are too large for it.
        read_by_body: The inputs whose values that body reads, however large they are.
        body_notes: How the function body differs from the kernels, other than that it does not report errors; where
            there is none, what standard ONNX lacks.
        no_python_kernels: Why onnxruntime-extensions cannot run the reference function; empty where it can.
        reduction: How the rows of a segment or bag become one: `sum`, `mean`, `sqrtn`, `max`, `min` or `prod`; empty
            for operators that reduce none.
        examples: Worked examples.
    """

    name: str
    summary: str
    semantics: str
    source: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    types: Mapping[str, tuple[DType, ...]]
    attributes: tuple[Attribute, ...] = ()
    decided: Mapping[str, DecidedSize] = field(default_factory=dict)
    body: Callable[[Any], None] | None = None
    body_of_constants: Callable[[Any], None] | None = None
    read_by_body: tuple[str, ...] = ()
    body_notes: str = ""
    no_python_kernels: str = ""
    reduction: str = ""
    examples: tuple[Example, ...] = ()

    def __repr__(self) -> str:
        return f"<Op {self.name}>"

    @functools.cached_property
    def inputs_that_decide_sizes(self) -> frozenset[str]:
        """The inputs whose values shapes depend on; the values of others, tables among them, need not be read."""
        sizes = {i.name for i in self.inputs if i.values.kind == "size"}
        return frozenset(
            sizes | ({i.name for i in self.inputs} & {by for size in self.decided.values() for by in size.by})
        )

    def element_types(self, type_name: str) -> tuple[DType, ...]:
        """The element types of a type variable, or the one type of a fixed name such as `"bool"`."""
        if type_name in self.types:
            return self.types[type_name]
        return (TensorProto.DataType.Value(type_name.upper()),)

    def bind(self, type_name: str, binding: Mapping[str, DType]) -> DType:
        """The element type of an input or output under one binding of the type variables."""
        return binding[type_name] if type_name in binding else self.element_types(type_name)[0]

    def with_defaults(self, attributes: Mapping[str, str]) -> dict[str, str]:
        """The attributes of a node, with defaults for those that it omits; one without a default stays absent."""
        return {a.name: a.default for a in self.attributes if a.default is not None} | dict(attributes)

    def type_bindings(self) -> Iterator[dict[str, DType]]:
        """Every legal binding of the type variables."""
        for choice in itertools.product(*self.types.values()):
            yield dict(zip(self.types, choice, strict=True))


@dataclass(frozen=True)
class Family:
    """Operators that belong together: one module here, one in the reference, one file of native kernels.

    Attributes:
        name: The name of the module.
        ops: Its operators, in the order of the documentation.
        origin: Which operators of other frameworks they come from (Markdown).
    """

    name: str
    ops: tuple[Op, ...]
    origin: str

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """The names of its operators."""
        return frozenset(op.name for op in self.ops)

    def reducing(self, like: str, reduction: str) -> str:
        """The operator that reduces the rows of another one of the family in another way."""
        inputs = next(op.inputs for op in self.ops if op.name == like)
        names = [i.name for i in inputs]
        return next(op.name for op in self.ops if op.reduction == reduction and [i.name for i in op.inputs] == names)
