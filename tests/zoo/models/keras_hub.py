"""Small versions of the backbones of keras-hub and of keras.applications."""

from __future__ import annotations

from typing import Any

from zoo.inputs import Dense, floats, ids
from zoo.registry import Built, model, with_dict, with_list

_SMALL = {"vocabulary_size": 50, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
_DECODER = {"vocabulary_size": 50, "num_layers": 2, "num_query_heads": 2, "num_key_value_heads": 1, "hidden_dim": 8}
_DECODER["intermediate_dim"] = 16
_GEMMA = {**_DECODER, "head_dim": 4}

TOKENS = Dense("token_ids", ids(50, "int32"), ("rows", "steps"))
SEGMENTS = Dense("segment_ids", ids(2, "int32"), ("rows", "steps"))
MASK = Dense("padding_mask", ids(2, "int32", low=1), ("rows", "steps"))

_BACKBONES: dict[str, tuple[dict[str, Any], list[Dense]]] = {
    "Albert": ({**_SMALL, "embedding_dim": 6, "max_sequence_length": 16}, [TOKENS, SEGMENTS, MASK]),
    "Bert": ({**_SMALL, "max_sequence_length": 16}, [TOKENS, SEGMENTS, MASK]),
    "DebertaV3": ({**_SMALL, "max_sequence_length": 16, "bucket_size": 4}, [TOKENS, MASK]),
    "DistilBert": ({**_SMALL, "max_sequence_length": 16}, [TOKENS, MASK]),
    "Electra": (
        {**_SMALL, "vocab_size": 50, "embedding_dim": 6, "max_sequence_length": 16},
        [TOKENS, SEGMENTS, MASK],
    ),
    "FNet": (
        {k: v for k, v in _SMALL.items() if k != "num_heads"} | {"max_sequence_length": 16},
        [TOKENS, SEGMENTS],
    ),
    "GPT2": ({**_SMALL, "max_sequence_length": 16}, [TOKENS, MASK]),
    "Gemma": (_GEMMA, [TOKENS, MASK]),
    "Llama": (_DECODER, [TOKENS, MASK]),
    "Mistral": ({**_DECODER, "sliding_window": 4}, [TOKENS, MASK]),
    "OPT": ({**_SMALL, "max_sequence_length": 16}, [TOKENS, MASK]),
    "Qwen": (_DECODER, [TOKENS, MASK]),
    "Roberta": ({**_SMALL, "max_sequence_length": 16}, [TOKENS, MASK]),
}
_BACKBONES["Electra"][0].pop("vocabulary_size")


def _build(name: str) -> Built:
    import keras_hub

    arguments, inputs = _BACKBONES[name]
    return with_dict(getattr(keras_hub.models, f"{name}Backbone")(**arguments), inputs, steps=1)


for _name in _BACKBONES:
    model(f"keras-hub/{_name}Backbone", "keras3")(lambda name=_name: _build(name))  # type: ignore[misc]


def _application(name: str, arguments: dict[str, Any]) -> Built:
    import keras

    made = getattr(keras.applications, name)(weights=None, input_shape=(32, 32, 3), classes=5, **arguments)
    return with_list(made, [Dense("image", floats(), ("rows", 32, 32, 3))], rows=1)


for _name, _arguments in {"MobileNetV2": {"alpha": 0.35}, "EfficientNetB0": {}, "ResNet50": {}}.items():
    model(f"keras/{_name}", "keras3")(
        lambda name=_name, arguments=_arguments: _application(name, arguments)  # type: ignore[misc]
    )
