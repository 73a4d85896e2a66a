"""The forms of operators that ONNX Runtime's CPU kernels may lack: one node for each, which is run to find out.

A form is what a model says of a node before it runs: its mode, the rank of its first input, the axes that it changes.

    python -m onnx_sparse.converters.onnxruntime.kernel_probes

writes what the installed version refuses into the table of `kernel_limits`. A test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from onnx import ModelProto, helper, numpy_helper

from onnx_sparse.converters.onnxruntime.kernel_limits import form, read, write

Array = np.ndarray[Any, Any]

_OPSET = 20
_SIZE = 4


def probes() -> Iterator[tuple[str, ModelProto, dict[str, Array]]]:
    """Each form, a model of it, and what to run the model on."""
    for mode in ("nearest", "linear", "cubic"):
        for rank in range(1, 6):
            for count in range(1, rank + 1):
                for axes in combinations(range(rank), count):
                    scales = np.array([2.0 if axis in axes else 1.0 for axis in range(rank)], np.float32)
                    constants = {"": None, "scales": scales}
                    yield form("Resize", rank, mode, axes), *_model("Resize", rank, constants, mode=mode)
    for rank in range(2, 8):
        ones = [1] * (rank - 2)
        for op_type in ("MaxPool", "AveragePool", "LpPool") if ones else ():
            yield form(op_type, rank), *_model(op_type, rank, {}, kernel_shape=ones)
        for op_type in ("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"):
            yield form(op_type, rank), *_model(op_type, rank, {})
        for op_type in ("Conv", "ConvTranspose") if ones else ():
            kernel = np.ones((_SIZE, _SIZE, *ones), np.float32)
            yield form(op_type, rank), *_model(op_type, rank, {"w": kernel})
        yield form("LRN", rank), *_model("LRN", rank, {}, size=3)
        for mode in ("nearest", "linear", "cubic"):
            if rank > 2:
                grid = np.zeros((_SIZE, *[2] * (rank - 2), rank - 2), np.float32)
                yield form("GridSample", rank, mode), *_model("GridSample", rank, {"grid": grid}, mode=mode)
        vector = np.ones(_SIZE, np.float32)
        yield form("InstanceNormalization", rank), *_model("InstanceNormalization", rank, {"s": vector, "b": vector})
        four = {"s": vector, "b": vector, "m": vector, "v": vector}
        yield form("BatchNormalization", rank), *_model("BatchNormalization", rank, four)
    for rank in range(1, 6):
        for mode in ("constant", "edge", "reflect", "wrap"):
            pads = np.array([1] * (2 * rank), np.int64)
            yield form("Pad", rank, mode), *_model("Pad", rank, {"pads": pads}, mode=mode)


def _model(
    op_type: str, rank: int, constants: Mapping[str, Array | None], **attributes: Any
) -> tuple[ModelProto, dict[str, Array]]:
    x = np.ones([_SIZE] * rank, np.float32)
    node = helper.make_node(op_type, ["x", *constants], ["y"], **attributes)
    given = [numpy_helper.from_array(value, name) for name, value in constants.items() if value is not None]
    inputs = [helper.make_tensor_value_info("x", 1, [f"d{axis}" for axis in range(rank)])]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, None)], given)
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", _OPSET)])
    return model, {"x": x}


def refused() -> list[str]:
    """The forms that the installed ONNX Runtime does not run."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    found = []
    for name, model, feeds in probes():
        try:
            ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"]).run(None, feeds)
        except Exception:  # ONNX Runtime's exceptions have no common base class
            found.append(name)
    return found


def main() -> None:
    """Write what the installed version refuses into the table."""
    import onnxruntime as ort

    installed = ".".join(ort.__version__.split(".")[:2])
    write(read() | {installed: set(refused())})


if __name__ == "__main__":
    main()
