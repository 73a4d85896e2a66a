"""Random TensorFlow graphs as GE's, without known sizes, on tensors of any size: TensorFlow's answers or a refusal."""

from __future__ import annotations

import pytest

pytest.importorskip("tensorflow")

from support.ge_from_tensorflow import graph_of
from support.random_graphs import examine

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.ascend import convert


@pytest.mark.parametrize("seed", range(12))
def test_equals_tensorflow(seed, tmp_path):
    def from_ge(function):
        try:
            graph, _ = graph_of(function)
        except ValueError as error:
            raise ConversionError(str(error)) from error
        return convert(graph.write(tmp_path, "ge_proto_00000000_graph_1_PreRunBegin.txt"))

    finding, _ = examine(seed, from_ge)
    assert finding is None or finding.kind == "refused", str(finding)
