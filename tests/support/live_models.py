"""Models with a table that changes while it is used, keyed in each form, and what their answers must be."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import onnx_sparse
from onnx_sparse.commands.table_updates.keys import Keys

WIDTH = 3
#: How keys are written: their element type; None for row numbers.
FORMS = ("rows", "rows of Gather", "int32", "int64", "uint64", "strings")
#: What a missing key gives: the row before those of keys, or the row after them.
MISSING = ("first", "last")


def keys_of(form: str, count: int, source: random.Random) -> list[Any]:
    """So many different keys."""
    found: set[Any] = set()
    while len(found) < count:
        if form == "strings":
            found.add("".join(source.choices("aé日\x01 ", k=source.randrange(6))))
        else:
            info = np.iinfo(form)
            found.add(source.choice([info.min, info.max, source.randrange(50), source.randint(info.min, info.max)]))
    return sorted(found, key=lambda _: source.random())


def array_of(form: str, keys: list[Any]) -> np.ndarray[Any, Any]:
    """Keys as a query."""
    return np.array(keys, object if form == "strings" else np.int64 if form.startswith("rows") else form)


def live_model(form: str, missing: str, keys: list[Any], rows: np.ndarray[Any, Any]) -> onnx.ModelProto:
    """A model that gives a row for each of its queries, and the sum of all."""
    queries = TensorProto.STRING if form == "strings" else helper.np_dtype_to_tensor_dtype(array_of(form, []).dtype)
    nodes, constants, places = [], {}, "queries"
    if not form.startswith("rows"):
        nothing = np.zeros((1, WIDTH), rows.dtype)
        table = [nothing, rows] if missing == "first" else [rows, nothing]
        held = Keys.of(np.array([k.encode() for k in keys], object) if form == "strings" else array_of(form, keys))
        finder = "FindStrings" if form == "strings" else "FindKeys"
        names = ["table.key_bytes", "table.key_offsets"] if form == "strings" else ["table.keys"]
        constants = dict(zip([*names, "table.index"], [*held.arrays, held.index()], strict=True))
        nodes = [helper.make_node(finder, [*names, "table.index", "queries"], ["found"], domain="onnx_sparse")]
        if missing == "first":
            constants["one"] = np.array(1)
            nodes.append(helper.make_node("Add", ["found", "one"], ["places"]))
        else:
            constants |= {"zero": np.array(0), "count": np.array(len(keys))}
            nodes.append(helper.make_node("Less", ["found", "zero"], ["is_missing"]))
            nodes.append(helper.make_node("Where", ["is_missing", "count", "found"], ["places"]))
        rows, places = np.concatenate(table), "places"
    constants["ends"] = np.array([0])
    # Without queries, the sum is the row of missing keys.
    bag = ["table", places, "ends", *(["count"] if "count" in constants else [])]
    if form != "rows of Gather":
        attributes = {"include_last_offset": "false"}
        nodes.append(helper.make_node("EmbeddingBagOffsetsSum", bag, ["sums"], domain="onnx_sparse", **attributes))
    if form == "rows":
        nodes.append(helper.make_node("Identity", ["sums"], ["rows"]))
    else:
        nodes.append(helper.make_node("Gather", ["table", places], ["rows"]))
    if form == "rows of Gather":
        nodes.append(helper.make_node("ReduceSum", ["rows", "ends"], ["sums"]))
    for node in nodes:
        node.name = node.output[0]  # as converters name them
    graph = helper.make_graph(
        nodes,
        "live",
        [helper.make_tensor_value_info("queries", queries, [None])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, WIDTH]) for name in ("sums", "rows")],
        [numpy_helper.from_array(array, name) for name, array in {**constants, "table": rows}.items()],
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("onnx_sparse", 1)]
    return onnx_sparse.canonicalize(helper.make_model(graph, ir_version=10, opset_imports=imports))


def require_answers(
    path: Path,
    form: str,
    held: dict[Any, np.ndarray[Any, Any]],
    asked: list[Any],
    more: Mapping[str, np.ndarray[Any, Any]] | None = None,
) -> None:
    """Compare a model's answers with a dictionary of rows; no row is given for missing keys. `more` has its other
    outputs.
    """
    session = onnx_sparse.InferenceSession(path)
    assert not session.run(["sums"], {"queries": array_of(form, [])})[0].any()
    sums, rows, *others = session.run(None, {"queries": array_of(form, asked)})
    expected = np.array([held.get(key, np.zeros(WIDTH, np.float32)) for key in asked], np.float32)
    if form != "rows":
        np.testing.assert_array_equal(rows, expected)
    np.testing.assert_allclose(sums, expected.sum(0, keepdims=True), rtol=1e-5, atol=1e-5)
    for got, wanted in zip(others, (more or {}).values(), strict=True):
        np.testing.assert_array_equal(got, wanted)
