"""Axes and sizes that layers compute, scalars that an IR does not tell from unknown ranks, types that ONNX lacks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_models import Case, c, check, ops
from support.openvino_weights import constant

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert
from onnx_sparse.converters.openvino.emitter import OpenVINOEmitter

ov = pytest.importorskip("openvino")

RNG = np.random.default_rng(0)
o = ops(8)


def rank_of(x: Any) -> Any:
    return o.squeeze(o.shape_of(o.shape_of(x)), c(0))


#: All axes of a tensor, as frontends compute them.
ALL_AXES: dict[str, Callable[[Any], Any]] = {
    "range": lambda x: ops(4).range(c(0), rank_of(x), c(1), "i64"),
    "int32": lambda x: ops(4).range(c(0, np.int32), o.convert(rank_of(x), "i32"), c(1, np.int32), "i32"),
    "downward": lambda x: o.subtract(ops(4).range(rank_of(x), c(0), c(-1), "i64"), c(1)),
}
REDUCTIONS = ("sum", "mean", "max", "min", "prod", "l1", "l2")


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 1, 3)], ids=str)
def test_results_of_reductions_over_all_axes_are_scalars(
    shape: tuple[int, ...], dynamic: bool, core: Any, tmp_path: Path
) -> None:
    x = RNG.uniform(0.5, 1.5, shape).astype(np.float32)
    for kind, way in itertools.product(REDUCTIONS, ALL_AXES):
        tested = Case(
            "", lambda x, k=kind, w=way: getattr(o, f"reduce_{k}")(x, ALL_AXES[w](x), False), x, dynamic=dynamic
        )
        path = tested.save(tmp_path)
        assert rank(convert(path)) == 0
        check(tested, core, path)


#: What may be computed of scalars, whose ports do not say that they are.
OF_SCALARS: dict[str, Callable[[Any], Any]] = {
    "divide": lambda s: o.divide(s, o.add(s, c(1, np.float32))),
    "select": lambda s: o.select(o.greater(s, c(0, np.float32)), s, o.negative(s)),
    "clamp": lambda s: o.convert(o.clamp(o.round(s, "half_to_even"), 0, 255), "u8"),
    "squeezed": lambda s: o.squeeze(o.unsqueeze(s, c([0, 1])), c([0, 1])),
    "gathered": lambda s: o.gather(o.reshape(s, c([1]), False), c(0), c(0)),
    "reshaped": lambda s: o.reshape(s, c(np.zeros(0)), False),
    "broadcast": lambda s: ops(3).broadcast(s, c(np.zeros(0)), broadcast_spec="BIDIRECTIONAL"),
    "chosen": lambda s: branch(s),
    "repeated": lambda s: repetition(s),
}


def result(node: Any) -> Any:
    return ov.op.Result(node.output(0))


def branch(s: Any) -> Any:
    """If s > 0 then s + 1, else s - 1."""
    made = ops(8).if_op(o.greater(s, c(0, np.float32)))
    one, other = (ops(8).parameter([], np.float32) for _ in range(2))
    then, otherwise = result(o.add(one, c(1, np.float32))), result(o.subtract(other, c(1, np.float32)))
    made.set_then_body(ov.Model([then], [one], "then"))
    made.set_else_body(ov.Model([otherwise], [other], "else"))
    made.set_input(s.output(0), one, other)
    made.set_output(then, otherwise)
    return made


def repetition(s: Any) -> Any:
    """The double of s, three times."""
    made = ops(5).loop(c(3), c(True, bool))
    state = ops(8).parameter([], np.float32)
    proceed, doubled = result(c(True, bool)), result(o.add(state, state))
    made.set_function(ov.Model([proceed, doubled], [state], "body"))
    made.set_special_body_ports([-1, 0])
    made.set_merged_input(state, s.output(0), doubled.output(0))
    made.get_iter_value(doubled.output(0), -1)
    return made


@pytest.mark.parametrize("way", OF_SCALARS)
def test_what_is_computed_of_scalars_is_one(way: str, core: Any, tmp_path: Path) -> None:
    x = RNG.uniform(0.5, 1.5, (2, 3)).astype(np.float32)
    tested = Case("", lambda x: OF_SCALARS[way](o.reduce_sum(x, ops(4).range(c(0), rank_of(x), c(1), "i64"), False)), x)
    path = tested.save(tmp_path)
    assert rank(convert(path)) == 0
    check(tested, core, path)


def test_a_rank_that_does_not_follow_is_asked_for(tmp_path: Path) -> None:
    """How many axes there are, only the input tells."""
    given = [np.ones((2, 3), np.float32), np.int64([0])]
    path = Case("", lambda x, axes: o.reduce_sum(x, axes, False), *given, dynamic=True).save(tmp_path)
    with pytest.raises(ConversionError, match=r"the rank of output .* is not known"):
        convert(path)


def rank(model: Any) -> int:
    (output,) = model.graph.output
    return len(output.type.tensor_type.shape.dim)


def test_sizes_that_are_known_are_constants(tmp_path: Path) -> None:
    """A reshape to sizes that the IR computes of known ones takes no nodes but itself."""
    x = np.ones((2, 3, 4), np.float32)

    def build(x: Any) -> Any:
        sizes = o.shape_of(x)
        first, rest = o.gather(sizes, c([0]), c(0)), o.reduce_prod(o.gather(sizes, c([1, 2]), c(0)), c([0]), True)
        return o.reshape(x, o.concat([first, o.convert(o.multiply(rest, c([1])), "i64")], 0), False)

    model = convert(Case("", build, x).save(tmp_path))
    assert [node.op_type for node in model.graph.node] == ["Reshape"]


NUMBERS = [np.int64([-7, 7, 5, 0]), np.int64([2, -2, 3, 1]), np.int64([1])]


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div", "Mod", "Max", "Min"])
def test_values_are_those_that_onnx_runtime_computes(op_type: str) -> None:
    import onnxruntime
    from onnx import helper

    emit = OpenVINOEmitter()
    for one, other in itertools.product(NUMBERS, NUMBERS[1:]):
        folded = emit.op(op_type, emit.constant(one), emit.constant(other))
        infos = [helper.make_tensor_value_info(name, 7, [None]) for name in "abc"]
        graph = helper.make_graph([helper.make_node(op_type, ["a", "b"], ["c"])], "g", infos[:2], infos[2:])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        assert folded.value is not None
        np.testing.assert_array_equal(folded.value, session.run(None, {"a": one, "b": other})[0])


CARRIED = ("i4", "u4", "u1", "nf4", "f8e4m3", "f8e5m2", "f4e2m1")


@pytest.mark.parametrize("element_type", CARRIED)
def test_layers_that_compute_in_types_of_constants_are_refused(element_type: str, tmp_path: Path) -> None:
    """ONNX carries these types in wider ones, in which the results would not be rounded or wrap."""
    x = np.float32([[1.3, 2.7]])
    for name, build in {
        "Convert": lambda x: o.convert(x, element_type),
        "ConvertLike": lambda x: o.convert_like(x, constant(element_type, [0, 1])),
        "Select": lambda x: o.select(
            o.greater(x, c(2, np.float32)), *(constant(element_type, n) for n in ([[0, 1]], [[1, 0]]))
        ),
    }.items():
        path = Case("", lambda x, b=build: o.convert(b(x), "f32"), x).save(tmp_path)
        with pytest.raises(ConversionError, match=f"{name}.*: it computes in {element_type}, a type that only const"):
            convert(path)


@pytest.mark.parametrize("element_type", ["i4", "u4"])
def test_layers_that_move_such_constants_are_converted(element_type: str, core: Any, tmp_path: Path) -> None:
    def build(x: Any) -> Any:
        rows = o.reshape(constant(element_type, range(6)), c([3, 2]), False)
        return o.add(x, o.convert(rows, "f32"))

    tested = Case("", build, np.ones((3, 2), np.float32))
    check(tested, core, tested.save(tmp_path))
