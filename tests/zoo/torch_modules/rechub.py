"""Models of torch-rechub."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zoo.inputs import Dense, floats, ids
from zoo.torch_sources import calling, module

ENVIRONMENT = "torch-packages"

_USER = Dense("user", ids(13), ("rows",))
_ITEM = Dense("item", ids(11), ("rows",))
_AGE = Dense("age", floats(), ("rows",))
_HISTORY = Dense("history", ids(11), ("rows", 5))
_WORN = Dense("worn", ids(11, low=1), ("rows", 5))
_OTHERS = Dense("others", ids(11), ("rows", 3))
_NAMES = ("user", "item", "age", "history")


class _Features:
    """The features of the models, by what they are for."""

    def __init__(self) -> None:
        from torch_rechub.basic.features import DenseFeature, SequenceFeature, SparseFeature

        self.user = SparseFeature("user", vocab_size=13, embed_dim=8)
        self.item = SparseFeature("item", vocab_size=11, embed_dim=8)
        self.age = DenseFeature("age")

        def history(pooling: str, name: str = "history") -> Any:
            return SequenceFeature(name, 11, 8, pooling=pooling, shared_with="item", padding_idx=0)

        self.mean, self.sum, self.steps = history("mean"), history("sum"), history("concat")
        self.others = history("concat", "others")
        self.all = [self.user, self.item, self.age, self.mean]
        self.sparse = [self.user, self.item, self.mean]


_PERCEPTRON = {"dims": [8], "dropout": 0.0, "activation": "relu"}
_TOWER = {"dims": [8], "dropout": 0.0}
_PLAIN = {"dims": [8]}
Build = Callable[[Any, _Features], Any]

_RANKING: dict[str, Build] = {
    "AFM": lambda m, f: m.AFM(f.sparse, 8),
    "AutoInt": lambda m, f: m.AutoInt(f.sparse, [f.age], mlp_params=_PERCEPTRON),
    "DCN": lambda m, f: m.DCN(f.all, 2, _PERCEPTRON),
    "DCNv2": lambda m, f: m.DCNv2(f.all, 2, _PERCEPTRON, low_rank=4),
    "DCNv2 stacked": lambda m, f: m.DCNv2(f.all, 2, _PERCEPTRON, "stacked", use_low_rank_mixture=False),
    "DeepFM": lambda m, f: m.DeepFM(f.all, f.sparse, _PERCEPTRON),
    "EDCN": lambda m, f: m.EDCN(f.all, 2, _PERCEPTRON),
    "FiBiNet": lambda m, f: m.FiBiNet(f.sparse[:2], _PERCEPTRON, bilinear_type="field_all"),
    "WideDeep": lambda m, f: m.WideDeep([f.age], f.sparse, _PERCEPTRON),
    "DIN": lambda m, f: m.DIN([f.user], [f.steps], [f.item], _PLAIN, _PLAIN),
    "BST": lambda m, f: m.BST([f.user], [f.steps], [f.item], _PERCEPTRON, nhead=2, dropout=0.0),
}

_MULTI_TASK: dict[str, Build] = {
    "AITM": lambda m, f: m.AITM(f.all, 2, _PERCEPTRON, [_TOWER, _TOWER]),
    "ESMM": lambda m, f: m.ESMM([f.user, f.mean], [f.item], _PERCEPTRON, _PERCEPTRON),
    "MMOE": lambda m, f: m.MMOE(f.all, ["classification", "regression"], 3, _PERCEPTRON, [_TOWER, _TOWER]),
    "PLE": lambda m, f: m.PLE(f.all, ["classification"] * 2, 2, 2, 1, _PERCEPTRON, [_TOWER, _TOWER]),
    "SharedBottom": lambda m, f: m.SharedBottom(f.all, ["classification"] * 2, _PERCEPTRON, [_TOWER, _TOWER]),
}

_MATCHING: dict[str, Build] = {
    "ComirecDR": lambda m, f: m.ComirecDR([f.user], [f.steps], [f.item], [f.others], 5),
    "ComirecSA": lambda m, f: m.ComirecSA([f.user], [f.steps], [f.item], [f.others]),
    "DSSM": lambda m, f: m.DSSM([f.user, f.mean], [f.item], _PERCEPTRON, _PERCEPTRON),
    "GRU4Rec": lambda m, f: m.GRU4Rec([f.user], [f.steps], [f.item], [f.others], _PLAIN),
    "MIND": lambda m, f: m.MIND([f.user], [f.steps], [f.item], [f.others], 5),
    "YoutubeDNN": lambda m, f: m.YoutubeDNN([f.user, f.sum], [f.item], [f.others], _PLAIN),
}


def _made(kind: str, build: Build) -> Any:
    import importlib

    package = importlib.import_module(f"torch_rechub.models.{kind}")

    def call(model: Any, *features: Any) -> Any:
        return model(dict(zip((*_NAMES, "others"), features, strict=False)))

    return calling(build(package, _Features()), call)


for _kind, _models in (("ranking", _RANKING), ("multi_task", _MULTI_TASK), ("matching", _MATCHING)):
    for _name, _build in _models.items():
        _inputs = (_USER, _ITEM, _AGE, _HISTORY, *([_OTHERS] if _kind == "matching" else []))
        _prefix = "rechub/" if _kind == "ranking" else f"rechub/{_kind.replace('_', ' ')} "
        module(f"{_prefix}{_name}", lambda k=_kind, b=_build: _made(k, b), *_inputs, environment=ENVIRONMENT)


def _session(name: str) -> Any:
    """Models of a session of items, which score all items."""
    import torch_rechub.models.matching as matching
    from torch_rechub.basic.features import SequenceFeature

    feature = SequenceFeature("history", 11, 8, pooling="concat", padding_idx=0)
    made = {
        "NARM": lambda: matching.NARM(feature, 8, 0.0, 0.0),
        "STAMP": lambda: matching.STAMP(feature, 0.05, 0.002),
    }[name]()
    return calling(made, lambda model, history: model({"history": history}))


for _name in ("NARM", "STAMP"):
    module(f"rechub/matching {_name}", lambda n=_name: _session(n), _WORN, environment=ENVIRONMENT)
