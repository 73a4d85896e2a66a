"""Run a model of one node on one backend: `python -m onnx_sparse.cli.smoke native`; of the native one, also write its
settings to stdout.

`doctor` starts it in its own process, because a broken installation can end the process that loads it.
"""

from __future__ import annotations

import json
import sys

from onnx_sparse.native.settings import library_settings
from onnx_sparse.settings import Backend


def main(backend: Backend) -> None:
    """Run `SegmentSum` of 1, 2, 4 with segments 0, 0, 1, and write the backend's settings as JSON.

    Raises:
        Exception: It does not run, or the answer is not 3, 4.
    """
    import numpy as np
    from onnx import TensorProto, helper

    from onnx_sparse.schemas import DOMAIN, OPSET_VERSION
    from onnx_sparse.sessions.runtime import InferenceSession, get_library_path

    node = helper.make_node("SegmentSum", ["data", "segment_ids", "num_segments"], ["output"], domain=DOMAIN)
    graph = helper.make_graph(
        [node],
        "one_node",
        [
            helper.make_tensor_value_info("data", TensorProto.FLOAT, ["K"]),
            helper.make_tensor_value_info("segment_ids", TensorProto.INT64, ["K"]),
            helper.make_tensor_value_info("num_segments", TensorProto.INT64, []),
        ],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["S"])],
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, OPSET_VERSION)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    session = InferenceSession(model, backend=backend)
    feeds = {
        "data": np.array([1, 2, 4], np.float32),
        "segment_ids": np.array([0, 0, 1], np.int64),
        "num_segments": np.array(-1, np.int64),
    }
    (answer,) = session.run(None, feeds)
    if answer.dtype != np.float32 or answer.tolist() != [3, 4]:
        raise ValueError(f"SegmentSum answers {answer!r} instead of 3, 4")
    settings = library_settings(get_library_path()) if backend == "native" else {}
    sys.stdout.write(json.dumps(settings) + "\n")


if __name__ == "__main__":
    main("python" if sys.argv[1] == "python" else "native")
