"""A walk over every operator that the installed onnx knows: with which of them onnx's tools end the process.

Each version of each operator stands alone in small models, with inputs that are untyped, empty, missing or of any type,
attributes that are missing or of any value, in the main graph, in a branch and in a function. No call of
`onnx_sparse.models.tools.onnx_tools` may end its process or take long. With `--bare`, onnx itself is called: what ends
then is what belongs into the table of `onnx_sparse.models.tools.uninferable`. This needs onnx and numpy only, so each
version of onnx can be walked: `VENV/bin/python tests/torture/operators.py --draws 60`. POSIX only.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import functools
import math
import os
import random
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import onnx
import onnx.inliner
import onnx.version_converter
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, helper
from onnx.defs import OpSchema

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from onnx_sparse.models.tools import onnx_tools

#: How long a call may take, in seconds; other programs may have the processor.
_PATIENCE = 20

_INTEGERS = [0, 0, 1, 1, 2, 3, -1, -1, -2, 7, 10**6, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63)]
_ELEMENTS = [*range(17), 17, 22, 23, 24, 25, 26, 99, -1]
_TEXTS = [b"", b"NOTSET", b"SAME_UPPER", b"VALID", b"constant", b"ij,jk->ik", b"...ij->...", b"i_j->", b"\xff"]
_TENSOR = helper.make_tensor_type_proto
_SEQUENCE = helper.make_sequence_type_proto(_TENSOR(1, None))
_KINDS = ("tensor", "sequence", "optional", "map", "sparse_tensor")
_EMPTY_TYPES = [TypeProto(), *(TypeProto(**{f"{kind}_type": {}}) for kind in _KINDS)]
_OTHER_TYPES = [
    "tensor(float)",
    "tensor(int64)",
    "tensor(string)",
    "seq(tensor(float))",
    "optional(tensor(float))",
    "map(int64, float)",
    "sparse_tensor(float)",
]

#: The draws with untyped inputs only: in each place, with attributes as the schema demands and with others.
_UNTYPED = 6
_PLACES = ["main", "branch", "function"]

Call = Callable[[ModelProto], object]
Case = tuple[OpSchema, int, str]

_OPTIONS: Mapping[str, dict[str, bool]] = {
    "infer": {},
    "infer, data": {"data_prop": True},
    "infer, strict": {"check_type": True, "strict_mode": True},
    "infer, strict, data": {"check_type": True, "strict_mode": True, "data_prop": True},
}


def _infer(options: dict[str, bool], model: ModelProto) -> ModelProto:
    return onnx.shape_inference.infer_shapes(model, **options)


_NEWEST, _OLDEST = onnx.defs.onnx_opset_version(), 7

#: What is called.
CALLS: Mapping[str, Call] = {
    **{name: functools.partial(onnx_tools.infer_shapes, **options) for name, options in _OPTIONS.items()},
    "check": onnx_tools.check_model,
    "convert up": lambda model: onnx_tools.convert_version(model, _NEWEST),
    "convert down": lambda model: onnx_tools.convert_version(model, _OLDEST),
    "inline": onnx_tools.inline_functions,
}

#: The same of onnx itself.
BARE: Mapping[str, Call] = {
    **{name: functools.partial(_infer, options) for name, options in _OPTIONS.items()},
    "check": onnx.checker.check_model,
    "convert up": lambda model: onnx.version_converter.convert_version(model, _NEWEST),
    "convert down": lambda model: onnx.version_converter.convert_version(model, _OLDEST),
    "inline": lambda model: onnx.inliner.inline_local_functions(model, convert_version=True),
}


def schemas() -> list[OpSchema]:
    """Every version of every operator of onnx, in one order."""
    standard = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")
    found = [schema for schema in onnx.defs.get_all_schemas_with_history() if schema.domain in standard]
    return sorted(found, key=lambda schema: (schema.domain, schema.name, schema.since_version))


def _type(text: str) -> TypeProto:
    """A type of a schema, `tensor(float)` or `seq(map(string, float))`."""
    kind, _, inner = text.partition("(")
    inner = inner.removesuffix(")")
    match kind:
        case "seq":
            return helper.make_sequence_type_proto(_type(inner))
        case "optional":
            return helper.make_optional_type_proto(_type(inner))
        case "map":
            key, _, value = inner.partition(",")
            whole = _type(value.strip() if "(" in value else f"tensor({value.strip()})")
            return helper.make_map_type_proto(_element(key.strip()), whole)
        case "sparse_tensor":
            return helper.make_sparse_tensor_type_proto(_element(inner), [2, 3])
        case _:
            return _TENSOR(_element(inner), [2, 3])


def _element(name: str) -> int:
    return int(TensorProto.DataType.Value(name.upper()))


class Drawn:
    """A model with one node of an operator, drawn by a number.

    Args:
        schema: The operator.
        number: The first few have untyped inputs only. Odd numbers are drawn with more freedom than a schema gives.
    """

    def __init__(self, schema: OpSchema, number: int) -> None:
        self._schema = schema
        self._source = random.Random(f"{schema.domain} {schema.name} {schema.since_version} {number}")
        self._nodes: list[NodeProto] = []
        self._inputs: dict[str, ValueInfoProto] = {}
        self._tensors: list[TensorProto] = []
        self._is_wild, self._is_untyped = number % 2 == 1, number < _UNTYPED
        choice = self._source.choice
        self._place = _PLACES[number % 3] if self._is_untyped else choice([*["main"] * 6, *_PLACES, "both"])

    def model(self) -> ModelProto:
        """The model."""
        schema, source = self._schema, self._source
        names = [self._input(at) for at in range(self._count())]
        outputs = [f"y{k}" for k in range(max(schema.min_output, 1))]
        if self._is_wild and source.random() < 0.3:
            most = min(schema.max_output, 6) + 1
            outputs = [source.choice([f"y{k}", f"y{k}", ""]) for k in range(source.randint(0, most))]
        node = NodeProto(op_type=schema.name, domain=schema.domain, input=names, output=outputs, name="the node")
        node.attribute.extend(self._attributes())
        opsets = {"": 18, "other": 1, "mine": 1} | {schema.domain: schema.since_version}
        functions = []
        if self._place in ("branch", "both"):
            node = self._in_branch(node)
        if self._place in ("function", "both"):
            others = opsets | ({"": source.randint(1, _NEWEST)} if self._is_wild and source.random() < 0.5 else {})
            made, given = [*filter(None, node.output)], [*dict.fromkeys(filter(None, [*names, *node.input]))]
            functions.append(helper.make_function("mine", "Called", given, made, [node], _imports(others)))
            node = helper.make_node("Called", given, [f"{name}_called" for name in made], domain="mine")
        results = [ValueInfoProto(name=name) for name in node.output if name]
        for result in results:
            if source.random() < 0.2:
                result.type.CopyFrom(source.choice([_TENSOR(1, [2]), _TENSOR(7, None), TypeProto(), _SEQUENCE]))
        graph = helper.make_graph([*self._nodes, node], "g", [*self._inputs.values()], results, self._tensors)
        return helper.make_model(graph, opset_imports=_imports(opsets), ir_version=10, functions=functions)

    def _in_branch(self, node: NodeProto) -> NodeProto:
        made = [*filter(None, node.output)]
        branch = helper.make_graph([node], "branch", [], [ValueInfoProto(name=name) for name in made])
        self._inputs["choice"] = helper.make_tensor_value_info("choice", TensorProto.BOOL, [])
        chosen = [f"{name}_chosen" for name in made]
        return helper.make_node("If", ["choice"], chosen, then_branch=branch, else_branch=branch)

    def _count(self) -> int:
        schema = self._schema
        most = min(schema.max_input, max(len(schema.inputs), schema.min_input) + 1)
        if self._is_wild:
            return self._source.randint(0, most)
        return self._source.choice([schema.min_input, len(schema.inputs), most])

    def _input(self, at: int) -> str:
        """An input of the node, and what makes it."""
        source, name = self._source, f"x{at}"
        formals = self._schema.inputs
        declared = formals[min(at, len(formals) - 1)].type_str if formals else "tensor(float)"
        constrained = {c.type_param_str: sorted(c.allowed_type_strs) for c in self._schema.type_constraints}
        legal = constrained.get(declared, [declared])
        kinds = ["made", "made", "untyped", "empty type", "nowhere", "omitted", "any", "constant", "constant"]
        kind = "made" if self._is_untyped else source.choice([*kinds, *["legal"] * 8])
        match kind:
            case "omitted":
                return ""
            case "made":
                self._nodes.append(helper.make_node("Make", ["seed"], [name], domain="other"))
                self._inputs["seed"] = helper.make_tensor_value_info("seed", TensorProto.FLOAT, [2])
            case "untyped":
                self._inputs[name] = ValueInfoProto(name=name)
            case "empty type":
                self._inputs[name] = ValueInfoProto(name=name, type=source.choice(_EMPTY_TYPES))
            case "constant":
                self._add_constant(name, legal)
            case "legal" | "any":
                drawn = _type(source.choice(legal if kind == "legal" else [*legal, *_OTHER_TYPES]))
                self._draw_shape(drawn)
                self._inputs[name] = ValueInfoProto(name=name, type=drawn)
        return name

    def _draw_shape(self, kind: TypeProto) -> None:
        """Give a type's tensors another shape."""
        source = self._source
        while (which := kind.WhichOneof("value")) not in ("tensor_type", "sparse_tensor_type"):
            if which is None:
                return
            kind = kind.map_type.value_type if which == "map_type" else getattr(kind, which).elem_type
        tensor = getattr(kind, which)
        tensor.ClearField("shape")
        if source.random() < 0.15:
            return
        tensor.shape.SetInParent()
        for _ in range(source.choice([0, 1, 1, 2, 2, 3, 3, 4, 4, 5])):
            dim = tensor.shape.dim.add()
            match source.choice(["number", "number", "name", "none"]):
                case "number":
                    dim.dim_value = source.choice([1, 2, 3, 4, 6, 8, *(_INTEGERS if self._is_wild else [])])
                case "name":
                    dim.dim_param = source.choice("NM")

    def _add_constant(self, name: str, legal: Sequence[str]) -> None:
        tensor = self._tensor(name, [_type(text).tensor_type.elem_type for text in legal if text.startswith("tensor(")])
        if self._source.random() < 0.7:
            self._tensors.append(tensor)
        else:
            self._nodes.append(helper.make_node("Constant", [], [name], value=tensor))

    def _tensor(self, name: str, elements: Sequence[int]) -> TensorProto:
        source = self._source
        tensor = TensorProto(name=name, data_type=source.choice(_ELEMENTS) if self._is_wild else TensorProto.INT64)
        if elements and source.random() < 0.7:
            tensor.data_type = source.choice(elements)
        dims = source.choice([[], [1], [2], [3], [4], [0], [2, 2]])
        if self._is_wild and source.random() < 0.2:
            dims = [source.choice(_INTEGERS) for _ in range(source.randint(0, 3))]
        tensor.dims.extend(dims)
        values = [source.choice(_INTEGERS) for _ in range(max(0, min(math.prod(dims), 8)))]
        match source.choice(["raw", "raw", "typed", *(["none"] if self._is_wild else [])]):
            case "raw" if tensor.data_type != TensorProto.STRING:
                size = {1: 4, 6: 4, 7: 8, 11: 8, 12: 4, 13: 8, 10: 2, 16: 2}.get(tensor.data_type, 1)
                data = b"".join(v.to_bytes(8, "little", signed=True)[:size] for v in values)
                is_cut = self._is_wild and source.random() < 0.2
                tensor.raw_data = data[: source.randint(0, 7)] if is_cut else data
            case "typed" | "raw":
                match tensor.data_type:
                    case TensorProto.FLOAT:
                        tensor.float_data.extend(values)
                    case TensorProto.DOUBLE:
                        tensor.double_data.extend(values)
                    case TensorProto.STRING:
                        tensor.string_data.extend(str(v).encode() for v in values)
                    case TensorProto.UINT32 | TensorProto.UINT64:
                        tensor.uint64_data.extend(v % 2**64 for v in values)
                    case TensorProto.INT64:
                        tensor.int64_data.extend(values)
                    case _:
                        tensor.int32_data.extend(v % 2**31 for v in values)
        return tensor

    def _attributes(self) -> Iterator[AttributeProto]:
        source = self._source
        for name, declared in self._schema.attributes.items():
            is_given = declared.required or source.random() < 0.5
            if self._is_wild and source.random() < 0.2:
                is_given = not is_given
            if not is_given:
                continue
            kind = AttributeProto.AttributeType.Value(declared.type.name)  # type: ignore[attr-defined]  # has a name
            if self._is_wild and source.random() < 0.15:
                kind = source.choice(AttributeProto.AttributeType.values())
            attribute = AttributeProto(name=name, type=kind)
            if not self._is_wild and declared.default_value.type == kind and source.random() < 0.3:
                attribute.CopyFrom(declared.default_value)
            else:
                self._fill(attribute)
            if self._is_wild and source.random() < 0.05:
                attribute.ref_attr_name = "of the function"
            yield attribute

    def _fill(self, attribute: AttributeProto) -> None:
        source = self._source
        length = source.choice([0, 1, 1, 2, 2, 3, 4])
        integers = _INTEGERS if self._is_wild else [0, 1, 1, 2, 3, -1]
        floats = [0.0, 1.0, -1.0, 0.5, float("nan"), float("inf"), 1e30]
        elements = [TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING]
        match attribute.type:
            case AttributeProto.INT:
                attribute.i = source.choice([*integers, *_ELEMENTS] if source.random() < 0.5 else integers)
            case AttributeProto.INTS:
                attribute.ints.extend(source.choice(integers) for _ in range(length))
            case AttributeProto.FLOAT:
                attribute.f = source.choice(floats)
            case AttributeProto.FLOATS:
                attribute.floats.extend(source.choice(floats) for _ in range(length))
            case AttributeProto.STRING:
                attribute.s = source.choice(_TEXTS)
            case AttributeProto.STRINGS:
                attribute.strings.extend(source.choice(_TEXTS) for _ in range(length))
            case AttributeProto.TENSOR:
                attribute.t.CopyFrom(self._tensor("t", elements))
            case AttributeProto.TENSORS:
                attribute.tensors.extend(self._tensor("t", elements) for _ in range(length))
            case AttributeProto.SPARSE_TENSOR:
                attribute.sparse_tensor.values.CopyFrom(self._tensor("values", elements))
                attribute.sparse_tensor.indices.CopyFrom(self._tensor("indices", elements))
                attribute.sparse_tensor.dims.extend(source.choice(integers) for _ in range(length))
            case AttributeProto.GRAPH:
                self._draw_body(attribute.g)
            case AttributeProto.GRAPHS:
                for _ in range(length):
                    self._draw_body(attribute.graphs.add())
            case AttributeProto.TYPE_PROTO:
                attribute.tp.CopyFrom(source.choice([TypeProto(), _TENSOR(1, [2]), _SEQUENCE]))

    def _draw_body(self, graph: GraphProto) -> None:
        source = self._source
        graph.name = "body"
        given = [f"b{k}" for k in range(source.randint(0, 4))]
        for name in given:
            graph.input.add(name=name)
            if source.random() < 0.7:
                graph.input[-1].type.CopyFrom(
                    source.choice([TypeProto(), _TENSOR(1, None), _TENSOR(7, []), _TENSOR(9, [])])
                )
        for k in range(source.randint(0, 3)):
            read = source.choice([*given, "x0", "nowhere"])
            graph.node.append(helper.make_node("Identity", [read], [f"c{k}"], domain=source.choice(["", "other"])))
            graph.output.add(name=f"c{k}")
            if source.random() < 0.3:
                graph.output[-1].type.CopyFrom(_TENSOR(source.choice([1, 7, 9]), source.choice([None, [], [2]])))


def _imports(opsets: Mapping[str, int]) -> list[onnx.OperatorSetIdProto]:
    return [helper.make_opsetid(*pair) for pair in opsets.items()]


def cases_of(found: Sequence[OpSchema], numbers: Sequence[int], calls: Mapping[str, Call]) -> list[Case]:
    """Every call for every draw of some operators."""
    return [(schema, number, call) for schema in found for number in numbers for call in calls]


def walk(cases: Sequence[Case], calls: Mapping[str, Call]) -> Iterator[tuple[Case, str]]:
    """Make calls in child processes; yields those that end one or take too long, with what happened."""
    at = 0
    while at < len(cases):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            _make(cases[at:], calls, write)
        os.close(write)
        done, is_stuck = 0, False
        while not is_stuck:
            is_stuck = not select.select([read], [], [], _PATIENCE)[0]
            if is_stuck:
                os.kill(child, signal.SIGKILL)
            elif piece := os.read(read, 65536):
                done += len(piece)
            else:
                break
        os.close(read)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        at += done
        if is_stuck:
            yield cases[at - 1], f"takes more than {_PATIENCE} s"
        elif code:
            yield cases[at - 1], signal.Signals(-code).name if code < 0 else f"exit status {code}"


def _make(cases: Sequence[Case], calls: Mapping[str, Call], write: int) -> None:
    """The child: announces each call, and ends."""
    faulthandler.disable()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    code = 1
    try:
        for schema, number, name in cases:
            model = Drawn(schema, number).model()
            os.write(write, b"+")
            with contextlib.suppress(*([Exception] if calls is BARE else onnx_tools.ONNX_ERRORS)):
                calls[name](model)
        code = 0
    finally:
        os._exit(code)


def main() -> int:
    parsed = argparse.ArgumentParser(description=__doc__)
    parsed.add_argument("--draws", type=int, default=60, help="models of each version of each operator")
    parsed.add_argument("--seed", type=int, default=0, help="the number of the first model")
    parsed.add_argument("--seconds", type=float, default=1e9, help="begin no operator after so long")
    parsed.add_argument("--only", default="", help="the name of an operator")
    parsed.add_argument("--bare", action="store_true", help="call onnx itself")
    arguments = parsed.parse_args()
    calls = BARE if arguments.bare else CALLS
    chosen = [schema for schema in schemas() if arguments.only in ("", schema.name)]
    random.Random(arguments.seed).shuffle(chosen)
    begun, count = time.monotonic(), 0
    ended: Counter[str] = Counter()
    for schema in chosen:
        if time.monotonic() - begun > arguments.seconds:
            break
        cases = cases_of([schema], range(arguments.seed, arguments.seed + arguments.draws), calls)
        count += len(cases)
        for (_, number, call), what in walk(cases, calls):
            key = f"{schema.domain or 'ai.onnx'} {schema.name} {schema.since_version}: {what}"
            if not ended[key]:
                sys.stdout.write(f"FAULT  {key}, for example {call!r} of draw {number}\n")
                sys.stdout.flush()
            ended[key] += 1
    took = time.monotonic() - begun
    sys.stdout.write(f"onnx {onnx.__version__}: {count} calls, {took:.0f} s, {ended.total()} ended the process\n")
    return bool(ended)


if __name__ == "__main__":
    sys.exit(main())
