"""Convolutions, poolings, normalizations and sizes of images."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from zoo.operators import F, Opset, declare, normal, spelled, variants, whole

SIZES = {1: (9,), 2: (7, 8), 3: (5, 6, 7)}
RANDOM = np.random.default_rng(7)


def some(rank: int, *values: int) -> list[int]:
    """A random value of those given for each axis."""
    return [int(n) for n in RANDOM.choice(values, rank)]


for rank, auto, number in itertools.product(SIZES, ("explicit", "same_upper", "same_lower", "valid"), range(3)):
    image, kernel = normal(2, 4, *SIZES[rank]), some(rank, 1, 2, 3)
    window: dict[str, Any] = {"strides": some(rank, 1, 2), "dilations": some(rank, 1, 2)}
    pads = {"pads_begin": some(rank, 0, 1), "pads_end": some(rank, 0, 1)}
    declare("convolution-1", f"{rank}d {auto} {number}", lambda x, k=kernel, w=window, p=pads, a=auto: Opset(
        1).convolution(x, normal(3, 4, *k, seed=1), **w, **p, auto_pad=a), image)  # fmt: skip
    declare("group_convolution-1", f"{rank}d {auto} {number}", lambda x, k=kernel, w=window, p=pads, a=auto: Opset(
        1).group_convolution(x, normal(2, 3, 2, *k, seed=1), **w, **p, auto_pad=a), image)  # fmt: skip
    back = {"pads_begin": [0] * rank, "pads_end": [0] * rank} if auto != "explicit" else pads
    extra = [int(RANDOM.integers(0, s)) for s in window["strides"]]
    declare("convolution_backprop_data-1", f"{rank}d {auto} {number}", lambda x, k=kernel, w=window, p=back, a=auto,
            e=extra: Opset(1).convolution_backprop_data(x, normal(4, 3, *k, seed=1), **w, **p, auto_pad=a,
                                                        output_padding=e), image)  # fmt: skip
    declare("group_convolution_backprop_data-1", f"{rank}d {auto} {number}", lambda x, k=kernel, w=window, p=back,
            a=auto, e=extra: Opset(1).group_convolution_backprop_data(
                x, normal(2, 2, 3, *k, seed=1), **w, **p, auto_pad=a, output_padding=e), image)  # fmt: skip
    sizes = [n * s + int(RANDOM.integers(0, 2)) for n, s in zip(SIZES[rank], window["strides"], strict=True)]
    declare("convolution_backprop_data-1", f"{rank}d {auto} {number} to a size", lambda x, k=kernel, w=window, s=sizes,
            a=auto: Opset(1).convolution_backprop_data(x, normal(4, 3, *k, seed=1), output_shape=np.array(s), **w,
                                                       auto_pad=a), image)  # fmt: skip
for rank, auto, rounding, number in itertools.product(
    SIZES, ("explicit", "same_upper", "same_lower", "valid"), ("floor", "ceil", "ceil_torch"), range(2)
):
    image, kernel = normal(2, 3, *SIZES[rank]), some(rank, 2, 3)
    strides, dilations, begin, end = some(rank, 1, 2, 3), some(rank, 1, 2), some(rank, 0, 1), some(rank, 0, 1)
    told = f"{rank}d {auto} {rounding} {number}"
    if rounding != "ceil_torch":
        declare("max_pool-1", told, lambda x, s=strides, b=begin, e=end, k=kernel, r=rounding, a=auto: Opset(
            1).max_pool(x, s, b, e, k, r, a), image)  # fmt: skip
        declare("max_pool-8", told, lambda x, s=strides, d=dilations, b=begin, e=end, k=kernel, r=rounding, a=auto:
                Opset(8).max_pool(x, s, d, b, e, k, r, a, axis=2), image)  # fmt: skip
        declare("avg_pool-1", told, lambda x, s=strides, b=begin, e=end, k=kernel, r=rounding, a=auto, n=number: Opset(
            1).avg_pool(x, s, b, e, k, n == 0, r, a), image)  # fmt: skip
    else:
        declare("max_pool-14", told, lambda x, s=strides, d=dilations, b=begin, e=end, k=kernel, r=rounding, a=auto:
                Opset(14).max_pool(x, s, d, b, e, k, r, a), image)  # fmt: skip
        declare("avg_pool-14", told, lambda x, s=strides, b=begin, e=end, k=kernel, r=rounding, a=auto, n=number: Opset(
            14).avg_pool(x, s, b, e, k, n == 0, r, a), image)  # fmt: skip
for rank, wanted in ((1, [4]), (2, [1, 1]), (2, [3, 4]), (2, [5, 3]), (3, [2, 3, 4]), (2, [7, 8])):
    image = normal(2, 3, *SIZES[rank])
    declare("adaptive_avg_pool-8", wanted, lambda x, w=wanted: Opset(8).adaptive_avg_pool(x, np.array(w)), image)
    declare("adaptive_max_pool-8", wanted, lambda x, w=wanted: Opset(8).adaptive_max_pool(x, np.array(w)), image)
IMAGE = normal(2, 3, 7, 8)
for v in variants(nearest=("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"),
                  coordinates=("half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn",
                               "align_corners"), sizes=((10, 5), (3, 16), (7, 8), (1, 1))):  # fmt: skip
    declare("interpolate-11", f"nearest {spelled(v)}", lambda x, v=v: Opset(11).interpolate(
        x, np.array(v["sizes"]), "nearest", "sizes", coordinate_transformation_mode=v["coordinates"],
        nearest_mode=v["nearest"], axes=np.array([2, 3])), IMAGE)  # fmt: skip
for v in variants(mode=("linear", "linear_onnx", "cubic"), coordinates=(
        "half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners"),
        sizes=((10, 5), (3, 16), (7, 8), (1, 1))):  # fmt: skip
    declare("interpolate-11", spelled(v), lambda x, v=v: Opset(11).interpolate(
        x, np.array(v["sizes"]), v["mode"], "sizes", coordinate_transformation_mode=v["coordinates"],
        axes=np.array([2, 3])), IMAGE)  # fmt: skip
    scales = np.array([n / m for n, m in zip(v["sizes"], (7, 8), strict=True)], F)
    declare("interpolate-4", spelled(v), lambda x, v=v, s=scales: Opset(10).interpolate(
        x, np.array(v["sizes"]), s, v["mode"], "scales", coordinate_transformation_mode=v["coordinates"],
        axes=np.array([2, 3])), IMAGE)  # fmt: skip
for mode in ("linear", "linear_onnx", "cubic"):
    declare("interpolate-11", f"{mode} antialias", lambda x, m=mode: Opset(11).interpolate(
        x, np.array([3, 4]), m, "sizes", antialias=True, axes=np.array([2, 3])), IMAGE)  # fmt: skip
for mode in ("bilinear_pillow", "bicubic_pillow"):
    for sizes in ((3, 4), (10, 5), (14, 16)):
        declare("interpolate-11", f"{mode} {sizes}", lambda x, m=mode, s=sizes: Opset(11).interpolate(
            x, np.array(s), m, "sizes", axes=np.array([2, 3])), IMAGE)  # fmt: skip
# Between odd sizes, and with this cube_coeff, no result is in the middle of two integers, where the last place decides.
for v in variants(mode=("nearest", "linear", "linear_onnx", "cubic", "bilinear_pillow", "bicubic_pillow"),
                  dtype=("uint8", "int8", "int32", "float16"), sizes=((5, 11), (9, 3))):  # fmt: skip
    declare("interpolate-11", f"{v['mode']} {v['dtype']} {v['sizes']}", lambda x, v=v: Opset(11).interpolate(
        x, np.array(v["sizes"]), v["mode"], "sizes", cube_coeff=-0.6, axes=np.array([2, 3])),
        whole(-100 if v["dtype"] != "uint8" else 0, 120, 2, 3, 7, 9, dtype=v["dtype"]))  # fmt: skip
for v in variants(mode=("bilinear_pillow", "bicubic_pillow"), scales=((0.3, 1.9), (2.0, 0.7))):
    declare("interpolate-11", f"scaled {spelled(v)}", lambda x, v=v: Opset(11).interpolate(
        x, np.array(v["scales"], F), v["mode"], "scales", axes=np.array([2, 3])), IMAGE)  # fmt: skip
for v in variants(mode=("nearest", "linear", "cubic"), align_corners=(True, False)):
    declare("interpolate-1", spelled(v), lambda x, v=v: Opset(1).interpolate(
        x, np.array([10, 5]), {"axes": [2, 3], **v}), IMAGE)  # fmt: skip
for axes, bias, size in (([1], 1.0, 3), ([1], 2.0, 5), ([2, 3], 1.0, 3)):
    declare("lrn-1", f"{axes} {bias} {size}", lambda x, a=axes, b=bias, s=size: Opset(1).lrn(
        x, np.array(a), 0.5, 0.75, b, s), IMAGE)  # fmt: skip
for axes, mode in itertools.product(([1], [2, 3], [], [1, 2, 3]), ("add", "max")):
    declare("normalize_l2-1", f"{axes} {mode}", lambda x, a=axes, m=mode: Opset(1).normalize_l2(
        x, np.array(a, np.int64), 1e-3, m), IMAGE)  # fmt: skip
for v in variants(normalize_variance=(True, False), eps_mode=("inside_sqrt", "outside_sqrt")):
    for axes in ([1], [2, 3], [0, 1, 2, 3], [-1]):
        declare("mvn-6", f"{axes} {spelled(v)}", lambda x, a=axes, v=v: Opset(6).mvn(
            x, Opset(1).constant(np.array(a)), v["normalize_variance"], 1e-3, v["eps_mode"]), IMAGE)  # fmt: skip
for v in variants(across_channels=(True, False), normalize_variance=(True, False)):
    declare("mvn-2", spelled(v), lambda x, v=v: Opset(2).mvn(x, eps=1e-3, **v), IMAGE)
FOUR = [normal(3), normal(3, seed=1), normal(3, seed=2), np.abs(normal(3, seed=3)) + F(0.5)]
for version in (1, 5):
    declare(f"batch_norm_inference-{version}", "", lambda x, v=version: Opset(v).batch_norm_inference(
        x, *FOUR, 1e-3), IMAGE)  # fmt: skip
    declare(f"batch_norm_inference-{version}", "fed", lambda x, *p, v=version: Opset(v).batch_norm_inference(
        x, *p, 1e-3), IMAGE, *FOUR)  # fmt: skip
declare("group_normalization-12", "", lambda x: Opset(12).group_normalization(x, normal(4), normal(4, seed=1), 2, 1e-3),
        normal(2, 4, 3, 5))  # fmt: skip
declare("grn-1", "", lambda x: Opset(1).grn(x, 0.5), IMAGE)
for v in variants(mode=("bilinear", "bicubic", "nearest"), padding_mode=("zeros", "border", "reflection"),
                  align_corners=(True, False)):  # fmt: skip
    declare("grid_sample-9", spelled(v), lambda x, g, v=v: Opset(9).grid_sample(x, g, dict(v)), IMAGE,
            normal(2, 4, 5, 2, seed=4))  # fmt: skip
for auto in ("valid", "same_upper", "same_lower"):
    for strides, rates in itertools.product(((1, 1), (2, 3), (5, 4)), ((1, 1), (2, 1), (1, 3))):
        for dtype in (F, np.int32, np.uint8):
            declare("extract_image_patches-3", f"{dtype.__name__} {auto} {strides} {rates}", lambda x, a=auto,
                    s=strides, r=rates: Opset(3).extract_image_patches(x, [3, 2], list(s), list(r), a),
                    IMAGE.astype(dtype))  # fmt: skip
declare("col2im-15", "", lambda x: Opset(15).col2im(x, np.array([5, 6]), np.array([2, 3]), [1, 1], [1, 1], [0, 0],
                                                    [0, 0]), normal(2, 18, 16))  # fmt: skip
declare("reorg_yolo-2", "", lambda x: Opset(2).reorg_yolo(x, [2]), normal(1, 4, 4, 6))
for v in variants(do_softmax=(True, False), mask=([0, 1], [1]), axis=(1, 2, -3), end_axis=(1, 2, 3, -1)):
    for dtype in (F, np.float16):
        regions = 2 if v["do_softmax"] else len(v["mask"])
        declare("region_yolo-1", f"{dtype.__name__} {spelled(v)}", lambda x, v=v: Opset(1).region_yolo(x, 4, 3, 2, **v),
                normal(2, 8 * regions, 4, 5).astype(dtype))  # fmt: skip
for group, deformable, (strides, dilations, begins, ends) in itertools.product(
    (1, 2),
    (1, 2),
    (([1, 1], [1, 1], [0, 0], [0, 0]), ([2, 1], [1, 2], [1, 2], [0, 1]), ([1, 2], [2, 1], [2, 1], [1, 1])),
):
    sizes = [(n + b + e - (k - 1) * d - 1) // s + 1 for n, k, b, e, d, s in
             zip((8, 9), (3, 2), begins, ends, dilations, strides, strict=True)]  # fmt: skip
    offsets = normal(2, 12 * deformable, *sizes, seed=2) * F(2)
    mask = np.abs(normal(2, 6 * deformable, *sizes, seed=5))
    filters = normal(3 * group, 4 // group, 3, 2, seed=1)
    how = (strides, begins, ends, dilations)
    declare(
        "deformable_convolution-1",
        f"{group} {deformable} {how}",
        lambda x, o, f=filters, g=group, d=deformable, h=how: Opset(1).deformable_convolution(
            x, o, f, *h, "explicit", g, d
        ),
        normal(2, 4, 8, 9),
        offsets,
    )
    for padded in (False, True):
        declare("deformable_convolution-8", f"{group} {deformable} {how} {padded}", lambda x, o, m, f=filters, g=group,
                d=deformable, h=how, p=padded: Opset(8).deformable_convolution(x, o, f, *h, m, "explicit", g, d, p),
                normal(2, 4, 8, 9), offsets, mask)  # fmt: skip
for auto in ("same_upper", "valid"):
    declare("deformable_convolution-8", f"{auto}", lambda x, o, a=auto: Opset(8).deformable_convolution(
        x, o, normal(2, 4, 3, 3), [1, 1], [0, 0], [0, 0], [1, 1], None, a), normal(2, 4, 7, 7),
        normal(2, 18, *((7, 7) if auto == "same_upper" else (5, 5))))  # fmt: skip


def bits(*shape: int) -> Any:
    """A constant of random bits."""
    import openvino as ov

    stored = whole(0, 256, int(np.prod(shape)) // 8, dtype=np.uint8)
    return ov.op.Constant(ov.Tensor(stored, ov.Shape(shape), ov.Type.u1))


for (strides, begin, end, dilations, auto), filling, (count, channels, size), dtype in itertools.product(
    (([1, 1], [0, 0], [0, 0], [1, 1], "explicit"), ([2, 1], [1, 2], [2, 1], [1, 1], "explicit"),
     ([1, 1], [1, 1], [1, 1], [2, 2], "explicit"), ([2, 2], [0, 0], [0, 0], [1, 1], "same_lower")),
    (0.0, 1.0, -1.0),
    ((3, 8, 3), (17, 40, 2)),
    (F, np.float16),
):  # fmt: skip
    declare("binary_convolution-1", f"{strides} {begin} {dilations} {auto} {filling} {count} {dtype.__name__}", lambda
            x, s=strides, b=begin, e=end, d=dilations, a=auto, f=filling, n=(count, channels, size, size): Opset(
                1).binary_convolution(x, bits(*n), s, b, e, d, "xnor-popcount", f, a),
            normal(2, channels, 8, 9, dtype=dtype), static=[(0, axis) for axis in range(4)])  # fmt: skip
for order, dtype in itertools.product(("rgb", "bgr"), (np.uint8, np.float16, F)):
    for planes in ([1, 6, 4, 1],), ([2, 6, 8, 1],), ([2, 4, 6, 1], [2, 2, 3, 2]):
        declare(f"nv12_to_{order}-8", f"{dtype.__name__} {planes}", getattr(Opset(8), f"nv12_to_{order}"),
                *(whole(0, 256, *shape, seed=k, dtype=dtype) for k, shape in enumerate(planes)))  # fmt: skip
    for planes in ([1, 6, 4, 1],), ([2, 6, 8, 1],), ([2, 4, 6, 1], [2, 2, 3, 1], [2, 2, 3, 1]):
        declare(f"i420_to_{order}-8", f"{dtype.__name__} {planes}", getattr(Opset(8), f"i420_to_{order}"),
                *(whole(0, 256, *shape, seed=k, dtype=dtype) for k, shape in enumerate(planes)))  # fmt: skip
