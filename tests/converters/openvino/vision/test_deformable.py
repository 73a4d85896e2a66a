"""DeformableConvolution over its attributes, with points beyond the image, against OpenVINO."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_models import Case, c, check_all, ops

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert

pytest.importorskip("openvino")

F = np.float32
RNG = np.random.default_rng(0)
KERNEL = (3, 2)


@pytest.mark.pairwise
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("strides", "dilations", "begins", "ends"),
    [([1, 1], [1, 1], [0, 0], [0, 0]), ([2, 1], [1, 2], [1, 2], [0, 1]), ([1, 3], [2, 1], [2, 1], [1, 1])],
)
@pytest.mark.parametrize("is_padded", [False, True])
@pytest.mark.parametrize("parts", [1, 2])
def test_attributes(
    core: Any,
    tmp_path: Path,
    parts: int,
    is_padded: bool,
    strides: Any,
    dilations: Any,
    begins: Any,
    ends: Any,
    dynamic: bool,
) -> None:
    """In one model, OpenVINO takes all for padded or none."""
    image = RNG.normal(size=(2, 4, 8, 9)).astype(F)
    places = zip(image.shape[2:], KERNEL, begins, ends, dilations, strides, strict=True)
    rows, columns = ((n + b + e - (k - 1) * d - 1) // s + 1 for n, k, b, e, d, s in places)
    offsets = (RNG.normal(size=(2, parts * 12, rows, columns)) * 2).astype(F)
    offsets[0, :4] = np.round(offsets[0, :4])
    mask = RNG.random((2, parts * 6, rows, columns)).astype(F)
    how = (strides, begins, ends, dilations)
    builds = {}
    for group, version, is_masked in itertools.product((1, 2), (1, 8), (False, True)):
        if version == 1 and (is_masked or is_padded):
            continue
        kernel = c(RNG.normal(size=(6, 4 // group, *KERNEL)), F)
        options = {"group": group, "deformable_group": parts}
        if version == 8:
            options["bilinear_interpolation_pad"] = is_padded

        def build(x: Any, o: Any, m: Any, v: int = version, k: Any = kernel, u: bool = is_masked,
                  a: Any = options) -> Any:  # fmt: skip
            given = {"mask": m} if u else {}
            return ops(v).deformable_convolution(x, o, k, *how, auto_pad="explicit", **given, **a)

        builds[f"{group} {version} {is_masked}"] = build
    assert check_all(builds, [image, offsets, mask], core, tmp_path / "model.xml", dynamic=dynamic) == {}


def test_sizes_that_paddings_depend_on(tmp_path: Path) -> None:
    def build(x: Any, o: Any) -> Any:
        kernel = c(np.ones((1, 1, 3, 3)), F)
        return ops(8).deformable_convolution(x, o, kernel, [2, 2], [0, 0], [0, 0], [1, 1], auto_pad="same_upper")

    tested = Case("", build, np.ones((1, 1, 6, 6), F), np.ones((1, 18, 3, 3), F), dynamic=True)
    with pytest.raises(ConversionError, match="auto_pad"):
        convert(tested.save(tmp_path))
