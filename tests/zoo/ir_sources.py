"""Models of torch and Keras as OpenVINO reads them, with inputs that fit them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Generator = np.random.Generator
#: Makes the inputs of a batch with so many rows, by name and in the order in which a model takes them.
Inputs = Callable[[Generator, int], Mapping[str, Array]]

#: The rows of the batches on which each model is compared.
BATCHES = {"two rows": 2, "one row": 1, "five rows": 5}


@dataclass(frozen=True)
class BuiltIr:
    """A model that OpenVINO has read.

    Attributes:
        model: OpenVINO's model.
        inputs: Makes the inputs of a batch, in the order of the model's.
        save: Options of `openvino.save_model`.
    """

    model: Any
    inputs: Inputs
    save: Mapping[str, Any] = field(default_factory=lambda: {"compress_to_fp16": False})

    def batch(self, kind: str) -> list[Array]:
        """The inputs of a kind of batch."""
        return list(self.inputs(np.random.default_rng(BATCHES[kind]), BATCHES[kind]).values())


def floats(*shape: int, name: str = "x") -> Inputs:
    """One input of floats with rows of this shape."""
    return lambda rng, rows: {name: rng.standard_normal((rows, *shape)).astype(np.float32)}


def from_torch(module: Any, inputs: Inputs, **options: Any) -> BuiltIr:
    """A module of torch, traced. Its sizes stay open, as OpenVINO leaves them, unless the options say otherwise."""
    import openvino
    import torch

    module.eval()
    _vary_normalizations(module)
    example = tuple(map(torch.from_numpy, inputs(np.random.default_rng(0), 2).values()))
    with torch.no_grad():
        return BuiltIr(openvino.convert_model(module, example_input=example, **options), inputs)


def _vary_normalizations(module: Any) -> None:
    """A new BatchNorm does nothing: give it the statistics of one that was trained."""
    import torch

    for part in module.modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and part.running_mean is not None:
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.8, 1.2)
            if part.bias is not None:
                part.bias.data.normal_(0, 0.1)


def from_keras(model: Any, inputs: Inputs) -> BuiltIr:
    """A model of Keras, saved as a SavedModel."""
    import openvino

    for layer in model.layers:
        if type(layer).__name__ == "BatchNormalization":
            layer.moving_mean.assign(np.random.normal(0, 0.1, layer.moving_mean.shape))
            layer.beta.assign(np.random.normal(0, 0.1, layer.beta.shape))
    with tempfile.TemporaryDirectory() as folder:
        model.export(folder, verbose=False)
        return BuiltIr(openvino.convert_model(folder), inputs)


def ids(high: int, *names: str, steps: int = 7) -> Inputs:
    """Inputs of ids below a number, [rows, steps], and with them a mask of the same shape."""

    def make(rng: Generator, rows: int) -> dict[str, Array]:
        made = {name: rng.integers(1, high, (rows, steps)) for name in names}
        if "attention_mask" in made:
            made["attention_mask"] = np.ones((rows, steps), np.int64)
            made["attention_mask"][0, steps - 2 :] = 0
        return made

    return make


def together(*parts: Inputs) -> Inputs:
    """The inputs of all the parts."""

    def make(rng: Generator, rows: int) -> dict[str, Array]:
        return {name: value for part in parts for name, value in part(rng, rows).items()}

    return make
