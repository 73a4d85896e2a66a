"""Faults that were planted by hand once, in branches of proofs and refusals, and the tests that must find each."""

from __future__ import annotations

from pathlib import Path

from mutation.planting import Mutant
from mutation.rooms import ROOT

_TESTS = "tests/converters"
_INTEGERS = f"{_TESTS}/onnxruntime/test_integer_anchors.py"
_FREQUENT = f"{_TESTS}/ascend/ge/test_frequent.py"
_KEYS = "tests/contract/test_keyed_tables.py"
_UPDATES = "tests/cli/test_table_updates.py"
_VERBS = "tests/verbs"
_SIMPLIFICATION = f"{_TESTS}/rewriting/test_simplification.py"

#: Name, file, what it says, what it says with the fault, tests.
_WRITTEN: tuple[tuple[str, str, str, str, str], ...] = (
    ("remainder of exact multiples", "converters/writing/lowering/division.py",
     'emit.op("And", differ, emit.op("Not", emit.op("Equal", rest, zero)))', "differ", _FREQUENT),
    ("division by -1 without Mod", "converters/onnxruntime/integers.py",
     'anchors = ("Div", "Mod")', 'anchors = ("Div",)', _INTEGERS),
    ("sums without int32", "converters/onnxruntime/integers.py",
     "_INTEGERS = (TensorProto.INT32, TensorProto.INT64)", "_INTEGERS = (TensorProto.INT64,)", _INTEGERS),
    ("other values of unread attributes", "converters/tensorflow/importing/attributes.py",
     "default = self._operator.defaults[name]\n", "return True\n", f"{_TESTS}/test_unread_parts.py"),
    ("attributes that TensorFlow has not", "converters/tensorflow/importing/attributes.py",
     'return kind == "list" and not _values_of(value.list)', "return True", f"{_TESTS}/test_unread_parts.py"),
    ("limit of shifts", "converters/writing/lowering/shifts.py",
     "_bits(by.dtype) - 1", "_bits(by.dtype)", _VERBS),
    ("tolerance", "onnx_sparse/comparison.py",
     '"float32": 1e-5', '"float32": 1e-3', f"{_TESTS}/verification/test_verification.py"),
    ("a thousand times the noise of an order", "onnx_sparse/comparison.py",
     "return relative * _of_numbers", "return 1000 * relative * _of_numbers", "tests/test_comparison.py"),
    ("NaN in joined rows", "onnx_sparse/comparison.py",
     "~finite & (wide_want != wide_got)", "False & (wide_want != wide_got)", "tests/test_comparison.py"),
    ("ten times the bias", "converters/ascend/atb/comparison.py",
     "(0.25 * self._factor + chance)", "(2.5 * self._factor + chance)", f"{_TESTS}/ascend/test_verdicts.py"),
    ("a table that is its own ids", "onnx_sparse/sharding/tables.py",
     "if position >= lookup.parts:", "if False:", "tests/sharding/test_sharding.py"),
    ("types that only constants may have", "converters/openvino/conversion.py",
     "if carried and layer.type not in MOVING:", "if False:", f"{_TESTS}/openvino/test_inference.py"),
    ("runs that are ending", "onnx_sparse/python/guard.py",
     "_changed.wait_for(lambda: id(self.options) not in _terminating)", "pass",
     "tests/contract/test_python_hazards.py"),
    ("known shape with 0", "converters/rewriting/rules/known_shapes.py",
     "any(number <= 0 for", "any(number < 0 for", _SIMPLIFICATION),
    ("nibbles without a sign", "onnx_sparse/reference/quantized_embedding.py",
     "(integers << 4) >> 4", "integers & 15", "tests/contract/test_semantics.py"),
    ("random nodes are merged", "converters/rewriting/graph.py",
     "not each.op_type.startswith(_RANDOM)", "True", _SIMPLIFICATION),
    ("integers in floats of their size", "converters/rewriting/simplification.py",
     "and not inexact", "", _SIMPLIFICATION),
    ("halves to even", "converters/writing/lowering/rounding.py",
     'emit.op("GreaterOrEqual", emit.op("Sub", size, whole)', 'emit.op("Greater", emit.op("Sub", size, whole)',
     _VERBS),
    ("least of a clamp", "converters/openvino/handlers/activation.py",
     "math.ceil(max(low, least))", "math.floor(max(low, least))", f"{_TESTS}/openvino/test_operators.py"),
    ("external data of any folder", "onnx_sparse/models/files/external_data.py",
     'if not parts or ".." in parts or', "if not parts or False and", "tests/cli/test_tables.py"),
    ("assets of any folder", "converters/tensorflow/reading/saved_model.py",
     'raise ConversionError(f"{path} names an asset outside', 'print(f"{path} names an asset outside',
     f"{_TESTS}/tensorflow/test_reading.py"),
    ("a neighbor that begins where a table ends", "onnx_sparse/commands/table_updates/opened_model.py",
     "if first >= end or first + size > end:", "if first > end or first < end < first + size:", _UPDATES),
    ("rows over the last ones of a file", "onnx_sparse/models/files/data_parts.py",
     "max(-((begin - size) // row) for", "max((size - begin) // row for", _UPDATES),
    ("a missing row one beyond the last", "onnx_sparse/models/tables/live_tables.py",
     "table.tensors[0].dims[0] <= row < NO_ROW", "table.tensors[0].dims[0] < row < NO_ROW", _UPDATES),
    ("lookups with other shifts", "onnx_sparse/models/tables/live_tables.py",
     "if shift != found[0].ends[0][1]:", "if False:", _UPDATES),
    ("lookups of other keys", "onnx_sparse/models/tables/live_tables.py",
     "if list(flow.node.input[:2]) != list(found[0].node.input[:2]):", "if False:", _UPDATES),
    ("slots that fill no bucket", "onnx_sparse/reference/key_index.py",
     "if left_over or buckets <", "if buckets <", _KEYS),
    ("fewer buckets than homes", "onnx_sparse/reference/key_index.py",
     "buckets < count // _KEYS_IN_BUCKET + 1 or", "", _KEYS),
    ("searches of any length", "onnx_sparse/reference/key_index.py",
     "int(searched[per_home > 0].max(initial=1))", "self.longest", _KEYS),
    ("any number of bodies", "onnx_sparse/serving/http_app.py",
     "if size > _LARGE and self._held_after(", "if False and self._held_after(", "tests/serving/test_attacks.py"),
    ("any number of lists of numbers", "onnx_sparse/serving/long_lists.py",
     "if sum(found[:-1]) > MOST_LISTS:", "if False:", "tests/serving/test_long_lists.py"),
    ("any number of lists and objects", "onnx_sparse/serving/inference_requests.py",
     'if text.count(b"[") + text.count(b"{") > MOST_LISTS:', "if False:", "tests/serving/test_long_lists.py"),
    ("a thousand times the noise of shards", "onnx_sparse/sharding/verification.py",
     "floor = noise_of_order(answers, computed)", "floor = 1000 * noise_of_order(answers, computed)",
     "tests/test_comparison.py"),
    *(
        (f"ties of {name}", "onnx_sparse/converters/torch/running.py",
         f"aten.{name}: {call},", "", f"{_TESTS}/torch/test_trial.py")
        for name, call in (
            ("topk.default", "topk"), ("sort.default", "sort"), ("kthvalue.default", "kthvalue"),
            ("mode.default", "mode"),
        )
    ),
    ("short inputs with ceil_mode", "onnx_sparse/converters/onnxruntime/pooling.py",
     ' or given.get("ceil_mode", 0):', ":", f"{_TESTS}/onnxruntime/test_pooling.py"),
    ("bits of a varint", "converters/varint.py", "byte & 127", "byte & 63", f"{_TESTS}/test_varint.py"),
)  # fmt: skip


def named() -> tuple[Mutant, ...]:
    """The list.

    Raises:
        ValueError: A file no longer says what a fault changes, or says it more than once.
    """
    found = []
    for name, file, old, new, *tests in _WRITTEN:
        source = (ROOT / file).read_text("utf-8")
        if source.count(old) != 1:
            raise ValueError(f"{file} says {old!r} {source.count(old)} times, not once: renew the fault {name!r}")
        at = source.index(old)
        found.append(Mutant(Path(file), source.count("\n", 0, at) + 1, old, new, at, tuple(tests), name))
    return tuple(found)
