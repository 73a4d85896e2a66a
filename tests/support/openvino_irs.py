"""Handwritten IRs, so that tests need no OpenVINO: layers are given as in the .xml file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

_PRECISIONS = {"float32": "f32", "float16": "f16", "float64": "f64", "bool": "boolean", "bfloat16": "bf16"}


def type_name(dtype: Any) -> str:
    """OpenVINO's name of a numpy type."""
    name = np.dtype(dtype).name
    return _PRECISIONS.get(name, name.replace("uint", "u").replace("int", "i"))


def port_precision(element_type: str) -> str:
    """The name of an element type in a port's `precision`."""
    return {"boolean": "BOOL", "f32": "FP32", "f16": "FP16", "f64": "FP64"}.get(element_type, element_type.upper())


class IrBuilder:
    """Collects layers and edges; `save` writes the two files."""

    def __init__(self) -> None:
        self.layers: list[str] = []
        self.edges: list[str] = []
        self.bin = b""

    def layer(
        self,
        op: str,
        opset: str,
        inputs: list[tuple[int, int]],
        outputs: list[tuple[str, list[int] | None]],
        data: dict[str, Any] | None = None,
        name: str = "",
        names: str = "",
    ) -> tuple[int, int]:
        """Add a layer; returns its first output."""
        number = len(self.layers)
        attributes = "".join(f' {key}="{value}"' for key, value in (data or {}).items())
        given = "".join(f'<port id="{k}"/>' for k in range(len(inputs)))
        made = ""
        for k, (element_type, shape) in enumerate(outputs, len(inputs)):
            dims = "".join(f"<dim>{d}</dim>" for d in shape or ())
            precision = f' precision="{port_precision(element_type)}"' if element_type else ""
            made += f'<port id="{k}"{precision} names="{names}">{dims}</port>'
        self.layers.append(
            f'<layer id="{number}" name="{name or f"{op}_{number}"}" type="{op}" version="{opset}">'
            f"<data{attributes}/><input>{given}</input><output>{made}</output></layer>"
        )
        for k, (layer, port) in enumerate(inputs):
            self.edges.append(f'<edge from-layer="{layer}" from-port="{port}" to-layer="{number}" to-port="{k}"/>')
        return number, len(inputs)

    def parameter(self, name: str, element_type: str, shape: list[int]) -> tuple[int, int]:
        data = {"shape": ",".join("?" if d < 0 else str(d) for d in shape), "element_type": element_type}
        return self.layer("Parameter", "opset1", [], [(element_type, shape)], data, name, name)

    def constant(self, array: Any) -> tuple[int, int]:
        array = np.asarray(array)
        return self.raw_constant(type_name(array.dtype), list(array.shape), array.tobytes())

    def raw_constant(self, element_type: str, shape: list[int], data: bytes) -> tuple[int, int]:
        place = {
            "element_type": element_type,
            "shape": ", ".join(map(str, shape)),
            "offset": len(self.bin),
            "size": max(len(data), 1),
        }
        self.bin += data or b"\0"
        return self.layer("Const", "opset1", [], [(element_type, shape)], place)

    def result(self, source: tuple[int, int]) -> None:
        self.layer("Result", "opset1", [source], [])

    def xml(self, version: str = "11") -> str:
        return (
            f'<?xml version="1.0"?><net name="model" version="{version}"><layers>{"".join(self.layers)}</layers>'
            f"<edges>{''.join(self.edges)}</edges><rt_info/></net>"
        )

    def save(self, folder: Path, version: str = "11") -> Path:
        path = folder / "model.xml"
        path.write_text(self.xml(version), encoding="utf-8")
        path.with_suffix(".bin").write_bytes(self.bin)
        return path
