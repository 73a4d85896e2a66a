"""A small model with features of three kinds: the sum of its items' rows, its path's, and its box as it is."""

from __future__ import annotations

import onnx

import onnx_sparse
from onnx_sparse.schemas.features import Feature, write_features

TEXT = """
<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
g (int64[n,2] items_i, int64[n] items_v, int64[2] items_s, int64[m] path_v, int32[r] path_r, float[b,2] box)
  => (float[s,2] sums, float[q,2] paths, float[b,2] boxes)
  <float[9,2] table = {0,0, 1,10, 2,20, 3,30, 4,40, 5,50, 6,60, 7,70, 8,80}, int64 zero = {0}>
{
  segments = Gather <axis = 1> (items_i, zero)
  count = Gather (items_s, zero)
  sums = onnx_sparse.EmbeddingSegmentsSum (table, items_v, segments, count)
  offsets = Cast <to = 7> (path_r)
  paths = onnx_sparse.EmbeddingBagOffsetsSum <include_last_offset = "true"> (table, path_v, offsets)
  boxes = Identity (box)
}"""
FEATURES = (
    Feature("items", "sparse", {"indices": "items_i", "values": "items_v", "dense_shape": "items_s"}),
    Feature("path", "ragged", {"values": "path_v", "row_splits": "path_r"}),
    Feature("box", "dense", {"values": "box"}),
)


def model() -> onnx.ModelProto:
    made = onnx_sparse.canonicalize(onnx.parser.parse_model(TEXT))
    write_features(made, FEATURES)
    return made
