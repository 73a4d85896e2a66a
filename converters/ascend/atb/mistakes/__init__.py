"""Known mistakes of kernels and of the programs that call them: which one has the numbers of the NPU?

A mistake runs the operation again with other parameters or inputs, or changes the result, as if somebody had made it.
If what comes out agrees with the NPU's, where the right result does not, that is most likely what has happened.

- `own`: mistakes of one operation, such as the lost mask of attention
- `operands`: mistakes with an input of any operation: lost, exchanged, off by one
- `settings`: mistakes with a parameter of any operation: another axis, epsilon or type
- `results`: mistakes with a result of any operation: zeros, lost rows, nothing computed
- `ranks`: mistakes of operations between ranks: the part of another rank, a rank that is missing
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

from onnx_sparse.converters.ascend.atb.mistakes.operands import declared, operand_mistakes
from onnx_sparse.converters.ascend.atb.mistakes.own import OWN
from onnx_sparse.converters.ascend.atb.mistakes.settings import setting_mistakes
from onnx_sparse.converters.ascend.atb.mistakes.trial import Trial, Variants
from onnx_sparse.converters.errors import Unsupported


def variants(kind: str, trial: Trial) -> Variants:
    """The operation with each mistake that it can have, the likeliest first.

    Args:
        kind: The operation's type without `Operation`.
        trial: The operation as it is.
    """
    named = replace(trial, names=declared(kind, trial))
    for function in (*OWN.get(kind, ()), *(lambda t, f=f: f(kind, t) for f in (operand_mistakes, setting_mistakes))):
        # Parameters may be of a form that only the handler reads, and inputs of a number that it refuses.
        with contextlib.suppress(IndexError, TypeError, ValueError, Unsupported):
            yield from function(named)
    yield from _saturation(named)


def _saturation(trial: Trial) -> Variants:
    if any(array.dtype.name == "float16" for array in trial.inputs):
        for saturates, words in ((True, "65504 for values beyond float16"), (False, "infinities beyond float16")):
            yield f"the result with {words}", replace(trial, saturates=saturates)
