"""Converts the quick models of the zoo in an environment without TensorFlow, and compares with its recorded answers.

`python tests/zoo/recorded.py --record FOLDER`, in an environment with TensorFlow, saves the models, a batch of each
kind for each, and TensorFlow's answers. `python tests/zoo/recorded.py FOLDER` needs onnx_sparse alone.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
sys.path[0] = str(FOLDER.parent)  # `zoo` is a package of the tests

_MODEL = "saved_model"


def record(folder: Path) -> int:
    """Save the models, and what TensorFlow answers."""
    from zoo.examination import answers, build
    from zoo.inputs import KINDS, feeds
    from zoo.registry import entries

    for entry in entries().values():
        if not entry.quick:
            continue
        place = folder / entry.name.replace("/", "_").replace(" ", "_")
        place.mkdir(parents=True)
        built, saved = build(entry, str(place / _MODEL))
        for kind in KINDS:
            batch = feeds(built.inputs, kind, entry.name, built.least)
            try:
                answered = answers(saved, batch)
            except Exception:  # TensorFlow refuses such a batch
                continue
            arrays = {f"given {name}": array for name, array in batch.items()}
            arrays |= {f"answer {name}": array for name, array in answered.items()}
            np.savez(place / kind.replace(" ", "_"), **{name: _text(array) for name, array in arrays.items()})
    return 0


def check(folder: Path) -> int:
    """Convert each model, and compare its answers."""
    present = [name for name in ("tensorflow", "tf2onnx", "keras") if importlib.util.find_spec(name)]
    if present:
        print(f"{', '.join(present)} can be imported here; nothing would be shown")
        return 1
    models = sorted(path.parent for path in folder.glob(f"*/{_MODEL}"))
    wrong = [f"{model.name}: {complaint}" for model in models for complaint in complaints(model)]
    print("\n".join([*wrong, f"{len(models)} models, {len(wrong)} complaints"]))
    return 1 if wrong or len(models) < 25 else 0


def complaints(place: Path) -> list[str]:
    """What is wrong with the conversion of a model."""
    from onnx_sparse import InferenceSession
    from onnx_sparse.converters.tensorflow import convert
    from onnx_sparse.converters.verification.comparison import compare

    begin = time.perf_counter()
    try:
        session = InferenceSession(convert(place / _MODEL))
    except Exception as error:  # whatever is wrong with it
        return [str(error)]
    seconds = time.perf_counter() - begin
    names = [value.name for value in session.get_outputs()]
    taken = {value.name for value in session.get_inputs()}
    batches = sorted(place.glob("*.npz"))
    found = [] if batches else ["TensorFlow answered to no batch"]
    for file in batches:
        arrays = {name: _object(array) for name, array in np.load(file).items()}
        given = {name.removeprefix("given "): array for name, array in arrays.items() if name.startswith("given ")}
        answered = {name.removeprefix("answer "): a for name, a in arrays.items() if name.startswith("answer ")}
        if set(answered) != set(names):
            return [f"its outputs are {names}, not {sorted(answered)}"]
        results = session.run(names, {name: array for name, array in given.items() if name in taken})
        records = [compare(n, answered[n], np.asarray(r), "") for n, r in zip(names, results, strict=True)]
        found += [f"{file.stem}: {record.output}: {record.note}" for record in records if not record.ok]
    print(f"{place.name}: {len(batches)} batches, {seconds:.2f} s")
    return found


def _text(array: np.ndarray) -> np.ndarray:
    """Strings in a form that a file holds without Python's objects."""
    if array.dtype != object:
        return array
    texts = [item.decode("utf-8", "replace") if isinstance(item, bytes) else item for item in array.ravel()]
    return np.array(texts, str).reshape(array.shape)


def _object(array: np.ndarray) -> np.ndarray:
    return array.astype(object) if array.dtype.kind == "U" else array


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    sys.exit(record(arguments.folder) if arguments.record else check(arguments.folder))
