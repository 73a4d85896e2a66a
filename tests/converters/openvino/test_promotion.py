"""ConvertPromoteTypes: the common type of every pair of types, and the values in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_irs import IrBuilder
from support.openvino_models import check_all, compiling_core, ops

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert
from onnx_sparse.converters.openvino.element_types import ONNX_TYPES

pytest.importorskip("openvino")


def pairs() -> list[tuple[str, str]]:
    names = ["boolean", "bf16", "f16", "f32", "f64"] + [f"{sign}{bits}" for sign in "iu" for bits in (8, 16, 32, 64)]
    return [(one, other) for one in names for other in names]


@pytest.mark.parametrize("scalar", [None, 0, 1])
@pytest.mark.parametrize("unsafe", [True, False])
def test_promoted_types(unsafe: bool, scalar: int | None, tmp_path: Path) -> None:
    """Of all pairs; what OpenVINO refuses is refused."""
    import openvino as ov

    taken = 0
    for one, other in pairs():
        shapes = [[] if k == scalar else [2] for k in (0, 1)]
        given = [ops(14).parameter(shape, getattr(ov.Type, t)) for shape, t in zip(shapes, (one, other), strict=True)]
        options = {"promote_unsafe": unsafe, "pytorch_scalar_promotion": scalar is not None}
        net = IrBuilder()
        made = [net.parameter(f"p{k}", t, shapes[k]) for k, t in enumerate((one, other))]
        number, port = net.layer(
            "ConvertPromoteTypes", "opset14", made, [("", None), ("", None)],
            {key: str(value).lower() for key, value in options.items()},
        )  # fmt: skip
        net.result((number, port))
        net.result((number, port + 1))
        path = net.save(tmp_path)
        try:
            common = ops(14).convert_promote_types(*given, **options).output(0).element_type.get_type_name()
        except RuntimeError:
            with pytest.raises(ConversionError, match="no promotion"):
                convert(path)
            continue
        taken += 1
        types = [value.type.tensor_type.elem_type for value in convert(path).graph.output]
        assert types == [ONNX_TYPES[common]] * 2, (one, other)
    assert taken > 80


@pytest.mark.parametrize("target", ["f32", "i64", "f64"])
def test_promotion_of_u64_and_signed_integers(target: str, tmp_path: Path) -> None:
    net = IrBuilder()
    made = [net.parameter("a", "u64", [2]), net.parameter("b", "i32", [2])]
    options = {"promote_unsafe": "true", "u64_integer_promotion_target": target}
    number, port = net.layer("ConvertPromoteTypes", "opset14", made, [("", None), ("", None)], options)
    net.result((number, port))
    net.result((number, port + 1))
    types = [value.type.tensor_type.elem_type for value in convert(net.save(tmp_path)).graph.output]
    assert types == [ONNX_TYPES[target]] * 2


def test_promotion_by_a_scalar_that_may_not_be_one(tmp_path: Path) -> None:
    net = IrBuilder()
    unknown = net.layer("Parameter", "opset1", [], [("i32", None)], {"shape": "...", "element_type": "i32"}, "u", "u")
    options = {"promote_unsafe": "true", "pytorch_scalar_promotion": "true"}
    number, port = net.layer("ConvertPromoteTypes", "opset14", [unknown, net.parameter("b", "i64", [2])],
                             [("", None), ("", None)], options)  # fmt: skip
    net.result((number, port + 1))
    with pytest.raises(ConversionError, match="rank is not known"):
        convert(net.save(tmp_path))


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("shape", [(2, 3), (0, 3), ()], ids=str)
def test_promoted_values(shape: tuple[int, ...], dynamic: bool, tmp_path: Path) -> None:
    one, other = np.full(shape, 200, np.uint8), np.full((2, 1), -7, np.int16)

    def build(which: int) -> Any:
        return lambda a, b: ops(8).relu(ops(14).convert_promote_types(a, b, True).output(which))

    builds = {f"{k}": build(k) for k in (0, 1)}
    assert check_all(builds, [one, other], compiling_core(), tmp_path / "model.xml", dynamic=dynamic) == {}
