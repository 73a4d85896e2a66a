"""DecodeCSV: the fields in lines of comma-separated values."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.schemas.declaration import Attribute, DecidedSize, Example, Family, Input, Op, Output, Values
from onnx_sparse.schemas.element_types import DType, dtype_name

#: The element types of fields, in the order of the outputs, each with the size of its output and of its defaults.
FIELD_TYPES: dict[DType, tuple[str, str]] = {
    TensorProto.FLOAT: ("P", "A"),
    TensorProto.INT32: ("Q", "B"),
    TensorProto.INT64: ("U", "C"),
    TensorProto.STRING: ("X", "D"),
    TensorProto.DOUBLE: ("Y", "E"),
}


def _fields_of_type(dtype: DType) -> DecidedSize:
    return DecidedSize(("types",), lambda types: int(np.count_nonzero(types == dtype)))


DECODE_CSV = Op(
    name="DecodeCSV",
    summary="Reads the fields of lines of comma-separated values.",
    semantics="""
Field f is column `columns[f]` of each record, in the element type `types[f]`. Without `columns`, field f is column f,
and each record has as many columns as there are fields. All fields of one type are in one output, in their order:
`float_values[k]` is the k-th field of type float, in the shape of `records`.

- Columns are separated by `delimiter`, which is one byte. A record that ends with it has one more, empty column. The
  empty record has no columns. Line breaks (bytes 10 and 13) before a column are skipped.
- With `quoting` = `MINIMAL`, a column that begins with `"` ends with the next `"` that the delimiter or the end of the
  record follows. Two `"` in it stand for one. It is an error if the column does not end so, or has another `"`. With
  `NONE`, a `"` is a byte like others.
- A column that is not quoted must have no line breaks, nor, with `MINIMAL`, a `"`.
- If the column is empty, or equals `na_value`, quoted or not, the field is its default. It is an error if the field
  is `required`. The defaults of one type are in one input, one for each field of that type that is not required; more
  or fewer are an error.
- Numbers are written as C's `strtol` and `strtod` read them in base 10: with or without a sign, whitespace (space, and
  bytes 9 to 13) around them, floating-point numbers with an exponent, in hexadecimal after `0x`, or as `inf`,
  `infinity`, `nan` and `nan(...)` in either case. They are rounded to nearest, ties to even, directly to the type;
  what is beyond its range is infinite or 0. An integer beyond the range of its type, and other text, is an error.
- `columns` must be >= 0 and increase. Columns of a record after the last of them are ignored. A record with fewer
  columns is an error.
- An element type other than float (1), int32 (6), int64 (7), string (8) and double (11) is an error.
- An error names the first record that is at fault; the record's columns come before its fields.
""".strip(),
    source="tf.raw_ops.DecodeCSV",
    inputs=(
        Input("records", "string", "*S", "The lines.", Values("csv_record")),
        Input("types", "int64", "F", "The element type of each field, as in TensorProto.", Values("element_type")),
        Input("required", "bool", "F", "Whether each record must have the field."),
        *(
            Input(
                f"{dtype_name(dtype)}_defaults",
                dtype_name(dtype),
                count,
                f"The defaults of the {dtype_name(dtype)} fields.",
                Values("default"),
            )
            for dtype, (_, count) in FIELD_TYPES.items()
        ),
        Input("delimiter", "string", "", "The byte between two columns."),
        Input("na_value", "string", "", "A text that stands for an empty column."),
        Input("columns", "int64", "F", "The column of each field; empty: all.", Values("increasing"), sentinel=()),
    ),
    outputs=tuple(
        Output(
            f"{dtype_name(dtype)}_values",
            dtype_name(dtype),
            f"{count}, *S",
            f"The fields of type {dtype_name(dtype)}.",
            holds_data=True,
        )
        for dtype, (count, _) in FIELD_TYPES.items()
    ),
    types={},
    attributes=(Attribute("quoting", ("MINIMAL", "NONE"), "Whether columns may be quoted.", "MINIMAL"),),
    decided={count: _fields_of_type(dtype) for dtype, (count, _) in FIELD_TYPES.items()},
    body_notes="It has no operator that reads the bytes of a string.",
    examples=(
        Example(
            "a field of each type, quotes, and defaults",
            {},
            {
                "records": ["1.5,x,3,-2,1e3", ",,4,0,.5", '2,"a,b ""c""",NA,7,inf'],
                "types": [
                    *(TensorProto.FLOAT, TensorProto.STRING, TensorProto.INT64),
                    *(TensorProto.INT32, TensorProto.DOUBLE),
                ],
                "required": [False, False, False, True, True],
                "float_defaults": [0.5],
                "int32_defaults": [],
                "int64_defaults": [-1],
                "string_defaults": ["none"],
                "double_defaults": [],
                "delimiter": ",",
                "na_value": "NA",
                "columns": [],
            },
            {
                "float_values": [[1.5, 0.5, 2.0]],
                "int32_values": [[-2, 0, 7]],
                "int64_values": [[3, 4, -1]],
                "string_values": [["x", "none", 'a,b "c"']],
                "double_values": [[1000.0, 0.5, float("inf")]],
            },
            {"quoting": "MINIMAL"},
        ),
        Example(
            "two columns of a record with tabs",
            {},
            {
                "records": '7\t"\t0x1p-2\t8\t',
                "types": [TensorProto.STRING, TensorProto.DOUBLE],
                "required": [True, True],
                "float_defaults": [],
                "int32_defaults": [],
                "int64_defaults": [],
                "string_defaults": [],
                "double_defaults": [],
                "delimiter": "\t",
                "na_value": "",
                "columns": [1, 2],
            },
            {
                "float_values": [],
                "int32_values": [],
                "int64_values": [],
                "string_values": ['"'],
                "double_values": [0.25],
            },
            {"quoting": "NONE"},
        ),
    ),
)

FAMILY = Family("csv_parsing", (DECODE_CSV,), origin="`tf.io.decode_csv`, serving signatures of lines")
