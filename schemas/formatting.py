"""Operators that write tensors as text, digit by digit as TensorFlow does."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.schemas.declaration import Attribute, Example, Family, Input, Op, Output, Values
from onnx_sparse.schemas.element_types import NUMBERS

AS_STRING = Op(
    name="AsString",
    summary="Writes numbers as text.",
    semantics="""
- Floating-point numbers are written in decimal, rounded to nearest, ties to even, from their exact value: with
  `precision` digits after the point (`notation` = `FIXED`, C's `%f`), the same with one digit before the point and an
  exponent of at least two digits (`SCIENTIFIC`, `%e`), or with that many digits in all, whichever of these is shorter
  and without zeros at the end (`SHORTEST`, `%g`). -1 means 6 digits. The point is `.` in every locale.
- Infinities are `inf` and `-inf`. NaN is `nan`, or `-nan` where its sign bit is set.
- Integers are written in decimal, booleans as `true` and `false`. `precision` and `notation` do not change them.
- A text of fewer than `width` bytes is padded with spaces at the left, or at the right (`fill` = `MINUS`), or with
  zeros after the sign (`ZERO`, except infinities and NaN). Booleans are not padded.
- `fill` = `PLUS` or `SPACE` writes this sign before numbers of a signed type that have no minus. `HASH` always writes
  the point of floating-point numbers, and takes no zeros away.
- `precision` and `width` are at most 4096.
""".strip(),
    source="tf.raw_ops.AsString",
    inputs=(
        Input("input", "T", "*S", "The numbers."),
        Input("precision", "int64", "", "How many digits are written; -1: 6.", Values("size", low=-1)),
        Input("width", "int64", "", "How many bytes a text has at least.", Values("size", low=-1)),
    ),
    outputs=(Output("output", "string", "*S", "The numbers as text."),),
    types={"T": (*NUMBERS, TensorProto.BOOL)},
    attributes=(
        Attribute("notation", ("FIXED", "SCIENTIFIC", "SHORTEST"), "How floating-point numbers are written.", "FIXED"),
        Attribute("fill", ("NONE", "SPACE", "PLUS", "MINUS", "ZERO", "HASH"), "C's flag of the conversion.", "NONE"),
    ),
    body_notes="Cast to strings writes other digits of floating-point numbers, and does not pad.",
    examples=(
        Example(
            "two digits after the point",
            {"T": TensorProto.FLOAT},
            {"input": [[0.125, -1.0], [1e6, float("inf")]], "precision": 2, "width": -1},
            {"output": [["0.12", "-1.00"], ["1000000.00", "inf"]]},
            {"notation": "FIXED", "fill": "NONE"},
        ),
        Example(
            "four digits at most",
            {"T": TensorProto.DOUBLE},
            {"input": [0.1, 12345.0], "precision": 4, "width": -1},
            {"output": ["0.1", "1.234e+04"]},
            {"notation": "SHORTEST", "fill": "NONE"},
        ),
        Example(
            "integers with zeros before them",
            {"T": TensorProto.INT32},
            {"input": [7, -12], "precision": -1, "width": 4},
            {"output": ["0007", "-012"]},
            {"notation": "FIXED", "fill": "ZERO"},
        ),
    ),
)

SUMMARIZE_TENSOR = Op(
    name="SummarizeTensor",
    summary="Writes a tensor as one text, which may omit elements in the middle.",
    semantics="""
- The elements of each vector are in brackets, with a space between them: `[1 2 3]`. Between the parts of a tensor of
  more dimensions there are as many line breaks as it has dimensions, less one, and then as many spaces as there are
  open brackets. A scalar has no brackets.
- Of each dimension the first and the last `summarize` parts are written, with `...` in place of those between them. A
  negative `summarize`, or one above the number of elements, means the number of elements: all are written. If it is 0,
  a scalar is written as `...`, and so are all parts of the outermost dimension.
- Floating-point numbers have 6 significant digits (`double`: 15) if these are the number, otherwise 9 (`double`: 17),
  without zeros at the end, as C's `%g` writes them. Half floats are written as `float`. Subnormal numbers of the type
  that is written are 0, with their sign. Infinities are `inf` and `-inf`; NaN is `nan`, or `-nan` where its sign bit is
  set. The point is `.` in every locale.
- Integers are written in decimal, booleans as `1` and `0`. Of booleans without elements, and with `summarize` = 0, the
  text is empty.
- Strings are in quotes. A backslash is written before `"`, `'` and backslashes. Line feeds, carriage returns and tabs
  are `\\n`, `\\r` and `\\t`; other bytes below 32, and 127, a backslash and three octal digits. Other bytes are kept.
""".strip(),
    source="tf.raw_ops.StringFormat, which puts such texts into a template",
    inputs=(
        Input("input", "T", "*S", "The tensor."),
        Input("summarize", "int64", "", "How many parts are written at both ends of a dimension; negative: all."),
    ),
    outputs=(Output("output", "string", "", "The text."),),
    types={"T": (*NUMBERS, TensorProto.BOOL, TensorProto.STRING)},
    body_notes="Cast to strings writes other digits of floating-point numbers, and no operator escapes strings.",
    examples=(
        Example(
            "a matrix",
            {"T": TensorProto.FLOAT},
            {"input": [[0.5, -1.0], [1e6, 1 / 3]], "summarize": 3},
            {"output": "[[0.5 -1]\n [1e+06 0.333333343]]"},
        ),
        Example(
            "two elements at both ends",
            {"T": TensorProto.INT64},
            {"input": [0, 1, 2, 3, 4, 5], "summarize": 2},
            {"output": "[0 1 ... 4 5]"},
        ),
        Example(
            "words",
            {"T": TensorProto.STRING},
            {"input": ["a", 'say "b"\n'], "summarize": -1},
            {"output": '["a" "say \\"b\\"\\n"]'},
        ),
    ),
)

FAMILY = Family("formatting", (AS_STRING, SUMMARIZE_TENSOR), origin="`tf.strings.as_string`, `tf.strings.format`")
