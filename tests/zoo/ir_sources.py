"""Models of torch and Keras as OpenVINO reads them, with inputs that fit them."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Mapping, Sequence
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
        exact: Computes the outputs of a batch in float64, if the model's source can.
    """

    model: Any
    inputs: Inputs
    save: Mapping[str, Any] = field(default_factory=lambda: {"compress_to_fp16": False})
    exact: Callable[[Sequence[Array]], list[Array]] | None = None

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
    _vary_weights(module)
    example = tuple(map(torch.from_numpy, inputs(np.random.default_rng(0), 2).values()))
    with torch.no_grad():
        made = openvino.convert_model(module, example_input=example, **options)
    return BuiltIr(made, inputs, exact=lambda batch: _in_float64(module, batch))


def _in_float64(module: Any, batch: Sequence[Array]) -> list[Array]:
    """The tensors that a module of torch returns, computed in float64."""
    import torch

    given = [torch.from_numpy(x.astype(np.float64) if x.dtype == np.float32 else x) for x in batch]
    with torch.no_grad():
        returned = copy.deepcopy(module).double()(*given)
    parts = list(returned.values()) if hasattr(returned, "keys") else [returned]
    tensors: list[Array] = []
    while parts:
        part = parts.pop(0)
        if isinstance(part, (tuple, list)):
            parts[:0] = part
        elif isinstance(part, torch.Tensor):
            tensors.append(part.numpy())
    return tensors


def _vary_weights(module: Any) -> None:
    """A new BatchNorm does nothing: give it the statistics of one that was trained. Matrices of zeros become random."""
    import torch

    for weight in module.parameters():
        if weight.dim() > 1 and not weight.any():
            weight.data.normal_(0, 0.02)
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
