"""tf.io.decode_csv on random lines: fields, defaults and refusals are TensorFlow's, native and in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

tf = pytest.importorskip("tensorflow")

import onnx_sparse  # noqa: E402
from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402
from onnx_sparse.models.domain_nodes import domain_nodes  # noqa: E402
from onnx_sparse.reference import evaluate  # noqa: E402
from onnx_sparse.rows.example_arrays import example_array  # noqa: E402
from onnx_sparse.schemas import OPS  # noqa: E402

DEFAULTS = [
    tf.constant([0.5]),
    tf.constant([], tf.string),
    tf.constant(["none"]),
    tf.constant([], tf.int64),
    tf.constant(-7),
    tf.constant([1e300], tf.float64),
]


def decoder(defaults: Any, shape: Any = (None,), **options: Any) -> Any:
    signature = [tf.TensorSpec(shape, tf.string, "records")]
    return tf.function(lambda records: tf.io.decode_csv(records, defaults, **options), input_signature=signature)


def outcome(run: Any) -> list[Any] | str:
    """The fields, or the part of a message that both have: which record is at fault."""
    try:
        return [np.asarray(field) for field in run()]
    except (tf.errors.InvalidArgumentError, onnx_sparse.KernelError) as error:
        return str(error)


def assert_same(ours: list[Any] | str, theirs: list[Any] | str) -> None:
    assert isinstance(ours, str) == isinstance(theirs, str), (ours, theirs)
    for got, want in zip(ours, theirs, strict=True) if not isinstance(ours, str) else ():
        assert got.shape == want.shape
        if want.dtype == object:
            texts = [text if isinstance(text, bytes) else text.encode() for text in got.reshape(-1)]
            assert texts == want.reshape(-1).tolist()
        else:
            assert got.dtype == want.dtype
            assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"field_delim": ";", "na_value": "NA"},
        {"use_quote_delim": False},
        {"select_cols": [0, 1, 2, 4, 5, 8]},
        {"field_delim": '"'},
        {"field_delim": "\n"},
    ],
    ids=str,
)
def test_random_records(options: dict[str, Any]) -> None:
    """Pieces that belong to lines, joined at random: most lines are refused, by both."""
    random = np.random.default_rng(len(str(options)))
    function = decoder(DEFAULTS, **options)
    session = onnx_sparse.InferenceSession(convert(function))
    by = options.get("field_delim", ",")
    cells = [
        "1",
        " 2 ",
        "-3",
        "+0x1p-3",
        "1e39",
        "inf",
        "nan",
        '"4"',
        '"a""b"',
        f'"a{by}b"',
        '"\n"',
        "",
        "NA",
        '""',
        "x",
    ]
    legal = 0
    for _ in range(250):
        count = int(random.choice([6, 6, 6, 5, 7, 9]))
        drawn = random.choice(cells[:4] if random.random() < 0.5 else cells, count)
        record = by.join(drawn)
        if random.random() < 0.3:
            at = int(random.integers(len(record) + 1))
            record = record[:at] + str(random.choice(['"', "\n", "\r", by, "0"])) + record[at:]
        ours = outcome(lambda text=record: session.run(None, {"records": np.array([text], object)}))
        theirs = outcome(lambda text=record: function([text]))
        assert_same(ours, theirs)
        legal += not isinstance(ours, str)
    assert legal > 5 or options.get("field_delim") in ('"', "\n")


NUMBERS = (
    *("0x1F", "0x.8", "0X1P+3", "0x1.000001p0", "0x1.0000008p0", "0x1.00000080000000000001p0", "0x1p99999"),
    *("0x1p-99999", "0x", "0x1p", "0x-1", "0x 1", "-0x1", "0xinf", "0xnan", "0x1.8p1.0", "inf", "-Infinity"),
    *("INF", "infinit", "inf(1)", "nan", "-nan", "NaN(a_1)", "nan()", "nan(-)", ".", "1.", ".5", "1e", "1e+"),
    *("1E5", "+-1", "-+1", "- 1", "1_0", "1f", "\v1\f", "1\0", "1e400", "-1e400", "1e-400", "0e400"),
    *("3.4028236e38", "1e-45", "7e-46", "0." + "0" * 400 + "1e401", "16777217"),
    *("1.00000005960464477539062500001", "1.0000000596046447753906250", "1.0000000596046447753906249999"),
    *("9007199254740993", "1" * 400, "1e99999999999999999999", "1e-99999999999999999999", "2147483647"),
    *("-2147483649", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "0" * 40 + "7"),
    *("--1", "0b1", "010", "-0"),
)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.int32, tf.int64], ids=lambda dtype: dtype.name)
def test_every_way_to_write_a_number(dtype: Any) -> None:
    function = decoder([tf.constant([], dtype)])
    model = convert(function)
    session = onnx_sparse.InferenceSession(model, backend="native")
    (found,) = domain_nodes(model)
    given = {init.name: init for init in model.graph.initializer}
    for text in NUMBERS:
        record = text.encode()
        theirs = outcome(lambda record=record: function([record]))
        assert_same(outcome(lambda record=record: session.run(None, {"records": example_array([record])})), theirs)
        others = [numpy_helper.to_array(given[name]) for name in found.node.input[1:]]
        inputs = [np.array([record], object), *others]
        reference = outcome(lambda inputs=inputs: evaluated(inputs, dtype))
        assert_same(reference, theirs)


def evaluated(inputs: list[Any], dtype: Any) -> list[Any]:
    """The one field of a type, by the reference."""
    names = [output.type for output in OPS["DecodeCSV"].outputs]
    name = {"float32": "float", "float64": "double"}.get(dtype.name, dtype.name)
    return [evaluate(OPS["DecodeCSV"], inputs, {"quoting": "MINIMAL"})[names.index(name)][0]]


@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (2, 0)], ids=str)
def test_shapes_of_records(shape: tuple[int, ...]) -> None:
    records = np.full(shape, "1,a,b,2,,3", object)
    function = decoder(DEFAULTS, [None] * len(shape))
    got = onnx_sparse.InferenceSession(convert(function)).run(None, {"records": records})
    assert_same(
        list(map(np.asarray, got)), [field.numpy() if shape else np.asarray(field) for field in function(records)]
    )


def test_errors_name_record_column_and_text() -> None:
    session = onnx_sparse.InferenceSession(convert(decoder(DEFAULTS)))
    good = "1,a,b,2,3,4"
    for record, message in {
        "1,a,b,2,3": r"records[1] has 5 columns; 6 expected",
        good + ",5": r"records[1] has 7 columns; 6 expected",
        '1,a"b,b,2,3,4': "records[1]: column 1 has a quote or a line break, and is not quoted",
        '1,"a"b,b,2,3,4': "records[1]: column 1 has a quote that is not doubled",
        '1,a,b,2,3,"4': "records[1]: column 5 begins with a quote and does not end with one",
        "1,a,b,,3,4": "records[1]: column 3 is empty; it is required",
        "1,a,b,2,three,4": "records[1]: column 4 = 'three' is not of type int32",
    }.items():
        with pytest.raises(onnx_sparse.KernelError) as caught:
            session.run(None, {"records": np.array([good, record, ""], object)})
        assert message in str(caught.value)


def test_a_delimiter_of_two_bytes_is_refused() -> None:
    """TensorFlow refuses it when the model runs."""
    with pytest.raises(ConversionError, match="field_delim = b';;' has 2 bytes; 1 expected"):
        convert(decoder([[0.0]], field_delim=";;"))
