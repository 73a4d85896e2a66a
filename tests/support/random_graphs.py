"""Random TensorFlow graphs of standard operators, fed with tensors of any size, 0 and 1 included.

`python -m support.random_graphs --seed 0 --count 1000` converts that many graphs, runs each in TensorFlow and in a
session of ONNX Runtime with default options, and prints every difference, failure and refusal. The work is done in
processes of their own, so that one that ends is only a finding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import support.random_graph_operators  # registers operators
import support.random_graph_shapes  # noqa: F401  # registers operators
from support.random_findings import Finding, difference, main
from support.random_graph_composition import Composition, tensorflow

#: How many graphs a process examines, which takes seconds to begin.
_AT_ONCE = 500


def examine(seed: int, convert: Callable[[Any], Any] | None = None) -> tuple[Finding | None, int]:
    """Compare one graph with TensorFlow; returns what went wrong, and how many feeds were compared.

    Args:
        seed: What the graph is made from.
        convert: Makes the model of the graph's tf.function; TensorFlow's converter when omitted.
    """
    from onnxruntime import SessionOptions

    from onnx_sparse import InferenceSession
    from onnx_sparse.converters import ConversionError
    from onnx_sparse.converters.tensorflow import convert as from_tensorflow

    composition, tf = Composition(seed), tensorflow()
    try:
        function = composition.function()
        concrete = function.get_concrete_function()
    except Exception as error:
        return Finding(seed, "not built", tuple(composition.steps), f"{type(error).__name__}: {error}"[:300]), 0
    steps = tuple(composition.steps)
    try:
        model = from_tensorflow(concrete) if convert is None else convert(function)
    except ConversionError as error:
        return Finding(seed, "refused", steps, str(error).replace("\n", " ")[:300]), 0
    except Exception as error:
        return Finding(seed, "failed", steps, f"{type(error).__name__}: {error}"[:300]), 0
    options = SessionOptions()
    # Threads that spin make each session end some 50 ms later.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = InferenceSession(model, options)
    except Exception as error:
        return Finding(seed, "does not load", steps, str(error)[:300]), 0
    names = [value.name for value in session.get_inputs()]
    outputs = [value.name for value in session.get_outputs()]
    compared = 0
    for feeds in composition.feeds():
        shown = {name: list(value.shape) for name, value in feeds.items()}
        try:
            wanted = concrete(**{name: tf.constant(value) for name, value in feeds.items()})
        except Exception:
            continue  # TensorFlow refuses these sizes
        try:
            results = session.run(outputs, {name: feeds[name] for name in names})
        except Exception as error:
            return Finding(seed, "does not run", steps, f"{shown}: {error}"[:400]), compared
        if difference := _differences(results, wanted, concrete, outputs):
            if not _differences(results, _without_optimizer(composition, feeds), concrete, outputs):
                continue  # TensorFlow's graph optimizer contradicts TensorFlow's operators
            again = [concrete(**{name: tf.constant(value) for name, value in feeds.items()}) for _ in range(3)]
            if any(_differences([a[name].numpy() for name in outputs], wanted, concrete, outputs) for a in again):
                continue  # TensorFlow does not answer the same
            # What is left of large numbers that cancel has their rounding.
            magnitude = float(composition.function(magnitude=True)(*feeds.values()))
            if not _differences(results, wanted, concrete, outputs, 8 * np.finfo(np.float32).eps * magnitude):
                compared += 1
                continue
            return Finding(seed, "differs", steps, f"{shown} {difference}"), compared
        compared += 1
    return None, compared


def _without_optimizer(composition: Composition, feeds: dict[str, np.ndarray]) -> dict[str, Any]:
    """What TensorFlow answers without its graph optimizer.

    The optimizer has faults: it gives the values of a top_k for its indices if they are stacked.
    """
    tf = tensorflow()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        concrete = composition.function().get_concrete_function()
        result: dict[str, Any] = concrete(**{name: tf.constant(value) for name, value in feeds.items()})
        return result
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


def _differences(
    results: list[Any], wanted: dict[str, Any], concrete: Any, outputs: list[str], rounding: float = 0
) -> str:
    """The first output that is not TensorFlow's, or "" if there is none."""
    for name, got in zip(outputs, results, strict=True):
        want = wanted[name].numpy()
        if not concrete.structured_outputs[name].shape.is_compatible_with(want.shape):
            continue  # TensorFlow contradicts itself
        if what := difference(np.asarray(got), want, rounding):
            return f"{name}: {what}"
    return ""


if __name__ == "__main__":
    main(__file__, examine, "graphs of standard operators", _AT_ONCE)
