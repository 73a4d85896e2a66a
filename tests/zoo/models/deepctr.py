"""The click-through models of deepctr, on features of every kind that it has."""

from __future__ import annotations

from inspect import signature
from typing import Any

from zoo.inputs import Dense, floats, ids, words
from zoo.registry import Built, model, with_dict

#: What is hashed.
_TEXTS = words("a", "b", "", "red", "0", "é")
_DNN: dict[str, Any] = {"dnn_hidden_units": (8, 4)}

#: The arguments of each model; "features" says which columns it takes.
_MODELS: dict[str, dict[str, Any]] = {
    "AFM": {"features": "categories"},
    "AutoInt": {"features": "two", **_DNN, "att_embedding_size": 4},
    "CCPM": {"features": "categories", **_DNN},
    "DCN": {"features": "two", **_DNN},
    "DCNMix": {"features": "two", **_DNN, "low_rank": 2},
    "DIFM": {"features": "two", **_DNN, "att_head_num": 2, "att_embedding_size": 4},
    "DeepFEFM": {"features": "two", **_DNN},
    "DeepFM": {"features": "two", **_DNN},
    "EDCN": {"features": "categories"},
    "FGCNN": {"features": "two", **_DNN, "conv_kernel_width": (3, 2), "conv_filters": (4, 3), "new_maps": (2, 2)},
    "FNN": {"features": "two", **_DNN},
    "FiBiNET": {"features": "two", **_DNN},
    "FwFM": {"features": "two", **_DNN},
    "IFM": {"features": "two", **_DNN},
    "MLR": {"features": "one"},
    "MMOE": {"features": "one", "expert_dnn_hidden_units": (8,), "tower_dnn_hidden_units": (4,)},
    "NFM": {"features": "two", **_DNN},
    "ONN": {"features": "two", **_DNN},
    "PLE": {"features": "one", "expert_dnn_hidden_units": (8,), "tower_dnn_hidden_units": (4,)},
    "PNN": {"features": "one", **_DNN},
    "SharedBottom": {"features": "one", "bottom_dnn_hidden_units": (8,), "tower_dnn_hidden_units": (4,)},
    "WDL": {"features": "two", **_DNN},
    "xDeepFM": {"features": "two", **_DNN, "cin_layer_size": (4, 4)},
    "ESMM": {"features": "one", "tower_dnn_hidden_units": (4,)},
    "FLEN": {"features": "two", **_DNN},
}
_MODELS["FGCNN"]["pooling_width"] = (2, 2)
_TASKS = {"MMOE": ("a", "b"), "PLE": ("a", "b"), "SharedBottom": ("a", "b")}


def _build(name: str, *, is_hashed: bool = False) -> Built:
    """A model; or in another configuration, of hashed texts, with batch normalization and another activation."""
    from deepctr import models
    from deepctr.feature_column import DenseFeat, SparseFeat, VarLenSparseFeat, get_feature_names

    arguments = dict(_MODELS[name])
    which = arguments.pop("features")
    if name in _TASKS:
        arguments |= {"task_types": ("binary", "binary"), "task_names": _TASKS[name]}
    if is_hashed:
        others = {"dnn_use_bn": True, "dnn_activation": "dice", "seed": 7}
        taken = signature(getattr(models, name)).parameters
        arguments |= {key: value for key, value in others.items() if key in taken}
    kind = {"use_hash": True, "dtype": "string"} if is_hashed else {}
    groups = ("user", "item", "context", "user") if name == "FLEN" else ("default_group",) * 4
    categories = [SparseFeat(f"c{k}", 10, 4, **kind, group_name=group) for k, group in enumerate(groups)]
    # What the models look up themselves: a padded sequence with its length, and one with weights.
    genre = VarLenSparseFeat(SparseFeat("genre", 8, 4), 5, "max" if is_hashed else "mean", length_name="genres")
    weighted = VarLenSparseFeat(SparseFeat("tag", 8, 4), 4, "mean" if is_hashed else "sum", weight_name="tag_weight")
    # Some models take categories alone.
    columns = categories if which == "categories" else [*categories, genre, weighted, DenseFeat("price", 2)]
    made = getattr(models, name)(*([columns] if which == "one" else [columns, columns]), **arguments)
    every = [
        *(Dense(f"c{k}", _TEXTS if is_hashed else ids(10, "int32"), ("rows", 1)) for k in range(4)),
        Dense("genre", ids(8, "int32"), ("rows", 5)),
        Dense("genres", ids(6, "int32"), ("rows", 1)),
        Dense("tag", ids(8, "int32"), ("rows", 4)),
        Dense("tag_weight", floats(), ("rows", 4, 1)),
        Dense("price", floats(), ("rows", 2)),
    ]
    names = get_feature_names(columns)
    return with_dict(made, [given for given in every if given.name in names])


for _name in _MODELS:
    model(f"deepctr/{_name}", "keras2")(lambda name=_name: _build(name))  # type: ignore[misc]
    model(f"deepctr/{_name} of hashed texts", "keras2")(
        lambda name=_name: _build(name, is_hashed=True)  # type: ignore[misc]
    )


def _history(name: str, **arguments: Any) -> Built:
    from deepctr import models
    from deepctr.feature_column import DenseFeat, SparseFeat, VarLenSparseFeat

    item = SparseFeat("item", 12, 4, embedding_name="item")
    # BST takes the lengths from the feature of this name.
    seen = VarLenSparseFeat(SparseFeat("hist_item", 12, 4, embedding_name="item"), 5, length_name="seq_length")
    made = getattr(models, name)([SparseFeat("user", 10, 4), item, seen, DenseFeat("price", 1)], ["item"], **arguments)
    inputs = [
        Dense("user", ids(10, "int32"), ("rows", 1)),
        Dense("item", ids(12, "int32"), ("rows", 1)),
        Dense("hist_item", ids(12, "int32"), ("rows", 5)),
        Dense("seq_length", ids(6, "int32"), ("rows", 1)),
        Dense("price", floats(), ("rows", 1)),
    ]
    return with_dict(made, inputs)


@model("deepctr/DIN", "keras2")
def din() -> Built:
    return _history("DIN", dnn_hidden_units=(8,), att_hidden_size=(8, 4))


@model("deepctr/BST", "keras2")
def bst() -> Built:
    return _history("BST", dnn_hidden_units=(8,), att_head_num=2)
