"""Saves, converts and runs a model of the zoo, and compares it with TensorFlow on every kind of batch."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from zoo.command import Outcome
from zoo.inputs import KINDS, TIMED, feeds
from zoo.registry import Built, Entry
from zoo.split import split_fault

from onnx_sparse.converters.errors import ConversionError, first_line

#: The kinds of batches in which a model has rows.
WITH_ROWS = tuple(kind for kind in KINDS if kind != "no rows")

_TIMED_RUNS = 9


@dataclass
class Examined(Outcome):
    """What became of a model of TensorFlow.

    Attributes:
        convert_seconds: The time of the conversion.
        tensorflow_ms, onnx_ms: The median time of a run of a larger batch.
    """

    convert_seconds: float = 0.0
    tensorflow_ms: float | None = None
    onnx_ms: float | None = None


def examine(entry: Entry, *, thorough: bool = True) -> Examined:
    """Build a model, save it, convert the SavedModel and compare the two on a batch of each kind.

    Args:
        entry: The model.
        thorough: Whether to verify the model and to time runs as well.
    """
    found = Examined(entry.name, entry.environment)
    with tempfile.TemporaryDirectory(prefix="zoo-") as folder:
        try:
            built, saved = build(entry, folder)
        except Exception as error:  # whatever a package raises
            found.notes.append(f"{type(error).__name__}: {first_line(error)}")
            return found
        _convert_and_compare(built, saved, folder, found, thorough)
    return found


def build(entry: Entry, folder: str) -> tuple[Built, Any]:
    """Build a model with random weights, save it with one signature, and load it again.

    Returns:
        The model as it was built, and as it was loaded.
    """
    import keras
    import tensorflow as tf

    tf.keras.backend.clear_session()
    keras.utils.set_random_seed(1)
    tf.random.set_seed(1)
    np.random.seed(1)
    built = entry.build()

    def named(**features: Any) -> dict[str, Any]:
        result = tf.nest.flatten(built.call(**features), expand_composites=True)
        return {f"y{k}": tf.identity(tensor) for k, tensor in enumerate(result)}

    module = tf.Module()
    module.owner = built.owner
    module.serve = tf.function(named)
    concrete = module.serve.get_concrete_function(**{given.name: given.spec() for given in built.inputs})
    module.kept = list(concrete.graph.variables)
    tf.saved_model.save(module, folder, signatures=concrete)
    return built, tf.saved_model.load(folder)


def answers(saved: Any, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What TensorFlow answers to a batch; strings are text."""
    import tensorflow as tf

    signature = saved.signatures["serving_default"]
    taken = signature.structured_input_signature[1]
    results = signature(**{name: tf.constant(array) for name, array in batch.items() if name in taken})
    return {name: as_text(tensor.numpy()) for name, tensor in results.items()}


def _convert_and_compare(built: Built, saved: Any, folder: str, found: Examined, thorough: bool) -> None:
    from onnx_sparse import InferenceSession
    from onnx_sparse.converters.tensorflow import convert
    from onnx_sparse.models.graphs import graphs

    begin = time.perf_counter()
    try:
        model = convert(folder)
    except ConversionError as error:
        found.outcome = "refused"
        found.notes.append(" ".join(str(error).split()))
        return
    found.outcome = "wrong"
    found.convert_seconds = time.perf_counter() - begin
    found.nodes = sum(len(graph.node) for graph in graphs(model.graph))
    try:
        session = InferenceSession(model)
    except Exception as error:  # whatever ONNX Runtime raises
        found.notes.append(f"does not load: {first_line(error)}")
        return
    names = {value.name for value in session.get_inputs()}
    outputs = [value.name for value in session.get_outputs()]

    def run_onnx(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        fed = {name: as_text(array) for name, array in batch.items() if name in names}
        return dict(zip(outputs, session.run(outputs, fed), strict=True))

    def run_tensorflow(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return answers(saved, batch)

    batches = {kind: feeds(built.inputs, kind, found.name, built.least) for kind in KINDS}
    for kind, batch in batches.items():
        found.batches[kind], note = _compare(batch, run_tensorflow, run_onnx)
        if note:
            found.notes.append(f"{kind}: {note}")
    verdicts = list(found.batches.values())
    if not any(found.batches[kind] == "equal" for kind in WITH_ROWS):
        found.notes.append("no batch with rows was compared")
    elif not {"differs", "fails"} & set(verdicts):
        found.outcome = "equal"
    fed = [{name: as_text(array) for name, array in batch.items() if name in names} for batch in batches.values()]
    if fault := split_fault(model, fed, found.name):
        found.outcome = "wrong"
        found.notes.append(fault)
    if thorough:
        _verify(folder, model, found)
        batch = feeds(built.inputs, TIMED, found.name, built.least)
        found.tensorflow_ms = _milliseconds(run_tensorflow, batch)
        found.onnx_ms = _milliseconds(run_onnx, batch)


def _verify(folder: str, model: Any, found: Examined) -> None:
    """Verify the conversion; a verdict that contradicts the comparison, or rests on nothing, is wrong."""
    from onnx_sparse.converters.tensorflow import verify

    found.note_verified(verify(folder, model))
    if found.verdict == "differs" or (found.verdict == "ok" and not found.verified_batches):
        found.outcome = "wrong"


def _compare(
    batch: dict[str, np.ndarray], run_tensorflow: Callable[..., Any], run_onnx: Callable[..., Any]
) -> tuple[str, str]:
    """The verdict on a batch, and a note."""
    from onnx_sparse.converters.verification.comparison import compare

    try:
        wanted = run_tensorflow(batch)
    except Exception as error:  # whatever TensorFlow's kernels raise
        return "TensorFlow refuses", _last_line(error)
    try:
        results = run_onnx(batch)
    except Exception as error:  # whatever ONNX Runtime raises
        return "fails", " ".join(str(error).split())[:300]
    if set(wanted) != set(results):
        return "differs", f"the outputs are {sorted(results)}, not {sorted(wanted)}"
    for name, want in wanted.items():
        record = compare(name, want, as_text(np.asarray(results[name])), "")
        if not record.ok:
            got = np.asarray(results[name])
            return "differs", f"{name}: {record.note}; {got.ravel()[:4]} for {want.ravel()[:4]} of shape {want.shape}"
    return "equal", ""


def as_text(array: np.ndarray) -> np.ndarray:
    """Strings as text, where TensorFlow gives and takes bytes."""
    if array.dtype != object:
        return array
    text = [item.decode("utf-8", "replace") if isinstance(item, bytes) else item for item in array.ravel()]
    made = np.empty(len(text), object)
    made[:] = text
    return made.reshape(array.shape)


def _milliseconds(run: Callable[..., Any], batch: dict[str, np.ndarray]) -> float | None:
    times = []
    try:
        run(batch)
        for _ in range(_TIMED_RUNS):
            begin = time.perf_counter()
            run(batch)
            times.append(time.perf_counter() - begin)
    except Exception:  # a batch of this size is refused
        return None
    return 1000 * statistics.median(times)


def _last_line(error: BaseException) -> str:
    """TensorFlow puts headings before what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("Graph execution", "Detected at", "File ", "[[", "<"))]
    return (telling or lines or [type(error).__name__])[0][:200]
