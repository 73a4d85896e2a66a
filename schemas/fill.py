"""Fill and MaskedFill: Ascend ATB's FillOperation, without and with a mask."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.schemas.declaration import Example, Family, Input, Op, Output, Values
from onnx_sparse.schemas.element_types import INDEX, NUMBERS, DType
from onnx_sparse.schemas.function_body import Body

#: Element types for which some version of ORT lacks Where, and a type that each converts to and back exactly.
_CARRIERS: dict[DType, DType] = {
    TensorProto.BFLOAT16: TensorProto.FLOAT,
    TensorProto.INT8: TensorProto.INT32,
    TensorProto.INT16: TensorProto.INT32,
    TensorProto.UINT16: TensorProto.INT32,
    TensorProto.UINT32: TensorProto.INT64,
    TensorProto.UINT64: TensorProto.INT64,
    TensorProto.BOOL: TensorProto.UINT8,
}


def _fill_body(b: Body) -> None:
    dims, dtype = b.int64("dims"), b.types["T"]
    value = b.known.constants.get("value")
    # ORT has neither Expand nor ConstantOfShape for bfloat16; float32 carries it exactly.
    carrier = b.compute_type("T") if dtype == TensorProto.BFLOAT16 else dtype
    if value is not None and dtype != TensorProto.STRING:
        b.output("output", b.filled(dims, value, carrier))
    else:
        b.output("output", b.Expand(b.cast("value", carrier), dims))


def _masked_fill_body(b: Body) -> None:
    mask = b.cast("mask", TensorProto.BOOL)
    carrier = _CARRIERS.get(b.types["T"], b.types["T"])
    b.output("output", b.Where(mask, b.cast("value", carrier), b.cast("x", carrier)))


FILL = Op(
    name="Fill",
    summary="Makes a tensor of a given shape with one value in every element.",
    semantics="""
`output` has shape `dims` and holds `value` everywhere.

- `dims` = [] makes a scalar; a zero dimension makes an empty tensor; a negative one is an error.
- A size that overflows or cannot be allocated is an error.
""".strip(),
    source="Ascend ATB FillOperation with withMask = false; tf.raw_ops.Fill",
    inputs=(
        Input("dims", "I", "R", "The shape of the output.", Values("size")),
        Input("value", "T", "", "The value of every element."),
    ),
    outputs=(Output("output", "T", "*dims", "The filled tensor."),),
    types={"T": (*NUMBERS, TensorProto.BOOL, TensorProto.STRING), "I": INDEX},
    body=_fill_body,
    examples=(
        Example(
            "ATB FillOperation example 3, Fill",
            {"T": TensorProto.FLOAT16, "I": TensorProto.INT64},
            {"dims": [2, 3], "value": 1},
            {"output": [[1, 1, 1], [1, 1, 1]]},
        ),
    ),
)

MASKED_FILL = Op(
    name="MaskedFill",
    summary="Puts a value where a mask is set.",
    semantics="""
`output[i] = value` where `mask[i]` is set, else `x[i]`. The output has the shape of `x`.

- `mask` broadcasts to `x`; `x` is never broadcast, so a mask of higher rank or of a larger dimension is an error.
- An int8 mask holds only 0 and 1; any other value is an error.
""".strip(),
    source="Ascend ATB FillOperation with withMask = true",
    inputs=(
        Input("x", "T", "...", "The tensor."),
        Input("mask", "M", "...", "Where to put the value.", Values("flags"), broadcasts=True),
        Input("value", "T", "", "The value to put."),
    ),
    outputs=(Output("output", "T", "...", "x with the value where the mask is set."),),
    types={"T": (*NUMBERS, TensorProto.BOOL), "M": (TensorProto.BOOL, TensorProto.INT8)},
    body=_masked_fill_body,
    body_notes="ONNX Runtime's Where turns -0.0 into 0.0.",
    examples=(
        Example(
            "ATB FillOperation example 1, MaskedFill without broadcast",
            {"T": TensorProto.INT32, "M": TensorProto.BOOL},
            {
                "x": [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
                "mask": [[True, False, True], [False, True, True], [True, True, False]],
                "value": -1,
            },
            {"output": [[-1, 2, -1], [4, -1, -1], [-1, -1, 9]]},
        ),
        Example(
            "ATB FillOperation example 2, MaskedFill with broadcast",
            {"T": TensorProto.INT32, "M": TensorProto.BOOL},
            {"x": [[1, 2, 3], [4, 5, 6], [7, 8, 9]], "mask": [True, False, True], "value": -1},
            {"output": [[-1, 2, -1], [-1, 5, -1], [-1, 8, -1]]},
        ),
    ),
)

FAMILY = Family(
    "fill",
    (FILL, MASKED_FILL),
    origin="Ascend ATB FillOperation, `tf.fill`",
)
