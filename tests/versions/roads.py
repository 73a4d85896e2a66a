"""Takes each road once, in the versions that this Python finds, and prints what came of it, one JSON line per road."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[1])

TEXT = """<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
g (float[v, 2] table, int64[k] indices, int64[k] ids, int64 count) => (float[n, 2] y) {
    y = onnx_sparse.EmbeddingSegmentsSum (table, indices, ids, count)
}"""


def _feeds() -> dict[str, Any]:
    import numpy as np

    table = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    return {"table": table, "indices": np.array([0, 2, 1]), "ids": np.array([0, 0, 2]), "count": np.array(3)}


def _check(answer: Any) -> None:
    if answer.tolist() != [[6, 8], [0, 0], [3, 4]]:
        raise AssertionError(f"the answer is {answer.tolist()}")


def _model() -> Any:
    from onnx import parser

    return parser.parse_model(TEXT)


def native() -> None:
    import onnx_sparse

    _check(onnx_sparse.InferenceSession(_model(), backend="native").run(None, _feeds())[0])


def python() -> None:
    import onnx_sparse

    _check(onnx_sparse.InferenceSession(_model(), backend="python").run(None, _feeds())[0])


def portable() -> None:
    import onnxruntime

    import onnx_sparse

    for change in (onnx_sparse.embed_functions, onnx_sparse.lower):
        _check(onnxruntime.InferenceSession(change(_model()).SerializeToString()).run(None, _feeds())[0])


def fuse() -> None:
    import onnx_sparse

    _check(onnx_sparse.InferenceSession(onnx_sparse.fuse(_model())).run(None, _feeds())[0])


def openvino() -> None:
    """From an IR, without OpenVINO."""
    from support.openvino_irs import IrBuilder

    import onnx_sparse
    from onnx_sparse.converters.openvino import convert

    net = IrBuilder()
    kinds = (("table", "f32", [-1, 2]), ("indices", "i64", [-1]), ("ids", "i64", [-1]), ("count", "i64", []))
    inputs = [net.parameter(*kind) for kind in kinds]
    net.result(net.layer("EmbeddingSegmentsSum", "opset3", inputs, [("f32", [-1, 2])]))
    with tempfile.TemporaryDirectory() as folder:
        _check(onnx_sparse.InferenceSession(convert(net.save(Path(folder)))).run(None, _feeds())[0])


def to_openvino() -> None:
    import onnx
    import openvino as ov

    from onnx_sparse.converters.openvino import extensions

    core = ov.Core()
    for extension in extensions():
        core.add_extension(extension)
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(_model(), f"{folder}/m.onnx")
        compiled = core.compile_model(core.read_model(f"{folder}/m.onnx"), "CPU")
    _check(compiled(_feeds())[0])


def tensorflow() -> None:
    import tensorflow as tf

    import onnx_sparse
    from onnx_sparse.converters.tensorflow import convert

    def lookup(indices: Any, ids: Any) -> Any:
        table = tf.constant([[1, 2], [3, 4], [5, 6]], tf.float32)
        return tf.raw_ops.SparseSegmentSumWithNumSegments(data=table, indices=indices, segment_ids=ids, num_segments=3)

    specification = [tf.TensorSpec([None], tf.int64, name=name) for name in ("indices", "ids")]
    model = convert(tf.function(lookup, input_signature=specification))
    feeds = _feeds()
    _check(onnx_sparse.InferenceSession(model).run(None, {name: feeds[name] for name in ("indices", "ids")})[0])


def torch() -> None:
    import torch as framework

    import onnx_sparse
    from onnx_sparse.converters.torch import export

    class Bags(framework.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bags = framework.nn.EmbeddingBag.from_pretrained(
                framework.tensor([[1.0, 2], [3, 4], [5, 6]]), mode="sum"
            )

        def forward(self, indices: Any, offsets: Any) -> Any:
            return self.bags(indices, offsets)

    given = (framework.tensor([0, 2, 1]), framework.tensor([0, 2, 2]))
    model = export(Bags(), given)
    names = [value.name for value in model.graph.input]
    feeds = {name: value.numpy() for name, value in zip(names, given, strict=True)}
    _check(onnx_sparse.InferenceSession(model).run(None, feeds)[0])


ROADS: dict[str, Callable[[], None]] = {
    "native kernels": native,
    "Python kernels": python,
    "portable": portable,
    "fuse": fuse,
    "from OpenVINO": openvino,
    "to OpenVINO": to_openvino,
    "TensorFlow": tensorflow,
    "torch": torch,
}


def main() -> None:
    found: str | None
    for name in sys.argv[1:] or ROADS:
        try:
            ROADS[name]()
        except Exception as error:  # whatever a version makes of it
            lines = str(error).strip().splitlines() or [""]
            found = f"{type(error).__name__}: {lines[0][:160]}"
        else:
            found = None
        sys.stdout.write(json.dumps({"road": name, "error": found}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
