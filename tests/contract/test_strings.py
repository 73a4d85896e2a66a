"""The operators on text equal TensorFlow's on any bytes: the reference, and the native kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from contract.backends import BACKENDS
from contract.fingerprint import fingerprint64
from onnx import helper

from onnx_sparse.reference import evaluate
from onnx_sparse.schemas import DOMAIN, OPS
from onnx_sparse.sessions.runtime import InferenceSession

tf = pytest.importorskip("tensorflow")

#: Pieces of strings: whitespace and separators, characters of every length, beginnings of characters, overlong and
#: other forbidden sequences, zero bytes.
PIECES = (
    *(b" ", b"\t", b"\v", b"\0", b"a", b"b", b"Z", b",", b", ", b"-", b"\x7f", "\x80é¿\u0600".encode()),
    *("日本\ufffd\uffff".encode(), "😀\U0010ffff".encode(), b"\x80", b"\xbf", b"\xc0\x80", b"\xc3", b"\xe6\x97"),
    *(b"\xff", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf0\x9f\x98", b"\xf0\x80\x80\x80"),
    *(b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xe6\x97a", b"\xf0\x9f,", b"\xfe", "\xa0\u3000".encode()),
)


def texts(count: int = 400, seed: int = 0) -> np.ndarray[Any, Any]:
    """Strings of up to twelve pieces; the first are each a single one, or empty."""
    random = np.random.default_rng(seed)
    made = [b"", *PIECES]
    while len(made) < count:
        some = random.choice(len(PIECES), int(random.integers(2, 13)))
        made.append(b"".join(PIECES[k] for k in some))
    return np.array(made, object)


def ragged(result: Any) -> tuple[Any, Any]:
    return result.values, result.row_splits


def cases() -> Iterator[Any]:
    """An operator with its inputs and attributes, and TensorFlow's function that gives its outputs."""

    def case(
        name: str, inputs: Mapping[str, Any], wanted: Callable[[], Any], attributes: Mapping[str, str] | None = None
    ) -> Any:
        arrays = {declared.name: np.asarray(inputs[declared.name]) for declared in OPS[name].inputs}
        shown = [str(value) for key, value in arrays.items() if value.size < 9] + [*(attributes or {}).values()]
        return pytest.param(name, arrays, dict(attributes or {}), wanted, id=" ".join([name, *shown]))

    def word(text: bytes) -> np.ndarray[Any, Any]:
        return np.array(text, object)

    given = texts()
    for separator in (b"", b",", b"a", b", ", b"\0", b"\x80", "日".encode()):
        for limit in (-1, 0, 1, 2):
            yield case(
                "RaggedStringSplit",
                {"input": given, "separator": word(separator), "max_splits": limit},
                lambda s=separator, n=limit: ragged(tf.strings.split(given, s, maxsplit=n)),
            )
    yield case(
        "RaggedStringSplit",
        {"input": given, "separator": word(b""), "max_splits": -1},
        lambda: ragged(tf.strings.bytes_split(given)),
        {"empty_separator": "BYTES"},
    )
    splits = np.sort(np.r_[0, np.random.default_rng(1).integers(0, len(given), 150), len(given)])
    for separator in (b"", b"\xff\0"):
        yield case(
            "RaggedReduceJoin",
            {"values": given, "row_splits": np.arange(0, len(given) + 1, 4), "separator": word(separator)},
            lambda s=separator: tf.strings.reduce_join(given.reshape(-1, 4), axis=1, separator=s),
        )
    for pattern, ranges in {
        r"[!-/:-@]": [(33, 47), (58, 64)],
        r"[\x00-\x1f]": [(0, 31)],
        r"[^a-z ]": [(0, 31), (33, 96), (123, 0x10FFFF)],
        r"[^\x00-\x7f]": [(128, 0x10FFFF)],
        r"[^a-z\x{bf}]": [(0, 96), (123, 190), (192, 0x10FFFF)],
        r"[\x{bf}-\x{700}]": [(191, 0x700)],
        r"[\x{700}-\x{e000}]": [(0x700, 0xE000)],
        r"[\x{ffff}-\x{1f600}a]": [(0xFFFF, 0x1F600), (97, 97)],
    }.items():
        for run, matches in (("", "character"), ("+", "run")):
            for rewrite in ([b""], [b" "], [b"<\x80", b"\0", b">"]):
                yield case(
                    "ReplaceCharacters",
                    {"input": given.reshape(-1, 4), "ranges": ranges, "rewrite": np.array(rewrite, object)},
                    lambda p=pattern + run, r=rewrite: tf.strings.regex_replace(
                        given.reshape(-1, 4), p, rb"\0".join(r)
                    ),
                    {"matches": matches},
                )
    for widths, pad_width, preserve in (
        *(([2], -1, False), ([1, 3], 1, False), ([5], 0, True), ([5], 2, True), ([4, 2], 7, True), ([9], -1, True)),
    ):
        pads = {"separator": b"\xff ", "left_pad": b"<\0", "right_pad": b""}
        options = {"ngram_widths": widths, "pad_width": pad_width, "preserve_short_sequences": preserve}
        yield case(
            "StringNGrams",
            {"data": given, "data_splits": splits} | {k: word(v) for k, v in pads.items()} | options,
            lambda o=options, p=pads: tf.raw_ops.StringNGrams(data=given, data_splits=splits, **o, **p),
        )
    yield case(
        "StringNGrams",
        {"data": given[:0], "data_splits": [0, 0, 0]} | {k: word(v) for k, v in pads.items()} | options,
        lambda o=options, p=pads: tf.raw_ops.StringNGrams(data=np.empty(0, bytes), data_splits=[0, 0, 0], **o, **p),
    )
    for unit in ("BYTE", "UTF8_CHAR"):
        yield case("StringLength", {"input": given}, lambda u=unit: tf.strings.length(given, unit=u), {"unit": unit})
        sizes = tf.strings.length(given).numpy() if unit == "BYTE" else [len(s.decode(errors="replace")) for s in given]
        for low, high, length in ((0, 1, 3), (-1, 0, 2), (0, 1, -1), (0, 0, 0)):
            pos = np.array([0 if not low and not high else low if s and low else high if s else 0 for s in sizes])
            yield case(
                "Substr",
                {"input": given, "pos": pos, "len": np.full(len(given), length)},
                lambda p=pos, n=length, u=unit: tf.strings.substr(given, p, np.full(len(given), n), unit=u),
                {"unit": unit},
            )
    yield case("StringStrip", {"input": given}, lambda: tf.strings.strip(given))
    yield case("StringCase", {"input": given}, lambda: tf.strings.lower(given), {"case": "LOWER"})
    yield case("StringCase", {"input": given}, lambda: tf.strings.upper(given), {"case": "UPPER"})
    for errors in ("replace", "ignore"):
        for stand_in in (0xFFFD, 63):
            yield case(
                "UnicodeDecode",
                {"input": given, "replacement_char": np.array(stand_in, np.int32)},
                lambda e=errors, r=stand_in: tf.raw_ops.UnicodeDecodeWithOffsets(
                    input=given, input_encoding="UTF-8", errors=e, replacement_char=r
                ),
                {"errors": errors},
            )
            numbers = np.random.default_rng(2).choice(
                [*range(0x20, 0x110100, 1009), -1, 0xD800, 0xDFFF, 0xFFFF, 0], 400
            )
            yield case(
                "UnicodeEncode",
                {
                    "input_values": numbers.astype(np.int32),
                    "input_splits": splits,
                    "replacement_char": np.array(stand_in, np.int32),
                },
                lambda e=errors, r=stand_in, n=numbers: tf.raw_ops.UnicodeEncode(
                    input_values=n.astype(np.int32),
                    input_splits=splits,
                    errors=e,
                    output_encoding="UTF-8",
                    replacement_char=r,
                ),
                {"errors": errors},
            )


CASES = list(cases())
each_case = pytest.mark.parametrize(("name", "inputs", "attributes", "wanted"), CASES)


def as_tuple(result: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(part) for part in (result if isinstance(result, tuple) else (result,))]


@each_case
def test_the_reference_equals_tensorflow_on_any_bytes(
    name: str, inputs: dict[str, Any], attributes: dict[str, str], wanted: Callable[[], Any]
) -> None:
    for got, expected in zip(evaluate(OPS[name], [*inputs.values()], attributes), as_tuple(wanted()), strict=True):
        assert got.shape == expected.shape
        if expected.dtype == object:
            got = np.array([text.encode("utf-8", "surrogateescape") for text in got.reshape(-1)], object)
        assert got.reshape(-1).tolist() == expected.reshape(-1).tolist()


def model_of(name: str, inputs: Mapping[str, Any], attributes: Mapping[str, str]) -> onnx.ModelProto:
    """A model without inputs that gives the outputs, but of strings their hashes."""
    op = OPS[name]
    graph = onnx.GraphProto(name="g")
    for declared, value in zip(op.inputs, inputs.values(), strict=True):
        graph.initializer.append(onnx.numpy_helper.from_array(value, declared.name))
    graph.initializer.append(onnx.numpy_helper.from_array(np.array(2**63 - 1), "num_buckets"))
    outputs = [output.name for output in op.outputs]
    graph.node.append(helper.make_node(name, [*inputs], outputs, domain=DOMAIN, **attributes))
    for output in op.outputs:
        made = output.name
        if output.type == "string":
            made = f"{output.name}_hash"
            hashing = helper.make_node("StringToHashBucketFast", [output.name, "num_buckets"], [made], domain=DOMAIN)
            graph.node.append(hashing)
        dtype = onnx.TensorProto.INT64 if output.type == "string" else op.bind(output.type, {})
        graph.output.append(helper.make_tensor_value_info(made, dtype, None))
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, ir_version=10, opset_imports=imports)


@pytest.mark.skipif("ORT native" not in BACKENDS, reason="the native library is not built")
@each_case
def test_native_kernels_equal_tensorflow_on_any_bytes(
    name: str, inputs: dict[str, Any], attributes: dict[str, str], wanted: Callable[[], Any]
) -> None:
    got = InferenceSession(model_of(name, inputs, attributes), backend="native").run(None, {})
    for actual, expected in zip(got, as_tuple(wanted()), strict=True):
        assert actual.shape == expected.shape
        flat = expected.reshape(-1).tolist()
        if expected.dtype == object:
            flat = [fingerprint64(text) % (2**63 - 1) for text in flat]
        assert actual.reshape(-1).tolist() == flat
