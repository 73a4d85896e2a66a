"""Graphs that TensorFlow's library would not write, made from drawn calls of all operators and from saved programs.

    python -m support.mutated_graphs --seed 0 --count 1000    # in the folder tests

A graph is converted, or refused by one clear error. Attributes are dropped, taken from other nodes and given other
kinds; inputs are rewired; operators, types, ranks and the values of constants are changed.
"""

from __future__ import annotations

import random
import shutil
from atexit import register
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import tensorflow as tf
from support.random_findings import Finding, main
from support.tensorflow_kernels import built, drawn
from tensorflow.core.framework.attr_value_pb2 import AttrValue
from tensorflow.core.framework.types_pb2 import DataType
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow_kernel_rows import ROWS

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensorflow import convert
from onnx_sparse.converters.tensorflow.graph_source import from_graph
from onnx_sparse.converters.tensorflow.handlers import HANDLERS, STRUCTURE
from onnx_sparse.converters.tensorflow.reading.messages import GraphDef

#: The nodes of a graph, and of each of its functions.
Bodies = Sequence[Any]
#: How many graphs a process examines.
_AT_ONCE = 250
_INTEGERS = (-1, 0, 1, 2, 3, 7, 100, 2**31, 2**62, -(2**63))
#: What Python says of its own values, which is no explanation of a graph.
_OF_PYTHON = (
    *("index out of range", "not subscriptable", "object has no attribute", "to unpack", "not iterable"),
    *("NoneType", "KeyError", "unhashable", "unexpected keyword", "positional argument", "broadcast together"),
)


def _of_nodes(bodies: Bodies, source: random.Random) -> Any:
    return source.choice(list(source.choice([body for body in bodies if len(body)])))


def _drop_attribute(bodies: Bodies, source: random.Random) -> None:
    attributes = _of_nodes(bodies, source).attr
    if attributes:
        del attributes[source.choice(sorted(attributes))]


def _take_attribute(bodies: Bodies, source: random.Random) -> None:
    """An attribute gets the value of one of any node, of which it may have the kind or not."""
    taker, giver = _of_nodes(bodies, source), _of_nodes(bodies, source)
    if taker.attr and giver.attr:
        value = AttrValue()
        value.CopyFrom(giver.attr[source.choice(sorted(giver.attr))])
        taker.attr[source.choice(sorted(taker.attr))].CopyFrom(value)


def _change_attribute(bodies: Bodies, source: random.Random) -> None:
    """An attribute gets another value of its kind."""
    attributes = _of_nodes(bodies, source).attr
    if not attributes:
        return
    value = attributes[source.choice(sorted(attributes))]
    match value.WhichOneof("value"):
        case "type":
            value.type = source.choice([*DataType.values()[:25], 101])
        case "i":
            value.i = source.choice(_INTEGERS)
        case "f":
            value.f = source.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
        case "b":
            value.b = not value.b
        case "s":
            value.s = source.choice((b"", b"VALID", b"x", b"\xff", b"NCHW", value.s + b"x"))
        case "shape":
            _change_shape(value.shape, source)
        case "tensor":
            _change_tensor(value.tensor, source)
        case "list":
            _change_list(value.list, source)


def _change_shape(shape: Any, source: random.Random) -> None:
    match source.choice(("unknown", "more", "less", "size", "scalar")):
        case "unknown":
            shape.Clear()
            shape.unknown_rank = True
        case "more":
            shape.dim.add(size=source.choice((-1, 0, 1, 3)))
        case "less" if len(shape.dim):
            del shape.dim[-1]
        case "size" if len(shape.dim):
            source.choice(list(shape.dim)).size = source.choice((-1, -2, 0, 1, 3, 2**40))
        case _:
            shape.Clear()


def _change_tensor(tensor: Any, source: random.Random) -> None:
    match source.choice(("type", "shape", "content", "values")):
        case "type":
            tensor.dtype = source.choice(DataType.values()[:25])
        case "shape":
            _change_shape(tensor.tensor_shape, source)
        case "content":
            tensor.tensor_content = source.choice((b"", tensor.tensor_content[:-1], tensor.tensor_content + b"\0"))
        case "values":
            size = int(np.prod([dim.size for dim in tensor.tensor_shape.dim]))
            tensor.tensor_content = np.array([source.choice(_INTEGERS)] * min(max(size, 0), 64), np.int64).tobytes()


def _change_list(values: Any, source: random.Random) -> None:
    present = [field for field, _ in values.ListFields()]
    field = present[0].name if present else source.choice(("i", "s", "f", "type"))
    items = getattr(values, field)
    if len(items) and source.random() < 0.5:
        del items[source.randrange(len(items))]
    elif field == "shape":
        items.add()
    else:
        items.append({"i": source.choice(_INTEGERS), "s": b"x", "f": -1.5, "b": True}.get(field, source.choice((1, 3))))


def _rewire(bodies: Bodies, source: random.Random) -> None:
    node, other = _of_nodes(bodies, source), _of_nodes(bodies, source)
    match source.choice(("drop", "repeat", "swap", "other", "other", "output", "control", "ghost", "text")):
        case "drop" if len(node.input):
            del node.input[source.randrange(len(node.input))]
        case "repeat" if len(node.input):
            node.input.append(node.input[0])
        case "swap" if len(node.input):
            kept = list(node.input)
            source.shuffle(kept)
            del node.input[:]
            node.input.extend(kept)
        case "other" if len(node.input):
            node.input[source.randrange(len(node.input))] = other.name
        case "output" if len(node.input):
            node.input[0] = f"{other.name}:{source.choice((1, 2, 9))}"
        case "control":
            node.input.insert(0, f"^{other.name}")
        case "ghost":
            node.input.append("ghost")
        case _:
            node.input.append(source.choice(("", ":", "x:y", "^", "a:0:0")))


def _change_operator(bodies: Bodies, source: random.Random) -> None:
    _of_nodes(bodies, source).op = source.choice(_OPERATORS)


def _change_rank(bodies: Bodies, source: random.Random) -> None:
    holders = [node for body in bodies for node in body if node.op == "Placeholder"]
    if holders:
        _change_shape(source.choice(holders).attr["shape"].shape, source)


_OPERATORS = sorted({*HANDLERS, *STRUCTURE})
MUTATIONS: Sequence[Callable[[Bodies, random.Random], None]] = (
    *(_drop_attribute, _take_attribute, _change_attribute, _change_attribute, _rewire, _change_operator, _change_rank),
)


def _mutate(bodies: Bodies, source: random.Random) -> list[str]:
    """Change nodes of a graph and its functions; returns how."""
    chosen = [source.choice(MUTATIONS) for _ in range(source.choice((1, 1, 1, 2, 4)))]
    for mutation in chosen:
        mutation(bodies, source)
    return [mutation.__name__.lstrip("_") for mutation in chosen]


def mutated(seed: int) -> tuple[Any, list[str], list[str], list[str]]:
    """The graph of a drawn call, changed; its inputs and outputs; the operator and what was changed."""
    source = random.Random(f"mutated {seed}")
    while True:
        trial = drawn(source.choice(ROWS), source.randrange(10**9))
        try:
            made = built(trial)
        except (ValueError, TypeError):  # of TensorFlow's library
            continue
        break
    graph = made.graph.as_graph_def()
    return graph, list(made.inputs), made.outputs, [trial.op, *_mutate([graph.node], source)]


class Programs(tf.Module):
    """What calls of one operator do not have: functions, branches, loops, lists, tables, variables and messages."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = tf.Variable(np.arange(20, dtype=np.float32).reshape(10, 2))
        self.total = tf.Variable(0.0)
        words = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64))
        self.words = tf.lookup.StaticHashTable(words, -1)
        self.buckets = tf.lookup.StaticVocabularyTable(words, 3)

    def loop(self, x: Any) -> Any:
        return tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, tf.nn.relu(y) @ self.rows[:2]), (0, x))[1]

    def branch(self, x: Any) -> Any:
        return tf.cond(tf.reduce_sum(x) > 0, lambda: x * self.total, lambda: tf.math.top_k(x, 2).values)

    def cases(self, x: Any) -> Any:
        return tf.switch_case(tf.shape(x)[0], [lambda: x + 1, lambda: x[:1], lambda: tf.cumsum(x)])

    def mapped(self, x: Any) -> Any:
        return tf.map_fn(lambda row: tf.cumsum(row)[::-1], x)

    def listed(self, x: Any) -> Any:
        held = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[2])
        held = tf.while_loop(lambda i, _: i < 2, lambda i, t: (i + 1, t.write(i, x[0] * 2)), (0, held))[1]
        return held.stack() + held.read(0)

    def ragged(self, x: Any) -> Any:
        rows = tf.RaggedTensor.from_row_lengths(tf.range(3), [1, 0, 2])
        return tf.map_fn(lambda row: tf.reduce_sum(tf.gather(self.rows, row), 0), rows, tf.float32) + tf.reduce_sum(x)

    def looked_up(self, x: Any) -> Any:
        words = tf.strings.split(tf.strings.as_string(x[:, 0], precision=0), "0")
        return tf.cast(self.words.lookup(words.values) + self.buckets.lookup(words.values), tf.float32)

    def bags(self, x: Any) -> Any:
        ids = tf.RaggedTensor.from_row_lengths(tf.constant([1, 2, 3], tf.int64), [1, 0, 2])
        return tf.nn.safe_embedding_lookup_sparse(self.rows, ids.to_sparse(), combiner="mean") * tf.reduce_max(x)

    def stateful(self, x: Any) -> Any:
        self.total.assign_add(tf.reduce_sum(x))
        return x * self.total

    def parsed(self, x: Any) -> Any:
        features = {"f": tf.io.FixedLenFeature([2], tf.float32, [0, 1]), "v": tf.io.VarLenFeature(tf.int64)}
        found = tf.io.parse_example(tf.strings.as_string(x[:, 0]), features)
        return found["f"] + tf.cast(tf.sparse.reduce_max(found["v"]), tf.float32)

    def recurrent(self, x: Any) -> Any:
        def step(i: Any, state: Any) -> Any:
            return i + 1, tf.tanh(x @ self.rows[:2] + state)

        return tf.while_loop(lambda i, _: i < tf.shape(x)[0], step, (0, tf.zeros_like(x)), parallel_iterations=1)[1]


_PROGRAMS = (
    *("loop", "branch", "cases", "mapped", "listed", "ragged", "looked_up", "bags", "stateful", "parsed", "recurrent"),
)


@cache
def _saved() -> tuple[Path, bytes]:
    """The folder of a saved model with a signature for each program, and its message."""
    folder, programs = Path(mkdtemp(prefix="mutated_graphs")), Programs()
    register(shutil.rmtree, folder)
    of = tf.TensorSpec([None, 2], tf.float32, name="x")
    signatures = {name: tf.function(getattr(programs, name)).get_concrete_function(of) for name in _PROGRAMS}
    tf.saved_model.save(programs, str(folder), signatures)
    return folder, (folder / "saved_model.pb").read_bytes()


def mutated_program(seed: int) -> tuple[Path, str, list[str]]:
    """A folder with a saved model that was changed; the name of a signature; that and what was changed."""
    source = random.Random(f"mutated program {seed}")
    folder, content = _saved()
    message, name = SavedModel.FromString(content), source.choice(_PROGRAMS)
    # The signature's own function and those that it calls; what others have is not read.
    graph = message.meta_graphs[0].graph_def
    functions = {function.signature.name: function for function in graph.library.function}
    called = [each for each in functions if f"_{name}_" in each]
    for each in called:
        texts = "".join(str(node.attr) for node in functions[each].node_def)
        called += [other for other in functions if f'"{other}"' in texts and other not in called]
    steps = _mutate([functions[each].node_def for each in called], source)
    (folder / "saved_model.pb").write_bytes(message.SerializePartialToString())
    return folder, name, [name, *steps]


def examine(seed: int) -> tuple[Finding | None, int]:
    """Convert a graph, of an odd seed a saved model; returns what went wrong, and 1."""
    if seed % 2:
        folder, signature, steps = mutated_program(seed)
    else:
        graph, inputs, outputs, steps = mutated(seed)
    try:
        if seed % 2:
            convert(folder, signature=signature)
        else:
            definition = GraphDef.FromString(graph.SerializePartialToString())
            convert(from_graph(definition, name="mutated", inputs=inputs, outputs=outputs))
    except ConversionError as error:
        said = [each for each in _OF_PYTHON if each in str(error)]
        return (Finding(seed, "unclear", tuple(steps), " ".join(str(error).split())[-300:]) if said else None), 1
    except Exception as error:
        return Finding(seed, "failed", tuple(steps), f"{type(error).__name__}: {error}"[:300]), 1
    return None, 1


if __name__ == "__main__":
    main(__file__, examine, "mutated graphs", _AT_ONCE)
