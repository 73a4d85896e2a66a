"""Collections of torchrec, whose features are made of ids and lengths."""

from __future__ import annotations

from typing import Any

from zoo.inputs import Dense, floats, ids
from zoo.torch_sources import KeyedBags, calling, module

ENVIRONMENT = "torch-packages"

_KEYS = ("items", "places")
_FEATURES = KeyedBags("features", ids(20), len(_KEYS))
_DENSE = Dense("dense", floats(), ("rows", 4))


def _features(values: Any, lengths: Any) -> Any:
    from torchrec import KeyedJaggedTensor

    return KeyedJaggedTensor(keys=list(_KEYS), values=values, lengths=lengths)


def _bags(pooling: str, shared: bool = False) -> Any:
    import torchrec

    kind = getattr(torchrec.PoolingType, pooling)
    tables = [
        torchrec.EmbeddingBagConfig(
            name=f"of {key}", num_embeddings=20, embedding_dim=8, feature_names=[key], pooling=kind
        )
        for key in _KEYS
    ]
    if shared:
        tables = [
            torchrec.EmbeddingBagConfig(
                name="table", num_embeddings=20, embedding_dim=8, feature_names=list(_KEYS), pooling=kind
            )
        ]
    return torchrec.EmbeddingBagCollection(tables=tables)


for _pooling in ("SUM", "MEAN"):
    for _shared in (False, True):
        module(
            f"torchrec/EmbeddingBagCollection {_pooling.lower()}{', shared' * _shared}",
            lambda p=_pooling, s=_shared: calling(_bags(p, s), lambda part, v, n: part(_features(v, n)).values()),
            _FEATURES,
            environment=ENVIRONMENT,
        )


def _sequences() -> Any:
    import torchrec

    configurations = [
        torchrec.EmbeddingConfig(name=f"of {key}", num_embeddings=20, embedding_dim=8, feature_names=[key])
        for key in _KEYS
    ]
    collection = torchrec.EmbeddingCollection(tables=configurations)

    def call(part: Any, values: Any, lengths: Any) -> Any:
        made = part(_features(values, lengths))
        return [made[key].values() for key in _KEYS]

    return calling(collection, call)


module("torchrec/EmbeddingCollection", _sequences, _FEATURES, environment=ENVIRONMENT)


def _collisions() -> Any:
    import torch
    from torchrec import JaggedTensor
    from torchrec.modules.mc_modules import LFU_EvictionPolicy, MCHManagedCollisionModule

    remap = MCHManagedCollisionModule(
        zch_size=16,
        device=torch.device("cpu"),
        eviction_policy=LFU_EvictionPolicy(),
        eviction_interval=1,
        input_hash_size=2**62,
    )

    def call(part: Any, values: Any) -> Any:
        features = {"items": JaggedTensor(values=values, lengths=torch.full((1,), values.shape[0]))}
        return part(features)["items"].values()

    made = calling(remap, call).train()
    for _ in range(3):  # it learns which ids there are
        made(torch.arange(0, 20, 2))
    return made.eval()


module("torchrec/MCHManagedCollisionModule", _collisions, Dense("ids", ids(20), ("rows",)), environment=ENVIRONMENT)


def _dlrm(kind: str) -> Any:
    from torchrec.models import dlrm

    options: dict[str, Any] = {
        "embedding_bag_collection": _bags("SUM"),
        "dense_in_features": 4,
        "dense_arch_layer_sizes": [16, 8],
        "over_arch_layer_sizes": [16, 1],
    }
    if kind == "DLRM_DCN":
        options |= {"dcn_num_layers": 2, "dcn_low_rank_dim": 4}
    if kind == "DLRM_Projection":
        options |= {"interaction_branch1_layer_sizes": [16, 16], "interaction_branch2_layer_sizes": [16, 16]}
    made = getattr(dlrm, kind)(**options)
    return calling(made, lambda part, dense, values, lengths: part(dense, _features(values, lengths)))


for _kind in ("DLRM", "DLRM_DCN", "DLRM_Projection"):
    module(f"torchrec/{_kind}", lambda k=_kind: _dlrm(k), _DENSE, _FEATURES, environment=ENVIRONMENT)


def _deepfm() -> Any:
    from torchrec.models.deepfm import SimpleDeepFMNN

    made = SimpleDeepFMNN(
        num_dense_features=4, embedding_bag_collection=_bags("SUM"), hidden_layer_size=16, deep_fm_dimension=5
    )
    return calling(made, lambda part, dense, values, lengths: part(dense, _features(values, lengths)))


module("torchrec/SimpleDeepFMNN", _deepfm, _DENSE, _FEATURES, environment=ENVIRONMENT)
