"""What it costs that lookups refuse negative ids: the same lookup with and without the check, in one run.

    python benchmarks/checked_ids.py [--rounds 60]

Every line is a lookup by ids of int64, on one thread: its least time, and what the checked one takes of that.
"""

from __future__ import annotations

import time

import numpy as np
import onnxruntime as ort
from machine import this_machine
from onnx import ModelProto, TensorProto, helper, numpy_helper, shape_inference
from runner import parser
from sessions import session_options

from onnx_sparse.converters.rewriting.checked_ids import refuse_negative_ids

#: The operator, the rows and the columns of the table, and the shape of the ids.
_CASES = (
    ("Gather", 100_000, 64, (100_000,)),
    ("Gather", 100_000, 16, (100_000,)),
    ("Gather", 100_000, 1, (100_000,)),
    ("Gather", 10_000, 16, (64,)),
    ("GatherND", 100_000, 16, (100_000, 1)),
    ("GatherElements", 10_000, 64, (10_000, 64)),
)


def _model(operator: str, rows: int, columns: int, shape: tuple[int, ...]) -> ModelProto:
    table = numpy_helper.from_array(np.random.default_rng(0).random((rows, columns), np.float32), "table")
    nodes = [helper.make_node(operator, ["table", "ids"], ["y"])]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [f"n{k}" for k in range(len(shape))])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b"])
    graph = helper.make_graph(nodes, "lookup", [ids], [y], [table])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return shape_inference.infer_shapes(model)


def main() -> None:
    """Print the table."""
    made = parser(__doc__)
    made.add_argument("--rounds", type=int, default=60, help="how often each is run (default: 60)")
    rounds = made.parse_args().rounds
    print(this_machine())
    print("| lookup | table | ids | ms | checked |\n| --- | --- | --- | --- | --- |")
    for operator, rows, columns, shape in _CASES:
        plain = _model(operator, rows, columns, shape)
        checked = ModelProto()
        checked.CopyFrom(plain)
        refuse_negative_ids(checked)
        sessions = [ort.InferenceSession(model.SerializeToString(), session_options(1)) for model in (plain, checked)]
        ids, least = np.random.default_rng(1).integers(0, rows, shape), [np.inf, np.inf]
        for _ in range(rounds):
            for place, session in enumerate(sessions):
                start = time.perf_counter()
                session.run(None, {"ids": ids})
                least[place] = min(least[place], time.perf_counter() - start)
        sizes = f"{rows:,} x {columns} | {' x '.join(f'{size:,}' for size in shape)}"
        print(f"| {operator} | {sizes} | {least[0] * 1e3:.3g} | {least[1] / least[0]:.2f} |")


if __name__ == "__main__":
    main()
