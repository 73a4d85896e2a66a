"""Arguments of the form NAME=VALUE."""

from __future__ import annotations

import pytest

from onnx_sparse.commands.inputs.named_values import named_values
from onnx_sparse.errors import UsageError


def test_values_by_name():
    given = ["a=x.npy", "b=y=z.npy"]
    assert named_values(given, "NAME=FILE") == {"a": "x.npy", "b": "y=z.npy"}
    assert named_values(given, "NAME=FILE", at_last=True) == {"a": "x.npy", "b=y": "z.npy"}
    assert named_values([], "NAME=FILE") == {}


@pytest.mark.parametrize("text", ["", "=", "a", "a=", "=x"])
@pytest.mark.parametrize("at_last", [False, True])
def test_another_form(text, at_last):
    with pytest.raises(UsageError) as refusal:
        named_values(["b=x", text], "NAME=FILE", "--table", at_last=at_last)
    assert str(refusal.value) == f"--table {text!r} is not NAME=FILE"


def test_a_name_that_is_given_twice():
    with pytest.raises(UsageError, match=r"^--table a is given twice$"):
        named_values(["a=x", "b=x", "a=x"], "NAME=FILE", "--table")
    with pytest.raises(UsageError, match=r"^a is given twice$"):
        named_values(["a=x", "a=y"], "NAME=FILE")
