"""Random inputs, legal and illegal: the native kernels agree with the reference on the outputs or on the error.

The suite runs for a few seconds; `python tests/native/test_fuzz.py --calls 1000000 --seed 7` runs as long as wanted.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from native.sessions import Array, run

from onnx_sparse import KernelError
from onnx_sparse.keyed_tables import key_index, text_index
from onnx_sparse.reference import evaluate
from onnx_sparse.schemas import OPS, Op
from onnx_sparse.schemas.declaration import HALF_FLOATS, Input, Values, is_group, numpy_dtype, shape_items

#: Sizes and indices at a limit, just beyond it, or absurd.
_INTEGERS = (-(2**63), -(2**31), -129, -2, -1, 0, 1, 2, 3, 5, 127, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1)
#: Legal inputs with outputs larger than this are not run.
_LARGEST = 10_000


class Fuzzer:
    """Draws one call after another from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def call(self) -> tuple[Op, dict[str, Array], dict[str, str]]:
        """An operator, its attributes, and inputs with legal types but perhaps wrong ranks and values."""
        op = self._choose(tuple(OPS.values()))
        binding = {variable: self._choose(types) for variable, types in op.types.items()}
        self.sizes = {letter: int(self._choose((0, 1, 2, 3, 7, 40))) for letter in "KNRVQBFXYZLCWEM"} | {"D": 2}
        self.sizes |= {"G": int(self._choose((1, 1, 2, 3, 0))), "A": int(self._choose((1, 2, 2, 2, 3, 0)))}
        if op.name.startswith("Regex"):
            self.sizes |= {"P": self.sizes["E"], "F": 3, "H": 3, "J": 2}
            self.sizes["W"] = self.sizes["G"] + int(self.random.random() < 0.9)
        self.sizes["R"] = min(self.sizes["R"], 3)
        self.sizes["Q"] = min(self.sizes["Q"], 3)
        self.inner = tuple(int(d) for d in self.random.integers(0, 5, self.random.integers(0, 3)))
        self.group = tuple(int(d) for d in self.random.integers(0, 5, self.random.integers(0, 3)))
        self.bound = int(self._choose((0, 1, 3, 6)))
        self.wrong = self.random.random() < 0.4
        attributes = {a.name: str(self._choose(a.choices)) for a in op.attributes}
        # A part of a character is no text, which sessions in Python cannot return.
        self.words = ["", "a", "(" if op.name in ("Substr", "RegexReplace", "RegexSplit") else "ß", "long " * 20]
        inputs = {}
        for declared in op.inputs:
            if declared.optional and self.random.random() < 0.4:
                continue
            dtype = numpy_dtype(op.bind(declared.type, binding))
            legal = declared.legal_values(attributes)
            inputs[declared.name] = self._value(declared, legal, dtype)
            if legal.kind == "key_index" and self.random.random() < 0.7:
                inputs[declared.name] = self._index(list(inputs.values())[:-1])
        return op, inputs, attributes

    def _index(self, keys: list[Array]) -> Array:
        """The index of keys, perhaps with some bytes of its slots changed; none of keys that have none."""
        try:
            index = key_index(*keys) if len(keys) == 1 else text_index(*keys)
        except KernelError:
            return np.zeros(0, np.uint8)
        if self.wrong and len(index) > 64:
            places = self.random.integers(64, len(index), 5)
            index[places] = self.random.integers(0, 256, len(places))
        return index

    def _choose(self, choices: tuple[Any, ...]) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def _shape(self, declared: Input) -> tuple[int, ...]:
        shape: list[int] = []
        for item in shape_items(declared.shape):
            if not is_group(item):
                shape.append(self.sizes[item])
            else:
                shape += self.inner if item == "..." else self.group
        if declared.broadcasts:
            shape = [1 if self.random.random() < 0.5 else d for d in shape[self.random.integers(0, len(shape) + 1) :]]
        if self.wrong and self.random.random() < 0.15:
            mutation = int(self.random.integers(3))
            if mutation == 0:
                shape.append(int(self.random.integers(0, 3)))
            elif shape and mutation == 1:
                shape.pop()
            elif shape:
                shape[self.random.integers(len(shape))] += 1
        return tuple(shape)

    def _value(self, declared: Input, legal: Values, dtype: np.dtype[Any]) -> Array:
        shape = self._shape(declared)
        kind = legal.kind
        if dtype.kind == "O":
            return np.array(self.random.choice(self.words, shape), object)
        if dtype.kind == "b":
            return np.asarray(self.random.random(shape) < 0.5)
        if kind == "program" and len(shape) == 2 and shape[1] == 3:
            return self._program(shape[0], self.sizes["L" if declared.name == "program" else "A"] - 1)
        if kind in ("any", "default"):
            if dtype.kind in "iu":
                return self.random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
            return np.asarray(self.random.standard_normal(shape)).astype(dtype)
        least = -2 if kind in ("segment", "reshape") else legal.low
        low = least if self.random.random() < 0.1 else 0
        high = 2 if kind == "flags" else self.bound
        values = np.asarray(self.random.integers(low, max(high, low + 1), shape))
        if kind == "group":
            values = np.asarray(self.random.integers(0, 10, shape))
        if kind == "size":
            values = np.asarray(self.random.integers(0, 2, shape) + self.bound)
        if kind == "sorted_segment":
            values = np.sort(values.reshape(-1)).reshape(shape)
        if kind == "offsets":
            values = np.sort(self.random.integers(0, self.sizes[legal.of] + 1, values.size)).reshape(shape)
            values.reshape(-1)[:1] = 0
        if kind in ("row_splits", "position"):
            values = np.sort(values.reshape(-1)).reshape(shape)
        if kind == "row_splits" and values.size and self.random.random() < 0.9:
            end = self.sizes.get(legal.of, self.bound)  # the size of an input, or what another input says
            values = np.asarray(np.minimum(values, end))
            values.reshape(-1)[[0, -1]] = 0, end
        if kind == "reshape" and values.size and self.random.random() < 0.7:
            values = values + 1
            values.reshape(-1)[self.random.integers(values.size)] = -1
        if self.wrong and values.size and self.random.random() < 0.3:
            limits = np.iinfo(dtype)
            edges = [n for n in _INTEGERS if limits.min <= n <= limits.max]
            values.reshape(-1)[self.random.integers(values.size)] = edges[int(self.random.integers(len(edges)))]
        return np.asarray(values.astype(dtype))

    def _program(self, count: int, classes: int) -> Array:
        """Instructions of a regular expression, of which some may not be legal."""
        codes = self.random.integers(0, 5, count)
        ways = self.random.integers(0, max(count, 1), (count, 2))
        highs = np.array([1, max(classes, 1), max(count, 1), 20, 6])[codes]
        program = np.column_stack([codes, np.where(codes == 2, ways[:, 0], self.random.integers(0, highs)), ways[:, 1]])
        program[codes == 3, 1] = np.maximum(program[codes == 3, 1], 2)
        program[-1:, 0] = 0
        if self.wrong and count and self.random.random() < 0.3:
            program[self.random.integers(count), self.random.integers(3)] = self._choose(_INTEGERS)
        return program.astype(np.int64)


def check(op: Op, inputs: dict[str, Array], attributes: dict[str, str]) -> str:
    """Run both and compare; returns whether the call was legal, refused, or too large to run."""
    expected: tuple[Array, ...] | None
    try:
        if _asks_for_much(op, inputs):
            expected = None
        else:
            expected = evaluate(op, [inputs.get(i.name) for i in op.inputs], attributes)
    except KernelError as error:
        refusal: str | None = str(error)
    except (MemoryError, OverflowError, ValueError):  # numpy cannot make arrays of some shapes, even of empty ones
        return "too large"
    else:
        refusal = None
    if refusal is None and expected is None:
        return "too large"
    try:
        outputs, answer = _run(op, inputs, attributes)
    except ValueError as error:
        if "array is too big" not in str(error):
            raise
        return "too large"  # the output is empty, but no numpy array has its shape
    assert (answer is None) == (refusal is None), f"{answer}\ninstead of\n{refusal}"
    if answer is not None and refusal is not None:
        # If several things are wrong, it is not specified which of them is reported.
        assert answer.startswith(f"{op.name}: "), answer
        return "refused"
    assert expected is not None
    for declared, got, wanted in zip(op.outputs, outputs, expected, strict=True):
        assert got.dtype == wanted.dtype, declared.name
        assert got.shape == wanted.shape, declared.name
        if got.dtype.kind in "iubO":
            assert _elements(got) == _elements(wanted), declared.name  # shapes may be absurd
        else:
            assert got.tobytes() == wanted.tobytes() or np.allclose(
                got.astype(np.float64),
                wanted.astype(np.float64),
                rtol=1e-2 if _is_half(op, inputs) else 1e-5,
                equal_nan=True,
            ), declared.name
    return "legal"


def _asks_for_much(op: Op, inputs: dict[str, Array]) -> bool:
    """Whether a size is neither small nor impossible, so that only the system decides if it can be allocated."""
    sizes = [
        abs(int(value))
        for declared in op.inputs
        if declared.values.kind in ("size", "sorted_segment") and declared.name in inputs
        for value in inputs[declared.name].reshape(-1)
    ]
    return any(_LARGEST < size < 2**50 for size in sizes)


def _is_half(op: Op, inputs: dict[str, Array]) -> bool:
    return any(inputs[i.name].dtype in map(numpy_dtype, HALF_FLOATS) for i in op.inputs if i.name in inputs)


def _run(op: Op, inputs: dict[str, Array], attributes: dict[str, str]) -> tuple[list[Array], str | None]:
    try:
        return run(op.name, inputs, **attributes), None
    except KernelError as error:
        return [], str(error)


def fuzz(calls: int, seed: int, seconds: float) -> dict[str, int]:
    """Run the given number of calls, or as many as time allows; returns the number of calls by outcome."""
    fuzzer, outcomes = Fuzzer(seed), {"legal": 0, "refused": 0, "too large": 0}
    end = time.monotonic() + seconds
    for number in range(calls):
        if time.monotonic() > end:
            break
        op, inputs, attributes = fuzzer.call()
        try:
            outcomes[check(op, inputs, attributes)] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}, call {number}: {op.name} {attributes} {inputs}") from error
    return outcomes


def test_random_calls() -> None:
    outcomes = fuzz(calls=10**6, seed=0, seconds=8)
    assert outcomes["legal"] > 20
    assert outcomes["refused"] > 10


def _elements(array: Any) -> list[Any]:
    """The elements of an array; strings as bytes: text that is not UTF-8 comes back so, or with surrogates."""
    elements = array.reshape(-1).tolist()
    return [e.encode("utf-8", "surrogateescape") if isinstance(e, str) else e for e in elements]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3600)
    arguments = parser.parse_args()
    print(fuzz(arguments.calls, arguments.seed, arguments.seconds))  # noqa: T201


if __name__ == "__main__":
    main()
