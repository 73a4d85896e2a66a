"""Small models that several tests start from, in onnx's text format."""

from __future__ import annotations

from onnx import ModelProto, parser


def model(text: str, opset: int = 18, ir_version: int = 10) -> ModelProto:
    """A model from the text of its graph (and functions)."""
    return parser.parse_model(
        f'<ir_version: {ir_version}, opset_import: ["" : {opset}, "onnx_sparse" : 1, "com.example" : 1]>\n{text}'
    )


#: As users write it by hand, with optional inputs and attributes omitted.
SEGMENT_SUM = model("g (float[k,2] data, int64[k] ids) => (float[s,2] y) { y = onnx_sparse.SegmentSum (data, ids) }")

#: Two operators of the domain, each in a branch, after a standard one.
BRANCHES = model(
    """
g (bool c, float[k,2] data, int64[k] ids) => (float[s,2] y) {
  doubled = Add (data, data)
  y = If (c) <
    then_branch = t () => (float[a,2] p) { p = onnx_sparse.SegmentMax <fill_mode = "LOWEST"> (doubled, ids) },
    else_branch = e () => (float[b,2] q) { q = onnx_sparse.SegmentSum (doubled, ids) }
  >
}"""
)

#: A model-local function that calls the domain, called with two element types.
FUNCTIONS = parser.parse_model(
    """
<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1, "mine" : 1]>
g (float[k] x, int32[k] z, int64[k] ids) => (float[s] y, int32[s] w) {
  y = mine.Pool (x, ids)
  w = mine.Pool (z, ids)
}
<domain: "mine", opset_import: ["" : 18, "onnx_sparse" : 1]>
Pool (data, ids) => (pooled) { pooled = onnx_sparse.SegmentSum (data, ids) }"""
)

#: A function with a default for an attribute, in another opset, which imports a domain that the model does not.
DEFAULTED = parser.parse_model(
    """
<ir_version: 10, opset_import: ["" : 18, "mine" : 1]>
g (float[n] v, int64[2] s, int64[n,2] i, float d) => (int64[m,2] oi, float[m] ov) { oi, ov = mine.Filled (v, s, i, d) }
<domain: "mine", opset_import: ["" : 13, "onnx_sparse" : 1]>
Filled <order: string = "row_stable"> (v, s, i, d) => (oi, ov) {
  a = Abs (v)
  oi, ov, e = onnx_sparse.SparseFillEmptyRows <order: string = @order> (a, s, i, d)
}"""
)
