"""`onnx-sparse replay` of operations between ranks, from the dump of all devices."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from support.ascend_graphs import BFLOAT16, bin_bytes, layer, operation, write, write_tensors

F16 = np.float16


def added(parts):
    """The sum as a ring adds it up: one rank after the other, rounded each time."""
    total = parts[0]
    for part in parts[1:]:
        total = (total + part).astype(total.dtype)
    return total


def _columns(parts, rank):
    width = parts[0].shape[1] // len(parts)
    return np.concatenate([part[:, rank * width : (rank + 1) * width] for part in parts])


def _flat(parts, rank):
    size = parts[0].size // len(parts)
    return np.concatenate([part.reshape(-1)[rank * size : (rank + 1) * size] for part in parts]).reshape(parts[0].shape)


def _rows(whole, rank, size):
    step = len(whole) // size
    return whole[rank * step : (rank + 1) * step]


#: By operation: parameters, and the result of a rank, computed from the tensors of all.
EXCHANGES = {
    "AllReduce sum": ({"allReduceType": "sum"}, lambda parts, rank: added(parts)),
    "AllReduce max": ({"allReduceType": "max"}, lambda parts, rank: np.maximum.reduce(parts)),
    "AllReduce min": ({"allReduceType": "min"}, lambda parts, rank: np.minimum.reduce(parts)),
    "AllGather": ({}, lambda parts, rank: np.array(parts)),
    "ReduceScatter sum": ({"reduceType": "sum"}, lambda parts, rank: _rows(added(parts), rank, len(parts))),
    "Broadcast": ({"rankRoot": 1}, lambda parts, rank: parts[1]),
    "AllToAll": ({}, _flat),
    "AllToAll transpose": ({"transpose": True}, _columns),
}


def dump(root, kind, params, inputs, result, round_="0"):
    """Each rank's device has a layer of one operation."""
    for rank, tensors in enumerate(inputs):
        names = [f"x{i}" for i in range(len(tensors))]
        param = {"rank": rank, "rankSize": len(inputs), "rankRoot": 0, "backend": "lccl", **params(rank)}
        node = operation(f"{kind}Operation", names, ["y"], param, f"{kind}Operation_0_0")
        write(root, layer(names, ["y"], [node]), f"layer/7{rank}/Layer_0.json")
        folder = root / f"tensors/{rank}_7{rank}/{round_}/0_Layer/0_{kind}Operation"
        write_tensors(folder, tensors, [result(rank)])


def verdicts(cli, root):
    found = cli("replay", root, "--json").json["layers"]
    return {(run["device"], run["round"]): run["operations"][0]["verdict"] for run in found}


@pytest.mark.parametrize("name", EXCHANGES)
@pytest.mark.parametrize("dtype", [F16, BFLOAT16, np.float32, np.int32, np.int8], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("size", [2, 4])
def test_exchanges(cli, tmp_path, name, dtype, size):
    """All ranks agree; a result that is spoilt differs on its device only; a rank that is missing is named."""
    params, compute = EXCHANGES[name]
    random = np.random.default_rng([size, len(name)])
    shape = (2 * size, size)
    parts = [(random.standard_normal(shape) * 3).astype(dtype) for _ in range(size)]
    results = [compute(parts, rank) for rank in range(size)]
    dump(tmp_path, name.partition(" ")[0], lambda rank: params, [[p] for p in parts], lambda rank: results[rank])
    assert set(verdicts(cli, tmp_path).values()) <= {"equal", "ok"}

    spoilt = size - 1
    results[spoilt] = results[spoilt].copy()
    results[spoilt].reshape(-1)[-1] += np.asarray(9).astype(dtype)
    dump(tmp_path, name.partition(" ")[0], lambda rank: params, [[p] for p in parts], lambda rank: results[rank])
    found = verdicts(cli, tmp_path)
    assert [device for (device, _), verdict in found.items() if verdict == "DIFFERS"] == [f"{spoilt}_7{spoilt}"]

    shutil.rmtree(tmp_path / f"tensors/{spoilt}_7{spoilt}")
    result = cli("replay", tmp_path, "--json")
    reasons = {run["operations"][0]["reason"] for run in result.json["layers"]}
    expected = f"between {size} ranks, and the dump has no rank {spoilt} in this round"
    assert len(reasons) == 1
    assert expected in reasons.pop()


@pytest.mark.parametrize("name", EXCHANGES)
def test_mistakes_of_exchanges(cli, tmp_path, name):
    """Rank 1 has the part of another rank, misses one, or takes them in another order: it is named."""
    params, compute = EXCHANGES[name]
    random = np.random.default_rng(3)
    parts = [(random.standard_normal((6, 3)) * 3).astype(np.float32) for _ in range(3)]
    right = [compute(parts, rank) for rank in range(3)]
    wrong = {
        "the tensor of rank 0 alone": parts[0],
        "the result of rank 2": right[2],
        "the result with zeros from rank 2": compute([*parts[:2], 0 * parts[2]], 1),
        "the ranks in the other order": compute(parts[::-1], 1),
        "zeros: nothing was written": np.zeros_like(right[1]),
    }
    named = 0
    for words, result in wrong.items():
        if result.shape != right[1].shape or np.allclose(result, right[1], atol=1e-3):
            continue
        made = [right[0], result, right[2]]
        dump(tmp_path, name.partition(" ")[0], lambda rank: params, [[p] for p in parts], lambda rank, m=made: m[rank])
        found = cli("replay", tmp_path, "--json").json["layers"]
        assert [words in run["operations"][0]["resembles"] for run in found] == [False, True, False], words
        named += 1
    assert named >= 2


class TestUnequalParts:
    PARTS = (np.arange(6, dtype=F16), np.arange(10, 16, dtype=F16))

    def test_all_to_all_v(self, cli, tmp_path):
        """Rank 0 keeps 2 elements and sends 1; rank 1 sends 3 and keeps 2."""
        params = [
            {"sendCounts": [2, 1], "sdispls": [0, 4], "recvCounts": [2, 3], "rdispls": [0, 2]},
            {"sendCounts": [3, 2], "sdispls": [1, 4], "recvCounts": [1, 2], "rdispls": [2, 0]},
        ]
        results = [np.array([0, 1, 11, 12, 13], F16), np.array([14, 15, 4], F16)]
        dump(tmp_path, "AllToAllV", lambda r: params[r], [[p] for p in self.PARTS], lambda r: results[r])
        assert set(verdicts(cli, tmp_path).values()) == {"equal"}

    def test_all_gather_v(self, cli, tmp_path):
        """Counts and displacements are tensors of the host."""
        hosts = [np.array(n, np.int64) for n in ([6, 2], [0, 6])]
        inputs = [[p, np.array([n]), *hosts] for p, n in zip(self.PARTS, (6, 2), strict=True)]
        whole = np.concatenate([self.PARTS[0], self.PARTS[1][:2]])
        dump(tmp_path, "AllGatherV", lambda rank: {}, inputs, lambda rank: whole)
        assert set(verdicts(cli, tmp_path).values()) == {"equal"}

    def test_reduce_scatter_v(self, cli, tmp_path):
        hosts = [np.array(n, np.int64) for n in ([4, 2], [0, 4])]
        inputs = [[p, *hosts, np.array([n])] for p, n in zip(self.PARTS, (4, 2), strict=True)]
        total = self.PARTS[0] + self.PARTS[1]
        results = [total[:4], total[4:]]
        dump(tmp_path, "ReduceScatterV", lambda rank: {"reduceType": "sum"}, inputs, lambda r: results[r])
        assert set(verdicts(cli, tmp_path).values()) == {"equal"}


@pytest.mark.parametrize(("kind", "residual"), [(0, False), (0, True), (1, False), (2, False), (2, True), (3, False)])
def test_products_in_parallel(cli, tmp_path, kind, residual):
    random = np.random.default_rng(kind)
    x, w, r = ([random.standard_normal(s).astype(F16) for _ in range(2)] for s in ((4, 6), (8, 6), (4, 8)))
    exact = [a.astype(np.float64) @ b.astype(np.float64).T for a, b in zip(x, w, strict=True)]

    def result(rank):
        gathered = np.concatenate(x).astype(np.float64) @ w[rank].astype(np.float64).T
        y = {0: sum(exact), 1: _rows(sum(exact), rank, 2), 2: gathered, 3: exact[rank]}[kind]
        return (y + (rests[rank].astype(np.float64) if residual else 0)).astype(F16)

    rests = r if kind == 0 else [np.concatenate([one, one]) for one in r]
    inputs = [[x[i], w[i], *([rests[i]] if residual else [])] for i in range(2)]
    params = {"type": kind, "hasResidual": residual, "transWeight": True}
    dump(tmp_path, "LinearParallel", lambda rank: params, inputs, result)
    assert set(verdicts(cli, tmp_path).values()) <= {"equal", "ok"}
    file = tmp_path / "tensors/1_71/0/0_Layer/0_LinearParallelOperation/after/outtensor0.bin"
    file.write_bytes(bin_bytes(result(0) * F16(1.5)))
    assert verdicts(cli, tmp_path)["1_71", "0"] == "DIFFERS"


def test_rounds_are_not_mixed(cli, tmp_path):
    for round_ in ("0", "1"):
        parts = [np.full(3, 1 + int(round_) + rank, F16) for rank in range(2)]
        dump(tmp_path, "AllReduce", lambda rank: {}, [[p] for p in parts], lambda rank, p=parts: p[0] + p[1], round_)
    assert set(verdicts(cli, tmp_path).values()) == {"equal"}
    assert len(verdicts(cli, tmp_path)) == 4


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        (lambda rank: {"rank": 0}, "two devices of the dump have rank 0"),
        (lambda rank: {"allReduceType": "median"}, "allReduceType is 'median'"),
        (lambda rank: {"quantType": 1}, "quantized communication is not supported"),
    ],
)
def test_what_is_not_computed(cli, tmp_path, params, reason):
    dump(tmp_path, "AllReduce", params, [[np.ones(3, F16)]] * 2, lambda rank: np.full(3, 2, F16))
    result = cli("replay", tmp_path, "--json")
    assert reason in result.json["layers"][0]["operations"][0]["reason"]


@pytest.mark.parametrize("kind", ["AllReduce", "AllGather", "ReduceScatter", "AllToAll"])
def test_ranks_whose_tensors_do_not_fit_together(cli, tmp_path, kind):
    parts = [np.ones((4, 2), F16), np.ones((3, 5), F16)]
    dump(tmp_path, kind, lambda rank: {}, [[part] for part in parts], lambda rank: parts[rank])
    result = cli("replay", tmp_path, "--json")
    for run in result.json["layers"]:
        (operation,) = run["operations"]
        assert operation["verdict"] == "not compared"
        assert "do not fit together" in operation["reason"] or "cannot be split" in operation["reason"]
