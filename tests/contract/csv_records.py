"""Lines of comma-separated values: drawing legal inputs of DecodeCSV, and reading them by Python's csv module."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Any

import numpy as np
from contract.expected import Expected, Inputs
from onnx import TensorProto

from onnx_sparse.schemas.declaration import dtype_name, numpy_dtype

Array = np.ndarray[Any, Any]

FLOAT, DOUBLE, STRING = int(TensorProto.FLOAT), int(TensorProto.DOUBLE), int(TensorProto.STRING)
INT32, INT64 = int(TensorProto.INT32), int(TensorProto.INT64)

#: The element types of fields, in the order of the outputs.
TYPES = (FLOAT, INT32, INT64, STRING, DOUBLE)

#: Texts of each type, none of which is the text for a missing value.
TEXTS = {
    FLOAT: ("1.5", "-0.0", " 2\t", "1e-3", "inf", "nan", ".25", "+3.", "16777217", "1e39"),
    DOUBLE: ("0.1", "1e300", "-Infinity", "7", "123456789012345678", "1e-320", "5e-325"),
    INT32: ("0", "+7", " -12", "2147483647", "-2147483648", "007"),
    INT64: ("1", "9223372036854775807", "-9223372036854775808", "16777217"),
    STRING: ("a", "日本語", "b c", "x" * 40, 'say "ab"', "d,e", "f\ng", ' "', "1.5"),
}

MISSING = "NA"


def legal_csv_inputs(
    random: np.random.Generator, quoting: str, count: int | None = None, shape: Any = None
) -> dict[str, Array]:
    """Legal inputs of DecodeCSV, with so many fields and records of that shape."""
    count = int(random.choice([3, 1, 6, 0])) if count is None else count
    shapes: list[tuple[int, ...]] = [(2,), (), (0,), (7,), (3, 2)]
    shape = shapes[random.integers(len(shapes))] if shape is None else shape
    types = random.choice(TYPES, count).astype(np.int64)
    required = random.random(count) < 0.4
    gaps = random.integers(1, 3, count) if random.random() < 0.5 else np.ones(count, np.int64)
    columns = np.cumsum(gaps) - 1
    records = np.empty(shape, object)
    for position in np.ndindex(*shape):
        texts = [str(random.choice(TEXTS[STRING][:2])) for _ in range(int(columns[-1]) + 1 if count else 0)]
        for f, column in enumerate(columns):
            empty = not required[f] and random.random() < 0.3
            words = [text for text in TEXTS[int(types[f])] if quoting == "MINIMAL" or not {*text} & {*",\n"}]
            texts[column] = str(random.choice(["", MISSING] if empty else words))
        if (gaps > 1).any() and random.random() < 0.5:
            texts.append("behind")
        if texts == [""]:
            texts = [MISSING]  # the empty record has no columns
        if quoting == "MINIMAL":
            texts = [_quoted(text, bool(random.random() < 0.3)) for text in texts]
        records[position] = ",".join(texts)
    missing = {dtype: int(np.count_nonzero((types == dtype) & ~required)) for dtype in TYPES}
    defaults = {f"{dtype_name(dtype)}_defaults": _drawn(random, dtype, missing[dtype]) for dtype in TYPES}
    return {
        "records": records,
        "types": types,
        "required": required,
        **defaults,
        "delimiter": np.array(",", object),
        "na_value": np.array(MISSING, object),
        "columns": columns if (gaps > 1).any() or random.random() < 0.5 else columns[:0],
    }


def _quoted(text: str, anyway: bool) -> str:
    if anyway or any(byte in text for byte in ',"\n'):
        doubled = text.replace('"', '""')
        return f'"{doubled}"'
    return text


def _drawn(random: np.random.Generator, dtype: int, count: int) -> Array:
    if dtype == STRING:
        return random.choice(np.array(["", "none", "ß" * 40], object), count)
    return random.integers(-100, 100, count).astype(numpy_dtype(dtype))


def decode_csv(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    """By the csv module."""
    records, types, required = inputs["records"], inputs["types"].tolist(), inputs["required"].tolist()
    columns = inputs.get("columns", np.zeros(0)).tolist() or list(range(len(types)))
    quoting = csv.QUOTE_MINIMAL if attributes["quoting"] == "MINIMAL" else csv.QUOTE_NONE
    options: dict[str, Any] = {"delimiter": str(inputs["delimiter"]), "quoting": quoting, "strict": True}
    rows = [next(csv.reader([text], **options)) if text else [] for text in records.reshape(-1)]
    made = {}
    for dtype in TYPES:
        defaults = iter(inputs[f"{dtype_name(dtype)}_defaults"].tolist())
        values: list[Any] = []
        own = [f for f, of in enumerate(types) if of == dtype]
        for f in own:
            default = None if required[f] else next(defaults)
            texts = [row[columns[f]] for row in rows]
            values += [default if text in ("", str(inputs["na_value"])) else _value(text, dtype) for text in texts]
        name = f"{dtype_name(dtype)}_values"
        made[name] = Expected.exactly(numpy_dtype(dtype), (len(own), *records.shape), values)
    return made


def _value(text: str, dtype: int) -> Any:
    if dtype == STRING:
        return text
    with np.errstate(over="ignore"):
        return (float(np.float32(text)) if dtype == FLOAT else float(text)) if dtype in (FLOAT, DOUBLE) else int(text)
