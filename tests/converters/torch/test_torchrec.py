"""Collections of tables of torchrec, whose features are a KeyedJaggedTensor, against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
pytest.importorskip("fbgemm_gpu")
torchrec = pytest.importorskip("torchrec")

import onnx_sparse  # noqa: E402
from onnx_sparse.converters.torch import export  # noqa: E402

MANY = torch.export.Dim.DYNAMIC
KEYS = ["items", "places", "words"]


def collection() -> Any:
    """Three tables, of which one serves two features, with different poolings."""
    torch.manual_seed(0)
    types = torchrec.PoolingType
    tables = [
        ("t0", 7, ["items", "words"], types.SUM),
        ("t1", 5, ["places"], types.MEAN),
    ]
    configs = [
        torchrec.EmbeddingBagConfig(
            name=name, num_embeddings=rows, embedding_dim=4, feature_names=features, pooling=kind
        )
        for name, rows, features, kind in tables
    ]
    return torchrec.EmbeddingBagCollection(tables=configs)


class Model(torch.nn.Module):
    """Makes the features of values and lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = collection()
        self.top = torch.nn.Linear(12, 2)

    def forward(self, values: Any, lengths: Any) -> Any:
        features = torchrec.KeyedJaggedTensor(keys=KEYS, values=values, lengths=lengths)
        return self.top(self.bags(features).values())


class OfFeatures(Model):
    """Takes the features."""

    def forward(self, features: Any) -> Any:
        return self.top(self.bags(features).values())


#: Lengths of the bags: by feature, then by row; also all empty, and of one row. torchrec itself takes no batch of none.
LENGTHS = [[2, 1, 0, 3, 1, 1], [0, 0, 0, 0, 0, 0], [1, 2, 0, 4, 1, 1, 0, 1, 2], [1, 0, 2]]


def batch(lengths: list[int]) -> tuple[Any, Any]:
    values = torch.randint(0, 5, (sum(lengths),), generator=torch.Generator().manual_seed(len(lengths)))
    return values, torch.tensor(lengths, dtype=torch.int64)


@pytest.mark.slow
def test_features_made_inside(agree) -> None:
    model = Model().eval()
    agree({"": lambda _, values, lengths: model(values, lengths)}, [batch(lengths) for lengths in LENGTHS])


@pytest.mark.slow
def test_features_as_the_input() -> None:
    model = OfFeatures().eval()

    def features(lengths: list[int]) -> Any:
        values, counts = batch(lengths)
        return torchrec.KeyedJaggedTensor(keys=KEYS, values=values, lengths=counts)

    exported = export(model, (features(LENGTHS[0]),), dynamic_shapes=([{0: MANY}, None, {0: MANY}, None, None, None],))
    session = onnx_sparse.InferenceSession(exported)
    for lengths in LENGTHS:
        given = dict(zip([value.name for value in session.get_inputs()], batch(lengths), strict=True))
        (got,) = session.run(None, {name: tensor.numpy() for name, tensor in given.items()})
        np.testing.assert_allclose(got, model(features(lengths)).detach().numpy(), rtol=1e-5, atol=1e-6)
