"""Hostile bytes for the native library: sound indexes, JSON bodies, messages and regular expressions, changed.

    python -m native.hostile --count 100000 --seed 7     (in the folder tests)
    onnx_sparse/native/sanitize.sh address --hostile 100000

What is given is refused by name, or answered: an index gives positions whose keys are asked for, a body the numbers
and texts that Python reads in it, and the others what the reference gives. The address sanitizer ends the process where
memory beyond what is given is read or written; the last line that was printed says from where to repeat it with
`--first`.
"""

from __future__ import annotations

import json
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

import numpy as np
from native.sessions import Array, run
from native.test_fuzz import check
from onnx import TensorProto
from support.program import parser, tell
from support.random_expressions import expression, texts
from torture.mutations import mutated_bytes

from onnx_sparse import KernelError
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensorflow.regex_program import program_of
from onnx_sparse.keyed_tables import join_text, key_index, text_index
from onnx_sparse.schemas import OPS
from onnx_sparse.schemas.declaration import Example, numpy_dtype
from onnx_sparse.serving import long_lists

#: The operators that read messages in strings; their sound ones are the examples of their pages.
READERS = ("ParseExample", "ParseSequenceExample", "ParseTensor", "DecodeCompressed", "DecodeCSV", "DecodeRaw")

_EDGES = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 2**31, 2**32, 2**62, 2**63 - 1)
#: Sizes that need no memory: small, or refused.
_SMALL_OR_ABSURD = tuple(n for n in _EDGES if not 3 < abs(n) < 2**62)
#: After so many inputs, the program says how far it is.
_PART = 1000


def index(source: random.Random) -> str:
    """Keys that are asked for by an index whose bytes are changed."""
    rng = np.random.default_rng(source.randrange(2**32))
    count = source.choice((0, 1, 2, 15, 16, 17, 40, 200))
    queries = rng.integers(-5, 400, source.choice((0, 1, 33))).astype(np.int64)
    if source.random() < 1 / 2:
        dtype = source.choice((np.int32, np.int64, np.uint64))
        keys: list[Array] = [rng.permutation(400)[:count].astype(dtype)]
        own, name, words = key_index(*keys), "FindKeys", [int(key) for key in keys[0]]
        inputs = {"queries": queries.astype(dtype), "keys": keys[0]}
        asked = inputs["queries"].tolist()
    else:
        words = [b"k%d" % key for key in rng.permutation(400)[:count]]
        keys = [*join_text(words)]
        own, name = text_index(*keys), "FindStrings"
        asked = [b"k%d" % query for query in queries]
        inputs = {"queries": np.array(asked, object), "key_bytes": keys[0], "key_offsets": keys[1]}
    changed = source.random()
    if changed < 1 / 2 and len(own) > 64:  # the slots only, and as many bytes
        slots = _bytes(mutated_bytes(own[64:].tobytes(), source))
        own = np.concatenate([own[:64], np.resize(slots, len(own) - 64) if slots.size else own[64:]])
    elif changed < 9 / 10:
        own = _bytes(mutated_bytes(own.tobytes(), source))
    inputs["index"] = own
    try:
        (positions,) = run(name, inputs)
    except KernelError as error:
        return _refused(name, error)
    for query, position in zip(asked, positions.tolist(), strict=True):
        assert -1 <= position < count, (position, count)
        assert position < 0 or words[position] == query, (words[position], query)
    return "answered"


def body(source: random.Random) -> str:
    """JSON of lists of numbers."""
    value: Any = [source.choice((0, -1, 1.5, 2**53 + 1, 1e300, -0.0, 12)) for _ in range(source.choice((0, 1, 3, 40)))]
    for _ in range(source.choice((0, 1, 2, 6, 7, 8, 9))):
        value = [value] * source.choice((1, 1, 2, 3))
    text = json.dumps(value, separators=source.choice(((",", ":"), (" , ", ": "))))
    given = text.encode() if source.random() < 1 / 4 else mutated_bytes(text.encode(), source)
    content = np.frombuffer(bytearray(given), np.uint8).copy()  # of no byte more
    size, counts = long_lists._find(content)
    if not size:
        return "refused"
    found = long_lists.NumberList(content.tobytes(), 0, size, counts)
    dtype = source.choice((TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.UINT64))
    try:
        numbers = found.numbers("a", dtype)
    except ValueError:
        return "refused"
    lengths = found.lengths()
    wanted = json.loads(content[:size].tobytes())
    for own in lengths:
        assert [len(each) for each in wanted] == own.tolist()
        wanted = [each for several in wanted for each in several]
    assert numbers.tobytes() == np.array(wanted, numbers.dtype).tobytes(), (wanted, numbers)
    return "answered"


def text_list(source: random.Random) -> str:
    """JSON of lists of texts, next to other keys."""
    words = ("a", "", "é", "😀", '"', "\\", "],[", "\n", "\0", "x" * 40, '"x": [')
    value: Any = [source.choice(words) for _ in range(source.choice((0, 1, 3, 40)))]
    for _ in range(source.choice((0, 1, 2, 6, 7, 8, 9))):
        value = [value] * source.choice((1, 1, 2, 3))
    listed = json.dumps(
        value, separators=source.choice(((",", ":"), (" , ", ": "))), ensure_ascii=source.random() < 0.5
    )
    given = f'{{"y": [1, "x"], "x": {listed}, "z": [0]}}'.encode()
    given = given if source.random() < 1 / 4 else mutated_bytes(given, source)
    content = np.frombuffer(bytearray(given), np.uint8).copy()  # of no byte more
    with mock.patch.multiple(long_lists, _LONG=1, PIECE=source.choice((1, 3, 1 << 14))):
        found = [each for each in long_lists.cut(content.tobytes(), "xz")[1] if isinstance(each, long_lists.TextList)]
        if not found:
            return "refused"
        for each in found:
            wanted = json.loads(each.text[each.begin : each.end])
            for own in each.lengths():
                assert [len(one) for one in wanted] == own.tolist()
                wanted = [one for several in wanted for one in several]
            assert each.texts().tolist() == wanted
    return "answered"


def message(source: random.Random) -> str:
    """Messages in strings; sometimes what says how they are read is changed, too."""
    op = OPS[source.choice(READERS)]
    example: Example = source.choice(op.examples)
    inputs = {}
    for declared in op.inputs:
        if declared.name not in example.inputs:
            continue
        made = np.array(example.inputs[declared.name], numpy_dtype(op.bind(declared.type, example.types)))
        if made.dtype.kind == "O" and made.size:
            is_read = declared is op.inputs[0]
            if is_read or source.random() < 1 / 10:
                held = [word.encode("utf-8", "surrogateescape") for word in made.reshape(-1).tolist()]
                held = [mutated_bytes(word, source) if source.random() < 3 / 4 else word for word in held]
                made = np.array([*held, None], object)[:-1].reshape(made.shape)
        elif made.dtype.kind == "i" and made.size and source.random() < 1 / 10:
            made.reshape(-1)[source.randrange(made.size)] = np.array(source.choice(_SMALL_OR_ABSURD)).astype(made.dtype)
        inputs[declared.name] = made
    return _checked(op.name, inputs, {**{a.name: a.choices[0] for a in op.attributes}, **example.attributes})


def pattern(source: random.Random) -> str:
    """Instructions of a regular expression, with their ranges and classes, of which some numbers are changed."""
    try:
        program = program_of(expression(source, 3).encode())
    except Unsupported:
        return "not made"
    inputs = {name: array.copy() for name, array in program.inputs.items()}
    for _ in range(source.choice((0, 1, 1, 2, 5))):
        array = inputs[source.choice(sorted(inputs))].reshape(-1)
        if array.size:
            at = source.randrange(array.size)
            old = int(array[at])
            array[at] = source.choice((*_EDGES, min(old, 2**62) + 1, max(old, -(2**62)) - 1, len(array) // 3))
    if source.random() < 1 / 20:
        name = source.choice(sorted(inputs))
        inputs[name] = inputs[name][: source.randrange(len(inputs[name]) + 1)]
    name = source.choice(("RegexReplace", "RegexSplit"))
    strings = np.array([*texts(source, 3), None], object)[:-1]
    if name == "RegexReplace":
        groups = np.array([source.choice((0, 1, 9, -1, 10)) for _ in range(source.randrange(3))], np.int64)
        rewrite = np.array([b"x"] * (len(groups) + 1) + [None], object)[:-1]
        return _checked(name, {"input": strings, **inputs, "rewrite": rewrite, "groups": groups}, {"matches": "ALL"})
    kept = {f"kept_{key}": array for key, array in inputs.items()}
    return _checked(name, {"input": strings, **inputs, **kept}, {})


def _checked(name: str, inputs: Mapping[str, Array], attributes: Mapping[str, str]) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check(OPS[name], dict(inputs), dict(attributes))


def _refused(name: str, error: KernelError) -> str:
    assert str(error).startswith(f"{name}: "), error
    return "refused"


def _bytes(data: bytes) -> Array:
    return np.frombuffer(data, np.uint8).copy()


KINDS: tuple[Callable[[random.Random], str], ...] = (index, body, text_list, message, pattern)


def examine(seed: int, first: int, count: int) -> Counter[str]:
    """Give so many to the library, and count what became of them, by kind.

    Raises:
        AssertionError: An answer is wrong.
    """
    counts: Counter[str] = Counter()
    for number in range(first, first + count):
        kind = KINDS[number % len(KINDS)]
        try:
            counts[f"{kind.__name__} {kind(random.Random(f'{seed}/{number}'))}"] += 1
        except Exception as error:
            raise AssertionError(f"--seed {seed} --first {number} --count 1: {kind.__name__}: {error}") from error
    return counts


def main() -> int:
    parsed = parser(__doc__, "python -m native.hostile", count=100_000, seed=0, first=0)
    options = parsed.parse_args()
    counts: Counter[str] = Counter()
    for first in range(options.first, options.first + options.count, _PART):
        sys.stdout.write(f"--first {first}\n")
        sys.stdout.flush()
        counts += examine(options.seed, first, min(_PART, options.first + options.count - first))
    return tell(counts, ())


if __name__ == "__main__":
    sys.exit(main())
