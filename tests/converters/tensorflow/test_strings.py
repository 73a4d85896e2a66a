"""Hash buckets, numbers as text, and comparisons of strings."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import keras  # noqa: E402
from support.tensorflow_imports import answers  # noqa: E402

from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402
from onnx_sparse.converters.tensorflow.graph_source import from_graph  # noqa: E402
from onnx_sparse.converters.tensorflow.reading.messages import GraphDef  # noqa: E402
from onnx_sparse.schemas import DOMAIN  # noqa: E402

WORDS = ["", "a", "red", "naïve", "日本語", "user 4711", "twenty-one characters", "x" * 50, "y" * 200]


def strings(*shape):
    return tf.function(input_signature=[tf.TensorSpec(shape, tf.string, "words")])


def refusal(function):
    with pytest.raises(ConversionError) as caught:
        convert(function)
    return {n.op_type: n.reason for n in caught.value.unsupported}


@pytest.mark.parametrize("shape", [(9,), (3, 3), (9, 1)])
def test_hash_buckets(agree, shape):
    @strings(*[None] * len(shape))
    def hashed(words):
        return tf.strings.to_hash_bucket_fast(words, 1000), tf.strings.to_hash_bucket_fast(words, 2**63 - 1)

    model = agree(hashed, np.array(WORDS, object).reshape(shape))
    assert [n.op_type for n in model.graph.node if n.domain == DOMAIN] == ["StringToHashBucketFast"] * 2
    agree(hashed, np.empty((0, *shape[1:]), object))


def test_the_hash_of_a_scalar(agree):
    agree(strings()(lambda word: tf.strings.to_hash_bucket_fast(word, 10)), np.array("red", object))


def test_hash_buckets_in_a_branch(agree):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string), tf.TensorSpec([], tf.bool)])
    def branches(words, left):
        if left:
            return tf.strings.to_hash_bucket_fast(words, 10)
        return tf.where(words == "red", np.int64(-1), tf.strings.to_hash_bucket_fast(words, 20))

    for left in (True, False):
        agree(branches, np.array(WORDS, object), np.array(left))


@pytest.mark.parametrize("key", [[1, 2], [0, 0], [-1, 2**63 - 1]], ids=str)
def test_hash_buckets_by_a_key(agree, key):
    @strings(None, None)
    def hashed(words):
        return tuple(tf.strings.to_hash_bucket_strong(words, count, key) for count in (1, 1000, 2**63 - 1))

    model = agree(hashed, np.array(WORDS, object).reshape(3, 3))
    assert [n.op_type for n in model.graph.node if n.domain == DOMAIN] == ["StringToHashBucketStrong"] * 3
    agree(hashed, np.empty((0, 3), object))


def test_kerass_hashing_with_a_salt(agree):
    layer = keras.layers.Hashing(100, salt=[133, 137], mask_value="")
    agree(strings(None)(lambda words: layer(words)), np.array(WORDS, object))


def test_a_hash_that_may_change_is_refused():
    reasons = refusal(strings(None)(lambda words: tf.strings.to_hash_bucket(words, 10)))
    assert list(reasons) == ["StringToHashBucket"]
    assert "may change its hash" in reasons["StringToHashBucket"]
    assert "to_hash_bucket_fast" in reasons["StringToHashBucket"]


@pytest.mark.parametrize(
    "dtype", [tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64], ids=lambda t: t.name
)
def test_integers_as_text(agree, dtype):
    function = tf.function(tf.as_string, input_signature=[tf.TensorSpec([None], dtype)])
    agree(function, np.array([0, 7, dtype.max, dtype.min], dtype.as_numpy_dtype))


def test_booleans_as_text(agree):
    function = tf.function(tf.as_string, input_signature=[tf.TensorSpec([None], tf.bool)])
    agree(function, np.array([True, False]))


@pytest.mark.parametrize("dtype", [tf.half, tf.bfloat16, tf.float32, tf.float64], ids=lambda t: t.name)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"precision": 2},
        {"scientific": True},
        {"shortest": True, "width": 12, "fill": "0"},
        {"width": 9, "fill": "-"},
    ],
    ids=str,
)
def test_floating_point_numbers_as_text(agree, dtype, options):
    function = tf.function(lambda x: tf.as_string(x, **options), input_signature=[tf.TensorSpec([None, 2], dtype)])
    numbers = [[0.1, -1 / 3], [1e4, -65504.0], [float("inf"), float("nan")], [-0.0, 6e-8]]
    agree(function, np.array(numbers).astype(dtype.as_numpy_dtype))
    agree(function, np.empty((0, 2), dtype.as_numpy_dtype))


@pytest.mark.parametrize("fill", ["", "0", "-", " ", "+"])
def test_padded_integers_as_text(agree, fill):
    function = tf.function(
        lambda x: tf.as_string(x, width=5, fill=fill), input_signature=[tf.TensorSpec([None], tf.int32)]
    )
    agree(function, np.array([0, 7, -12, 2**31 - 1, -(2**31)], np.int32))


def test_complex_numbers_as_text_are_refused():
    function = tf.function(
        lambda x: tf.as_string(tf.complex(x, x)), input_signature=[tf.TensorSpec([None], tf.float32)]
    )
    assert "AsString" in refusal(function)


@pytest.mark.parametrize("compare", [tf.equal, tf.not_equal], ids=["equal", "not_equal"])
@pytest.mark.parametrize("word", ["", "red", "日本語", "no such word"])
def test_strings_compared_with_a_constant(agree, compare, word):
    agree(strings(None)(lambda words: (compare(words, word), compare(word, words))), np.array(WORDS, object))


def test_strings_that_look_like_equal_numbers_differ(agree):
    agree(strings(None)(lambda words: words == "1"), np.array(["1", "01", "1.0", "red"], object))


@pytest.mark.parametrize(
    ("left", "right"), [((3,), (3,)), ((3, 1), (1, 3)), ((0, 3), (3,)), ((), (3,)), ((3,), (0,))], ids=str
)
def test_strings_compared_with_each_other(agree, left, right):
    specs = [tf.TensorSpec([None] * len(shape), tf.string) for shape in (left, right)]
    function = tf.function(lambda x, y: (x == y, x != y), input_signature=specs)
    words = np.array(["a", "日本語", ""], object)
    feeds = [words[: int(np.prod(shape))].reshape(shape) for shape in (left, right)]
    if right == (0,):
        feeds[0] = feeds[0][:1]
    model = agree(function, *feeds)
    assert {entry.domain: entry.version for entry in model.opset_import}[""] == 19


def test_strings_compared_in_a_branch(agree):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.string)])
    def branches(x, y):
        if tf.size(x) > 2:
            return x == y
        return x != "a"

    for words in (["a", "b", "c"], ["a", "b"]):
        agree(branches, np.array(words, object), np.array(["a", "c", "b"][: len(words)], object))


def test_numbers_are_still_compared(agree):
    spec = tf.TensorSpec([None], tf.int64)
    function = tf.function(lambda x, y: (x == y, x != 2), input_signature=[spec, spec])
    model = agree(function, np.array([1, 2]), np.array([1, 3]))
    assert {n.op_type for n in model.graph.node} == {"Equal", "Not"}
    assert {entry.domain: entry.version for entry in model.opset_import}[""] == 18


@pytest.mark.parametrize("change", [tf.strings.lower, tf.strings.upper], ids=["lower", "upper"])
def test_case(agree, change):
    """ASCII only, in any environment; also without words, and for any rank."""
    convert_case = tf.function(lambda words: change(words), input_signature=[tf.TensorSpec([None, 2], tf.string)])
    agree(convert_case, np.array([["Ab", "ÄÖ straße"], ["", "I"]], object))
    agree(convert_case, np.zeros((0, 2), object))


def test_case_of_other_letters_is_refused():
    lower = tf.function(
        lambda words: tf.strings.lower(words, encoding="utf-8"), input_signature=[tf.TensorSpec([None], tf.string)]
    )
    with pytest.raises(ConversionError, match="only the case of ASCII is changed"):
        convert(lower)


@pytest.mark.parametrize("summarize", [-1, 0, 1, 3])
def test_a_template_with_tensors(agree, summarize):
    """Of numbers, strings and booleans, with text around them that has placeholders of other templates."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 3], tf.float32),
            tf.TensorSpec([], tf.int64),
            tf.TensorSpec([None, None], tf.string),
            tf.TensorSpec([None], tf.bool),
        ]
    )
    def formatted(scores, number, words, flags):
        inputs = [scores, number, words, flags, tf.cast(scores, tf.float64), tf.cast(scores, tf.bfloat16)]
        template = "%s é: <> of '<>'\n<>\\<><>[<>]"
        return tf.strings.format(template, inputs, placeholder="<>", summarize=summarize)

    random = np.random.default_rng(0)
    for rows, shape in ((0, (1, 1)), (1, (2, 0)), (4, (3, 2)), (9, (0, 2))):
        words = np.array(random.choice(WORDS, shape), object)
        scores = random.standard_normal((rows, 3)).astype(np.float32)
        model = agree(formatted, scores, random.integers(0, 99, ()), words, scores[:, 0] > 0)
    assert [n.op_type for n in model.graph.node if n.domain == DOMAIN] == ["SummarizeTensor"] * 6


def test_a_template_without_placeholders_and_one_of_the_default_kind(agree):
    def formatted(number):
        plain = tf.raw_ops.StringFormat(inputs=[], template="a {} b")
        return plain, tf.raw_ops.StringFormat(inputs=[number], template="a {} b: %s")

    agree(tf.function(formatted, input_signature=[tf.TensorSpec([], tf.float32)]), np.array(1 / 3, np.float32))


def test_an_empty_placeholder_is_refused():
    function = tf.function(
        lambda x: tf.raw_ops.StringFormat(inputs=[x], template="ab", placeholder=""),
        input_signature=[tf.TensorSpec([], tf.float32)],
    )
    assert refusal(function) == {"StringFormat": "the placeholder is empty"}


@pytest.mark.parametrize("compare", [tf.equal, tf.not_equal], ids=["equal", "not equal"])
@pytest.mark.parametrize("other", [[None, 1], [1], []], ids=str)
@pytest.mark.parametrize("shape", [[None, 1], [None]], ids=str)
def test_the_rank_of_compared_strings_of_a_frozen_graph(compare, shape, other):
    """A frozen graph has no shapes but those of its placeholders; feature columns of strings drop a missing value."""
    feeds = [np.array(["x", "", "yy"][: 3 if sizes[:1] == [None] else 1], object) for sizes in (shape, other)]
    feeds = [
        feed.reshape([3 if size is None else size for size in sizes])
        for feed, sizes in zip(feeds, (shape, other), strict=True)
    ]
    with tf.Graph().as_default() as graph:
        given = [
            tf.compat.v1.placeholder(tf.string, sizes, name)
            for sizes, name in zip((shape, other), ("a", "b"), strict=True)
        ]
        tf.identity(tf.where(compare(*given)), name="out")
        with tf.compat.v1.Session() as session:
            want = session.run("out:0", {"a:0": feeds[0], "b:0": feeds[1]})
    graph_def = GraphDef.FromString(graph.as_graph_def().SerializeToString())
    (found,) = answers(convert(from_graph(graph_def, name="compared", inputs=["a", "b"], outputs=["out:0"])), feeds)
    assert found.tolist() == want.tolist()
