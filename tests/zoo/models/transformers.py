"""Small TensorFlow models of Hugging Face's transformers."""

from __future__ import annotations

from typing import Any

from zoo.inputs import Dense, ids
from zoo.registry import Built, model

_SMALL = {"vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
_SMALL["max_position_embeddings"] = 16

_MODELS: dict[str, dict[str, Any]] = {
    "Bert": _SMALL,
    "DistilBert": {"vocab_size": 50, "dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 16},
    "Electra": {**_SMALL, "embedding_size": 6},
    "GPT2": {"vocab_size": 50, "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 16},
    "Roberta": _SMALL,
}


def _build(name: str) -> Built:
    import transformers

    config = getattr(transformers, f"{name}Config")(**_MODELS[name])
    made = getattr(transformers, f"TF{name}Model")(config)
    inputs = [
        Dense("input_ids", ids(50, "int32", low=2), ("rows", "steps")),
        Dense("attention_mask", ids(2, "int32", low=1), ("rows", "steps")),
    ]
    return Built(lambda **features: made(features).last_hidden_state, inputs, made, {"steps": 1})


for _name in _MODELS:
    model(f"transformers/{_name}", "transformers")(lambda name=_name: _build(name))  # type: ignore[misc]
