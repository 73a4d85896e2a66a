"""Keys that torchrec's managed collisions search in a sorted table are found by an index."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import onnx_sparse

torch = pytest.importorskip("torch")

from onnx_sparse.converters.torch import convert  # noqa: E402

LARGEST = 2**63 - 1


class Remap(torch.nn.Module):
    """As MCHManagedCollisionModule remaps ids: unused slots hold the largest integer, absent ids get the last row."""

    def __init__(self, ids, change=""):
        super().__init__()
        self.register_buffer("ids", ids)
        self.register_buffer("mapping", torch.from_numpy(np.random.default_rng(1).permutation(len(ids))))
        self.change = change

    def forward(self, values):
        remapped = torch.empty_like(values)
        searched = self.ids[:-1]
        if self.change == "another table":
            searched = torch.div(searched, 2, rounding_mode="floor")
        places = torch.searchsorted(searched, values, right=self.change == "on the right")
        matching = self.ids[places] == values
        remapped[matching] = self.mapping[places[matching]]
        remapped[~matching] = len(self.ids) - 1
        return (remapped, places) if self.change == "places as well" else remapped


def table(count, unused):
    drawn = np.random.default_rng(0).integers(-(2**63), LARGEST, count)
    ids = np.sort(np.unique(np.concatenate([[-(2**63), 0], drawn]))[:count])
    return torch.from_numpy(np.concatenate([ids, np.full(unused, LARGEST)]))


def converted(module, ids):
    asked = torch.cat([ids[:7], ids[-2:], torch.tensor([5, LARGEST, -1, 0])])
    exported = torch.export.export(module, (asked,), dynamic_shapes=({0: torch.export.Dim("n")},))
    model = convert(exported)
    session = onnx_sparse.InferenceSession(model)
    for given in (asked, asked[:1]):
        expected = module(given)
        expected = expected if isinstance(expected, tuple) else (expected,)
        found = session.run(None, {session.get_inputs()[0].name: given.numpy()})
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other.numpy())
    return Counter(node.op_type for node in model.graph.node)


@pytest.mark.parametrize(("count", "unused"), [(25, 15), (40, 0), (2, 1)])
def test_managed_collisions(count, unused):
    ids = table(count, unused)
    made = converted(Remap(ids), ids)
    assert (made["FindKeys"], made["TopK"]) == (1, 0)


@pytest.mark.parametrize("change", ["another table", "on the right", "places as well"])
def test_other_searches_stay(change):
    ids = table(12, 3)
    made = converted(Remap(ids, change), ids)
    assert (made["FindKeys"], made["TopK"]) == (0, 2)
