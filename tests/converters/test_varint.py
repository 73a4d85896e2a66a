"""Numbers of variable length, against those that the tests' messages are written with."""

from __future__ import annotations

import pytest
from contract.example_messages import varint

from onnx_sparse.converters.varint import read_varint

NUMBERS = sorted({number for bits in range(0, 65, 7) for number in (2**bits - 1, 2**bits % 2**64)} | {300, 2**64 - 1})


def test_numbers_are_read_with_where_they_end():
    data = b"".join(map(varint, NUMBERS))
    position, found = 0, []
    while position < len(data):
        number, position = read_varint(data, position)
        found.append(number)
    assert (found, position) == (NUMBERS, len(data))


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_that_is_cut_off(number):
    whole = varint(number)
    for end in range(len(whole)):
        with pytest.raises(ValueError, match=f"the number at byte {end} does not end"):
            read_varint(whole[:end], 0)


def test_a_number_that_is_too_long():
    with pytest.raises(ValueError, match="the number at byte 10 does not end"):
        read_varint(b"\x80" * 10 + b"\1", 0)
