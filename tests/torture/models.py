"""Malformed models: what rewrites a model returns one, or raises a ValueError in plain words that names the node.

Run for a time: `python tests/torture/models.py --seconds 600 --seed 1`. The suite runs a part. Mutations know what
models consist of: they drop, repeat, swap, rename and retype the parts, and do not touch bytes.
"""

from __future__ import annotations

import multiprocessing
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, defs, helper, numpy_helper, parser

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from contract.models import BRANCHES, DEFAULTED, FUNCTIONS, SEGMENT_SUM, model
from support import program
from torture.mutations import shuffle

import onnx_sparse
from onnx_sparse.models.domain_nodes import uses_domain
from onnx_sparse.models.graphs import all_nodes, graphs
from onnx_sparse.python.guarded_model import guarded_model
from onnx_sparse.schemas import OPS

LOOP = model(
    """
g (int64 n, float16[k,2] data, int64[k] ids) => (float16[a,b,2] ys) {
  go = Constant <value = bool {1}> ()
  ys = Loop (n, go) <body = b (int64 i, bool c) => (bool d, float16[s,2] y) {
    d = Identity (c)
    y = onnx_sparse.SegmentMax <fill_mode = "LOWEST"> (data, ids, i)
  }>
}"""
)
LOOKUP = model(
    "g (int64[k] i, int64[k] s, int64 n) => (float[n,4] y) { y = onnx_sparse.EmbeddingSegmentsSum (t, i, s, n) }"
)
LOOKUP.graph.initializer.append(numpy_helper.from_array(np.ones((3, 4), np.float32), "t"))
FILLED = model(
    "g (float[n] v, int64[2] s, int64[n,2] i, float d) => (int64[m,2] oi, float[m] ov) {"
    " oi, ov, e = onnx_sparse.SparseFillEmptyRows (v, s, i, d)"
    " z, q = onnx_sparse.SparseReshape (i, s, s) h = onnx_sparse.UnsortedSegmentSum (v, s, one) }"
)
FILLED.graph.initializer.append(numpy_helper.from_array(np.array(9), "one"))
LABELS = parser.parse_model(
    """<ir_version: 10, opset_import: ["" : 20, "ai.onnx.ml" : 4, "com.example" : 1, "mine" : 1, "onnx_sparse" : 1]>
g (string[n] x, string[] w, float[n,2] e, bool c) => (int64[n] y, int64[n] z, bool[n] m, float[k,2] s, f, r) {
  u = com.example.Upper (x)
  y = ai.onnx.ml.LabelEncoder <keys_strings = ["A"], values_int64s = [1]> (u)
  z = mine.Find (x)
  m = RegexFullMatch <pattern = "a.*"> (x)
  s = onnx_sparse.SegmentSum (e, z)
  f = If (c) <
    then_branch = t () => (a) { a = ai.onnx.ml.LabelEncoder <keys_strings = ["A"], values_floats = [1.0]> (x) },
    else_branch = o () => (b) { b = ai.onnx.ml.LabelEncoder <keys_strings = ["B"], values_floats = [2.0]> (u) }>
  p = Einsum <equation = "ij,ij->i"> (e, e)
  zero = Constant <value = float {0.0}> ()
  last, r = Scan <num_scan_inputs = 1, body = add (float before, float i) => (float now, float each) {
    now = Add (before, i)
    each = Identity (now)
  }> (zero, p)
  v = EyeLike (e)
}
<domain: "mine", opset_import: ["" : 20, "ai.onnx.ml" : 4]>
Find (t) => (found) { found = ai.onnx.ml.LabelEncoder <keys_strings = ["A"], values_int64s = [1]> (t) }"""
)
PLAIN = [SEGMENT_SUM, BRANCHES, FUNCTIONS, DEFAULTED, LOOP, LOOKUP, FILLED, LABELS]
SEEDS = [*PLAIN, *map(onnx_sparse.canonicalize, PLAIN), *map(onnx_sparse.embed_functions, PLAIN)]

REWRITES: dict[str, Callable[[ModelProto], ModelProto]] = {
    "canonicalize": onnx_sparse.canonicalize,
    "embed_functions": onnx_sparse.embed_functions,
    "lower": onnx_sparse.lower,
    "guarded_model": lambda m: guarded_model(m)[0],
}

#: Cases that a process does at a time, and how long it may take for them, in seconds.
_CASES, _PATIENCE = 100, 600
_MOST_FAULTS = 40

_NAMES = ["", "x", "data", "ids", "y", "ghost", "n", "Ü", "a b", "t", "num_segments"]
_OPERATORS = [*OPS, "Add", "If", "Loop", "Identity", "Constant", "Pool", "Filled", "SegmentMedian", "", "Cast", "Scan"]
_STANDARD = sorted({(schema.domain, schema.name) for schema in defs.get_all_schemas_with_history()})
_DOMAINS = ["", "ai.onnx", "ai.onnx.ml", "onnx_sparse", "mine", "com.example", "onnx_sparse.guarded", "ghost"]
_VERSIONS = [-1, 0, 1, 2, 7, 11, 13, 18, 21, 26, 999, 2**40]
_TYPES = [0, 1, 6, 7, 8, 9, 10, 11, 16, 17, 22, 99, -1]


def mutated(original: ModelProto, source: random.Random) -> ModelProto:
    """A copy with a few mutations."""
    result = ModelProto()
    result.CopyFrom(original)
    for _ in range(source.choice([1, 1, 1, 2, 3, 6])):
        source.choice(_MUTATIONS)(result, source)
    return result


def _any_graph(m: ModelProto, source: random.Random) -> GraphProto:
    return source.choice([*graphs(m.graph), m.graph])


def _shuffle_part(parts: Any, source: random.Random) -> None:
    """Drop, repeat or swap an element of a repeated field."""
    if not len(parts):
        return
    position = source.randrange(len(parts))
    match source.choice(["drop", "repeat", "swap", "clear"] if source.random() < 0.1 else ["drop", "repeat", "swap"]):
        case "drop":
            del parts[position]
        case "clear":
            del parts[:]
        case "repeat":
            parts.append(parts[position])
        case "swap":
            shuffle(parts, source)


def _parts(m: ModelProto, source: random.Random) -> None:
    graph = _any_graph(m, source)
    fields = [graph.node, graph.input, graph.output, graph.initializer, graph.value_info, m.functions, m.opset_import]
    _shuffle_part(source.choice(fields), source)


def _nodes(m: ModelProto, source: random.Random) -> None:
    """Change a node of the graph, a subgraph or a function."""
    found = [*all_nodes(m.graph.node), *(n for f in m.functions for n in all_nodes(f.node))]
    if not found:
        return
    ours = [node for node in found if node.domain == onnx_sparse.DOMAIN]
    node = source.choice(ours if ours and source.random() < 0.6 else found)
    match source.choice(
        ["input", "output", "operator", "domain", "name", "overload", "attributes", "attribute", "lists"]
    ):
        case "input" | "output" as side:
            values = getattr(node, side)
            if len(values) and source.random() < 0.7:
                values[source.randrange(len(values))] = source.choice(_NAMES)
            else:
                values.append(source.choice(_NAMES))
        case "operator" if source.random() < 0.5:
            node.domain, node.op_type = source.choice(_STANDARD)
        case "operator":
            node.op_type = source.choice(_OPERATORS)
        case "domain":
            node.domain = source.choice(_DOMAINS)
        case "name":
            node.name = source.choice(_NAMES)
        case "overload":
            node.overload = source.choice(_NAMES)
        case "attributes":
            _shuffle_part(node.attribute, source)
        case "attribute":
            _attribute(node, source)
        case "lists":
            _shuffle_part(source.choice([node.input, node.output]), source)


def _attribute(node: Any, source: random.Random) -> None:
    names = ["fill_mode", "order", "body", "value", "to", "then_branch", "ghost", ""]
    if not len(node.attribute) or source.random() < 0.2:
        node.attribute.append(helper.make_attribute(source.choice(names) or "x", source.choice([1, 1.5, "ZERO", [1]])))
    attribute = source.choice(node.attribute)
    match source.choice(["name", "type", "value", "reference", "cleared"]):
        case "name":
            attribute.name = source.choice(names)
        case "type":
            attribute.type = source.choice(AttributeProto.AttributeType.values())
        case "value":
            name = attribute.name
            values = ["ZERO", "LOWEST", "ghost", b"\xff", 1, 2.5, [1, 2], ["a"], numpy_helper.from_array(np.ones(2))]
            attribute.CopyFrom(helper.make_attribute(name or "x", source.choice(values)))
        case "reference":
            attribute.ref_attr_name = source.choice(["order", "ghost", "fill_mode"])
        case "cleared":
            for field in ("i", "f", "s", "t", "g"):
                attribute.ClearField(field)


def _values(m: ModelProto, source: random.Random) -> None:
    """Rename or retype a graph's input, output or inner value."""
    graph = _any_graph(m, source)
    found = [*graph.input, *graph.output, *graph.value_info]
    if not found:
        return
    value = source.choice(found)
    match source.choice(["name", "type", "untyped", "shape", "kind", "dim"]):
        case "name":
            value.name = source.choice(_NAMES)
        case "type":
            value.type.tensor_type.elem_type = source.choice(_TYPES)
        case "untyped":
            value.ClearField("type")
        case "shape":
            value.type.tensor_type.ClearField("shape")
        case "kind":
            element = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
            make = source.choice([helper.make_sequence_type_proto, helper.make_optional_type_proto])
            value.type.CopyFrom(make(element))
        case "dim":
            value.type.tensor_type.shape.dim.add().dim_value = source.choice([-1, 0, 1, 2**40])


def _tensors(m: ModelProto, source: random.Random) -> None:
    graph = _any_graph(m, source)
    found = [*graph.initializer, *(a.t for n in graph.node for a in n.attribute if a.HasField("t"))]
    if not found:
        tensor = graph.initializer.add()
        tensor.CopyFrom(numpy_helper.from_array(np.ones(2, np.float32), source.choice(_NAMES)))
        found = [tensor]
    tensor = source.choice(found)
    match source.choice(["name", "type", "dims", "data", "external", "other data", "sparse"]):
        case "name":
            tensor.name = source.choice(_NAMES)
        case "type":
            tensor.data_type = source.choice(_TYPES)
        case "dims":
            tensor.dims.append(source.choice([-1, 0, 1, 3, 2**40]))
        case "data":
            tensor.raw_data = b"\0" * source.choice([0, 1, 7, 8, 64])
        case "external":
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="nowhere")
        case "other data":
            tensor.ClearField("raw_data")
            tensor.float_data.append(1)
        case "sparse":
            graph.sparse_initializer.add().values.CopyFrom(tensor)


def _imports(m: ModelProto, source: random.Random) -> None:
    holder = source.choice([m, *m.functions])
    match source.choice(["version", "domain", "add", "shuffle", "ir"]):
        case "add":
            holder.opset_import.add(domain=source.choice(_DOMAINS), version=source.choice(_VERSIONS))
        case "shuffle":
            _shuffle_part(holder.opset_import, source)
        case "ir":
            m.ir_version = source.choice([0, 1, 3, 4, 8, 10, 13, 99])
        case what:
            if len(holder.opset_import):
                imported = source.choice(holder.opset_import)
                if what == "version":
                    imported.version = source.choice(_VERSIONS)
                else:
                    imported.domain = source.choice(_DOMAINS)


def _functions(m: ModelProto, source: random.Random) -> None:
    if not len(m.functions) or source.random() < 0.1:
        node = helper.make_node(source.choice(_OPERATORS), ["x"], ["y"], domain=source.choice(_DOMAINS))
        imports = [helper.make_opsetid("", 18)]
        m.functions.append(helper.make_function("mine", source.choice(_OPERATORS), ["x"], ["y"], [node], imports))
    function = source.choice(m.functions)
    match source.choice(["name", "domain", "overload", "input", "output", "node", "itself", "attribute", "default"]):
        case "name":
            function.name = source.choice(_OPERATORS)
        case "domain":
            function.domain = source.choice(_DOMAINS)
        case "overload":
            function.overload = source.choice(_NAMES)
        case "input" | "output" | "node" | "attribute" as field:
            _shuffle_part(getattr(function, field), source)
        case "itself":
            inputs, outputs = list(function.input), list(function.output)
            function.node.append(helper.make_node(function.name, inputs, outputs, domain=function.domain))
        case "default":
            function.attribute_proto.append(helper.make_attribute("order", source.choice(["row_major", 1, "ghost"])))


def _graph(m: ModelProto, source: random.Random) -> None:
    match source.choice(["name", "empty", "none", "deep"]):
        case "name":
            _any_graph(m, source).name = source.choice(_NAMES)
        case "empty":
            _any_graph(m, source).Clear()
        case "none":
            m.ClearField("graph")
        case "deep":
            inner = GraphProto()
            inner.CopyFrom(m.graph)
            node = m.graph.node.add(op_type="If", name="deep", input=["c"], output=["ghost"])
            node.attribute.append(helper.make_attribute("then_branch", inner))


_MUTATIONS: Sequence[Callable[[ModelProto, random.Random], None]] = [
    *[_parts] * 2,
    *[_nodes] * 6,
    *[_values] * 2,
    _tensors,
    _imports,
    _functions,
    _graph,
]


def fault(m: ModelProto, rewrite: Callable[[ModelProto], ModelProto]) -> str:
    """What is wrong with how a rewrite treats a model; "" where nothing is."""
    before = m.SerializeToString(deterministic=True)
    try:
        result = rewrite(m)
    except ValueError as error:
        if type(error) not in (ValueError, onnx_sparse.KernelError):
            return f"{type(error).__name__}: {error}"
        if not str(error) or "\n" in str(error).strip():
            return f"not one line: {error}"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {where.filename.rpartition('/')[2]}:{where.name}: {str(error)[:200]}"
    else:
        if not isinstance(result, ModelProto) or (result is m and uses_domain(m)):
            return "no new model"
    return "" if m.SerializeToString(deterministic=True) == before else "the model itself changed"


def outcome(m: ModelProto, rewrite: Callable[[ModelProto], ModelProto]) -> str:
    """How a rewrite that does no wrong ends, for the tally."""
    try:
        rewrite(m)
    except ValueError as error:
        return type(error).__name__
    return "model"


def faults(seed: int, count: int) -> tuple[Counter[str], list[str]]:
    """Mutate and rewrite; every fault comes with the seed of its model."""
    done: Counter[str] = Counter()
    found = []
    for number in range(seed, seed + count):
        m = model_of(number)
        for name, rewrite in REWRITES.items():
            begun = time.process_time()  # other programs may have the processor
            wrong = fault(m, rewrite)
            took = time.process_time() - begun
            if not wrong and took > 10:
                wrong = f"takes {took:.0f} s"
            done[f"{name}: {outcome(m, rewrite) if not wrong else 'FAULT'}"] += 1
            if wrong:
                found.append(f"{name}, seed {number}: {wrong}")
    return done, found


def model_of(seed: int) -> ModelProto:
    """The mutated model of a seed."""
    source = random.Random(seed)
    return mutated(source.choice(SEEDS), source)


def main() -> int:
    arguments = program.parser(__doc__, seconds=60.0, seed=0).parse_args()
    done: Counter[str] = Counter()
    found: list[str] = []
    start, end = arguments.seed, time.monotonic() + arguments.seconds
    with multiprocessing.get_context("spawn").Pool(2, maxtasksperchild=10) as pool:
        while time.monotonic() < end and len(found) < _MOST_FAULTS:
            starts = [start, start + _CASES]
            jobs = [pool.apply_async(faults, (first, _CASES)) for first in starts]
            for first, job in zip(starts, jobs, strict=True):
                try:
                    counted, wrong = job.get(_PATIENCE)
                except multiprocessing.TimeoutError:
                    counted, wrong = Counter(), [f"seeds {first} to {first + _CASES - 1}: the process died or hangs"]
                done += counted
                found += wrong
            start += 2 * _CASES
    return program.tell(done, found[:_MOST_FAULTS])


if __name__ == "__main__":
    sys.path.insert(0, __file__.rpartition("/")[0] + "/..")
    from torture import models  # under the name that its processes import

    sys.exit(models.main())
