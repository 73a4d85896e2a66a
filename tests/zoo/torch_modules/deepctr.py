"""Models of deepctr-torch: ids, dense features and a history, in one matrix of floats as they take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zoo.inputs import Dense, floats, ids
from zoo.torch_sources import calling, module

ENVIRONMENT = "torch-packages"

_IDS = Dense("ids", ids(11), ("rows", 3))
_NUMBERS = Dense("numbers", floats(), ("rows", 2))
_HISTORY = Dense("history", ids(11), ("rows", 6))
_LENGTHS = Dense("lengths", ids(7), ("rows", 1))
_FULL_LENGTHS = Dense("lengths", ids(7, low=1), ("rows", 1))

Build = Callable[[Any, list[Any]], Any]

#: Models of sparse and dense features, with a pooled history.
_MODELS: dict[str, Build] = {
    "AFM": lambda models, columns: models.AFM(columns, columns[:3]),
    "AFN": lambda models, columns: models.AFN(columns[:3], columns[:3], ltl_hidden_size=8),
    "AutoInt": lambda models, columns: models.AutoInt(columns[:3], columns[:3]),
    "CCPM": lambda models, columns: models.CCPM(columns, columns[:3], conv_kernel_width=(3, 2), conv_filters=(2, 2)),
    "DCN": lambda models, columns: models.DCN(columns, columns),
    "DCN matrix": lambda models, columns: models.DCN(columns, columns, cross_parameterization="matrix"),
    "DCNMix": lambda models, columns: models.DCNMix(columns, columns, low_rank=4),
    "DIFM": lambda models, columns: models.DIFM(columns, columns),
    "DeepFM": lambda models, columns: models.DeepFM(columns, columns, dnn_use_bn=True),
    "ESMM": lambda models, columns: models.ESMM(columns),
    "FiBiNET": lambda models, columns: models.FiBiNET(columns[:3], columns[:3]),
    "IFM": lambda models, columns: models.IFM(columns, columns),
    "MLR": lambda models, columns: models.MLR(columns),
    "MMOE": lambda models, columns: models.MMOE(columns),
    "NFM": lambda models, columns: models.NFM(columns, columns),
    "ONN": lambda models, columns: models.ONN(columns[:3], columns[:3]),
    "PLE": lambda models, columns: models.PLE(columns),
    "PNN": lambda models, columns: models.PNN(columns, use_outter=True),
    "SharedBottom": lambda models, columns: models.SharedBottom(columns),
    "WDL": lambda models, columns: models.WDL(columns, columns),
    "xDeepFM": lambda models, columns: models.xDeepFM(columns[:3], columns[:3], cin_layer_size=(8, 8)),
}

#: Those that take no history, whose dense features are left out.
_OF_IDS = ("AFN", "AutoInt", "FiBiNET", "ONN", "xDeepFM")


def _columns(history: str, combiner: str = "mean") -> list[Any]:
    from deepctr_torch.inputs import DenseFeat, SparseFeat, VarLenSparseFeat

    columns = [SparseFeat(name, 11, embedding_dim=4) for name in ("item", "user", "place")]
    shared = SparseFeat(history, 11, embedding_dim=4, embedding_name="item")
    return [
        *columns,
        DenseFeat("age", 1),
        DenseFeat("price", 1),
        VarLenSparseFeat(shared, maxlen=6, combiner=combiner, length_name="length"),
    ]


def _matrix(of: Any, *features: Any) -> Any:
    import torch

    dtype = next(of.parameters()).dtype
    return of(torch.cat([feature.to(dtype) for feature in features], 1))


def _pooled(build: Build) -> Any:
    import deepctr_torch.models as models

    return calling(build(models, _columns("history")), _matrix)


for _name, _build in _MODELS.items():
    module(
        f"deepctr/{_name}",
        lambda b=_build: _pooled(b),
        *((_IDS,) if _name in _OF_IDS else (_IDS, _NUMBERS, _HISTORY, _LENGTHS)),
        environment=ENVIRONMENT,
    )


def _attended(name: str, **options: Any) -> Any:
    import deepctr_torch.models as models

    made = getattr(models, name)(_columns("hist_item"), ["item"], **options)
    return calling(made, _matrix)


for _name, _options in {
    "DIN": ("DIN", {}),
    "DIN normalized": ("DIN", {"att_weight_normalization": True}),
    "DIEN": ("DIEN", {"gru_type": "GRU"}),
    "DIEN AUGRU": ("DIEN", {"gru_type": "AUGRU"}),
}.items():
    module(
        f"deepctr/{_name}",
        lambda o=_options: _attended(o[0], **o[1]),
        _IDS,
        _NUMBERS,
        _HISTORY,
        _FULL_LENGTHS,
        environment=ENVIRONMENT,
    )
