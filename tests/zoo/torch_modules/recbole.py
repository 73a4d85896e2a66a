"""Models of RecBole, made without its data sets: of features of an interaction, and of a sequence of items."""

from __future__ import annotations

from typing import Any

from zoo.inputs import Dense, floats, ids
from zoo.torch_sources import calling, module

ENVIRONMENT = "torch-packages"

_STEPS, _ITEMS = 6, 11
_TOKENS = Dense("tokens", ids(7), ("rows", 3))
_NUMBER = Dense("number", floats(), ("rows",))
_GENRES = Dense("genres", ids(5), ("rows", 4))
_SEQUENCE = Dense("sequence", ids(_ITEMS), ("rows", _STEPS))
_LENGTH = Dense("length", ids(_STEPS + 1, low=1), ("rows",))

#: RecBole's settings, small; those that are not here are None, as with RecBole.
_SETTINGS: dict[str, Any] = {
    "embedding_size": 8,
    "hidden_size": 8,
    "device": "cpu",
    "LABEL_FIELD": "label",
    "USER_ID_FIELD": "user",
    "ITEM_ID_FIELD": "item",
    "ITEM_LIST_LENGTH_FIELD": "length",
    "LIST_SUFFIX": "_list",
    "NEG_PREFIX": "neg_",
    "MAX_ITEM_LIST_LENGTH": _STEPS,
    "mlp_hidden_size": [8, 8],
    "dropout_prob": 0.0,
    "n_layers": 2,
    "n_heads": 2,
    "inner_size": 16,
    "hidden_dropout_prob": 0.0,
    "attn_dropout_prob": 0.0,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "initializer_range": 0.02,
    "loss_type": "CE",
    "numerical_features": [],
    "attention_size": 4,
    "weight_decay": 0.0,
    "reg_weight": 0.0,
    "cross_layer_num": 2,
    "num_layers": 1,
    "dropout_probs": [0.0, 0.0, 0.0],
    "num_heads": 2,
    "has_residual": True,
    "step": 1,
    "mixed": True,
    "structure": "parallel",
    "expert_num": 2,
    "low_rank": 4,
    "use_inner": True,
    "use_outer": True,
    "num_attention_layers": 2,
    "hidden_size_attention": 8,
    "attention_layers": 2,
    "n_layers_attention": 2,
    "order_list": [7],
    "order": 3,
    "apply_norm": False,
    "reg": 0.0,
    "connect": "innerproduct",
    "depth": 2,
    "alpha": 0.5,
    "beta": 0.0,
    "phase": "teacher",
    "warm_up": None,
    "kernel_size": 3,
    "dilations": [1, 2],
    "block_num": 2,
    "k_interests": 3,
    "n_h": 2,
    "n_v": 2,
    "mask_ratio": 0.2,
    "hidden_units": 8,
    "rnn_dropout_prob": 0.0,
    "sess_dropout": 0.0,
    "item_dropout": 0.0,
    "temperature": 1.0,
    "pooling_type": "mean",
    "prototype_size": 4,
    "interest_size": 2,
    "tau_ratio": 0.1,
    "dnn_type": "trm",
}


class _Configuration(dict[str, Any]):
    def __missing__(self, key: str) -> None:
        return None

    @property
    def final_config_dict(self) -> dict[str, Any]:
        return self


class _Data:
    """What the models ask of a data set."""

    def __init__(self) -> None:
        from recbole.utils import FeatureType

        self.field2type = dict.fromkeys(("user", "item", "place"), FeatureType.TOKEN)
        self.field2type |= {"price": FeatureType.FLOAT, "genres": FeatureType.TOKEN_SEQ}
        self.uid_field, self.iid_field = "user", "item"
        self.field2seqlen, self.user_num, self.item_num = {"item_list": _STEPS}, 7, _ITEMS

    def fields(self, **_: Any) -> list[str]:
        return list(self.field2type)

    def num(self, field: str) -> int:
        return {"user": 7, "item": 7, "place": 7, "genres": 5, "price": 1}[field]


class _Items(_Data):
    def num(self, field: str) -> int:
        return _ITEMS


def _of_features(name: str) -> Any:
    import recbole.model.context_aware_recommender as package
    import torch

    made = getattr(package, name)(_Configuration(_SETTINGS, numerical_features=["price"]), _Data())

    def call(model: Any, tokens: Any, number: Any, genres: Any) -> Any:
        fields = dict(zip(("user", "item", "place"), tokens.unbind(1), strict=True))
        price = torch.stack([number, torch.zeros_like(number)], 1)  # a number, and its place in a table
        return model.forward({**fields, "price": price, "genres": genres})

    return calling(made, call)


def _of_sequence(name: str) -> Any:
    import recbole.model.sequential_recommender as package

    made = getattr(package, name)(_Configuration(_SETTINGS), _Items())
    if name in ("CORE", "NextItNet"):  # know the length by the padding
        return calling(made, lambda model, sequence, length: model.forward(sequence))
    return calling(made, lambda model, sequence, length: model.forward(sequence, length))


for _name in ("AFM", "AutoInt", "DCN", "DCNV2", "DeepFM", "FFM", "FM", "FNN", "FiGNN", "FwFM", "LR", "NFM", "PNN"):
    module(f"recbole/{_name}", lambda n=_name: _of_features(n), _TOKENS, _NUMBER, _GENRES, environment=ENVIRONMENT)
module("recbole/WideDeep", lambda: _of_features("WideDeep"), _TOKENS, _NUMBER, _GENRES, environment=ENVIRONMENT)
for _name in ("CORE", "GRU4Rec", "LightSANs", "NARM", "NextItNet", "SASRec", "SINE", "STAMP"):
    module(f"recbole/{_name}", lambda n=_name: _of_sequence(n), _SEQUENCE, _LENGTH, environment=ENVIRONMENT)
