"""The error of a refused batch that does not depend on threads: of several operators that fail, the first one's.

TensorFlow runs operators in threads and raises the error that comes first. Verification learns sizes from errors, so
one seed must always show the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.lazy_imports import require

_ONE_THREAD = "SINGLE_THREADED_EXECUTOR"

#: What TensorFlow says of graphs that one thread cannot run: those with the switches of TensorFlow 1.
_NOT_IN_ORDER = "ingle-threaded executor"

#: How often those run; of their errors the first in alphabetical order is taken.
_RUNS = 5


def run_in_order(run: Callable[[Any], list[Array]], feeds: Any) -> list[Array]:
    """Run a source; if it raises an error, raise that of its first operator that fails.

    Raises:
        ConversionError: TensorFlow does not load the source.
        Exception: Whatever TensorFlow raises.
    """
    try:
        return run(feeds)
    except ConversionError:
        raise
    except Exception as error:  # whatever TensorFlow raises
        with _one_thread():
            ordered = _error(run, feeds)
        if ordered is None or _NOT_IN_ORDER in str(ordered):
            every = [error, *(_error(run, feeds) or error for _ in range(_RUNS - 1))]
            ordered = min(every, key=str)
        raise ordered from None


def _error(run: Callable[[Any], Any], feeds: Any) -> Exception | None:
    try:
        run(feeds)
    except Exception as error:  # whatever TensorFlow raises
        return error
    return None


@contextmanager
def _one_thread() -> Iterator[None]:
    """Run functions operator by operator, with loops and branches as one operator each."""
    tf = require("tensorflow")
    from tensorflow.python.eager import context

    config = tf.compat.v1.ConfigProto()
    config.experimental.executor_type = _ONE_THREAD
    # The optimizer's order of nodes is another one in each process.
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    running = context.context()
    before = running.function_call_options
    running.function_call_options = context.FunctionCallOptions(_ONE_THREAD, config)
    try:
        yield
    finally:
        running.function_call_options = before
