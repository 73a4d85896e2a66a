"""Draws models of one standard operator each, of all types, ranks, modes and layouts that ONNX allows.

`outcome` converts one by the passes in which every road ends, and runs it in ONNX Runtime. Its answers equal those of
onnx's reference evaluator, or the conversion has refused it.

    python -m support.random_nodes --models 5000    # in the folder tests
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator
from support.comparison import difference
from support.drawn_nodes import Array, Drawn, Rng
from support.node_families import FAMILIES
from support.program import parser

from onnx_sparse import InferenceSession
from onnx_sparse.converters import ConversionError, pipeline


def convert(model: ModelProto) -> ModelProto:
    """The passes in which every road ends."""
    copy = ModelProto.FromString(model.SerializeToString())
    steps = (pipeline.INFER, pipeline.guard_against(), pipeline.REFUSE_UNSUPPORTED, pipeline.CHECK)
    return pipeline.run(pipeline.Draft(copy), steps)


def outcome(drawn: Drawn, rng: Rng) -> str:
    """What comes of a node: `equal`, `refused: ...`, `no reference`, or what is wrong."""
    model = drawn.model(rng)
    try:
        onnx.checker.check_model(model)
        want = reference(drawn, model)
    except Exception as error:  # the evaluator has operators and types that it does not compute
        want, reason = None, f"{type(error).__name__}"
    try:
        converted = convert(model)
    except ConversionError as error:
        return f"refused: {error.unsupported[0].reason}" if error.unsupported else f"invalid: {error}"
    try:
        have = InferenceSession(converted).run(None, drawn.feeds())
    except Exception as error:
        return f"fails: {str(error).splitlines()[0][:200]}"
    if want is None:
        return f"no reference: {reason}"
    return compared(drawn, want, have)


#: Operators of which the evaluator's results have another shape, or another element type, than ONNX says.
_WRONG_REFERENCES = ("GlobalMaxPool", "ReduceSumSquare", "Det", "AffineGrid")


def reference(drawn: Drawn, model: ModelProto) -> list[Array]:
    """The right answers."""
    x = drawn.inputs.get("x")
    if drawn.op_type == "GlobalMaxPool":
        return [x.max(tuple(range(2, x.ndim)), keepdims=True) if x.ndim > 2 else x]
    if drawn.op_type == "Resize" and drawn.attributes["mode"] == "nearest":  # the evaluator computes with floats
        numbers = np.arange(x.size, dtype=np.float32).reshape(x.shape)
        places = replace(drawn, inputs={**drawn.inputs, "x": numbers})
        (found,) = ReferenceEvaluator(places.model(np.random.default_rng(0))).run(None, places.feeds())
        return [x.ravel()[found.astype(np.int64)]]
    want = ReferenceEvaluator(model).run(None, drawn.feeds())
    if drawn.op_type in _WRONG_REFERENCES:
        want = [each.astype(x.dtype if x is not None else drawn.inputs["a"].dtype) for each in map(np.asarray, want)]
    return want


def compared(drawn: Drawn, want: Sequence[Array], have: Sequence[Array]) -> str:
    """Whether results are equal, as far as the arithmetic allows."""
    for wanted, got in zip(map(np.asarray, want), have, strict=True):
        loose = 5e-2 if wanted.dtype.itemsize == 2 else drawn.tolerance
        if said := difference(wanted, got, loose):
            return said
    return "equal"


def main() -> int:
    options = parser(__doc__, models=1000, seed=0, family="").parse_args()
    found: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.models):
        rng = np.random.default_rng(seed)
        family = FAMILIES[seed % len(FAMILIES)]
        if options.family not in ("", family.__name__):
            continue
        drawn = family(rng)
        said = outcome(drawn, rng)
        kind = said.partition(":")[0]
        found[kind if kind in ("equal", "refused", "no reference") else "wrong"] += 1
        if kind not in ("equal", "refused", "no reference"):
            shapes = {name: f"{v.dtype}{list(v.shape)}" for name, v in drawn.inputs.items() if v is not None}
            print(f"{seed} {drawn.op_type}-{drawn.opset} {shapes} {drawn.attributes}: {said}")
        elif kind == "refused":
            found[f"  {said}"] += 1
    for kind, count in found.most_common():
        print(count, kind)
    return found["wrong"] > 0


if __name__ == "__main__":
    sys.exit(main())
