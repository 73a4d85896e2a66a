"""Models with weights of fewer bits: float16, and what NNCF makes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from zoo.ir_sources import BuiltIr, floats, from_torch, ids
from zoo.registry import IRS, model


def _bert() -> BuiltIr:
    import transformers

    config = transformers.BertConfig(
        vocab_size=60, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
        max_position_embeddings=32, attn_implementation="eager",
    )  # fmt: skip
    made = transformers.BertModel(config, add_pooling_layer=False)
    return from_torch(made, ids(60, "input_ids", "attention_mask"))


def _network() -> BuiltIr:
    import torch

    layers = (torch.nn.Conv2d(3, 16, 3, 2), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 3),
              torch.nn.ReLU6(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10))  # fmt: skip
    return from_torch(torch.nn.Sequential(*layers), floats(3, 32, 32), input=[[-1, 3, 32, 32]])


def _in_float16(build: Callable[[], BuiltIr]) -> BuiltIr:
    return BuiltIr(**{**vars(build()), "save": {"compress_to_fp16": True}, "exact": None})


def _with_weights(build: Callable[[], BuiltIr], mode: str, **options: Any) -> BuiltIr:
    import nncf

    built = build()
    chosen = nncf.CompressWeightsMode[mode]
    return BuiltIr(nncf.compress_weights(built.model, mode=chosen, **options), built.inputs, built.save)


def _quantized(build: Callable[[], BuiltIr]) -> BuiltIr:
    import nncf

    built = build()
    batches = [list(built.inputs(np.random.default_rng(k), 2).values()) for k in range(4)]
    return BuiltIr(nncf.quantize(built.model, nncf.Dataset(batches)), built.inputs, built.save)


for _name, _build in {"Bert": _bert, "convolutions": _network}.items():
    model(f"float16/{_name}", "torch", among=IRS)(partial(_in_float16, _build))
    for _mode in ("INT8_ASYM", "INT8_SYM"):
        model(f"nncf/{_name} {_mode}", "torch", among=IRS)(partial(_with_weights, _build, _mode))
    model(f"nncf/{_name} quantized", "torch", among=IRS)(partial(_quantized, _build))
for _mode in ("INT4_ASYM", "INT4_SYM", "NF4"):
    model(f"nncf/Bert {_mode}", "torch", among=IRS)(partial(_with_weights, _bert, _mode, ratio=1.0, group_size=32))
