"""`StatefulSession`: states that a run leaves for the next one."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import parser

import onnx_sparse
from onnx_sparse import InferenceSession, StatefulSession
from onnx_sparse.schemas.states import State, states_of, write_states

SUM = State("s", "past.s", "present.s", (2,), 1.0)


def summing(kind: str = "float", *states: State) -> onnx.ModelProto:
    model = parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 18]>
    g ({kind}[2] x, {kind}[n] "past.s") => ({kind}[2] y, {kind}[m] "present.s") {{
        "present.s" = Add (x, "past.s")
        y = Add ("present.s", x)
    }}""")
    write_states(model, states)
    return model


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64])
def test_each_step_reads_what_the_one_before_left(dtype: Any) -> None:
    kind = {"float32": "float"}.get(np.dtype(dtype).name, np.dtype(dtype).name)
    stateful = StatefulSession(InferenceSession(summing(kind, SUM)))
    x = np.array([1, 2], dtype)
    found = [stateful.run(None, {"x": x})[0].tolist() for _ in range(3)]
    assert found == [[3, 5], [4, 7], [5, 9]]
    assert stateful.get_states()["s"].tolist() == [4, 7]
    stateful.reset()
    assert stateful.run(["y"], {"x": x.tolist()})[0].tolist() == [3, 5]


def test_bfloat16_states() -> None:
    """ONNX Runtime's Python binding has no arrays of it."""
    model = parser.parse_model("""<ir_version: 10, opset_import: ["" : 18]>
    g (bfloat16[2] x, bfloat16[2] past) => (bfloat16[2] y, bfloat16[2] present) {
        y = Identity (past)
        present = Identity (x)
    }""")
    stateful = StatefulSession(InferenceSession(model), {"past": "present"})
    x = np.array([1, 2], ml_dtypes.bfloat16)
    assert stateful.run(None, {"x": x})[0].tolist() == [0, 0]
    assert stateful.run(None, {"x": x})[0].tolist() == [1, 2]
    assert stateful.get_states()["past"].dtype == ml_dtypes.bfloat16


def test_streams_of_one_session_are_apart() -> None:
    session = InferenceSession(summing("float", SUM))
    one, other = StatefulSession(session), StatefulSession(session)
    x = np.float32([1, 1])
    one.run(None, {"x": x})
    assert one.run(None, {"x": x})[0].tolist() == [4, 4]
    assert other.run(None, {"x": x})[0].tolist() == [3, 3]


def test_states_can_be_set_and_are_kept_after_an_error() -> None:
    stateful = StatefulSession(InferenceSession(summing("float", SUM)))
    given = np.float32([10, 20])
    stateful.set_states({"s": given})
    given[:] = 0
    with pytest.raises(Exception, match="x"):
        stateful.run(None, {"x": np.float32([1, 2, 3])})
    assert stateful.run(["present.s", "y"], {"x": np.float32([1, 1])})[0].tolist() == [11, 21]
    with pytest.raises(ValueError, match="the model has no state 't'; it has s"):
        stateful.set_states({"t": given})
    with pytest.raises(ValueError, match="state 's' is float32; float64 is given"):
        stateful.set_states({"s": np.zeros(2)})


def test_models_of_other_exporters_name_their_states() -> None:
    """Without a record, a state begins with zeros, and without elements where its size is open."""
    model = parser.parse_model("""<ir_version: 10, opset_import: ["" : 18]>
    g (float[2, 1] x, float[2, n] past_key) => (float[2, m] present_key) {
        present_key = Concat <axis = 1> (past_key, x)
    }
    """)
    session = InferenceSession(model)
    with pytest.raises(ValueError, match="records no states"):
        StatefulSession(session)
    with pytest.raises(ValueError, match="'key' is not an input of the model; it has x, past_key"):
        StatefulSession(session, {"key": "present_key"})
    stateful = StatefulSession(session, {"past_key": "present_key"})
    for _ in range(3):
        stateful.run(None, {"x": np.float32([[1], [2]])})
    assert stateful.get_states()["past_key"].tolist() == [[1, 1, 1], [2, 2, 2]]


@pytest.mark.parametrize("change", [onnx_sparse.canonicalize, onnx_sparse.embed_functions, onnx_sparse.lower])
def test_the_record_survives_other_forms(change: Any) -> None:
    assert states_of(change(summing("float", SUM))) == (SUM,)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("{", "are not JSON"),
        ("[]", "have no list of states"),
        ('{"version": 2, "states": []}', "are of version 2; 1 is read"),
        ('{"version": 1, "states": [3]}', "have 3 as a state"),
        ('{"version": 1, "states": [{"name": "s", "past": 1}]}', "have 1 as the past"),
        ('{"version": 1, "states": [{"name": "s", "past": "q", "present": "present.s", "shape": [2]}]}', "name 'q'"),
        ('{"version": 1, "states": [{"name": "s", "past": "x", "present": "y", "shape": [-2]}]}', "as the shape"),
        ('{"version": 1, "states": [{"name": "s", "past": "x", "present": "y", "shape": [], "value": []}]}', "value"),
    ],
)
def test_a_record_that_is_not_valid(record: str, reason: str) -> None:
    model = summing()
    model.metadata_props.add(key="onnx_sparse.states", value=record)
    with pytest.raises(ValueError, match=reason):
        states_of(model)
