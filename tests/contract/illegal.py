"""Drawing illegal inputs of any operator: legal ones with one change, and the message that the change must cause.

The changes follow from the declaration: from `Values`, which says what values an input may have, from shapes, and from
the sets of attributes. What only the semantics say has its own cases in `test_errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from contract.arguments import Arguments, arguments
from hypothesis import assume
from hypothesis import strategies as st

from onnx_sparse.schemas import Input, Op
from onnx_sparse.schemas.declaration import Values, is_group, numpy_dtype, shape_items

Array = np.ndarray[Any, Any]

#: More elements than any address space holds bytes.
HUGE = 2**62


@dataclass(frozen=True)
class Change:
    """One way of making legal inputs illegal.

    Attributes:
        name: What is changed and how, for the test's name.
        apply: Changes the inputs in place and returns a part of the message.
        attributes: The attributes of the node.
    """

    name: str
    apply: Callable[[st.DrawFn, Arguments], str]
    attributes: Mapping[str, str] = field(default_factory=dict)


def changes(op: Op) -> Iterator[Change]:
    """All ways of making an operator's inputs illegal that its declaration implies."""
    first = {a.name: a.choices[0] for a in op.attributes}
    for declared in op.inputs:
        if declared.values.checked:
            for change in _VALUE_CHANGES[declared.values.kind](op, declared, declared.values):
                yield replace(change, attributes=first)
        for (attribute, choice), values in declared.values_under.items():
            for change in _VALUE_CHANGES[values.kind](op, declared, values):
                name = f"{change.name} with {attribute} {choice}"
                yield replace(change, name=name, attributes=first | {attribute: choice})
        for change in (*_rank_changes(declared), *_size_changes(op, declared)):
            yield replace(change, attributes=first)


@st.composite
def illegal_arguments(draw: st.DrawFn, op: Op, binding: Mapping[str, int], change: Change) -> tuple[Arguments, str]:
    """Inputs that are illegal for one reason, and a part of the message."""
    # An omitted input has no illegal value.
    drawn = draw(arguments(op, binding, change.attributes, optional=["given"]))
    inputs = {name: value.copy() for name, value in drawn.items()}
    for declared in op.inputs:
        if declared.optional:
            assume(not declared.is_sentinel(inputs.get(declared.name)))
    _use_all_entries(op, inputs, change.attributes)
    message = change.apply(draw, inputs)
    return inputs, message


def _use_all_entries(op: Op, inputs: Arguments, attributes: Mapping[str, str]) -> None:
    """Raise the number of segments to use every entry: entries of segments beyond it are not looked at.

    Nor are the segments of entries that are left out. Without bags, no entry is.
    """
    if attributes.get("negative_indices") == "drop" and "segment_ids" in inputs:
        assume(len(inputs["emb_table"]) > 0)
        np.maximum(inputs["indices"], 0, out=inputs["indices"])
    for declared in op.inputs:
        legal = declared.legal_values(attributes)
        if legal.kind == "sorted_segment":
            ids, count = inputs[declared.name], inputs[legal.of]
            assume(not ids.size or ids[-1] < 100)
            inputs[legal.of] = np.array(max(int(count), *(ids + 1), 0), count.dtype)
        if legal.kind == "offsets":
            assume(inputs[declared.name].size > 0)


def _element(name: str, position: tuple[int, ...]) -> str:
    return f"{name}[{','.join(map(str, position))}]" if position else name


def _position(draw: st.DrawFn, array: Array) -> tuple[int, ...]:
    """The position of one element."""
    assume(array.size > 0)
    return tuple(int(i) for i in np.unravel_index(draw(st.integers(0, array.size - 1)), array.shape))


def _bound(op: Op, inputs: Arguments, of: str) -> int:
    """The value of a scalar input, or the size of a dimension."""
    if of in inputs:
        return int(inputs[of])
    owner = next(i for i in op.inputs if of in shape_items(i.shape))
    return inputs[owner.name].shape[shape_items(owner.shape).index(of)]


def _nothing(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    yield from ()


def _outside_a_range(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name = declared.name

    def too_large(draw: st.DrawFn, inputs: Arguments) -> str:
        bound = _bound(op, inputs, values.of)
        at = _position(draw, inputs[name])
        inputs[name][at] = value = bound + draw(st.sampled_from([0, 1, 100]))
        return f"{_element(name, at)} = {value} is out of range ["

    def too_small(draw: st.DrawFn, inputs: Arguments) -> str:
        bound = _bound(op, inputs, values.of)
        at = _position(draw, inputs[name])
        inputs[name][at] = value = values.low - draw(st.sampled_from([1, 2, 100]))
        return f"{_element(name, at)} = {value} is out of range [{values.low}, {bound})"

    yield Change(f"{name} too large", too_large)
    if values.kind == "index":
        yield Change(f"{name} too small", too_small)


def _unsorted(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name = declared.name

    def negative(draw: st.DrawFn, inputs: Arguments) -> str:
        assume(inputs[name].size > 0)
        inputs[name][0] = value = -draw(st.sampled_from([1, 2, 100]))
        return f"{name}[0] = {value} must be >= 0"

    def falling(draw: st.DrawFn, inputs: Arguments) -> str:
        ids = inputs[name]
        candidates = [k for k in range(1, len(ids)) if ids[k - 1] > 0]
        assume(candidates)
        k = draw(st.sampled_from(candidates))
        ids[k] = ids[k - 1] - 1
        return (
            f"{name}[{k}] = {ids[k]} is less than {name}[{k - 1}] = {ids[k - 1]}; {name.split('_')[-1]} must be sorted"
        )

    yield Change(f"{name} negative", negative)
    yield Change(f"{name} not sorted", falling)


def _wrong_offsets(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name = declared.name

    def late(draw: st.DrawFn, inputs: Arguments) -> str:
        assume(inputs[name].size > 0)
        first = draw(st.sampled_from([1, 2, 100]))
        inputs[name] = np.maximum(inputs[name], first).astype(inputs[name].dtype)
        return f"{name}[0] = {first} must be 0"

    def beyond(draw: st.DrawFn, inputs: Arguments) -> str:
        offsets, count = inputs[name], _bound(op, inputs, values.of)
        assume(offsets.size > 1)
        k = draw(st.integers(1, offsets.size - 1))
        offsets[k:] = value = count + draw(st.sampled_from([1, 2, 100]))
        return f"{name}[{k}] = {value} is out of range [0, {count + 1})"

    yield from _unsorted(op, declared, values)
    yield Change(f"{name} not from 0", late)
    yield Change(f"{name} beyond the entries", beyond)


def _illegal_size(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name, low = declared.name, values.low

    def too_small(draw: st.DrawFn, inputs: Arguments) -> str:
        at = _position(draw, inputs[name])
        inputs[name][at] = value = low - draw(st.sampled_from([1, 2, 100]))
        return f"{_element(name, at)} = {value} must be >= {low}"

    def too_large(draw: st.DrawFn, inputs: Arguments) -> str:
        assume(inputs[name].size > 0 and all(value.size for value in inputs.values()))
        inputs[name].reshape(-1)[0] = HUGE
        return "cannot be allocated"

    yield Change(f"{name} too small", too_small)
    if any(name in item for output in op.outputs for item in shape_items(output.shape)):
        yield Change(f"{name} too large", too_large)


def _outside_the_shape(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name, of = declared.name, values.of

    def outside(draw: st.DrawFn, inputs: Arguments, value: Callable[[int], int]) -> str:
        at = _position(draw, inputs[name])
        size = int(inputs[of][at[1]])
        assume(value(size) <= np.iinfo(inputs[name].dtype).max)
        inputs[name][at] = value(size)
        return f"{_element(name, at)} = {value(size)} is out of range [0, {size})"

    yield Change(f"{name} too large", lambda draw, inputs: outside(draw, inputs, lambda size: size))
    yield Change(f"{name} negative", lambda draw, inputs: outside(draw, inputs, lambda size: -1))


def _not_in_row_major_order(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name = declared.name

    def exchanged(draw: st.DrawFn, inputs: Arguments, of: int) -> str:
        entries = inputs[name]
        assume(len(entries) > 1)
        k = draw(st.integers(1, len(entries) - 1))
        entries[[k - 1, k]] = entries[[k, k - of]]
        entry, before = (f"{name}[{j}] = {entries[j].tolist()}" for j in (k, k - 1))
        return f"{entry} is not after {before}; entries must be in row-major order, none of them twice"

    yield from _outside_the_shape(op, declared, values)
    yield Change(f"{name} in another order", lambda draw, inputs: exchanged(draw, inputs, 1))
    yield Change(f"{name} twice", lambda draw, inputs: exchanged(draw, inputs, 0))


def _not_a_flag(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    def not_a_flag(draw: st.DrawFn, inputs: Arguments) -> str:
        flags = inputs[declared.name]
        assume(flags.dtype != bool)
        at = _position(draw, flags)
        flags[at] = value = draw(st.sampled_from([2, -1, 100]))
        return f"{_element(declared.name, at)} = {value} is out of range [0, 2)"

    yield Change(f"{declared.name} not 0 or 1", not_a_flag)


def _another_product(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name, of = declared.name, values.of

    def negative(draw: st.DrawFn, inputs: Arguments) -> str:
        at = _position(draw, inputs[name])
        inputs[name][at] = -2
        return f"{_element(name, at)} = -2 must be >= -1"

    def one_more(draw: st.DrawFn, inputs: Arguments) -> str:
        sizes = inputs[name]
        assume(sizes.size > 0 and -1 not in sizes and np.prod(sizes) > 0)
        sizes[-1] += 1
        return f"{name} = {sizes.tolist()} has {np.prod(sizes)} elements but {of} = {inputs[of].tolist()} has"

    yield Change(f"{name} negative", negative)
    yield Change(f"{name} of another product", one_more)


def _a_duplicate(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name = declared.name

    def repeated(draw: st.DrawFn, inputs: Arguments) -> str:
        assume(inputs[name].size > 1)
        inputs[name][-1] = inputs[name][0]
        shown = f"'{inputs[name][0]}'" if inputs[name].dtype == object else inputs[name][0]
        return f"{name}[{inputs[name].size - 1}] = {shown} is also {name}[0]"

    yield Change(f"{name} twice", repeated)


def _another_element_type(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name = declared.name

    known = "1 (float), 7 (int64) nor 8 (string)"
    if op.name == "DecodeCSV":
        known = "1 (float), 6 (int32), 7 (int64), 8 (string) nor 11 (double)"

    def another(draw: st.DrawFn, inputs: Arguments) -> str:
        at = _position(draw, inputs[name])
        inputs[name][at] = value = draw(st.sampled_from([0, 5, 9, -1, HUGE]))
        return f"{_element(name, at)} = {value} is neither {known}"

    yield Change(f"{name} not of a feature", another)


def _a_damaged_message(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name, message = declared.name, f"tf.{op.name.removeprefix('Parse')}"

    def damaged(draw: st.DrawFn, inputs: Arguments) -> str:
        at = _position(draw, inputs[name])
        inputs[name][at] += draw(st.sampled_from(["\x0f", "\x0b", "\n", "\x12", "\n\x01\n", "\n\x02\n\x01", "\r\x01"]))
        return f"{_element(name, at)} is not a {message}"

    yield Change(f"{name} damaged", damaged)


def _a_damaged_record(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name = declared.name

    def damaged(draw: st.DrawFn, inputs: Arguments) -> str:
        assume(inputs["types"].size > 0)
        at = _position(draw, inputs[name])
        inputs[name][at] = draw(st.sampled_from(['x"', "x\n", "x\r"])) + inputs[name][at]
        return f"{_element(name, at)}: column 0 has a quote or a line break, and is not quoted"

    yield Change(f"{name} damaged", damaged)


def _not_increasing(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name = declared.name

    def negative(draw: st.DrawFn, inputs: Arguments) -> str:
        assume(inputs[name].size > 0)
        inputs[name][0] = value = -draw(st.sampled_from([1, 100]))
        return f"{name}[0] = {value} must be >= 0"

    def repeated(draw: st.DrawFn, inputs: Arguments) -> str:
        assume(inputs[name].size > 1)
        k = draw(st.integers(1, inputs[name].size - 1))
        inputs[name][k] = before = inputs[name][k - 1]
        return f"{name}[{k}] = {before} must be greater than {name}[{k - 1}] = {before}"

    yield Change(f"{name} negative", negative)
    yield Change(f"{name} twice", repeated)


def _damaged_base64(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name = declared.name

    def damaged(draw: st.DrawFn, inputs: Arguments) -> str:
        at = _position(draw, inputs[name])
        inputs[name][at] = draw(st.sampled_from(["+", "/", " ", "=", "é", "A==A"])) + inputs[name][at]
        return f"{_element(name, at)} = '"

    yield Change(f"{name} not in base64", damaged)


def _another_length(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name = declared.name

    def longer(draw: st.DrawFn, inputs: Arguments) -> str:
        texts = inputs[name].reshape(-1)
        assume(texts.size > 1 and inputs["fixed_length"] == -1)
        texts[-1] += "abcdefgh"
        return f"{len(texts[-1])} bytes but {_element(name, (0,) * inputs[name].ndim)} has {len(texts[0])}"

    def no_multiple(draw: st.DrawFn, inputs: Arguments) -> str:
        size = inputs["like"].dtype.itemsize
        value = draw(st.sampled_from([0, -2, size + 1 if size > 1 else 0]))
        inputs["fixed_length"] = np.array(value)
        return f"fixed_length = {value} is not a positive multiple of {size}, the size of"

    yield Change(f"{name} of different lengths", longer)
    yield Change("fixed_length no multiple", no_multiple)


def _damaged_stream(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name = declared.name

    def another_checksum(draw: st.DrawFn, inputs: Arguments) -> str:
        at = _position(draw, inputs[name])
        for place in np.ndindex(*inputs[name].shape):  # the others end as they did
            changed = bytearray(inputs[name][place])
            changed[-5 if inputs[name][place][:2] == b"\x1f\x8b" else -1] ^= 1
            inputs[name][place] = bytes(changed) if place == at else inputs[name][place]
        return f"{_element(name, at)} has damaged data of "

    def cut_off(draw: st.DrawFn, inputs: Arguments) -> str:
        at = _position(draw, inputs[name])
        for place in np.ndindex(*inputs[name].shape):
            inputs[name][place] = inputs[name][place][:-1]
        return f"{_element(name, (0,) * len(at))} ends inside its data of "

    yield Change(f"{name} with another checksum", another_checksum)
    yield Change(f"{name} cut off", cut_off)


def _damaged_tensor(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name = declared.name

    def changed(draw: st.DrawFn, inputs: Arguments, added: bytes, message: str) -> str:
        text = inputs[name].item()
        inputs[name] = np.array((text.encode() if isinstance(text, str) else text) + added, object)
        return f"{name} {message}"

    for what, added, message in (
        ("cut off", b"\x2a\x05", "is not a TensorProto"),
        ("of another type", b"\x08\x63", "has the element type number 99; "),
        ("with a negative dimension", b"\x12\x0d\x12\x0b\x08" + b"\xff" * 9 + b"\x01", "has the shape ["),
    ):
        yield Change(
            f"{name} {what}", lambda draw, inputs, added=added, message=message: changed(draw, inputs, added, message)
        )


def _too_many(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name = declared.name

    def one_more(draw: st.DrawFn, inputs: Arguments) -> str:
        expected = inputs[name].size
        inputs[name] = np.append(inputs[name], inputs[name][:1] if expected else np.ones(1).astype(inputs[name].dtype))
        return f"{name} has {expected + 1} elements; expected {expected}"

    yield Change(f"{name} too many", one_more)


def _damaged_splits(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name = declared.name

    def not_zero(draw: st.DrawFn, inputs: Arguments) -> str:
        inputs[name][0] = value = draw(st.sampled_from([1, -1, np.iinfo(inputs[name].dtype).max // 2]))
        return f"{name}[0] = {value} must be 0"

    def falling(draw: st.DrawFn, inputs: Arguments) -> str:
        k = draw(st.integers(1, len(inputs[name]) - 1))
        inputs[name][k] = inputs[name][k - 1] - draw(st.sampled_from([1, 100]))
        return f"{name}[{k}] = {inputs[name][k]} is less than {name}[{k - 1}] = {inputs[name][k - 1]}"

    def another_end(draw: st.DrawFn, inputs: Arguments) -> str:
        size = inputs[name][-1]
        inputs[name][-1] += draw(st.sampled_from([1, 100]))
        return f"{name}[{len(inputs[name]) - 1}] = {inputs[name][-1]} must be {size}, the number of values"

    def none(draw: st.DrawFn, inputs: Arguments) -> str:
        inputs[name] = inputs[name][:0]
        return f"{name} has 0 elements; at least 1 expected"

    yield Change(f"{name} not beginning with 0", not_zero)
    yield Change(f"{name} falling", falling)
    yield Change(f"{name} with another end", another_end)
    yield Change(f"{name} without elements", none)


def _damaged_index(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name = declared.name

    def with_word(draw: st.DrawFn, inputs: Arguments, at: int, word: int, message: str) -> str:
        inputs[name][at : at + 4] = np.array([word], "<u4").view(np.uint8)
        return f"{name} {message}"

    def cut_off(draw: st.DrawFn, inputs: Arguments) -> str:
        inputs[name] = inputs[name][: -draw(st.sampled_from([1, 4, 64]))]
        return f"{name} has {len(inputs[name])} bytes; expected "

    for what, at, word, message in (
        ("that is none", 4, 0, "is no index of keys: it does not begin with OSKEYIDX"),
        ("of another version", 8, 2, "has version 2; 1 is read"),
        ("of another kind", 12, 7, "is of keys of kind 7; these are of kind "),
        ("of other keys", 16, 10**9, "is of 1000000000 keys; there are "),
        ("with other slots", 24, 17, "has "),
        ("that searches nothing", 32, 0, "is damaged: "),
    ):
        yield Change(
            f"{name} {what}",
            lambda draw, inputs, at=at, word=word, message=message: with_word(draw, inputs, at, word, message),
        )
    yield Change(f"{name} cut off", cut_off)


def _outside_the_string(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name = declared.name

    def outside(draw: st.DrawFn, inputs: Arguments, sign: int) -> str:
        at = _position(draw, inputs[name])
        size = len(inputs[values.of][at].encode())
        inputs[name][at] = value = sign * (size + draw(st.sampled_from([1, 100, HUGE])))
        return f"{_element(name, at)} = {value} is out of range [{-size}, {size + 1})"

    yield Change(f"{name} behind the end", lambda draw, inputs: outside(draw, inputs, 1))
    yield Change(f"{name} before the beginning", lambda draw, inputs: outside(draw, inputs, -1))


def _damaged_program(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name, splits = declared.name, values.of

    def another(draw: st.DrawFn, inputs: Arguments, column: int, code: int | None, low: int, high: int) -> str:
        program = inputs[name]
        number = draw(st.integers(0, len(program) - 2))  # the last one is kept, which needs no next
        program[number] = [program[number][0], 0, 0] if code is None else [code, max(low, 0), 0]
        program[number][column] = value = draw(st.sampled_from([low - 1, -HUGE, high, HUGE]))
        return f"{name}[{number},{column}] = {value} is out of range [{low}, {high})"

    def in_program(column: int, code: int | None, low: int, high: int) -> Callable[[st.DrawFn, Arguments], str]:
        return lambda draw, inputs: another(draw, inputs, column, code, low, high)

    def classes(draw: st.DrawFn, inputs: Arguments) -> str:
        return another(draw, inputs, 1, 1, 0, len(inputs[splits]) - 1)

    def ways(draw: st.DrawFn, inputs: Arguments) -> str:
        return another(draw, inputs, draw(st.sampled_from([1, 2])), 2, 0, len(inputs[name]))

    def no_next(draw: st.DrawFn, inputs: Arguments) -> str:
        code, x = draw(st.sampled_from([(1, 0), (3, 2), (4, 0)]))
        last = len(inputs[name]) - 1
        inputs[name][last] = [code, x, 0]
        return f"{name}[{last},0] = {code} continues at the next instruction, but there is none"

    def columns(draw: st.DrawFn, inputs: Arguments) -> str:
        inputs[name] = inputs[name][:, : draw(st.sampled_from([0, 2]))]
        return f"dimension 1 of {name} is {inputs[name].shape[1]}; expected 3"

    def empty(draw: st.DrawFn, inputs: Arguments) -> str:
        inputs[name] = inputs[name][:0]
        return f"{name} has 0 instructions; 1 to 65536 expected"

    yield Change(f"{name} with another code", in_program(0, None, 0, 5))
    yield Change(f"{name} with another class", classes)
    yield Change(f"{name} with another way", ways)
    yield Change(f"{name} with another position", in_program(1, 3, 2, 20))
    yield Change(f"{name} with another condition", in_program(1, 4, 0, 6))
    yield Change(f"{name} that continues after its end", no_next)
    yield Change(f"{name} with other columns", columns)
    yield Change(f"{name} without instructions", empty)


def _no_group(op: Op, declared: Input, values: Values) -> Iterator[Change]:
    name = declared.name

    def outside(draw: st.DrawFn, inputs: Arguments) -> str:
        at = _position(draw, inputs[name])
        inputs[name][at] = value = draw(st.sampled_from([-1, 10, HUGE]))
        return f"{_element(name, at)} = {value} is out of range [0, 10)"

    def fewer(draw: st.DrawFn, inputs: Arguments) -> str:
        count = len(inputs[name])
        inputs["rewrite"] = np.array(["-"] * draw(st.sampled_from([0, count, count + 2])), object)
        assume(len(inputs["rewrite"]) != count + 1)
        return f"rewrite has {len(inputs['rewrite'])} elements; {count + 1}, one more than groups, expected"

    yield Change(f"{name} that are none", outside)
    yield Change(f"{name} of another number", fewer)


_VALUE_CHANGES: dict[str, Callable[[Op, Input, Values], Iterator[Change]]] = {
    "any": _nothing,
    "index": _outside_a_range,
    "segment": _outside_a_range,
    "sorted_segment": _unsorted,
    "offsets": _wrong_offsets,
    "size": _illegal_size,
    "coordinates": _outside_the_shape,
    "row_major": _not_in_row_major_order,
    "flags": _not_a_flag,
    "reshape": _another_product,
    "distinct": _a_duplicate,
    "element_type": _another_element_type,
    "message": _a_damaged_message,
    "csv_record": _a_damaged_record,
    "increasing": _not_increasing,
    "tensor_message": _damaged_tensor,
    "base64": _damaged_base64,
    "raw": _another_length,
    "compressed": _damaged_stream,
    "default": _too_many,
    "row_splits": _damaged_splits,
    "program": _damaged_program,
    "group": _no_group,
    "key_index": _damaged_index,
    "position": _outside_the_string,
}


def _rank_changes(declared: Input) -> Iterator[Change]:
    """A dimension too many, or too few."""
    items = shape_items(declared.shape)
    fixed = sum(not is_group(item) for item in items)
    has_group = fixed < len(items)
    expected = f"rank {'>= ' if has_group else ''}{fixed}" if items else "a scalar"

    def resized(inputs: Arguments, rank: int) -> str:
        value = inputs[declared.name]
        inputs[declared.name] = np.zeros((1,) * rank, value.dtype)
        return f"input {declared.name} has rank {rank}; expected {expected} [{declared.shape}]"

    if not has_group:
        yield Change(f"{declared.name} of a higher rank", lambda draw, inputs: resized(inputs, fixed + 1))
    if fixed:
        yield Change(f"{declared.name} of a lower rank", lambda draw, inputs: resized(inputs, fixed - 1))


def _size_changes(op: Op, declared: Input) -> Iterator[Change]:
    """A dimension of another size than the same dimension of an input before."""
    items = shape_items(declared.shape)
    before = {item for other in op.inputs[: op.inputs.index(declared)] for item in shape_items(other.shape)}
    shared = [axis for axis, item in enumerate(items) if item in before and not any(map(is_group, items))]

    def longer(inputs: Arguments, axis: int) -> str:
        value = inputs[declared.name]
        wider = (*value.shape[:axis], value.shape[axis] + 1, *value.shape[axis + 1 :])
        inputs[declared.name] = np.zeros(wider, value.dtype)
        return f"for the same dimension {items[axis]}"

    for axis in shared:
        yield Change(f"{declared.name} longer along axis {axis}", lambda draw, inputs, axis=axis: longer(inputs, axis))


def illegal_attributes(op: Op) -> Iterator[tuple[dict[str, Any], str]]:
    """Attributes of which one is illegal, and the message."""
    yield {a.name: a.choices[0] for a in op.attributes} | {"unheard_of": "a"}, "there is no attribute unheard_of"
    for declared in op.attributes:
        for other in (1, 0.5, (declared.choices[0],), (1, 2), (0.5,)):
            message = f"attribute {declared.name} is not a string; expected one of {declared.choices}"
            yield {a.name: a.choices[0] for a in op.attributes} | {declared.name: other}, message
        legal = {a.name: a.choices[0] for a in op.attributes}
        for value in ("", "NO SUCH CHOICE", declared.choices[0].swapcase(), declared.choices[0] + " "):
            if value in declared.choices:
                continue  # digits have no case
            message = f"attribute {declared.name} = {value!r} is not one of {declared.choices}"
            yield legal | {declared.name: value}, message
        if declared.default is None:
            del legal[declared.name]
            yield legal, f"attribute {declared.name} is required"


def a_binding(op: Op, **types: int) -> dict[str, int]:
    """One legal binding of the type variables, the last of each set where `types` does not say."""
    return {variable: types.get(variable, legal[-1]) for variable, legal in op.types.items()}


def as_arrays(op: Op, binding: Mapping[str, int], inputs: Mapping[str, Any]) -> Arguments:
    """Nested lists as arrays of the declared element types."""
    return {
        i.name: np.array(inputs[i.name], numpy_dtype(op.bind(i.type, binding))) for i in op.inputs if i.name in inputs
    }
