"""Operators on images, boxes and blocks that are converted without TensorFlow, against TensorFlow's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import tensorflow as tf
from support.tensorflow_imports import Row, assert_equal, imported, named, traced

from onnx_sparse.converters.errors import ConversionError

RAW = tf.raw_ops

IMAGES = np.random.default_rng(0).normal(size=(2, 6, 7, 3)).astype(np.float32)
BOXES = np.float32([[0, 0, 1, 1], [0.2, 0.3, 0.7, 0.9], [-0.3, 0.1, 1.2, 0.5], [0.8, 0.9, 0.1, 0.2], [0, 0, 1, 0.9]])
SCORES = np.float32([0.9, 0.3, 0.6, 0.5, 0.95])
BLOCKS = np.arange(4 * 4 * 6 * 8, dtype=np.int32).reshape(4, 4, 6, 8)
SIZES = ([5, 5], [3, 2], [12, 14], [1, 1], [6, 7])


def resizing() -> list[Row]:
    rows: list[Row] = []
    for op in ("ResizeNearestNeighbor", "ResizeBilinear", "ResizeBicubic"):
        for corners, centers in ((False, False), (True, False), (False, True)):
            flags = {"align_corners": corners, "half_pixel_centers": centers}

            def call(x: Any, op: str = op, flags: dict[str, bool] = flags) -> Any:
                return [getattr(RAW, op)(images=x, size=size, **flags) for size in SIZES]

            rows.append((f"{op} {corners} {centers}", call, [IMAGES]))
    rows += [
        ("ResizeArea", lambda x: [RAW.ResizeArea(images=x, size=size) for size in SIZES], [IMAGES]),
        ("size that is fed", lambda x, n: RAW.ResizeBilinear(images=x, size=n), [IMAGES, np.int32([4, 9])]),
        ("AdjustContrastv2", lambda x: RAW.AdjustContrastv2(images=x, contrast_factor=1.5), [IMAGES]),
        ("bytes", lambda x: RAW.ResizeNearestNeighbor(images=x, size=[3, 3]), [IMAGES.astype(np.uint8)]),
    ]
    for method in ("bilinear", "nearest"):
        for boxes in (BOXES, BOXES[:0]):

            def crop(x: Any, boxes: Any, numbers: Any, method: str = method) -> Any:
                given = {"image": x, "boxes": boxes, "box_ind": numbers, "method": method, "extrapolation_value": 2.5}
                return [RAW.CropAndResize(crop_size=size, **given) for size in ([3, 4], [1, 1])]

            numbers = np.int32([0, 1, 1, 0, 1])[: len(boxes)]
            rows.append((f"CropAndResize {method} {len(boxes)}", crop, [IMAGES, boxes, numbers]))
    return rows


def blocks() -> list[Row]:
    rows: list[Row] = []
    for form in ("NHWC",):
        rows += [
            (f"SpaceToDepth {form}", lambda x: RAW.SpaceToDepth(input=x, block_size=2), [BLOCKS]),
            (f"DepthToSpace {form}", lambda x: RAW.DepthToSpace(input=x, block_size=2), [BLOCKS]),
        ]
    rows += [
        ("SpaceToDepth of nothing", lambda x: RAW.SpaceToDepth(input=x, block_size=2), [BLOCKS[:0]]),
        (
            "SpaceToBatchND",
            lambda x: RAW.SpaceToBatchND(input=x, block_shape=[2, 3], paddings=[[1, 1], [0, 0]]),
            [BLOCKS],
        ),
        ("SpaceToBatchND of one", lambda x: RAW.SpaceToBatchND(input=x, block_shape=[2], paddings=[[0, 0]]), [BLOCKS]),
        ("BatchToSpaceND", lambda x: RAW.BatchToSpaceND(input=x, block_shape=[2, 2], crops=[[1, 0], [2, 1]]), [BLOCKS]),
        ("BatchToSpaceND whole", lambda x: RAW.BatchToSpaceND(input=x, block_shape=[4], crops=[[0, 0]]), [BLOCKS]),
    ]
    return rows


def suppression() -> list[Row]:
    limits = {"max_output_size": 4, "iou_threshold": 0.5}
    wide = {**limits, "score_threshold": 0.4}
    rows: list[Row] = [
        ("NonMaxSuppressionV2", lambda b, s: RAW.NonMaxSuppressionV2(boxes=b, scores=s, **limits), [BOXES, SCORES]),
        ("NonMaxSuppressionV3", lambda b, s: RAW.NonMaxSuppressionV3(boxes=b, scores=s, **wide), [BOXES, SCORES]),
        ("without boxes", lambda b, s: RAW.NonMaxSuppressionV3(boxes=b, scores=s, **wide), [BOXES[:0], SCORES[:0]]),
    ]
    for pad in (False, True):
        flags = {**wide, "pad_to_max_output_size": pad}
        rows += [
            (f"V4 {pad}", lambda b, s, f=flags: RAW.NonMaxSuppressionV4(boxes=b, scores=s, **f), [BOXES, SCORES]),
            (f"V5 {pad}", lambda b, s, f=flags: RAW.NonMaxSuppressionV5(boxes=b, scores=s, soft_nms_sigma=0.0, **f),
             [BOXES, SCORES]),
        ]  # fmt: skip
    return rows


def quantizing() -> list[Row]:
    x = np.float32([[0.1, 0.2, 0.3], [0.53, -0.77, 0.999]])
    rows: list[Row] = []
    for bits in (2, 4, 8):
        for signed in (False, True):
            for narrow in (False, True):
                flags = {"signed_input": signed, "narrow_range": narrow}

                def call(x: Any, bits: int = bits, flags: dict[str, bool] = flags) -> Any:
                    fixed = {"input": x, "input_min": -0.5, "input_max": 1.0, "range_given": True, **flags}
                    found = {"input": x, "input_min": 0.0, "input_max": 0.0, **flags}
                    return [
                        *(RAW.QuantizeAndDequantizeV2(num_bits=bits, **given) for given in (fixed, found)),
                        RAW.QuantizeAndDequantizeV2(num_bits=bits, round_mode="HALF_UP", **fixed),
                        RAW.QuantizeAndDequantizeV3(num_bits=bits, **fixed),
                        RAW.QuantizeAndDequantizeV4(num_bits=bits, **fixed),
                    ]

                rows.append((f"QuantizeAndDequantize {bits} {signed} {narrow}", call, [x]))

    def along(x: Any) -> Any:
        zeros = [[0.0] * size for size in (2, 3)]
        return [
            RAW.QuantizeAndDequantizeV2(
                input=x, axis=axis, num_bits=4, range_given=False, input_min=zeros[axis], input_max=zeros[axis]
            )
            for axis in (0, 1)
        ]

    return [*rows, ("QuantizeAndDequantize along axes", along, [x])]


def convolutions() -> list[Row]:
    weight = np.random.default_rng(1).normal(size=(3, 2, 4, 3)).astype(np.float32)
    rows: list[Row] = []
    for padding, stride, size in (
        ("SAME", 2, [12, 13]),
        ("SAME", 1, [6, 7]),
        ("VALID", 2, [13, 14]),
        ("VALID", 3, [19, 20]),
    ):

        def call(x: Any, padding: str = padding, stride: int = stride, size: list[int] = size) -> Any:
            sizes, strides = [tf.shape(x)[0], *size, 4], [1, stride, stride, 1]
            return RAW.Conv2DBackpropInput(
                input_sizes=sizes, filter=weight, out_backprop=x, strides=strides, padding=padding
            )

        rows.append((f"Conv2DBackpropInput {padding} {stride}", call, [IMAGES]))
    rows.append(("LRN", lambda x: RAW.LRN(input=x, depth_radius=1, bias=2.0, alpha=0.3, beta=0.6), [IMAGES]))
    return rows


ROWS = [*resizing(), *blocks(), *suppression(), *quantizing(), *convolutions()]


@pytest.mark.parametrize(("call", "arrays"), **named(ROWS))
def test_equals_tensorflow(call, arrays):
    assert_equal(call, arrays, sizes_known=[False, True])


REFUSED = [
    (lambda x: RAW.ResizeArea(images=x, size=[3, 3], align_corners=True), [IMAGES], "align_corners = True"),
    (
        lambda b, s: tf.image.non_max_suppression_with_scores(b, s, 3, soft_nms_sigma=0.5)[0],
        [BOXES, SCORES],
        "soft_nms_sigma is not 0",
    ),
]


@pytest.mark.parametrize(("call", "arrays", "reason"), REFUSED, ids=[row[2] for row in REFUSED])
def test_refused(call, arrays, reason):
    with pytest.raises(ConversionError, match=reason):
        imported(traced(call, arrays, sizes_known=False))
