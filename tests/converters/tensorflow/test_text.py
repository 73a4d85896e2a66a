"""Text is split, joined, cut and replaced as TensorFlow does it; so is every mode of Keras' TextVectorization."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from support.tensorflow_functions import function  # noqa: E402

import onnx_sparse  # noqa: E402
from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402
from onnx_sparse.converters.tensorflow.patterns import CharacterPattern, pattern_of  # noqa: E402
from onnx_sparse.schemas import DOMAIN  # noqa: E402

WORDS = np.array(["to  see,or\tnot", "", " ", "日本 \u3000 語\v,x\0y", "a,,b-c, (d)", "2 + 2 = four!"], object)
BATCHES = (WORDS, WORDS[:1], WORDS[:0])
LAST = 2**63 - 1


def of_words(body: Any, shape: Any = (None,)) -> Any:
    return tf.function(lambda words: body(words), input_signature=[tf.TensorSpec(shape, tf.string, "words")])


def refusal(body: Any) -> str:
    with pytest.raises(ConversionError) as caught:
        convert(of_words(body))
    return str(caught.value)


def hashed(words: Any) -> Any:
    """What shows every byte, also of strings that Python cannot show."""
    return tf.strings.to_hash_bucket_fast(words, LAST)


@pytest.mark.parametrize("options", [{}, {"sep": ","}, {"sep": ", ", "maxsplit": 1}, {"maxsplit": 2}], ids=str)
def test_split(agree, options):
    def split(words):
        ragged, sparse = tf.strings.split(words, **options), tf.compat.v1.strings.split(words, **options)
        return ragged.values, ragged.row_splits, sparse.indices, sparse.values, sparse.dense_shape

    splitting = of_words(split)
    for words in BATCHES:
        agree(splitting, words)


@pytest.mark.parametrize(("delimiter", "skip_empty"), [(" ", True), (",", False), (" ,\t", True)])
def test_split_of_tensorflow_1(agree, delimiter, skip_empty):
    def split(words):
        made = tf.compat.v1.string_split(words, delimiter, skip_empty)
        return made.indices, made.values, made.dense_shape

    splitting = of_words(split)
    for words in BATCHES:
        agree(splitting, words)


def test_join(agree):
    @function(([None], tf.string), ([None], tf.string), ([], tf.string))
    def joined(x, y, z):
        return tf.strings.join([x, y, z], "-"), tf.strings.join([x, "", y]), tf.strings.join([z])

    model = agree(joined, WORDS, WORDS[::-1], WORDS[0])
    assert {entry.domain: entry.version for entry in model.opset_import}[""] == 20
    agree(joined, WORDS[:0], WORDS[:0], WORDS[0])


def test_reduce_join(agree):
    @of_words
    def joined(words):
        cube = tf.reshape(words, [-1, 2, 3])
        results = [tf.strings.reduce_join(words, separator=" "), tf.strings.reduce_join(cube)]
        for axes in (0, 1, -1, [0, 1], [2, 0], [1, 0], [0, 2, 1]):
            for keepdims in (False, True):
                results.append(tf.strings.reduce_join(cube, axes, keepdims, separator="-"))
        return tuple(results)

    agree(joined, np.tile(WORDS, 2))
    agree(joined, WORDS[:0])


def test_segments_joined(agree):
    """TensorFlow leaves out empty strings at the beginning of a segment, with their separators."""

    @function(([None], tf.string), ([None], tf.int32))
    def joined(words, ids):
        ragged = tf.RaggedTensor.from_value_rowids(words, tf.sort(ids), 5)
        return (
            *(tf.strings.unsorted_segment_join(words, ids, 5, separator=by) for by in ("", "-")),
            tf.strings.reduce_join(ragged, axis=1, separator=" "),
        )

    words = np.array(["", "a", "", "", "b", "", "日本"], object)
    agree(joined, words, np.array([3, 0, 0, 2, 3, 2, 3], np.int32))
    agree(joined, words[:0], np.zeros(0, np.int32))


@pytest.mark.parametrize(
    "options",
    [
        {"ngram_width": 2},
        {"ngram_width": (1, 3), "pad_values": ("<", ">"), "separator": "", "padding_width": 1},
        {"ngram_width": 4, "preserve_short_sequences": True},
    ],
    ids=str,
)
def test_n_grams(agree, options):
    @function(([None], tf.string), ([None], tf.int64))
    def ngrams(words, splits):
        made = tf.strings.ngrams(tf.RaggedTensor.from_row_splits(words, splits, validate=False), **options)
        return made.values, made.row_splits

    agree(ngrams, WORDS, np.array([0, 4, 4, 5, 6]))
    agree(ngrams, WORDS[:0], np.array([0, 0]))


PATTERNS = {
    "text": ("see", "look"),
    "text with escapes": (r"\(d\)", r"<\0\\>"),
    "one character": (",", ";"),
    "punctuation": (r'[!"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~\']', ""),
    "whitespace": (r"\s+", " "),
    "all but letters": ("[^a-z]+", " "),
    "a named class": ("[[:punct:]]", r" \0 "),
    "a bracket first": ("[]o]", "_"),
    "characters beyond ASCII": ("[^ a-z.?!,¿語]", "."),
    "a range beyond ASCII": (r"[\x{4e00}-\x{9fff}]+", "漢"),
    "an escaped character": (r"\.", ""),
    "no digits": (r"\D", "0"),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_replaced(agree, name):
    pattern, rewrite = PATTERNS[name]
    replacing = of_words(lambda words: tf.strings.regex_replace(words, pattern, rewrite), [None, 2])
    agree(replacing, WORDS.reshape(3, 2))
    agree(replacing, WORDS[:0].reshape(0, 2))


def test_the_first_text_replaced(agree):
    agree(of_words(lambda words: tf.strings.regex_replace(words, "2 ", "two ", replace_global=False)), WORDS)


EXPRESSIONS = (
    "a|see",
    "(a)",
    "^a",
    "a$",
    "a*",
    "ab+",
    "o.s",
    r"\ba",
    r"\b",
    "[a-z]{2}",
    "x?",
    r"(?i)TO\s+(\w)",
    r"\p{Han}+|\pP",
)


@pytest.mark.parametrize("pattern", EXPRESSIONS)
@pytest.mark.parametrize("replace_global", [True, False])
def test_expressions_replaced(agree, pattern, replace_global):
    rewrite = r"<\1\\\0>" if "(" in pattern.replace("(?", "") else r"<\0>"
    replacing = of_words(
        lambda words: tf.strings.regex_replace(words, pattern, rewrite, replace_global=replace_global), [None, 2]
    )
    model = agree(replacing, WORDS.reshape(3, 2))
    agree(replacing, WORDS[:0].reshape(0, 2))
    assert [node.op_type for node in model.graph.node if node.domain == DOMAIN] == ["RegexReplace"]


def test_the_first_character_of_a_class_replaced(agree):
    agree(of_words(lambda words: tf.strings.regex_replace(words, "[ab]", r"<\0>", replace_global=False)), WORDS)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("[a", "a ] is missing"),
        ("(a", "a ) is missing"),
        (r"\C", "single bytes"),
        (r"\p{Foo}", "no property"),
        ("a**", "**"),
    ],
)
def test_other_patterns_are_refused(pattern, reason):
    assert reason in refusal(lambda words: tf.strings.regex_replace(words, pattern, ""))


def test_rewrites_that_are_refused():
    assert "has the group 1" in refusal(lambda words: tf.strings.regex_replace(words, "[ab]", r"\1"))
    assert "a backslash" in refusal(lambda words: tf.strings.regex_replace(words, "[ab]", r"\n"))


@pytest.mark.parametrize(
    ("pattern", "ranges", "is_run"),
    [
        (rb"\s+", ((9, 10), (12, 13), (32, 32)), True),
        (rb"[^\x00-\x7f]", ((128, 0x10FFFF),), False),
        (rb"[[:^digit:]]", ((0, 47), (58, 0x10FFFF)), False),
        ("[à-é]".encode(), ((0xE0, 0xE9),), False),
        (rb"[\d\-]+", ((45, 45), (48, 57)), True),
    ],
)
def test_classes_of_characters(pattern, ranges, is_run):
    assert pattern_of(pattern) == CharacterPattern(ranges, is_run)


@pytest.mark.parametrize("pattern", [r"[a-z ]*", ".*日.*", r"(?i)TO\s+see.*", ""])
def test_full_match(agree, pattern):
    matching = of_words(lambda words: tf.strings.regex_full_match(words, pattern))
    for words in BATCHES:
        agree(matching, words)


@pytest.mark.parametrize("unit", ["BYTE", "UTF8_CHAR"])
def test_lengths_and_parts(agree, unit):
    @function(([None], tf.string), ([None], tf.int32))
    def parts(words, pos):
        return (
            tf.strings.length(words, unit),
            hashed(tf.strings.substr(words, 0, 2, unit)),
            hashed(tf.strings.substr(words, -1, 9, unit)),
            hashed(tf.strings.substr(words, pos, pos + 1, unit)),
            tf.strings.strip(words),
        )

    words = np.array([word for word in WORDS if word], object)
    agree(parts, words, np.array([0, 1, 1, -1, 0], np.int32))
    agree(parts, words[:0], np.zeros(0, np.int32))


def test_characters(agree):
    @of_words
    def characters(words):
        values = tf.strings.unicode_decode(words, "UTF-8")
        split, starts = tf.strings.unicode_split_with_offsets(words, "UTF-8")
        encoded = tf.strings.unicode_encode(values + 1, "UTF-8")
        return values.values, values.row_splits, split.values, split.row_splits, starts.values, encoded

    for words in BATCHES:
        agree(characters, words)


NUMBERS = ["12", " -7\t\n", "+5", "007", "0.1", "1e-3", ".5", "1.", "inf", "-Infinity", "nan", "16777217", "-0"]
NO_NUMBERS = ["", " ", "12abc", "1,5", "1e", "1_0", "1\0", "true", "--1", "1 2", "0.1", "1e3", "0x10", "3000000000"]


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.int32, tf.int64], ids=lambda dtype: dtype.name)
def test_numbers_in_text(dtype):
    """What TensorFlow refuses is refused, too."""
    to_number = of_words(lambda words: tf.strings.to_number(words, dtype))
    session = onnx_sparse.InferenceSession(convert(to_number))
    for text in (*NUMBERS, *NO_NUMBERS):
        words = np.array([text], object)
        try:
            expected = to_number(tf.constant(words)).numpy()
        except tf.errors.InvalidArgumentError:
            with pytest.raises(Exception, match="Cast"):
                session.run(None, {"words": words})
            continue
        if text == "0x10":
            continue  # refused here, though TensorFlow reads hexadecimal floats
        np.testing.assert_array_equal(session.run(None, {"words": words})[0], expected, text)
    assert session.run(None, {"words": np.empty(0, object)})[0].dtype == dtype.as_numpy_dtype


def test_other_encodings_are_refused():
    assert "the encoding UTF-16-BE" in refusal(lambda words: tf.strings.unicode_decode(words, "UTF-16-BE").values)
    assert "errors" in refusal(lambda words: tf.strings.unicode_decode(words, "UTF-8", errors="strict").values)


def test_bytes_that_are_not_utf_8(agree, run):
    """Through every operator on text; the hash of each result shows its bytes."""

    @of_words
    def everything(words):
        pieces = tf.strings.split(words, "a")
        return (
            hashed(pieces.values),
            hashed(tf.strings.join([words, words], "\0")),
            hashed(tf.strings.reduce_join(words)),
            hashed(tf.strings.ngrams(pieces, 2).values),
            hashed(tf.strings.regex_replace(words, "[a-c]+", "\0")),
            hashed(tf.strings.regex_replace(words, "[^a-c]", "")),
            hashed(tf.strings.regex_replace(words, "ab", "")),
            tf.strings.regex_full_match(words, ".*a.*"),
            hashed(tf.strings.substr(words, 1, 3)),
            hashed(tf.strings.strip(words)),
            hashed(tf.strings.upper(words)),
            tf.strings.unicode_decode(words, "UTF-8").values,
            words == words[::-1],
        )

    random = np.random.default_rng(0)
    words = [random.choice([*b"abc \0\xe6\x97\xa5\xff\x80"], 12).astype(np.uint8).tobytes() for _ in range(50)]
    model = convert(everything)
    actual = run(model, words=np.array(words, "V12"))
    for got, wanted in zip(actual.values(), everything(tf.constant(words)), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_constants_that_end_in_zero_bytes(agree):
    @of_words
    def constants(words):
        joined = tf.concat([words, ["a\0", "日\0\0"]], 0)
        return hashed(joined), joined == "a\0", hashed(tf.strings.split(joined, "\0").values)

    agree(constants, WORDS)


def test_single_bytes_and_constants_that_are_not_utf_8():
    """Pieces and constants inside a graph; outputs with them are arrays of bytes."""

    @of_words
    def spelled(words):
        pieces = tf.strings.bytes_split(words)
        known = tf.concat([pieces.values, [b"\xff", b"\xc3\0"]], 0)
        pairs = tf.strings.ngrams(pieces, (1, 3), separator="")
        joined = tf.strings.reduce_join(pieces, axis=1, separator=b"\x80")
        equal = pieces.values == b"\xe6"
        return known, pieces.row_splits, hashed(pairs.values), pairs.row_splits, joined, equal

    session = onnx_sparse.InferenceSession(convert(spelled), backend="native")
    for words in BATCHES:
        for got, want in zip(session.run(None, {"words": words}), spelled(tf.constant(words, tf.string)), strict=True):
            wanted = want.numpy()
            if wanted.dtype == object:
                got = np.array([text if isinstance(text, bytes) else text.encode() for text in got], object)
            np.testing.assert_array_equal(got, wanted)


def test_words_that_are_not_utf_8_in_tables():
    """A table of byte pieces: what is looked up may be any bytes, too."""
    keys = tf.constant([b"\xe6", b"\x97", b"a"])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, tf.range(3)), -1)
    looked_up = of_words(lambda words: table.lookup(tf.strings.bytes_split(words).values))
    session = onnx_sparse.InferenceSession(convert(looked_up), backend="native")
    for words in BATCHES:
        np.testing.assert_array_equal(session.run(None, {"words": words})[0], looked_up(tf.constant(words, tf.string)))


VOCABULARY = ["the", "cat", "sat", "日本", "the cat", "cat sat", "a", "t", " "]
DOCUMENTS = np.array(["The cat, sat!", "", "  on the\tmat... the  cat", "日本 ÄÖ\u3000cat\xa0x \v"], object)
LAYERS: dict[str, dict[str, Any]] = {
    "the default": {},
    "a length": {"output_sequence_length": 3, "split": "whitespace", "standardize": "lower"},
    "characters": {"split": "character", "standardize": "strip_punctuation"},
    "unchanged": {"split": None, "standardize": None},
    "bigrams": {"ngrams": 2, "ragged": True},
    "one to three": {"ngrams": (1, 3), "output_mode": "count"},
    "multi-hot": {"output_mode": "multi_hot", "pad_to_max_tokens": True, "max_tokens": 20},
    "tf-idf": {"output_mode": "tf_idf", "idf_weights": np.arange(1, 10) / 7},
    "functions": {
        "standardize": lambda words: tf.strings.regex_replace(tf.strings.lower(words), "[^a-z日本 ]+", " "),
        "split": lambda words: tf.strings.split(words, " "),
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_text_vectorization(agree, name):
    layer = keras.layers.TextVectorization(vocabulary=VOCABULARY, **LAYERS[name])

    @of_words
    def vectorized(words):
        made = layer(words)
        return (made.values, made.row_splits) if isinstance(made, tf.RaggedTensor) else made

    for documents in (DOCUMENTS, DOCUMENTS[1:2], DOCUMENTS[:0]):
        if not len(documents) and LAYERS[name].get("output_mode"):
            continue  # TensorFlow refuses to count nothing
        agree(vectorized, documents)
