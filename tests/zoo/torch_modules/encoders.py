"""Encoders of transformers and timm, whose vectors join bags of ids."""

from __future__ import annotations

from typing import Any

from zoo.inputs import Dense, floats, ids
from zoo.torch_sources import Bags, calling, module
from zoo.torchvision_operators import import_torchvision

ENVIRONMENT = "torch"

_WORDS = Dense("words", ids(90, low=5), ("rows", 7))
_MASK = Dense("mask", ids(2), ("rows", 7))
_TAGS = Bags("tags", ids(40))
_PICTURE = Dense("picture", floats(), ("rows", 3, 32, 32))

_SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
_TEXT: dict[str, dict[str, Any]] = {
    "Bert": _SMALL,
    "DistilBert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32},
    "Electra": {**_SMALL, "embedding_size": 16},
    "MPNet": _SMALL,
    "Roberta": _SMALL,
}


def _bags(width: int = 16) -> Any:
    import torch

    return torch.nn.EmbeddingBag(40, width, mode="mean")


def _of_text(name: str) -> Any:
    import torch

    import_torchvision()
    import transformers

    options = {"vocab_size": 90, "max_position_embeddings": 40, **_TEXT[name]}
    encoder = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**options))

    def call(parts: Any, words: Any, mask: Any, values: Any, offsets: Any) -> Any:
        states = parts["encoder"](input_ids=words, attention_mask=mask).last_hidden_state
        kept = mask.unsqueeze(2).to(states.dtype)
        pooled = (states * kept).sum(1) / kept.sum(1).clamp(min=1)
        return torch.cat([pooled, parts["tags"](values, offsets)], 1)

    return calling({"encoder": encoder, "tags": _bags()}, call)


for _name in _TEXT:
    module(f"transformers/{_name} and bags", lambda n=_name: _of_text(n), _WORDS, _MASK, _TAGS, environment=ENVIRONMENT)


def _of_pictures(name: str, **options: Any) -> Any:
    import torch

    import_torchvision()
    import timm

    encoder = timm.create_model(name, pretrained=False, num_classes=0, **options)

    def call(parts: Any, picture: Any, values: Any, offsets: Any) -> Any:
        return torch.cat([parts["encoder"](picture), parts["tags"](values, offsets)], 1)

    return calling({"encoder": encoder, "tags": _bags()}, call)


_PICTURES: dict[str, dict[str, Any]] = {
    "vit_tiny_patch16_224": {"img_size": 32, "depth": 2},
    "resnet10t": {},
    "mobilenetv3_small_050": {},
}
for _name, _options in _PICTURES.items():
    module(
        f"timm/{_name} and bags",
        lambda n=_name, o=_options: _of_pictures(n, **o),
        _PICTURE,
        _TAGS,
        environment=ENVIRONMENT,
    )
