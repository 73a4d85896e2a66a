"""Operations with inputs that do not fit: each is refused with a reason, or converted, and nothing else happens."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from support.ascend_graphs import one_operation
from support.ge_graphs import Graph

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.ascend import convert
from onnx_sparse.converters.ascend.atb.handlers import HANDLERS
from onnx_sparse.converters.ascend.ge.handlers import HANDLERS as GE_HANDLERS

DTYPES = (np.float16, np.float32, np.int32, np.int64, np.int8)
#: Parameters that reach the inner parts of handlers, all at once: each takes those that it knows.
PARAMS = {
    "headNum": 2, "kvHeadNum": 1, "qkScale": 1.0, "cumSumNum": 3, "groupNum": 2, "k": 1, "n": 1, "groupTopk": 1,
    "outCrops": [1, 1], "axis": [0], "axes": [0], "num": [1], "perm": [0], "layerType": 1, "reduceType": 1,
    "elewiseType": 8, "activationType": 1, "multiples": [1], "size": [1], "stride": [1], "offset": [0], "offsets": [0],
    "starts": [0], "ends": [1], "depth": 2, "indexType": 1, "value": [0], "rankSize": 1, "cacheMode": 1,
}  # fmt: skip
VARIANTS = {
    "SelfAttention": [{"calcType": 3}, {"calcType": 3, "maskType": 2}, {"maskType": 1}, {"kvcacheCfg": 1}],
    "PagedAttention": [{}, {"maskType": 1}, {"calcType": 1, "maskType": 3}, {"quantType": 1}, {"mlaVHeadSize": 2}],
    "MultiLatentAttention": [{}, {"calcType": 1, "maskType": 1}],
    "Transdata": [{"transdataType": 1}, {"transdataType": 2}],
    "Linear": [{}, {"outDataType": 1}, {"outDataType": 27, "quantMode": 2, "hasBias": False}, {"matmulType": 1}],
    "RmsNorm": [
        {"layerType": kind, f"{name}Param": {"quantType": quant, "rstd": not quant}}
        for kind, name in ((1, "norm"), (2, "preNorm"), (3, "postNorm"))
        for quant in (0, 2)
    ],
    "LayerNorm": [{"layerType": 1, "normParam": {"quantType": 2}}, {"layerType": 3, "postNormParam": {"quantType": 2}}],
    "Elewise": [{"elewiseType": number} for number in range(1, 21)],
    "ReshapeAndCache": [{}, {"kvCacheCfg": 1}, {"kvCacheCfg": 2}],
    "Gating": [{}, {"deviceExpert": [1]}],
    "FusedAddTopkDiv": [{}, {"enableExpertMapping": True}],
}


@pytest.mark.parametrize("name", sorted(HANDLERS))
def test_inputs_that_do_not_fit(tmp_path, name):
    rng = np.random.default_rng(len(name))
    for variant in VARIANTS.get(name, [{}]):
        for count in range(9):
            for _ in range(2):
                ranks = rng.integers(0, 5, count) if rng.random() < 0.5 else np.full(count, rng.integers(0, 5))
                arrays = [
                    np.zeros(rng.integers(1, 4, rank), DTYPES[rng.integers(0, 5)] if rng.random() < 0.6 else np.float16)
                    for rank in ranks
                ]
                with contextlib.suppress(ConversionError):
                    one_operation(tmp_path, f"{name}Operation", {**PARAMS, **variant}, arrays, int(rng.integers(0, 4)))


@pytest.mark.parametrize("name", sorted(GE_HANDLERS))
def test_inputs_of_ge_that_do_not_fit(tmp_path, name):
    rng = np.random.default_rng(len(name))
    for count in range(5):
        for attempt in range(2):
            graph = Graph()
            names = []
            for i in range(count):
                array = np.zeros(rng.integers(1, 4, rng.integers(0, 4)), DTYPES[rng.integers(0, 5)])
                is_constant = rng.random() < 0.5
                names.append(
                    graph.const(f"c{i}", array) if is_constant else graph.data(f"d{i}", array.dtype, array.shape)
                )
            given = {"axis": 0, "num": 2, "dim": 1, "type": 3, "dtype": 1, "num_segments": 2} if attempt % 2 else {}
            graph.output(graph.op(name, *names, **given))
            with contextlib.suppress(ConversionError):
                convert(graph.write(tmp_path))
