"""A node of each form that ONNX Runtime's CPU kernels may lack, and what to run it on.

Forms are those of `forms`: a node's mode, the rank of its first input, the axes that it changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

from onnx_sparse.converters.kernels.forms import HIGHEST_RANK, HIGHEST_RESIZED, one_hot, ranks, resized
from onnx_sparse.schemas.declaration import NUMBERS, numpy_dtype

Array = np.ndarray[Any, Any]
#: A form, a model of it, and what to run the model on.
Probe = tuple[tuple[str, str], ModelProto, dict[str, Array]]

_OPSET = 20
_SIZE = 4


def probes() -> Iterator[Probe]:
    """Every form; some have several models."""
    yield from _of_resize()
    for rank in range(2, HIGHEST_RANK + 1):
        yield from _of_images(rank)
    for rank in range(1, HIGHEST_RANK + 1):
        for mode in ("constant", "edge", "reflect", "wrap"):
            pads = np.array([1] * (2 * rank), np.int64)
            yield ranks("Pad", rank, mode), *_model("Pad", [2] * rank, {"pads": pads}, mode=mode)
    yield from _of_recurrence()
    yield from _of_one_hot()


def _of_resize() -> Iterator[Probe]:
    """Axes that grow, and axes that shrink: the kernels for channels at the end only enlarge."""
    modes = [("nearest", False), ("linear", False), ("cubic", False), ("linear", True), ("cubic", True)]
    for mode, antialias in modes:
        for rank in range(1, HIGHEST_RESIZED + 1):
            for count in range(1, rank + 1):
                for axes in combinations(range(rank), count):
                    for factor in (2.0, 0.5):
                        scales = np.array([factor if axis in axes else 1.0 for axis in range(rank)], np.float32)
                        constants = {"": None, "scales": scales}
                        model = _model("Resize", [_SIZE] * rank, constants, mode=mode, antialias=int(antialias))
                        yield resized(rank, mode, axes, antialias=antialias), *model


def _of_images(rank: int) -> Iterator[Probe]:
    shape, ones = [_SIZE] * rank, [1] * (rank - 2)
    for op_type in ("MaxPool", "AveragePool", "LpPool") if ones else ():
        yield ranks(op_type, rank), *_model(op_type, shape, {}, kernel_shape=ones)
    for op_type in ("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"):
        yield ranks(op_type, rank), *_model(op_type, shape, {})
    for op_type in ("Conv", "ConvTranspose") if ones else ():
        kernel = np.ones((_SIZE, _SIZE, *ones), np.float32)
        yield ranks(op_type, rank), *_model(op_type, shape, {"w": kernel})
    yield ranks("LRN", rank), *_model("LRN", shape, {}, size=3)
    for mode in ("nearest", "linear", "cubic") if ones else ():
        grid = np.zeros((_SIZE, *[2] * (rank - 2), rank - 2), np.float32)
        yield ranks("GridSample", rank, mode), *_model("GridSample", shape, {"grid": grid}, mode=mode)
    vector = np.ones(_SIZE, np.float32)
    yield ranks("InstanceNormalization", rank), *_model("InstanceNormalization", shape, {"s": vector, "b": vector})
    four = {"s": vector, "b": vector, "m": vector, "v": vector}
    yield ranks("BatchNormalization", rank), *_model("BatchNormalization", shape, four)


def _of_recurrence() -> Iterator[Probe]:
    for op_type, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for layout in (0, 1):
            weights = {name: np.ones((1, gates * 2, 2), np.float32) for name in ("w", "r")}
            model = _model(op_type, [2, 2, 2], weights, layout=layout, hidden_size=2)
            yield (f"{op_type} layout", str(layout)), *model


def _of_one_hot() -> Iterator[Probe]:
    for dtype in (*NUMBERS, TensorProto.BOOL, TensorProto.STRING):
        feeds = {"x": np.ones(2, np.int64), "depth": np.array(2), "values": np.ones(2).astype(numpy_dtype(dtype))}
        types = (TensorProto.INT64, TensorProto.INT64, dtype)
        given = [helper.make_tensor_value_info(n, t, feeds[n].shape) for n, t in zip(feeds, types, strict=True)]
        node = helper.make_node("OneHot", [*feeds], ["y"])
        graph = helper.make_graph([node], "g", given, [ValueInfoProto(name="y")])
        model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", _OPSET)])
        yield one_hot(dtype), model, feeds


def _model(
    op_type: str, shape: list[int], constants: Mapping[str, Array | None], **attributes: Any
) -> tuple[ModelProto, dict[str, Array]]:
    x = np.ones(shape, np.float32)
    node = helper.make_node(op_type, ["x", *constants], ["y"], **attributes)
    given = [numpy_helper.from_array(value, name) for name, value in constants.items() if value is not None]
    inputs = [helper.make_tensor_value_info("x", 1, [f"d{axis}" for axis in range(len(shape))])]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, None)], given)
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", _OPSET)])
    return model, {"x": x}


def refused_forms() -> Iterator[tuple[str, str]]:
    """The forms that the installed version does not run: their subjects, and what distinguishes them."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    for (subject, what), model, feeds in probes():
        try:
            ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"]).run(None, feeds)
        except Exception:  # ONNX Runtime's exceptions have no common base class
            yield subject, what
