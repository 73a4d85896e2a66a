"""Every operator on every element type that OpenVINO takes: ONNX Runtime lacks kernels, and ONNX types, for some."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_models import c, check_all, compiling_core, ops

ov = pytest.importorskip("openvino")

FLOATS = [np.float16, np.float32, np.float64]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
Build = Callable[..., Any]

#: Whatever the type, the results are numbers that it has and that fit into the 32 bits in which OpenVINO computes.
X, Y = [[7, 4, 9, 2], [1, 3, 5, 8]], [[1, 2, 1, 2], [1, 1, 2, 1]]


def of_numbers(dtype: Any) -> dict[str, Build]:
    o = ops(8)
    return {
        **{
            name: getattr(o, name)
            for name in (
                "add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "mod", "floor_mod",
                "squared_difference", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
            )
        },
        **{
            name: (lambda x, y, n=name: getattr(o, n)(x))
            for name in ("absolute", "sign", "floor", "ceiling", "sqrt", "relu")
        },
        **{
            name: (lambda x, y, n=name: getattr(o, n)(x, c([1]), True))
            for name in ("reduce_sum", "reduce_max", "reduce_min", "reduce_l1")
        },
        "reduce_mean": lambda x, y: o.reduce_mean(o.multiply(x, c(4, dtype)), c([1]), False),
        "round": lambda x, y: ops(5).round(x, "half_to_even"),
        "clamp": lambda x, y: o.clamp(x, 2, 5),
        "cum_sum": lambda x, y: o.cum_sum(x, c(1)),
        "matmul": lambda x, y: o.matmul(x, y, False, True),
        "einsum": lambda x, y: ops(7).einsum([x, y], "ij,kj->ik"),
        "top_k": lambda x, y: ops(11).topk(x, c(2), 1, "max", "value"),
        "top_k_least": lambda x, y: ops(11).topk(x, c(2), 1, "min", "index"),
        "range": lambda x, y: ops(4).range(c(0), c(5), c(1), x.get_element_type().get_type_name()),
        "select": lambda x, y: o.select(o.greater(x, y), x, y),
        "pad": lambda x, y: ops(12).pad(x, c([1, 0]), c([0, 1]), "constant", c(3, dtype)),
        "pad_edge": lambda x, y: ops(12).pad(x, c([1, 0]), c([0, 1]), "edge"),
        "tile": lambda x, y: o.tile(x, c([2, 1])),
        "broadcast": lambda x, y: ops(3).broadcast(x, c([3, 2, 4]), broadcast_spec="NUMPY"),
        "concat": lambda x, y: o.concat([x, y], 0),
        "gather": lambda x, y: o.gather(x, c([1, 0]), c(1)),
        "gather_elements": lambda x, y: ops(6).gather_elements(x, c([[1, 0], [2, 3]], np.int32), 1),
        "gather_nd": lambda x, y: o.gather_nd(x, c([[1, 0], [0, 3]])),
        "scatter_update": lambda x, y: ops(3).scatter_update(x, c([1]), c([[5, 5, 5, 5]], dtype), c(0)),
        "scatter_elements": lambda x, y: ops(12).scatter_elements_update(x, c([[1], [2]]), c([[6], [9]], dtype), c(1)),
        "scatter_nd": lambda x, y: ops(4).scatter_nd_update(x, c([[1, 0]]), c([9], dtype)),
        "one_hot": lambda x, y: o.one_hot(c([0, 2]), c(3), c(7, dtype), c(1, dtype), -1),
        "unique": lambda x, y: ops(10).unique(x),
        "roll": lambda x, y: ops(7).roll(x, c(1), c(1)),
        "reverse_sequence": lambda x, y: o.reverse_sequence(x, c([2, 3]), 0, 1),
        "strided_slice": lambda x, y: o.strided_slice(x, c([0, 3]), c([2, 0]), c([1, -1]), [0, 0], [0, 0]),
        "non_zero": lambda x, y: o.non_zero(o.subtract(x, y)),
        "depth_to_space": lambda x, y: o.depth_to_space(o.reshape(x, c([1, 4, 2, 1]), False), "blocks_first", 2),
        "space_to_depth": lambda x, y: o.space_to_depth(o.reshape(x, c([1, 1, 2, 4]), False), "blocks_first", 2),
    }  # fmt: skip


def of_floats(dtype: Any) -> dict[str, Build]:
    o, image = ops(8), lambda x: ops(8).reshape(x, c([1, 1, 2, 4]), False)
    rng = np.random.default_rng(0)

    def constant(*shape: int) -> Any:
        return c(rng.normal(size=shape), dtype)

    def cell(kind: str, gates: int, states: int) -> Build:
        weights = [constant(gates * 3, 4), constant(gates * 3, 3), constant(gates * 3)]
        return lambda x, y: getattr(ops(4), kind)(x, *([start] * states), *weights, 3)

    def sequence(kind: str, gates: int, states: int) -> Build:
        weights = [constant(1, gates * 3, 4), constant(1, gates * 3, 3), constant(1, gates * 3)]
        lengths, first = c([1, 1], np.int32), constant(2, 1, 3)
        return lambda x, y: getattr(ops(5), kind)(
            o.unsqueeze(x, c([1])), *([first] * states), lengths, *weights, 3, "forward"
        )

    start, kernel, slope, ones = constant(2, 3), constant(1, 1, 2, 2), c([0.5], dtype), c([1, 2], dtype)
    unit = {"asin", "acos", "atanh"}
    elementwise = (
        "exp", "log", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
        "atanh", "sigmoid", "softplus", "mish", "hswish", "swish", "hsigmoid", "negative",
    )  # fmt: skip
    return {
        **{
            name: (lambda x, y, n=name: getattr(o, n)(o.divide(x, c(10 if n in unit else 1, dtype))))
            for name in elementwise
        },
        **{name: (lambda x, y, n=name: getattr(ops(10), n)(o.log(o.subtract(y, c(1, dtype)))))
           for name in ("is_inf", "is_nan", "is_finite")},
        "softsign": lambda x, y: ops(9).softsign(x),
        "gelu": lambda x, y: ops(7).gelu(x, "erf"),
        "gelu_tanh": lambda x, y: ops(7).gelu(x, "tanh"),
        "elu": lambda x, y: o.elu(o.negative(x), 1.5),
        "selu": lambda x, y: o.selu(o.negative(x), c([1.6], dtype), c([1.05], dtype)),
        "prelu": lambda x, y: o.prelu(o.negative(x), slope),
        "hard_sigmoid": lambda x, y: o.hard_sigmoid(x, c(0.1, dtype), c(0.2, dtype)),
        "softmax": lambda x, y: o.softmax(x, 1),
        "log_softmax": lambda x, y: ops(5).log_softmax(x, 1),
        "reduce_l2": lambda x, y: o.reduce_l2(x, c([1]), False),
        "reduce_prod": lambda x, y: o.reduce_prod(y, c([1]), False),
        "round_away": lambda x, y: ops(5).round(o.divide(x, c(2, dtype)), "half_away_from_zero"),
        "convolution": lambda x, y: o.convolution(image(x), kernel, [1, 1], [0, 0], [0, 0], [1, 1]),
        "deconvolution": lambda x, y: o.convolution_backprop_data(image(x), kernel, [1, 1]),
        "max_pool": lambda x, y: o.max_pool(image(x), [1, 1], [1, 1], [0, 0], [0, 0], [2, 2]),
        "avg_pool": lambda x, y: ops(14).avg_pool(image(x), [1, 1], [0, 0], [0, 0], [2, 2], True),
        "adaptive": lambda x, y: o.adaptive_avg_pool(image(x), c([1, 1])),
        "interpolate": lambda x, y: ops(11).interpolate(image(x), c([4, 8]), "linear_onnx", "sizes", axes=c([2, 3])),
        "batch_norm": lambda x, y: ops(5).batch_norm_inference(x, *([c([1, 2, 3, 4], dtype)] * 4), 1e-3),
        "mvn": lambda x, y: ops(6).mvn(x, c([1]), True, 1e-4, "inside_sqrt"),
        "normalize": lambda x, y: o.normalize_l2(x, c([1]), 1e-4, "add"),
        "group": lambda x, y: ops(12).group_normalization(o.reshape(x, c([1, 2, 4]), False), ones, ones, 1, 1e-4),
        "lrn": lambda x, y: o.lrn(image(x), c([1]), 0.1, 0.7, 1.0, 3),
        "quantize": lambda x, y: o.fake_quantize(x, *(c(v, dtype) for v in (0, 8, 1, 9)), 17),
        "attention": lambda x, y: ops(13).scaled_dot_product_attention(image(x), image(x), image(y)),
        "grid": lambda x, y: ops(9).grid_sample(image(x), c([[[[0.1, 0.2]]]], dtype),
                                                {"align_corners": True, "mode": "bilinear", "padding_mode": "zeros"}),
        "range_of_halves": lambda x, y: ops(4).range(c(0, dtype), c(2, dtype), c(0.5, dtype),
                                                     x.get_element_type().get_type_name()),
        "lstm_cell": cell("lstm_cell", 4, 2),
        "gru_cell": lambda x, y: ops(3).gru_cell(x, start, constant(9, 4), constant(9, 3), constant(9), 3),
        "lstm": sequence("lstm_sequence", 4, 2),
        "gru": sequence("gru_sequence", 3, 1),
        "rnn": sequence("rnn_sequence", 1, 1),
    }  # fmt: skip


#: What OpenVINO's CPU plugin does not compute as specified, or not at all.
FAULTS: dict[Any, set[str]] = {np.int8: {"squared_difference"}, np.uint8: {"squared_difference"}}


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=lambda dtype: dtype.__name__)
def test_every_operator(dtype: Any, tmp_path: Path) -> None:
    builds = of_numbers(dtype) | (of_floats(dtype) if dtype in FLOATS else {})
    x, y = (np.array(values, dtype) for values in (X, Y))
    parameters = [ops(8).parameter(list(v.shape), dtype) for v in (x, y)]
    taken = {}
    for name, build in builds.items():
        try:
            build(*parameters)
        except RuntimeError:  # OpenVINO does not take the type
            continue
        if name not in FAULTS.get(dtype, ()):
            taken[name] = build
    assert check_all(taken, [x, y], compiling_core(), tmp_path / "model.xml") == {}
