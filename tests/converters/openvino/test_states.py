"""States of IRs: pairs of inputs and outputs that give OpenVINO's answers over many steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from support.openvino_irs import IrBuilder
from support.openvino_runs import FLOAT32
from support.openvino_stateful import STATEFUL

import onnx_sparse
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert, verify
from onnx_sparse.schemas.states import states_of

STEPS = 16
EXACT = FLOAT32 | {"DYNAMIC_QUANTIZATION_GROUP_SIZE": "0", "KV_CACHE_PRECISION": "f32"}


def session_of(model: onnx.ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    return onnx_sparse.InferenceSession(model, options)


def saved(name: str, folder: Path) -> tuple[Path, Any]:
    import openvino as ov

    model, feeds = STATEFUL[name]()
    path = folder / f"{name}.xml"
    ov.save_model(model, path, compress_to_fp16=False)
    return path, feeds


@pytest.mark.parametrize("name", STATEFUL)
def test_equal_to_openvino_over_many_steps(name: str, tmp_path: Path) -> None:
    """Twice from the start: what `reset` leaves is what a new session begins with."""
    ov = pytest.importorskip("openvino")
    path, feeds = saved(name, tmp_path)
    model = convert(path)
    stateful = onnx_sparse.StatefulSession(session_of(model))
    request = ov.Core().compile_model(path, "CPU", EXACT).create_infer_request()
    close = (
        {"rtol": 1e-4, "atol": 1e-5} if "half" not in name else {"rtol": 4e-3, "atol": 1e-3}
    )  # OpenVINO's are floats
    for _ in range(2):
        stateful.reset()
        request.reset_state()
        for step in map(feeds, range(STEPS)):
            expected = request.infer(step).values()
            actual = stateful.run(None, dict(zip(stateful.input_names, step, strict=True)))
            for want, got in zip(expected, actual, strict=True):
                np.testing.assert_allclose(got, want, **close)
        held = {state.name: np.array(state.state.data) for state in request.query_state()}
        for state, value in stateful.get_states().items():
            np.testing.assert_allclose(value, held[state], **close)


@pytest.mark.parametrize("name", ["running_sum", "leftover_samples", "decoder", "decoder_with_an_encoder"])
def test_verification_runs_several_steps(name: str, tmp_path: Path) -> None:
    """The mask of a decoder grows from step to step, which OpenVINO's refusals tell."""
    pytest.importorskip("openvino")
    path, _ = saved(name, tmp_path)
    model = convert(path)
    records = verify(path, model)
    assert all(record.ok for record in records), records
    assert [record.output for record in records] == [value.name for value in model.graph.output]


def test_verification_sees_a_state_that_is_not_kept(tmp_path: Path) -> None:
    """The first step is right: only later ones differ."""
    pytest.importorskip("openvino")
    path, _ = saved("running_sum", tmp_path)
    model = convert(path)
    (node,) = [node for node in model.graph.node if list(node.output) == ["present.sum"]]
    node.op_type, node.input[:] = "Identity", ["past.sum"]
    record = verify(path, model)[0]
    assert not record.ok
    assert "in step 2" in record.note


def test_inputs_and_outputs_as_exporters_write_them(tmp_path: Path) -> None:
    """A loop in plain ONNX Runtime: empty caches first, then what the step before returned."""
    net = decoder_cache()
    model = convert(net.save(tmp_path))
    assert [value.name for value in model.graph.input] == ["x", "past.cache"]
    assert [value.name for value in model.graph.output] == ["joined", "present.cache"]
    session = ort.InferenceSession(model.SerializeToString())
    cache = np.zeros((2, 0), np.float32)
    for step in range(3):
        joined, cache = session.run(None, {"x": np.full((2, 1), step, np.float32), "past.cache": cache})
    np.testing.assert_array_equal(joined, [[0, 1, 2]] * 2)


def decoder_cache() -> IrBuilder:
    """A cache that is joined with each input; it begins without columns, and with the rows of the input."""
    net = IrBuilder()
    x = net.parameter("x", "f32", [-1, -1])
    rows = net.layer("Gather", "opset8", [net.layer("ShapeOf", "opset3", [x], [("i64", [2])], {"output_type": "i64"}),
                                          net.constant(np.int64([0])), net.constant(np.int64(0))],
                     [("i64", [1])])  # fmt: skip
    sizes = net.layer("Concat", "opset1", [rows, net.constant(np.int64([0]))], [("i64", [2])], {"axis": 0})
    empty = net.layer("Broadcast", "opset3", [net.constant(np.float32(0)), sizes], [("f32", [-1, 0])],
                      {"mode": "numpy"})  # fmt: skip
    kind = {"variable_id": "cache", "variable_type": "f32", "variable_shape": "?,?"}
    past = net.layer("ReadValue", "opset6", [empty], [("f32", [-1, -1])], kind)
    joined = net.layer("Concat", "opset1", [past, x], [("f32", [-1, -1])], {"axis": 1}, "joined")
    net.layer("Assign", "opset6", [joined], [("f32", [-1, -1])], kind)
    net.result(joined)
    return net


def test_a_state_without_elements_begins_with_the_computed_value(tmp_path: Path) -> None:
    model = convert(decoder_cache().save(tmp_path))
    (state,) = states_of(model)
    assert (state.name, state.past, state.present, state.shape) == ("cache", "past.cache", "present.cache", (0, 0))
    stateful = onnx_sparse.StatefulSession(onnx_sparse.InferenceSession(model))
    for _ in range(2):
        (joined,) = stateful.run(None, {"x": np.ones((3, 2), np.float32)})
    assert joined.shape == (3, 4)


def test_an_initial_value_is_computed_in_the_first_run_only(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    path, _ = saved("initial_value_from_an_input", tmp_path)
    assert "Exp" not in {node.op_type for node in convert(path).graph.node}


def test_an_assign_before_its_read_value(tmp_path: Path) -> None:
    net = IrBuilder()
    x = net.parameter("x", "f32", [2])
    kind = {"variable_id": "last", "variable_type": "f32", "variable_shape": "2"}
    net.layer("Assign", "opset6", [x], [("f32", [2])], kind)
    net.result(net.layer("ReadValue", "opset6", [], [("f32", [2])], kind, "before"))
    stateful = onnx_sparse.StatefulSession(onnx_sparse.InferenceSession(convert(net.save(tmp_path))))
    seen = [stateful.run(["before"], {"x": np.full(2, k, np.float32)})[0][0] for k in (1, 2, 3)]
    assert seen == [0, 1, 2]


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        (["Assign"], "no ReadValue reads its variable 'v'"),
        (["ReadValue", "Assign", "Assign"], "another Assign gives the variable 'v' a value"),
    ],
)
def test_states_that_contradict_themselves(tmp_path: Path, layers: list[str], reason: str) -> None:
    net = IrBuilder()
    x = net.parameter("x", "f32", [1])
    for op in layers:
        net.layer(op, "opset6", [x], [("f32", [1])], {"variable_id": "v"})
    net.result(x)
    with pytest.raises(ConversionError, match=reason):
        convert(net.save(tmp_path))


def test_a_state_whose_rank_is_not_known(tmp_path: Path) -> None:
    net = IrBuilder()
    x = net.parameter("x", "f32", [1])
    kind = {"variable_id": "v", "variable_type": "f32", "variable_shape": "..."}
    net.result(
        net.layer("Add", "opset1", [net.layer("ReadValue", "opset6", [], [("f32", None)], kind), x], [("f32", None)])
    )
    with pytest.raises(ConversionError, match=r"the rank of the variable 'v' is not known.*model.reshape"):
        convert(net.save(tmp_path))
