"""Operators of random graphs that compute: functions of elements, reductions, products, branches."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.random_graph_composition import Composition, Made, Size, operator, tensorflow


@operator
def elementwise(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = tensorflow()
    every = {
        "relu": tf.nn.relu, "tanh": tf.tanh, "abs": tf.abs, "neg": tf.negative, "sigmoid": tf.sigmoid,
        "softplus": tf.nn.softplus, "square": tf.square, "erf": tf.math.erf, "gelu": tf.nn.gelu, "elu": tf.nn.elu,
        "floor": tf.floor, "leaky": tf.nn.leaky_relu, "sign": tf.sign, "rsqrt": lambda v: tf.math.rsqrt(tf.abs(v) + 1),
        "isnan": tf.math.is_nan, "clip": lambda v: tf.clip_by_value(v, -1.0, 1.0), "selu": tf.nn.selu,
        "swish": tf.nn.swish, "relu6": tf.nn.relu6, "softsign": tf.nn.softsign, "ceil": tf.math.ceil,
    }  # fmt: skip
    return Made(every[str(c.rng.choice(sorted(every)))](x.as_float()), x.shape)


@operator
def cast(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf, kind = tensorflow(), str(c.rng.choice(["float32", "int32", "int64", "bool"]))
    return Made(tf.cast(x.rounded(), kind), x.shape)


@operator
def reduction(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = tensorflow()
    keep = bool(c.rng.integers(2))
    name = str(
        c.rng.choice(
            ["sum", "mean", "max", "min", "prod", "logsumexp", "variance", "std", "euclidean_norm", "any", "all"]
        )
    )
    if name in ("any", "all"):
        value = x.tensor if x.tensor.dtype == tf.bool else tf.cast(x.tensor, tf.bool)
    elif name in ("logsumexp", "variance", "std", "euclidean_norm", "mean") or not x.is_number:
        value = x.as_float()
    else:
        value = x.tensor
    how = int(c.rng.integers(3)) if x.rank else 2
    if how == 0:
        axis: Any = c.axis(x)
        axes = {axis % x.rank}
    elif how == 1:
        axes = {a for a in range(x.rank) if c.rng.integers(2)}
        axis = [a - x.rank if c.rng.integers(2) else a for a in sorted(axes)]
    else:
        axis, axes = None, {*range(x.rank)}
    function = getattr(tf, f"reduce_{name}", None) or getattr(tf.math, f"reduce_{name}")
    shape = tuple(1 if k in axes else s for k, s in enumerate(x.shape) if keep or k not in axes)
    return Made(function(value, axis=axis, keepdims=keep), shape)


@operator
def arg(c: Composition, x: Made, _: list[Made]) -> Made | None:
    if not x.rank or not x.is_number:
        return None
    axis, tf = c.axis(x), tensorflow()
    function = tf.argmax if c.rng.integers(2) else tf.argmin
    kind = str(c.rng.choice(["int32", "int64"]))
    return Made(function(x.rounded(), axis, kind), tuple(s for k, s in enumerate(x.shape) if k != axis % x.rank))


@operator
def along(c: Composition, x: Made, _: list[Made]) -> Made | None:
    """Operators along one axis that keep the shape."""
    if not x.rank or not x.is_number:
        return None
    tf, axis, last = tensorflow(), c.axis(x), x.rank - 1
    flags = {"exclusive": bool(c.rng.integers(2)), "reverse": bool(c.rng.integers(2))}
    every = {
        "softmax": lambda: tf.nn.softmax(x.as_float(), axis),
        "log_softmax": lambda: tf.nn.log_softmax(x.as_float(), axis),
        "cumsum": lambda: tf.cumsum(x.tensor, axis, **flags),
        "reverse": lambda: tf.reverse(x.tensor, [axis]),
        "sort": lambda: tf.sort(x.tensor, axis=last),
        "l2": lambda: tf.nn.l2_normalize(x.as_float(), axis),
        "roll": lambda: tf.roll(x.tensor, 1, axis),
        "cumprod": lambda: tf.math.cumprod(x.as_float(), axis),
    }
    return Made(every[str(c.rng.choice(sorted(every)[: 8 if c.rng.random() < 0.3 else 5]))](), x.shape)


@operator
def product_with_weights(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = tensorflow()
    if x.rank < 2 or not isinstance(x.shape[-1], int):
        return None
    weights = c.rng.standard_normal((x.shape[-1], int(c.rng.integers(1, 4)))).astype(np.float32)
    if c.rng.integers(2):
        made = tf.tensordot(x.as_float(), weights, 1)
    elif c.rng.integers(2):
        made = tf.matmul(x.as_float(), tf.constant(weights.T), transpose_b=True)
    else:
        made = tf.matmul(x.as_float(), tf.constant(weights)) + tf.ones(weights.shape[1])
    return Made(made, (*x.shape[:-1], weights.shape[1]))


@operator
def product_with_itself(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf, value = tensorflow(), x.as_float()
    if x.rank < 2:
        return None
    *batch, rows, columns = x.shape
    how = int(c.rng.integers(4))
    if how == 0:
        return Made(tf.matmul(value, value, transpose_b=True), (*batch, rows, rows))
    if how == 1:
        return Made(tf.matmul(value, value, transpose_a=True), (*batch, columns, columns))
    if how == 2:
        return Made(tf.einsum("...ij,...kj->...ik", value, value), (*batch, rows, rows))
    swapped = tf.transpose(value, [*range(x.rank - 2), x.rank - 1, x.rank - 2])
    return Made(tf.matmul(swapped, value * 0.5), (*batch, columns, columns))


@operator
def product_of_two(c: Composition, x: Made, made: list[Made]) -> Made | None:
    tf = tensorflow()
    others = [m for m in made if m.rank > 1 and x.rank > 1 and m.shape[-1] == x.shape[-1] and m is not x]
    if not others:
        return None
    y = others[int(c.rng.integers(len(others)))]
    if x.rank == y.rank and x.shape[:-2] == y.shape[:-2]:
        return Made(tf.matmul(x.as_float(), y.as_float(), transpose_b=True), (*x.shape[:-1], y.shape[-2]))
    if y.rank == 2:
        return Made(tf.einsum("...i,ji->...j", x.as_float(), y.as_float()), (*x.shape[:-1], y.shape[-2]))
    return None


@operator
def binary(c: Composition, x: Made, made: list[Made]) -> Made | None:
    tf = tensorflow()
    if not x.is_number:
        return None
    others = [m for m in made if m.tensor.dtype == x.tensor.dtype and _fits(m.shape, x.shape)]
    y: Any = others[int(c.rng.integers(len(others)))].tensor if c.rng.integers(3) else tf.constant(2, x.tensor.dtype)
    every = {
        "add": tf.add, "sub": tf.subtract, "mul": tf.multiply, "max": tf.maximum, "min": tf.minimum,
        "less": tf.less, "equal": tf.equal, "greater_equal": tf.greater_equal, "not_equal": tf.not_equal,
        "squared_difference": tf.math.squared_difference,
    }  # fmt: skip
    if x.is_float:
        every |= {"div": tf.math.divide, "divide_no_nan": tf.math.divide_no_nan, "floormod": tf.math.floormod}
    name = str(c.rng.choice(sorted(every)))
    return Made(every[name](x.tensor, y), x.shape)


def _fits(small: tuple[Size, ...], large: tuple[Size, ...]) -> bool:
    """Whether a shape is broadcast to another one."""
    pairs = zip(reversed(small), reversed(large), strict=False)
    return len(small) <= len(large) and all(a in (1, b) for a, b in pairs)


@operator
def where(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = tensorflow()
    if not x.is_number:
        return None
    return Made(tf.where(x.tensor > tf.constant(0, x.tensor.dtype), x.tensor, tf.zeros_like(x.tensor)), x.shape)


@operator
def one_hot(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = tensorflow()
    if x.tensor.dtype not in (tf.int32, tf.int64) or x.rank > 3:
        return None
    return Made(tf.one_hot(x.tensor, 3), (*x.shape, 3))


@operator
def top(c: Composition, x: Made, _: list[Made]) -> list[Made] | None:
    if not x.rank or not x.is_number or not isinstance(x.shape[-1], int) or not x.shape[-1]:
        return None
    count = int(c.rng.integers(1, x.shape[-1] + 1))
    return [Made(part, (*x.shape[:-1], count)) for part in tensorflow().math.top_k(x.rounded(), count)]


@operator
def segments(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = tensorflow()
    if not x.rank or not x.is_number:
        return None
    ids = tf.range(tf.shape(x.tensor)[0]) % 2
    if c.rng.integers(2):
        return Made(tf.math.unsorted_segment_sum(x.tensor, ids, 3), (3, *x.shape[1:]))
    return Made(tf.math.segment_sum(x.tensor, tf.sort(ids)), (c.fresh(), *x.shape[1:]))


@operator
def normalization(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = tensorflow()
    if x.rank < 2 or not isinstance(x.shape[-1], int) or not x.shape[-1]:
        return None
    value = x.as_float()
    mean, variance = tf.nn.moments(value, [-1] if c.rng.integers(2) else [0], keepdims=True)
    return Made(tf.nn.batch_normalization(value, mean, variance, None, None, 1e-3), x.shape)


@operator
def branch(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = tensorflow()
    if not x.is_number:
        return None
    some = tf.size(x.tensor) > 2
    return Made(tf.cond(some, lambda: x.tensor * 2, lambda: tf.identity(x.tensor)), x.shape)


@operator
def mapped(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = tensorflow()
    if x.rank < 2 or not x.is_number or c.rng.integers(3):
        return None
    return Made(tf.map_fn(lambda row: tf.reduce_sum(row, -1), x.tensor), x.shape[:-1])


@operator
def convolution(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = tensorflow()
    if x.rank not in (3, 4):
        return None
    if not all(isinstance(size, int) and size for size in x.shape[1:]):
        return None  # ONNX Runtime refuses images without pixels
    kernel = c.rng.standard_normal((*[2] * (x.rank - 2), x.shape[-1], 2)).astype(np.float32)
    function = tf.nn.conv1d if x.rank == 3 else tf.nn.conv2d
    return Made(function(x.as_float(), kernel, 1, "SAME"), (*x.shape[:-1], 2))
