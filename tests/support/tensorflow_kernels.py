"""Single operators against TensorFlow's kernels, over element types, attribute values and sizes of zero.

A row names an operator and what it is called with:

    row("MatMul", a=numbers("mk"), b=numbers("kn"))
    row("Concat", concat_dim=each(constant(0), constant(-1)), values=[numbers("mn"), numbers("mn")])

A letter is a dimension, and a digit is a size. What a row leaves open is tried: each element type that the operator
declares, each value of a Boolean attribute and of one with a list of allowed texts, each `each(...)`, and 0 for each
dimension. Of the open things, one differs from the first choices at a time. Where TensorFlow raises, the trial says
nothing.
"""

from __future__ import annotations

import random
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf
from support.tensorflow_imports import answers, text
from tensorflow.core.framework.op_def_pb2 import OpList
from tensorflow.core.protobuf.config_pb2 import ConfigProto
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.framework import op_def_library

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensorflow import convert
from onnx_sparse.converters.tensorflow.graph_source import from_graph
from onnx_sparse.converters.tensorflow.handlers import differences
from onnx_sparse.converters.tensorflow.reading.element_types import NAMES, ONNX_TYPES
from onnx_sparse.converters.tensorflow.reading.messages import GraphDef

_WORDS = (b"a", b"", b"bc", "é".encode(), b"12", b"B c")
#: TensorFlow computes the graph's own operators.
_AS_WRITTEN = ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
_AS_WRITTEN.graph_options.rewrite_options.disable_meta_optimizer = True
_AS_WRITTEN.graph_options.rewrite_options.constant_folding = RewriterConfig.OFF
#: Relative tolerances; the sums of floats have another order.
_TOLERANCES = {"float16": 4e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-10}
#: The attributes that say the sizes and steps of windows, and the letters of tensors of any rank.
_OF_WINDOWS = frozenset({"ksize", "ksizes", "strides", "rates", "dilations"})
_RANKS = "mnpqr"
#: The inputs and attributes that are axes.
_AXES = frozenset(
    {"axis", "dim", "dimension", "reduction_indices", "reduction_axes", "dims", "concat_dim", "split_dim"}
)
#: Operators of which the page of differences says what NaN becomes, by a word of their names.
_WITHOUT_ENDS = {"Pool", "LRN", "Scatter", "Segment"}
#: The same, which are equal of infinities.
_WITHOUT_NAN = frozenset(op for what, ops in differences().items() if "NaN" in what for op in ops)
#: Operators of which TensorFlow returns an empty result of another shape than it says.
_OF_NO_ROWS = frozenset({"Conv2D", "Conv3D", "DepthwiseConv2dNative"})
#: The element types that are tried first.
_PREFERRED = ("float32", "int64", "int32", "string", "bool")


@dataclass(frozen=True)
class Input:
    """An input of an operator: of given sizes and random numbers, or of a given value.

    Attributes:
        sizes: A letter for each dimension.
        low, high: The numbers are in between; `high` may be a letter, for numbers of a dimension.
        value: The value.
        is_constant: Whether it is a constant of the graph.
        is_sorted: Whether the numbers are in order.
        has_ends: Whether some of the numbers are the ends of their type, or no numbers.
        has_nan: Whether no numbers are among them.
        make: Makes the value of the sizes of letters.
        of: The letters that `make` reads.
        is_rank_known: Whether the graph says the rank.
    """

    sizes: str = ""
    low: float = -4
    high: float | str = 5
    value: Any = None
    is_constant: bool = False
    is_sorted: bool = False
    has_ends: bool = False
    has_nan: bool = True
    make: Callable[[np.random.Generator, Mapping[str, int]], np.ndarray] | None = None
    of: str = ""
    is_rank_known: bool = True

    def array(self, dtype: tf.DType, dims: Mapping[str, int], seed: str) -> np.ndarray:
        """The value in an element type."""
        if self.value is not None:
            if dtype == tf.string:
                items = np.ravel(np.array(self.value, object))
                words = np.array([item if isinstance(item, bytes) else str(item).encode() for item in items], object)
                return words.reshape(np.shape(self.value))
            return np.asarray(self.value).astype(dtype.as_numpy_dtype)
        rng = np.random.default_rng(zlib.crc32(seed.encode()))
        if self.make is not None:
            return self.make(rng, dims).astype(dtype.as_numpy_dtype)
        shape = [_size(letter, dims) for letter in self.sizes]
        if dtype == tf.string:
            return np.array(np.array(_WORDS, object)[rng.integers(0, len(_WORDS), shape)], object)
        if dtype == tf.bool:
            return rng.integers(0, 2, shape).astype(bool)
        low, high = self.low, self.high if not isinstance(self.high, str) else dims[self.high]
        if dtype.is_floating:
            made = rng.uniform(low, high, shape)
        else:
            low = max(low, 0) if dtype.is_unsigned else low
            made = rng.integers(int(low), max(int(high), int(low) + 1), shape)
        made = np.asarray(made).astype(dtype.as_numpy_dtype)
        if self.has_ends and made.size:
            ends = [np.inf, -np.inf, -0.0, *[np.nan] * self.has_nan] if dtype.is_floating else [dtype.min, dtype.max, 0]
            places = rng.random(made.shape) < 0.3
            made[places] = np.array(ends, dtype.as_numpy_dtype)[rng.integers(0, len(ends), int(places.sum()))]
        return np.sort(made, axis=-1) if self.is_sorted else made


def _size(letter: str, dims: Mapping[str, int]) -> int:
    return int(letter) if letter.isdigit() else dims[letter]


def numbers(sizes: str, low: float = -4, high: float | str = 5, *, is_sorted: bool = False) -> Input:
    """A fed input of random numbers."""
    return Input(sizes, low, high, is_sorted=is_sorted)


def weights(sizes: str, low: float = -4, high: float = 5) -> Input:
    """A constant of the graph of random numbers."""
    return Input(sizes, low, high, is_constant=True)


def given(value: Any) -> Input:
    """A fed input of this value."""
    return Input(value=value)


def constant(value: Any) -> Input:
    """A constant of the graph."""
    return Input(value=value, is_constant=True)


def places(count: str, sizes: str) -> Input:
    """The sorted coordinates of so many different elements of a sparse tensor of these sizes, of less if it is full."""

    def made(rng: np.random.Generator, dims: Mapping[str, int]) -> np.ndarray:
        shape = [_size(letter, dims) for letter in sizes]
        cells = int(np.prod(shape))
        chosen = np.sort(rng.permutation(cells)[: _size(count, dims)])
        return (
            np.stack(np.unravel_index(chosen, shape or [1])[: len(shape)], axis=-1)
            if cells
            else np.zeros((0, len(shape)))
        )

    return Input(f"{count}{len(sizes)}", make=made, of=sizes)


def shape_of(sizes: str) -> Input:
    """The sizes as a tensor."""
    return Input(str(len(sizes)), make=lambda _, dims: np.array([_size(c, dims) for c in sizes], np.int64), of=sizes)


def splits(rows: str, count: str) -> Input:
    """Where rows begin and end that have so many elements together."""

    def made(rng: np.random.Generator, dims: Mapping[str, int]) -> np.ndarray:
        end, many = _size(count, dims), _size(rows, dims)
        inner = np.sort(rng.integers(0, end + 1, max(many - 1, 0)))
        return np.array([0, *inner, end] if many or end else [0])

    return Input(" ", make=made, of=rows + count)


@dataclass(frozen=True)
class Each:
    """Alternatives of an input or an attribute, of which the first is the usual one."""

    choices: tuple[Any, ...]


def each(*choices: Any) -> Each:
    """Alternatives, all of which are tried."""
    return Each(choices)


@dataclass(frozen=True)
class Row:
    """An operator and what it is called with.

    Attributes:
        op: The operator.
        arguments: Inputs and attributes by name.
        sizes: The sizes of dimensions, by letter.
        zeros: The dimensions of which a size of zero is tried; all when omitted.
        known: The dimensions whose sizes the graph always says.
        outputs: How many outputs are compared; all when omitted.
        tied: The attributes of types that are always as another one, as by TensorFlow's public functions.
    """

    op: str
    arguments: Mapping[str, Any]
    sizes: Mapping[str, int] = field(default_factory=dict)
    zeros: str | None = None
    known: str = ""
    outputs: int | None = None
    tied: Mapping[str, str] = field(default_factory=dict)

    def types(self, chosen: Mapping[str, tf.DType]) -> dict[str, tf.DType]:
        """The chosen types, with those of tied attributes."""
        return {name: chosen[self.tied.get(name, name)] for name in chosen}


def row(
    op: str,
    *,
    sizes: Mapping[str, int] | None = None,
    zeros: str | None = None,
    known: str = "",
    outputs: int | None = None,
    tied: Mapping[str, str] | None = None,
    **arguments: Any,
) -> Row:
    """A row of a table; see `Row`."""
    return Row(op, arguments, sizes or {}, zeros, known, outputs, tied or {})


@dataclass(frozen=True)
class Trial:
    """One call of an operator."""

    op: str
    name: str
    inputs: Mapping[str, Input | Sequence[Input]]
    attributes: Mapping[str, Any]
    types: Mapping[str, tf.DType]
    dims: Mapping[str, int]
    known: str = ""
    outputs: int | None = None
    are_sizes_known: bool = False
    seed: int = 0


@cache
def _definitions() -> dict[str, Any]:
    listed = OpList.FromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    return {op.name: op for op in listed.op}


def _open_things(row: Row) -> tuple[dict[str, list[Any]], dict[str, list[tf.DType]], dict[str, int]]:
    """The alternatives of a row's inputs and attributes, those of its types, and the usual sizes by letter."""
    definition = _definitions()[row.op]
    used = "".join(given.sizes + given.of for given in _flat(row.arguments.values()) if isinstance(given, Input))
    letters = sorted(filter(str.isalpha, {*used}))
    dims = {letter: row.sizes.get(letter, 2 + k) for k, letter in enumerate(letters)}
    choices: dict[str, list[Any]] = {}
    for name, argument in row.arguments.items():
        choices[name] = list(argument.choices) if isinstance(argument, Each) else [argument]
    types: dict[str, list[tf.DType]] = {}
    for attr in definition.attr:
        if attr.type == "type":
            types[attr.name] = choices.pop(attr.name, None) or _types_of(attr)
        elif attr.name not in choices and attr.type == "bool":
            choices[attr.name] = [attr.default_value.b, not attr.default_value.b]
        elif attr.name not in choices and attr.HasField("default_value") and attr.allowed_values.list.s:
            allowed = [value.decode() for value in attr.allowed_values.list.s]
            choices[attr.name] = sorted(allowed, key=lambda v: v != attr.default_value.s.decode())
    return choices, types, dims


def trials(row: Row) -> Iterator[Trial]:
    """The calls that a row stands for."""
    choices, types, dims = _open_things(row)
    letters = sorted(dims)
    names = {arg.name for arg in _definitions()[row.op].input_arg}
    first = {name: found[0] for name, found in choices.items()}
    first_types = {name: found[0] for name, found in types.items()}

    def made(label: str, changed: Mapping[str, Any] = {}, of: Mapping[str, Any] = {}, **more: Any) -> Trial:
        chosen, chosen_types = {**first, **changed}, {**first_types, **of}
        inputs = {name: value for name, value in chosen.items() if name in names}
        attributes = {k: v for k, v in chosen.items() if k not in names and k not in types}
        given_dims = more.pop("dims", dims)
        return Trial(
            row.op, label, inputs, attributes, row.types(chosen_types), given_dims, row.known, row.outputs, **more
        )

    yield made("plain")
    yield made("sizes known", are_sizes_known=True)
    for name, found in types.items():
        for dtype in found[1:] if name not in row.tied else ():
            yield made(f"{name}={dtype.name}", of={name: dtype})
    for name, found in choices.items():
        for k, choice in enumerate(found[1:], 1):
            label = choice if not isinstance(choice, (Input, list)) or name not in names else f"choice {k}"
            yield made(f"{name}={label}", {name: choice})
    for letter in letters if row.zeros is None else row.zeros:
        yield made(f"{letter}=0", dims={**dims, letter: 0})
    if row.zeros is None and len(letters) > 1:
        yield made("all sizes 0", dims=dict.fromkeys(letters, 0))


def drawn(row: Row, seed: int) -> Trial:
    """A call of a row in which all is drawn at once that `trials` vary one at a time, and more.

    The inputs are fed or constants, of which some numbers are ends of their type. The sizes are 0 to 5, known or not.
    Where an operator takes tensors of any rank, the rank is 0 to 5. Operands lack leading dimensions or have sizes
    of 1. The graph may not say a rank. The axes, and the sizes and steps of windows are drawn, too.
    """
    draw = random.Random(f"{row.op} {seed}")
    choices, types, dims = _open_things(row)
    chosen = {name: draw.choice(found) for name, found in choices.items()}
    names = {arg.name for arg in _definitions()[row.op].input_arg}
    rank = draw.randint(0, 5) if _is_of_any_rank(row, chosen, names) and draw.random() < 0.7 else None
    constants = {name for name in sorted(names) if draw.random() < 0.25}
    for name in sorted(chosen.keys() & names):
        varied = _varied(chosen[name], row.op, name in constants, rank, draw)
        if name in _AXES and draw.random() < 0.3:
            varied = _drawn_axes(varied, 3 if rank is None else rank, draw)
        chosen[name] = varied
    for name in sorted(chosen.keys() - names):
        if name in _OF_WINDOWS and isinstance(chosen[name], list) and draw.random() < 0.7:
            first, *inner, last = chosen[name]
            chosen[name] = [first, *(draw.randint(1, 5) for _ in inner), last]
        elif name in _AXES and draw.random() < 0.3:
            chosen[name] = draw.randint(-3, 2)
    letters = "".join(dict.fromkeys([*dims, *("" if rank is None else _RANKS[:rank])]))
    sizes = {c: draw.choice((0, 1, 2, 3, 5)) if draw.random() < 0.4 else dims.get(c, 2) for c in letters}
    ends = {each.high for each in _flat(row.arguments.values()) if isinstance(each, Input)}
    for letter in (ends & sizes.keys()) | (set(row.known) if row.zeros is None else set(letters) - set(row.zeros)):
        sizes[letter] = max(sizes[letter], 1)
    for each in _flat(row.arguments.values()):
        if isinstance(each, Input) and each.make and each.sizes[:1].isalpha():  # no more entries than elements
            cells = [_size(letter, sizes) for letter in each.of]
            sizes[each.sizes[0]] = min(sizes[each.sizes[0]], int(np.prod(cells)))
    return Trial(
        row.op,
        f"drawn {seed}",
        {name: value for name, value in chosen.items() if name in names},
        {name: value for name, value in chosen.items() if name not in names},
        row.types({name: draw.choice(found) for name, found in types.items()}),
        sizes,
        row.known + "".join(c for c in letters if draw.random() < 0.3),
        row.outputs,
        draw.random() < 0.3,
        seed,
    )


def with_ids_beyond(trial: Trial) -> Trial:
    """The same call of other sizes, often 0, in which some ids and coordinates are of nothing that there is."""
    draw = random.Random(f"{trial.op} {trial.name}")
    inputs = {name: _beyond(given, draw) for name, given in trial.inputs.items()}
    return replace(trial, inputs=inputs, dims={letter: draw.choice((0, 0, 1, 2, 3)) for letter in trial.dims})


def has_ids(row: Row) -> bool:
    """Whether an operator is called with ids or coordinates."""
    return any(isinstance(given, Input) and _are_ids(given) for given in _flat(row.arguments.values()))


def _are_ids(given: Input) -> bool:
    return isinstance(given.high, str) or (given.make is not None and given.sizes[:1].isalpha())


def _beyond(given: Any, draw: random.Random) -> Any:
    if not isinstance(given, Input):
        return [_beyond(each, draw) for each in given]
    if not _are_ids(given) or draw.random() < 0.2:
        return given
    return replace(given, low=-2, high=9, make=None)


def _is_of_any_rank(row: Row, chosen: Mapping[str, Any], names: set[str]) -> bool:
    """Whether the inputs of a row have the same dimensions, but for leading ones, and none is said more of."""
    inputs = list(_flat(chosen[name] for name in sorted(chosen.keys() & names)))
    sizes = max((each.sizes for each in inputs), key=len)
    is_said = row.sizes or row.zeros is not None or any(isinstance(each.high, str) or each.make for each in inputs)
    return not is_said and len(sizes) > 1 and sizes.isalpha() and all(sizes.endswith(each.sizes) for each in inputs)


def _words(op_type: str) -> list[str]:
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]+", op_type)


def _varied(given: Any, op: str, is_constant: bool, rank: int | None, draw: random.Random) -> Any:
    if isinstance(given, list):
        return [_varied(each, op, is_constant, rank, draw) for each in given]
    is_open = given.value is None and not given.is_constant and given.make is None
    sizes = given.sizes
    if rank is not None and is_open:
        sizes = _RANKS[:rank]
        if draw.random() < 0.2:
            sizes = "".join(draw.choice((c, "1")) for c in sizes)[draw.choice((0, 0, 1, 2)) :]
    return replace(
        given,
        sizes=sizes,
        is_constant=is_constant if is_open or draw.random() < 0.1 else given.is_constant or is_constant,
        has_ends=_has_ends(given, op) and draw.random() < 0.3,
        has_nan=op not in _WITHOUT_NAN,
        is_rank_known=draw.random() < 0.9,
    )


def _has_ends(given: Input, op: str) -> bool:
    is_open = given.value is None and not given.is_constant and given.make is None
    return is_open and (given.low, given.high) in ((-4, 5), (-90, 90)) and not _WITHOUT_ENDS & {*_words(op)}


def _drawn_axes(given: Any, rank: int, draw: random.Random) -> Any:
    """Other axes in the form of the given ones."""
    if given.value is None or np.asarray(given.value).dtype == bool:
        return given
    end = max(rank, 1)
    if np.ndim(given.value) == 0:
        return replace(given, value=draw.randrange(-end, end))
    axes = [axis - end * draw.randint(0, 1) for axis in draw.sample(range(end), draw.randint(0, end))]
    return replace(given, value=axes)


def _flat(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, Each):
            yield from _flat(value.choices)
        elif isinstance(value, list):
            yield from _flat(value)
        else:
            yield value


def _types_of(attr: Any) -> list[tf.DType]:
    """The types of an attribute that tensors of ONNX Runtime have, the usual one first."""
    open_ones = (attr.default_value.type,) if attr.HasField("default_value") else ONNX_TYPES
    allowed = [number for number in (attr.allowed_values.list.type or open_ones) if number in ONNX_TYPES]
    by_name = sorted((NAMES[number] for number in allowed), key=lambda n: (n not in _PREFERRED, _order(n)))
    default = NAMES.get(attr.default_value.type) if attr.HasField("default_value") else None
    if default in by_name:
        by_name = [default, *(name for name in by_name if name != default)]
    return [tf.as_dtype(name) for name in by_name] or [tf.float32]


def _order(name: str) -> int:
    return _PREFERRED.index(name) if name in _PREFERRED else len(_PREFERRED)


def _arrays(trial: Trial) -> dict[str, Any]:
    """The value of each input, or the list of values."""
    found = {}
    for arg in _definitions()[trial.op].input_arg:
        if arg.name not in trial.inputs:
            continue
        source = trial.inputs[arg.name]
        seed = f"{trial.op} {arg.name}{trial.seed or ''}"
        dtype = trial.types[arg.type_attr] if arg.type_attr else tf.as_dtype(arg.type) if arg.type else tf.float32
        if isinstance(source, Input):
            found[arg.name] = source.array(dtype, trial.dims, seed)
        else:
            dtypes = trial.attributes.get(arg.type_list_attr, [dtype] * len(source))
            found[arg.name] = [
                s.array(t, trial.dims, f"{seed} {k}") for k, (s, t) in enumerate(zip(source, dtypes, strict=True))
            ]
    return found


@dataclass(frozen=True)
class Built:
    """A graph of one operator, what is fed to it and what it returns."""

    graph: Any
    inputs: dict[str, np.ndarray]
    outputs: list[str]


def built(trial: Trial) -> Built:
    """The graph of a call.

    Raises:
        ValueError, TypeError: TensorFlow's library refuses the call.
    """
    arrays = _arrays(trial)
    definition, graph, fed = _definitions()[trial.op], tf.Graph(), {}
    fixed = {c for source in _flat(_listed(trial.inputs)) if source.is_constant for c in source.sizes}
    sized = fixed | set(trial.known)

    def tensor(source: Input, array: np.ndarray) -> Any:
        if source.is_constant:
            return tf.constant(array)
        dtype = tf.as_dtype(array.dtype) if array.dtype != object else tf.string
        is_brain = dtype == tf.bfloat16
        sizes = source.sizes or " " * array.ndim
        shape = [
            size if trial.are_sizes_known or c in sized or c.isdigit() else None
            for c, size in zip(sizes, array.shape, strict=True)
        ]
        holder = tf.compat.v1.placeholder(tf.float32 if is_brain else dtype, shape if source.is_rank_known else None)
        fed[holder.name] = array.astype(np.float32) if is_brain else array
        return tf.cast(holder, tf.bfloat16) if is_brain else holder

    with graph.as_default():
        inputs = {}
        for name, array in arrays.items():
            source = trial.inputs[name]
            inputs[name] = tensor(source, array) if isinstance(source, Input) else list(map(tensor, source, array))
        inferred = {text for arg in definition.input_arg for text in (arg.type_attr, arg.type_list_attr)}
        types = {name: dtype for name, dtype in trial.types.items() if name not in inferred}
        attributes = {**_defaults(definition), **trial.attributes, **types}
        attributes = {name: value for name, value in attributes.items() if name not in inferred}
        made = tf.nest.flatten(op_def_library.apply_op(trial.op, **inputs, **attributes))
        made = [tf.cast(tensor, tf.float32) if tensor.dtype == tf.bfloat16 else tensor for tensor in made]
        return Built(graph, fed, [tf.identity(tensor).name for tensor in made])


def _defaults(definition: Any) -> dict[str, Any]:
    """The defaults of attributes that are no types; the library asks for some of them."""
    found = {}
    for attr in definition.attr:
        kind = attr.default_value.WhichOneof("value")
        if kind in ("i", "f", "b", "s"):
            found[attr.name] = getattr(attr.default_value, kind)
        elif kind == "list" and attr.type in ("list(int)", "list(float)"):
            found[attr.name] = [*attr.default_value.list.i, *attr.default_value.list.f]
    return found


def _listed(inputs: Mapping[str, Any]) -> list[Any]:
    return [value if isinstance(value, Input) else list(value) for value in inputs.values()]


def _model(trial: Trial, built: Built) -> Any:
    graph_def = GraphDef.FromString(built.graph.as_graph_def().SerializeToString())

    def converted(inputs: list[str]) -> Any:
        return convert(from_graph(graph_def, name=trial.op, inputs=inputs, outputs=built.outputs))

    try:
        return converted(list(built.inputs))
    except ConversionError as error:
        if "has no known rank; say its shape" not in str(error):
            raise
        return converted([f"{name}[{','.join(['-1'] * array.ndim)}]" for name, array in built.inputs.items()])


def _in_order_of_places(found: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Selected values and where they are, in the order of the latter in each row."""
    order = np.argsort(found[1], axis=-1)
    return [np.take_along_axis(each, order, axis=-1) for each in found]


def outcome(trial: Trial, answered: Callable[[], None] = lambda: None) -> str:
    """`equal`, `refused: why`, or `invalid` for a call that TensorFlow refuses.

    Args:
        trial: The call.
        answered: Called when TensorFlow has answered.

    Raises:
        AssertionError: The model gives something else than TensorFlow.
    """
    try:
        made = built(trial)
        with tf.compat.v1.Session(graph=made.graph, config=_AS_WRITTEN) as session:
            expected = [text(array) for array in session.run(made.outputs, made.inputs)]
    except (tf.errors.OpError, ValueError, TypeError):
        return "invalid"
    answered()
    try:
        model = _model(trial, made)
    except ConversionError as error:
        if "do not fit each other" in str(error):
            raise AssertionError(f"{trial.op} {trial.name}: {error}") from error
        return f"refused: {error}"
    try:
        got = answers(model, list(made.inputs.values()))
    except Exception as error:
        raise AssertionError(f"{trial.op} {trial.name}: {error}") from error
    if trial.op == "TopKV2" and not trial.attributes["sorted"]:
        got, expected = _in_order_of_places(got), _in_order_of_places(expected)
    for k, (one, want) in enumerate(zip(got, expected, strict=True)):
        if trial.outputs is not None and k >= trial.outputs:
            break
        where = f"{trial.op} {trial.name}, output {k}"
        if trial.op in _OF_NO_ROWS and not one.size:
            continue
        assert (one.dtype, one.shape) == (want.dtype, want.shape), (
            f"{where}: {one.dtype}{one.shape} not {want.dtype}{want.shape}"
        )
        if want.dtype.kind == "f":
            brains = any(dtype == tf.bfloat16 for dtype in trial.types.values())
            tolerance = _TOLERANCES["bfloat16" if brains else str(want.dtype)]
            scale = np.max(np.abs(want[np.isfinite(want)]), initial=1.0)
            np.testing.assert_allclose(one, want, rtol=tolerance, atol=tolerance * scale, err_msg=where)
        else:
            np.testing.assert_array_equal(one, want, err_msg=where)
    return "equal"


_ALL_TYPES = frozenset(NAMES[number] for number in ONNX_TYPES)
#: What stands for all types where time is short: one of each kind that ONNX Runtime's kernels differ by.
_SOME_TYPES = frozenset({"float32", "float64", "float16", "int64", "int8", "uint16", "string"})


def examined(row: Row, *, of_other_types: bool = False, one_of: int = 1) -> tuple[Counter[str], list[str]]:
    """How often each outcome is, with the reason of a refusal, and what is wrong.

    Args:
        row: The operator's row.
        of_other_types: Whether to make its calls in the types that others stand for, and not all other calls.
        one_of: One of how many types to take, other ones of each operator.
    """
    counts: Counter[str] = Counter()
    wrong = []
    for trial in trials(row):
        _, _, dtype = trial.name.partition("=")
        if (dtype in _ALL_TYPES - _SOME_TYPES) != of_other_types:
            continue
        if dtype in _ALL_TYPES and zlib.crc32(f"{row.op} {dtype}".encode()) % one_of:
            continue
        try:
            found = outcome(trial)
        except AssertionError as error:
            found = "wrong"
            wrong.append(" ".join(str(error).split())[:600])
        counts[found] += 1
    return counts, wrong
