"""Right models of each source, in which faults are planted, with inputs that are not those of verification."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto
from support.random_parsing import Specification
from zoo.examination import build as build_tensorflow
from zoo.inputs import KINDS, feeds
from zoo.ir_sources import BATCHES
from zoo.irs.torch_modules import MODULES
from zoo.registry import VARIABLES, entries, irs

from onnx_sparse.converters import ConversionError, openvino, tensorflow, torch
from onnx_sparse.converters.tensorflow.reference import TensorFlowReference
from onnx_sparse.converters.verification.verify import as_text

Array = np.ndarray[Any, Any]


#: TensorFlow's RaggedGather ends the process, which is this one, on a batch that is made for these.
_DEADLY = ("tensorflow/ragged rows chosen",)


@dataclass(frozen=True)
class Right:
    """A converted model.

    Attributes:
        name: The source and the model.
        model: The model.
        verify: Compares a model with the source.
        batches: Inputs by name that were written by hand for this model; none for those of random messages.
        source: Runs the source on inputs by name, if it refuses inputs that the model takes.
    """

    name: str
    model: ModelProto
    verify: Callable[[ModelProto], Sequence[Any]]
    batches: Sequence[Mapping[str, Array]] = ()
    source: Callable[[Mapping[str, Array]], Sequence[Array]] | None = None


def from_messages(seeds: Sequence[int]) -> Iterator[Right]:
    """Models of TensorFlow that parse messages.

    They are saved in another process: this one must not import TensorFlow, so that verification runs it in a process
    of its own, which wrong inputs may end.
    """
    for seed in seeds:
        with (
            tempfile.TemporaryDirectory() as folder,
            ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as another,
        ):
            path = Path(folder) / "model"
            try:
                another.submit(_save, seed, path).result()
            except (TypeError, ValueError):  # TensorFlow has no such specification
                continue
            loaded = tensorflow.load(path)
            yield Right(f"messages {seed}", tensorflow.convert(path), lambda m, s=loaded: tensorflow.verify(s, m))


def _save(seed: int, path: Path) -> None:
    Specification(seed).save(path)


def from_tensorflow(chosen: Callable[[str], bool]) -> Iterator[Right]:
    """Models of the zoo of TensorFlow whose packages are installed; those of Keras 2 if TF_USE_LEGACY_KERAS is 1."""
    legacy = os.environ.get("TF_USE_LEGACY_KERAS")
    for name, entry in entries().items():
        if (
            VARIABLES.get(entry.environment, {}).get("TF_USE_LEGACY_KERAS") != legacy
            or not chosen(name)
            or name in _DEADLY
        ):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                built, _ = build_tensorflow(entry, folder)
            except ImportError:
                continue
            loaded = tensorflow.load(folder)
            batches = [
                {key: as_text(value) for key, value in feeds(built.inputs, kind, name, built.least).items()}
                for kind in KINDS
            ]
            yield Right(
                f"tensorflow {name}",
                tensorflow.convert(folder),
                lambda m, s=loaded: tensorflow.verify(s, m),
                batches,
                _answers(TensorFlowReference(loaded, loaded.run, ModelProto())),
            )


def _answers(reference: TensorFlowReference) -> Callable[[Mapping[str, Any]], list[Any]]:
    return lambda feeds: [as_text(value) for value in reference.run(feeds)]


def from_openvino(chosen: Callable[[str], bool]) -> Iterator[Right]:
    """IRs that OpenVINO makes of modules of torch."""
    from openvino import save_model

    for name, entry in irs().items():
        if entry.environment != "torch" or not name.startswith("torch/") or not chosen(name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            path, built = Path(folder) / "model.xml", entry.build()
            save_model(built.model, path, **built.save)
            model = openvino.convert(path)
            names = [value.name for value in model.graph.input]
            batches = [dict(zip(names, built.batch(kind), strict=True)) for kind in BATCHES]
            yield Right(f"openvino {name}", model, lambda m, p=path: openvino.verify(p, m), batches)


def from_torch(chosen: Callable[[str], bool]) -> Iterator[Right]:
    """The same modules, exported by torch with an open number of rows."""
    from torch import export, from_numpy, manual_seed

    for name, (make, inputs) in MODULES.items():
        if not chosen(f"torch/{name}"):
            continue
        manual_seed(1)
        module = make().eval()
        drawn = [inputs(np.random.default_rng(rows), rows) for rows in BATCHES.values()]
        example = tuple(from_numpy(value) for value in inputs(np.random.default_rng(0), 3).values())
        open_rows = tuple({0: export.Dim.AUTO} for _ in example)
        taken = signature(module.forward).parameters.values()
        if any(parameter.kind is Parameter.VAR_POSITIONAL for parameter in taken):
            open_rows = (open_rows,)
        try:
            program = export.export(module, example, dynamic_shapes=open_rows, strict=False)
            model = torch.convert(program)
        except (ConversionError, RuntimeError):  # torch does not export it with open rows, or we refuse it
            continue
        names = [value.name for value in model.graph.input]
        batches = [dict(zip(names, batch.values(), strict=True)) for batch in drawn]
        yield Right(f"torch {name}", model, lambda m, p=program: torch.verify(p, m), batches)
