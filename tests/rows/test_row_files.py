"""Rows as messages and errors: what is written can be read, and an error is whole in another process."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from onnx_sparse.converters.varint import read_varint
from onnx_sparse.rows.columns import RowError
from onnx_sparse.rows.tf_examples import _field, _varint


@given(st.integers(0, 63).flatmap(lambda bits: st.integers(0, 2**bits)))
def test_numbers_of_messages(number: int) -> None:
    written = _varint(number)
    assert read_varint(written, 0) == (number, len(written))
    assert len(written) == max(1, -(-number.bit_length() // 7))


@given(st.integers(1, 15), st.integers(0, 300))
def test_fields_of_messages(number: int, size: int) -> None:
    """The number and its kind, the size, the bytes."""
    written = _field(number, b"x" * size)
    key, place = read_varint(written, 0)
    length, place = read_varint(written, place)
    assert (key, length, written[place:]) == (number * 8 + 2, size, b"x" * size)


def test_errors_of_rows_pass_between_processes() -> None:
    error = RowError("ids.csv", 3, ": -1 is negative")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.row, copy.after(100)) == (str(error), 3, "ids.csv, row 103: -1 is negative")
