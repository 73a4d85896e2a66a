"""Einsum is a matrix product for operands in any layout, and for batches without rows."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from onnx_sparse.converters.tensorflow import convert, verify  # noqa: E402

SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 1, "f": 6}
EQUATIONS = [
    "abc,cde->abde",  # a projection to heads
    "abcd,cde->abe",  # and back
    "abcd,aecd->acbe",  # scores of attention
    "acbe,aecd->abcd",
    "abc,adc->abdc",  # the outer products of xDeepFM
    "abdc,bdf->afc",
    "ab,ab->a",
    "ab,ab->",
    "a,b->ab",
    "ab,b->a",
    "ab,cb->ca",
    "abc,d->ad",
    "abcd->dca",
    "ab,bc,cd->ad",
    "a,a,ab->b",
    "...ab,...bc->...ac",
    "...ab,bc->...ca",
    "ab,cbd->adc",
    "abb->ab",  # a diagonal
    "abcb->ca",
    "bab,bc->ca",
    "bbb,ab->a",
]


def product(equation, *shapes, dtype=tf.float32):
    specs = [tf.TensorSpec(shape, dtype) for shape in shapes]
    return tf.function(lambda *operands: tf.einsum(equation, *operands), input_signature=specs)


def operands(equation, dtype=np.float32, **sizes):
    """Small whole numbers, whose products are exact."""
    rng = np.random.default_rng(0)
    shapes = [[(SIZES | sizes)[n] for n in names.replace("...", "fd")] for names in equation.split("->")[0].split(",")]
    return [rng.integers(-4, 5, shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("equation", EQUATIONS)
def test_equations(agree, equation):
    given = operands(equation)
    multiply = product(equation, *([None] * x.ndim for x in given))
    agree(multiply, *given)
    agree(multiply, *operands(equation, a=0))
    agree(multiply, *operands(equation, a=1, b=1))


@pytest.mark.parametrize("equation", EQUATIONS)
def test_sizes_that_are_known(agree, equation):
    given = operands(equation)
    agree(product(equation, *(x.shape for x in given)), *given)


def test_one_after_the_other(agree):
    """tf2onnx moves the Transpose between them, which must not change the sizes."""

    @tf.function(input_signature=[tf.TensorSpec([None, 4, 3]), tf.TensorSpec([4, 4, 5])])
    def compress(x, filters):
        return tf.einsum("bhmd,hmk->bkd", tf.einsum("bhd,bmd->bhmd", x, x), filters)

    for rows in (2, 0):
        agree(compress, np.ones((rows, 4, 3), np.float32), np.ones((4, 4, 5), np.float32))


@pytest.mark.parametrize(
    "equation", ["...ab,...bcd->...acd", "...a,...a->...", "...a,...->...a", "...ab,...bc,...->ac..."]
)
@pytest.mark.parametrize("is_known", [False, True])
def test_sizes_of_an_ellipsis_may_be_1(agree, equation, is_known):
    """The operand with size 1 is broadcast, whichever it is."""
    whole = operands(equation)
    for given in ([whole[0][:1], *whole[1:]], [whole[0], *(x[:, :1] for x in whole[1:])], [x[:0] for x in whole]):
        agree(product(equation, *(x.shape if is_known else [None] * x.ndim for x in given)), *given)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64, tf.int32, tf.int64], ids=lambda t: t.name)
def test_every_type(agree, dtype):
    given = operands("abc,adc->abd", dtype.as_numpy_dtype)
    agree(product("abc,adc->abd", *([None] * 3 for _ in given), dtype=dtype), *given)


def test_scores_need_no_reshape():
    model = convert(product("abcd,aecd->acbe", [None, None, 4, 5], [None, None, 4, 5]))
    assert {node.op_type for node in model.graph.node} == {"Transpose", "MatMul"}


def test_attention_over_no_rows():
    """A block of SASRec and of BERT4Rec."""
    ids = keras.Input((6,), dtype="int64", name="ids")
    embedded = keras.layers.Embedding(9, 8)(ids)
    attended = keras.layers.MultiHeadAttention(2, 4)(embedded, embedded, use_causal_mask=True)
    model = keras.Model(ids, keras.layers.Dense(8, "gelu")(keras.layers.LayerNormalization()(embedded + attended)))
    (record,) = verify(model, convert(model))
    assert record.ok, record.note
    assert not record.note
