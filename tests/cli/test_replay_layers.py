"""`onnx-sparse replay` of whole layers of llama, a mixture of experts and latent attention."""

from __future__ import annotations

import contextlib
import shutil

import numpy as np
import pytest
from support.ascend_graphs import BFLOAT16, bin_bytes
from support.ascend_layers import HIDDEN, Layer, attend, llama, wide

from onnx_sparse.converters.ascend.atb.tensor_file import read_tensor

F16 = np.float16


def experts(name: str, dtype: object) -> tuple[Layer, list[str]]:
    """Norm, router, the best two of eight experts, tokens in their order, two products by expert, and their sum."""
    layer = Layer(name, dtype, 3)
    x = layer.weight(6, HIDDEN, scale=1.0)
    for _ in range(2):
        x = _mixture(layer, x)
    return layer, [x]


def _mixture(layer: Layer, x: str) -> str:
    tokens, count, best = 6, 8, 2
    with layer.group("SparseMoe"):
        normed = layer.rms_norm(x, layer.weight(HIDDEN, scale=1.0))
        logits = layer.linear(normed, layer.weight(count, HIDDEN), bias=layer.weight(count))
        values = wide(layer.values[logits])
        powers = np.exp(values - values.max(-1, keepdims=True))
        scores = layer.rounded(powers / powers.sum(-1, keepdims=True))
        routed = layer.op("SoftmaxOperation", [logits], {"axes": [-1]}, scores)
        order = np.argsort(-wide(scores), 1, kind="stable")[:, :best]
        kept = np.take_along_axis(scores, order, 1)
        weights, chosen = layer.op("SortOperation", [routed], {"num": [best]}, kept, order.astype(np.int32))
        total = layer.op("ReduceOperation", [weights], {"reduceType": 3, "axis": [1]}, layer.rounded(wide(kept).sum(1)))
        share = layer.rounded(wide(kept) / wide(layer.values[total])[:, None])
        normal = layer.op("ElewiseOperation", [weights, total], {"elewiseType": 10}, share, shapes={1: (tokens, 1)})
        flat = order.reshape(-1).astype(np.int32)
        index = layer.given(np.arange(flat.size, dtype=np.int32))
        place = np.argsort(flat, kind="stable").astype(np.int32)
        token, counts, sorted_index = layer.op(
            "GatingOperation",
            [chosen, index],
            {"topkExpertNum": best, "cumSumNum": count, "deviceExpert": []},
            place // best,
            np.cumsum(np.bincount(flat, minlength=count)).astype(np.int32),
            place,
            shapes={0: flat.shape},
        )
        rows = layer.op("GatherOperation", [normed, token], {"axis": 0}, layer.values[normed][place // best])
        up, down = layer.weight(count, 2 * 16, HIDDEN), layer.weight(count, HIDDEN, 16)

        def by_expert(name_: str, weight: str) -> str:  # a plugin: the dump has its name and its results
            y = np.stack(
                [
                    wide(layer.values[weight][e]) @ wide(row)
                    for e, row in zip(flat[place], layer.values[name_], strict=True)
                ]
            )
            return layer.op("", [name_, weight, counts], "", layer.rounded(y))

        made = by_expert(layer.swiglu(by_expert(rows, up)), down)
        factor = layer.op(
            "GatherOperation", [normal, sorted_index], {"axis": 0}, share.reshape(-1)[place], shapes={0: (flat.size,)}
        )
        scaled = layer.rounded(wide(layer.values[made]) * wide(layer.values[factor])[:, None])
        weighted = layer.op("ElewiseOperation", [made, factor], {"elewiseType": 9}, scaled, shapes={1: (flat.size, 1)})
        zeros = layer.op(
            "FillOperation", [], {"withMask": False, "value": [0.0], "outDim": [tokens, HIDDEN]},
            np.zeros((tokens, HIDDEN), F16),
        )  # fmt: skip
        if layer.dtype != F16:
            zeros = layer.op(
                "ElewiseOperation", [zeros], {"elewiseType": 1, "outTensorType": 27},
                np.zeros((tokens, HIDDEN), layer.dtype),
            )  # fmt: skip
        summed = np.zeros((tokens, HIDDEN))
        np.add.at(summed, place // best, wide(scaled))
        one = layer.given(np.ones(1, layer.dtype))
        y = layer.op(
            "IndexAddOperation", [zeros, token, weighted, one], {"indexType": 1, "axis": 0}, layer.rounded(summed),
            onto=[zeros],
        )  # fmt: skip
    return layer.add(x, y)


def latent(name: str, dtype: object) -> tuple[Layer, list[str]]:
    """Latent attention: one cached row of 16 + 4 columns for all heads, of which the first 16 are also the values."""
    layer = Layer(name, dtype, 4)
    x = layer.weight(3, HIDDEN, scale=1.0)
    for _ in range(2):
        x = _latent_block(layer, x)
    return layer, [x]


def _latent_block(layer: Layer, x: str) -> str:
    dtype = layer.dtype
    heads, rank, turned, size = 4, 16, 4, 8
    lengths = np.array([6, 3, 9], np.int32)
    tokens = len(lengths)
    angles = np.tile((lengths - 1)[:, None] * 0.5 ** np.arange(turned // 2), 2)
    cos, sin = layer.given(np.cos(angles).astype(dtype)), layer.given(np.sin(angles).astype(dtype))
    sizes = layer.given(lengths)
    table = np.array([[2, 7, 1], [5, 0, 0], [3, 6, 4]], np.int32)
    tables = layer.given(table)
    slots = layer.given((table[np.arange(3), (lengths - 1) // 4] * 4 + (lengths - 1) % 4).astype(np.int32))
    with layer.group("Attention"):
        normed = layer.rms_norm(x, layer.weight(HIDDEN, scale=1.0))
        low = layer.rms_norm(layer.linear(normed, layer.weight(12, HIDDEN)), layer.weight(12, scale=1.0))
        q = layer.linear(low, layer.weight(heads * (size + turned), 12))
        parts = np.split(layer.values[q].reshape(tokens, heads, -1), [size], -1)
        plain, rotated = layer.op(
            "SplitOperation", [q], {"splitDim": 2, "splitNum": 2, "splitSizes": [size, turned]}, *parts,
            shapes={0: (tokens, heads, size + turned)},
        )  # fmt: skip
        both = layer.linear(normed, layer.weight(rank + turned, HIDDEN))
        compressed, k_rope = layer.split(both, [rank, turned])
        kept = layer.rms_norm(compressed, layer.weight(rank, scale=1.0))
        layer.rope(rotated, k_rope, cos, sin, sizes)
        row = layer.op(
            "ConcatOperation", [kept, k_rope], {"concatDim": -1},
            np.concatenate([layer.values[kept], layer.values[k_rope]], -1),
        )  # fmt: skip
        cache = layer.weight(8, 4, 1, rank + turned)
        layer.into_cache([row], [cache], slots, [(tokens, 1, rank + turned)])
        into, out = layer.weight(heads, size, rank), layer.weight(heads, rank, size)
        ein = {"hasBias": False, "transposeB": False, "matmulType": 1, "outDataType": -1}
        absorbed = np.einsum("mbk,bkn->mbn", wide(layer.values[plain]), wide(layer.values[into]))
        low_q = layer.op("LinearOperation", [plain, into], ein, layer.rounded(absorbed))
        query = np.concatenate([layer.values[low_q], layer.values[rotated]], -1)
        whole = layer.op("ConcatOperation", [low_q, rotated], {"concatDim": 2}, query)
        scale = (size + turned) ** -0.5
        rows = []
        for i, n in enumerate(lengths):
            keys = layer.values[cache][table[i, np.arange(n) // 4], np.arange(n) % 4]
            rows.append(attend(query[i : i + 1], keys, keys[..., :rank], scale))
        param = {"headNum": heads, "kvHeadNum": 1, "qkScale": scale, "mlaVHeadSize": rank}
        y = layer.op(
            "PagedAttentionOperation", [whole, cache, tables, sizes], param, layer.rounded(np.concatenate(rows))
        )
        values = np.einsum("mbk,bkn->mbn", wide(layer.values[y]), wide(layer.values[out]))
        y = layer.op("LinearOperation", [y, out], ein, layer.rounded(values))
        y = layer.linear(y, layer.weight(HIDDEN, heads * size), shape=(tokens, heads * size))
    x = layer.add(x, y)
    with layer.group("Mlp"):
        normed = layer.rms_norm(x, layer.weight(HIDDEN, scale=1.0))
        y = layer.linear(layer.swiglu(layer.linear(normed, layer.weight(96, HIDDEN))), layer.weight(HIDDEN, 48))
    return layer.add(x, y)


LAYERS = {
    "llama prefill float16": lambda: llama("Prefill_layer_2", F16, prefill=True, blocks=3),
    "llama decode float16": lambda: llama("Decoder_layer_2", F16, prefill=False, blocks=3),
    "llama prefill bfloat16": lambda: llama("Prefill_layer_2", BFLOAT16, prefill=True, blocks=3),
    "llama decode bfloat16": lambda: llama("Decoder_layer_2", BFLOAT16, prefill=False, blocks=3),
    "llama prefill w8a8": lambda: llama("Prefill_layer_2", F16, prefill=True, quantized=True, blocks=2),
    "llama decode w8a8": lambda: llama("Decoder_layer_2", F16, prefill=False, quantized=True, blocks=2),
    "llama decode w8a8 bfloat16": lambda: llama("Decoder_layer_2", BFLOAT16, prefill=False, quantized=True, blocks=2),
    "experts float16": lambda: experts("Moe_layer_0", F16),
    "experts bfloat16": lambda: experts("Moe_layer_0", BFLOAT16),
    "latent float16": lambda: latent("Mla_layer_0", F16),
    "latent bfloat16": lambda: latent("Mla_layer_0", BFLOAT16),
}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())
def test_a_whole_layer(cli, tmp_path, make):
    """Every operation agrees; then one result in the middle is spoilt, and that operation is the one that differs."""
    layer, outputs = make()
    folder = layer.write(tmp_path, outputs)
    result = cli("replay", tmp_path, "--json")
    assert result.code == 0, result.err
    (replayed,) = result.json["layers"]
    verdicts = {o["verdict"] for o in replayed["operations"] if o["type"] != "plugin"}
    assert verdicts <= {"equal", "ok"}
    assert len(replayed["operations"]) > layer.operations
    assert len(replayed["operations"]) >= 30
    files = sorted(folder.glob("**/*Operation/after/outtensor0.bin"))
    target = files[len(files) // 2]
    array = read_tensor(target, tmp_path).copy()
    array.reshape(-1)[0] += np.asarray(9).astype(array.dtype)
    target.write_bytes(bin_bytes(array))
    result = cli("replay", tmp_path, "--json")
    differing = {t["operation"] for t in result.json["layers"][0]["tensors"] if t["verdict"] == "DIFFERS"}
    kind = target.parents[1].name.partition("_")[2]
    assert len(differing) == 1
    assert next(iter(differing)).startswith(kind)


def sums_in_half_floats(x, weight):
    """A product whose partial sums are rounded to float16."""
    total = np.zeros((len(x), len(weight)), F16)
    for column in range(0, x.shape[1], 64):
        part = slice(column, column + 64)
        total = (wide(total) + wide(x[:, part]) @ wide(weight[:, part]).T).astype(F16)
    return total


@pytest.mark.parametrize("fault", ["", "product", "turn"])
@pytest.mark.parametrize("inside", [True, False], ids=["in a graph", "in the layer"])
@pytest.mark.parametrize("recorded", [True, False], ids=["each result", "the layer's results"])
def test_a_tensor_has_one_verdict(cli, tmp_path, fault, inside, recorded):
    """Whether it is the result of an operation, of a graph or of the layer: sums of many terms are as exact as the
    type, what is only moved is exact, and the results of both that the dump lacks are as exact as the sums."""
    layer = Layer("Decoder_layer_0", F16, 5)
    x, weight = layer.weight(4, 4096, scale=1.0), layer.weight(16, 4096, scale=1.0)
    with layer.group("Head") if inside else contextlib.nullcontext():
        product = sums_in_half_floats(layer.values[x], layer.values[weight])
        product[1, 3] *= 1 + 2.0 ** (-4 if fault == "product" else -8)
        param = {"transposeA": False, "transposeB": True, "hasBias": False, "outDataType": -1, "enAccum": False}
        y = layer.op("LinearOperation", [x, weight], param, product)
        turned = product.T.copy()
        turned[2, 1] *= 1 + 2.0**-8 if fault == "turn" else 1
        z = layer.op("TransposeOperation", [y], {"perm": [1, 0]}, turned)
    folder = layer.write(tmp_path, [y, z])
    if not recorded:
        for path in [path for path in folder.iterdir() if path.name not in ("before", "after")]:
            shutil.rmtree(path)
    result = cli("replay", tmp_path, "--json")
    found = {}
    for tensor in result.json["layers"][0]["tensors"]:
        found.setdefault(tensor["tensor"], set()).add(tensor["verdict"] == "DIFFERS")
    wrong = {"product": {y, z} if not recorded else {y}, "turn": {z} if recorded else set(), "": set()}[fault]
    assert found == {name: {name in wrong} for name in (y, z)}
    assert result.code == bool(wrong)


def test_a_chain_from_the_inputs_of_the_layer(cli, tmp_path):
    """Results are passed on: after 13 operations they still agree, and an error is seen in all that come after it."""
    layer, outputs = llama("Decoder_layer_0", F16, prefill=False)
    layer.write(tmp_path, outputs)
    assert cli("replay", tmp_path, "--chain", "--json", "--tolerance", "2e-2").code == 0


@pytest.mark.parametrize("count", [4])
def test_a_dump_of_many_layers(cli, tmp_path, count):
    """Each layer has its own graph and folder; equal operations share a session."""
    for number in range(count):
        layer, outputs = llama(f"Decoder_layer_{number}", F16, prefill=False, seed=number)
        layer.write(tmp_path, outputs)
    result = cli("replay", tmp_path, "--json")
    assert result.code == 0, result.err
    assert [r["layer"] for r in result.json["layers"]] == [f"Decoder_layer_{i}" for i in range(count)]
    assert len({len(r["tensors"]) for r in result.json["layers"]}) == 1
