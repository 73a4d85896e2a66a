"""Operators of detectors: boxes and what is taken from images by them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from zoo.operators import F, Opset, declare, normal, spelled, variants, whole

RANDOM = np.random.default_rng(11)
#: The four numbers of boxes, which are the first input.
CORNERS = ((0, 2),)


def boxes(*shape: int, size: float = 1.0) -> Any:
    """Random boxes [..., (x0, y0, x1, y1)]."""
    corners = RANDOM.uniform(0, size * 0.6, (*shape, 2))
    return np.concatenate([corners, corners + RANDOM.uniform(0.1, 0.4, (*shape, 2)) * size], -1).astype(F)


def scores(*shape: int) -> Any:
    """Scores of which no two are equal."""
    count = int(np.prod(shape))
    return (RANDOM.permutation(count).reshape(shape) / count).astype(F)


for v in variants(box_encoding=("corner", "center"), sort_result_descending=(True, False)):
    for version in (1, 3, 4, 5, 9):
        sigma = (np.array(0.0, F),) if version >= 5 else ()
        declare(f"non_max_suppression-{version}", spelled(v), lambda b, s, o=version, g=sigma, v=v: Opset(
            o).non_max_suppression(b, s, np.array(3), np.array(0.4, F), np.array(0.2, F), *g, **v),
            boxes(2, 8), scores(2, 3, 8), static=CORNERS)  # fmt: skip
declare("non_max_suppression-9", "soft", lambda b, s: Opset(9).non_max_suppression(
    b, s, np.array(3), np.array(0.4, F), np.array(0.2, F), np.array(0.5, F)), boxes(1, 8), scores(1, 2, 8),
    static=CORNERS)  # fmt: skip
declare("non_max_suppression-9", "fed", lambda b, s, n, i, t: Opset(9).non_max_suppression(b, s, n, i, t),
        boxes(1, 8), scores(1, 2, 8), np.array(2), np.array(0.5, F), np.array(0.1, F), static=CORNERS)  # fmt: skip
for version, limit in itertools.product((1, 3, 4, 5, 9), (0.0, 1.0, 1.5)):
    declare(f"non_max_suppression-{version}", f"limit {limit}", lambda b, s, o=version, i=limit: Opset(
        o).non_max_suppression(b, s, np.array(5), np.array(i, F), np.array(0.1, F)), boxes(2, 8), scores(2, 3, 8),
        static=CORNERS)  # fmt: skip
for version in (1, 3, 4):
    # As many boxes as there are, not as many as are declared, and what is computed of them.
    declare(f"non_max_suppression-{version}", "few, gathered", lambda b, s, o=version: Opset(8).gather(
        Opset(1).reshape(b, [-1, 4], False), Opset(8).gather(Opset(o).non_max_suppression(
            b, s, np.array(8), np.array(0.4, F), np.array(0.9, F)), [2], 1), 0),
        boxes(1, 8), scores(1, 3, 8), static=CORNERS)  # fmt: skip
for mode in ("avg", "max"):
    for ratio in (0, 2):
        declare(
            "roi_align-3",
            f"{mode} {ratio}",
            lambda x, b, n, m=mode, r=ratio: Opset(3).roi_align(x, b, n, 3, 2, r, 0.5, m),
            normal(2, 3, 8, 8),
            boxes(4, size=16),
            np.array([0, 1, 1, 0], np.int32),
            static=((1, 1),),
        )
        for aligned in ("asymmetric", "half_pixel_for_nn", "half_pixel"):
            declare("roi_align-9", f"{mode} {ratio} {aligned}", lambda x, b, n, m=mode, r=ratio, a=aligned: Opset(
                9).roi_align(x, b, n, 3, 2, r, 0.5, m, a), normal(2, 3, 8, 8), boxes(4, size=16),
                np.array([0, 1, 1, 0], np.int32), static=((1, 1),))  # fmt: skip
numbered = np.concatenate([np.array([[0], [1], [1]], F), boxes(3, size=7)], 1)
ended = np.concatenate([numbered, [[-1, 0, 0, 1, 1]], numbered]).astype(F)
for method, size, given in itertools.product(("max", "bilinear"), ([3, 2], [1, 4]), (numbered, ended)):
    parts = np.concatenate([given[:, :1], boxes(len(given))], 1)
    declare("roi_pooling-2", f"{method} {size} {len(given)}", lambda x, b, m=method, s=size: Opset(2).roi_pooling(
        x, b, s, 0.5, m), normal(2, 3, 8, 8), given if method == "max" else parts,
        static=[(k, axis) for k, rank in enumerate((4, 2)) for axis in range(rank)])  # fmt: skip
for mode in ("average", "bilinear"):
    declare("psroi_pooling-1", mode, lambda x, b, m=mode: Opset(1).psroi_pooling(
        x, b, 2, 2, 0.5 if m == "average" else 1.0, 2, 2, m), normal(2, 8, 8, 8),
        numbered if mode == "average" else np.concatenate([numbered[:, :1], boxes(3)], 1))  # fmt: skip
declare("deformable_psroi_pooling-1", "", lambda x, b: Opset(1).deformable_psroi_pooling(
    x, b, 2, 0.5, 2, spatial_bins_x=2, spatial_bins_y=2, part_size=2), normal(2, 8, 8, 8), numbered)  # fmt: skip
declare(
    "roi_align_rotated-15",
    "",
    lambda x, b, n: Opset(15).roi_align_rotated(x, b, n, 2, 2, 2, 1.0, True),
    normal(2, 3, 8, 8),
    np.array([[4, 4, 3, 2, 0.3], [3, 5, 2, 2, -0.5]], F),
    np.array([0, 1], np.int32),
)
for v in variants(sort_result_descending=(True, False), clockwise=(True, False), output_type=("i64", "i32")):
    for most, limit in ((3, 0.4), (100, 0.1), (1, 0.9), (5, 0.0)):
        declare("nms_rotated-13", f"{most} {limit} {spelled(v)}", lambda b, s, n=most, i=limit, v=v: Opset(
            13).nms_rotated(b, s, np.array(n), np.array(i, F), np.array(0.1, F), **v),
            np.concatenate([boxes(2, 12, size=8), normal(2, 12, 1)], -1), scores(2, 3, 12), static=CORNERS)  # fmt: skip
declare("nms_rotated-13", "fed", lambda b, s, n, i, t: Opset(13).nms_rotated(b, s, n, i, t),
        np.concatenate([boxes(1, 8, size=8), normal(1, 8, 1)], -1), scores(1, 2, 8), np.array(2), np.array(0.3, F),
        np.array(0.1, F), static=CORNERS)  # fmt: skip
ORDERS = list(itertools.product(("none", "score", "classid"), (False, True)))
for number, (v, (order, across)) in enumerate(
    itertools.product(
        variants(keep_top_k=(4, -1), nms_top_k=(-1, 3), background_class=(-1, 1), normalized=(True, False)), ORDERS
    )
):
    v = {**v, "sort_result_type": order, "sort_result_across_batch": across, "score_threshold": 0.2}
    size = 1.0 if v["normalized"] else 20.0
    for decay in ("linear", "gaussian"):
        declare("matrix_nms-8", f"{decay} {spelled(v)}", lambda b, s, v=dict(v), d=decay: Opset(8).matrix_nms(
            b, s, decay_function=d, gaussian_sigma=1.5, post_threshold=0.1, **v),
            boxes(2, 6, size=size), scores(2, 3, 6), static=CORNERS)  # fmt: skip
    limit, eta = ((0.4, 1.0), (0.7, 0.8), (0.3, 0.8), (0.0, 1.0), (1.5, 1.0))[number % 5]
    v |= {"iou_threshold": limit, "nms_eta": eta}
    declare(f"multiclass_nms-{8 + number % 2}", spelled(v), lambda b, s, v=v, o=8 + number % 2: Opset(
        o).multiclass_nms(b, s, **v), boxes(2, 6, size=size), scores(2, 3, 6), static=CORNERS)  # fmt: skip
    declare("multiclass_nms-9", f"of classes {spelled(v)}", lambda b, s, n, v=v: Opset(9).multiclass_nms(b, s, n, **v),
            boxes(3, 12, size=size), scores(3, 12), np.array([5, 0, 7], np.int32), static=CORNERS)  # fmt: skip
declare("matrix_nms-8", "none", lambda b, s: Opset(8).matrix_nms(b, s, score_threshold=2.0), boxes(2, 6),
        scores(2, 3, 6), static=CORNERS)  # fmt: skip
declare("multiclass_nms-9", "none", lambda b, s: Opset(9).multiclass_nms(b, s, score_threshold=2.0), boxes(2, 6),
        scores(2, 3, 6), static=CORNERS)  # fmt: skip
declare(
    "generate_proposals-9",
    "",
    lambda i, a, d, s: Opset(9).generate_proposals(i, a, d, s, 1.0, 0.5, 20, 5),
    np.array([[32, 32, 1]], F),
    boxes(4, 4, 3, size=32),
    normal(1, 12, 4, 4) * F(0.2),
    scores(1, 3, 4, 4),
)

PRIOR: dict[str, dict[str, Any]] = {
    "plain": {"min_size": [16.0], "offset": 0.5},
    "ratios": {"min_size": [16.0, 32.0], "max_size": [32.0, 48.0], "aspect_ratio": [2.0, 3.0], "flip": True,
               "offset": 0.5, "step": 8.0, "variance": [0.1, 0.1, 0.2, 0.2]},
    "clip": {"min_size": [30.0], "aspect_ratio": [0.5], "clip": True, "offset": 0.0, "step": 9.0, "variance": [0.3]},
    "first": {"min_size": [0.1, 0.2], "max_size": [], "aspect_ratio": [1.0, 2.0, 0.5], "scale_all_sizes": False,
              "offset": 0.5},
    "first with step": {"min_size": [0.1, 0.2], "aspect_ratio": [3.0], "scale_all_sizes": False, "offset": 0.5,
                        "step": 0.25, "flip": True},
    "fixed": {"fixed_size": [8.0, 16.0], "density": [2.0, 1.0], "fixed_ratio": [1.0, 2.0], "offset": 0.5},
    "dense": {"fixed_size": [8.0, 12.0], "density": [3.0, 2.0], "aspect_ratio": [2.0], "flip": True, "offset": 0.5},
}  # fmt: skip
for name, attributes in PRIOR.items():
    for version in (1, 8):
        declare(f"prior_box-{version}", name, lambda h, i, v=version, a=attributes: Opset(v).prior_box(h, i, dict(a)),
                np.array([3, 4]), np.array([30, 50]))  # fmt: skip
declare("prior_box-8", "order", lambda h, i: Opset(8).prior_box(
    h, i, {**PRIOR["ratios"], "min_max_aspect_ratios_order": False}), np.array([3, 4]), np.array([30, 50]))  # fmt: skip
for name, attributes in {
    "plain": {"width": [8.0, 16.0], "height": [4.0, 20.0], "offset": 0.5},
    "step": {"width": [8.0], "height": [4.0], "offset": 0.25, "step_widths": 7.0, "step_heights": 9.0,
             "variance": [0.1, 0.1, 0.2, 0.2]},
    "clip": {"width": [40.0], "height": [40.0], "offset": 0.5, "clip": True, "step": 16.0},
}.items():  # fmt: skip
    declare("prior_box_clustered-1", name, lambda h, i, a=attributes: Opset(1).prior_box_clustered(h, i, dict(a)),
            np.array([3, 4]), np.array([30, 50]))  # fmt: skip
for v in variants(code_type=("CORNER", "CENTER_SIZE"), share_location=(True, False), normalized=(True, False),
                  variance_encoded_in_target=(True, False)):  # fmt: skip
    for version, number, extra in (
        (1, 0, {"keep_top_k": [6], "top_k": 5}),
        (8, 1, {"keep_top_k": [4], "top_k": -1, "clip_before_nms": True}),
        (8, 2, {"keep_top_k": [-1], "top_k": 3, "clip_after_nms": True, "background_label_id": 1}),
        (8, 3, {"keep_top_k": [5], "top_k": 6, "decrease_label_id": True}),
    ):
        prior_count, classes = 8, 3
        options = {**v, "code_type": f"caffe.PriorBoxParameter.{v['code_type']}", "nms_threshold": 0.4,
                   "confidence_threshold": 0.1, "input_height": 20, "input_width": 30, **extra}  # fmt: skip
        if version == 1:
            options["num_classes"] = classes
        places = prior_count * 4 * (1 if v["share_location"] else classes)
        prior = boxes(1, 1, prior_count) * (1 if v["normalized"] else 20)
        if not v["normalized"]:
            prior = np.concatenate([np.zeros_like(prior[..., :1]), prior], -1)
        prior = prior.reshape(1, 1, -1)
        if not v["variance_encoded_in_target"]:
            variance = np.zeros_like(prior)
            variance[..., : prior_count * 4] = RANDOM.uniform(0.1, 0.3, prior_count * 4)
            prior = np.concatenate([prior, variance], 1)
        declare(f"detection_output-{version}", f"{number} {spelled(v)}", lambda x, s, p, o=version, a=options: Opset(
            o).detection_output(x, s, p, dict(a)), normal(2, places) * F(0.2), scores(2, prior_count * classes),
            prior.astype(F))  # fmt: skip
for framework, info, count in itertools.product(("", "tensorflow"), ([32, 40, 1], [32, 40, 2, 1]), (1, 2)):
    for version, number, extra in ((1, 0, {}), (4, 1, {}), (4, 2, {"clip_after_nms": True, "clip_before_nms": False}),
                                   (4, 3, {"normalize": True, "box_size_scale": 2.0, "box_coordinate_scale": 3.0}),
                                   (1, 4, {"post_nms_topn": np.uint32(30)})):  # fmt: skip
        sizes = {"base_size": 16, "pre_nms_topn": 20, "post_nms_topn": 6, "feat_stride": 8, "min_size": 4}
        options = {**{key: np.uint32(size) for key, size in sizes.items()}, "nms_thresh": 0.6, "framework": framework,
                   "ratio": np.array([0.5, 1.0], F), "scale": np.array([1.0, 2.0], F), **extra}  # fmt: skip
        declare(f"proposal-{version}", f"{framework} {number} {info} {count}", lambda s, d, i, o=version, a=options:
                Opset(o).proposal(s, d, i, dict(a)), scores(count, 8, 4, 5) + F(0.01),
                normal(count, 16, 4, 5) * F(0.5), np.array(info, F), static=((2, 0),))  # fmt: skip


def detectron(kind: str, sources: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A layer of an operator that OpenVINO's Python API has no function for."""
    from openvino.utils.node_factory import NodeFactory

    return NodeFactory("opset6").create(f"ExperimentalDetectron{kind}", [s.output(0) for s in sources], options)


for most, by_class, limit, least in itertools.product((4, 30), (2, 100), (0.2, 0.6), (0.05, 0.5)):
    options = {"score_threshold": least, "nms_threshold": limit, "max_delta_log_wh": 1.5, "num_classes": 4,
               "post_nms_count": by_class, "max_detections_per_image": most, "class_agnostic_box_regression": False,
               "deltas_weights": [10.0, 10.0, 5.0, 5.0]}  # fmt: skip
    declare("experimental_detectron_detection_output-6", f"{most} {by_class} {limit} {least}", lambda *given, a=options:
            detectron("DetectionOutput", given, a), boxes(12, size=30), normal(12, 16), scores(12, 4),
            np.array([[30, 30, 1]], F))  # fmt: skip
declare("result", "whole", lambda x: Opset(1).relu(x), whole(0, 3, 2, 2).astype(F))
