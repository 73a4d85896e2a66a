"""The picture of what a model was converted from, in the operators of its source."""

from __future__ import annotations

from typing import Any

from onnx_sparse.converters.roads.road import AnyRoad
from onnx_sparse.pictures import MOST_NODES, Picture
from onnx_sparse.reports.model_picture import model_picture


def source_picture(road: AnyRoad, loaded: Any, title: str) -> Picture | None:
    """The picture of a source; None for one that cannot be drawn.

    Args:
        road: The road of the source.
        loaded: What its `load` returned.
        title: What it is a picture of.
    """
    if (model := road.as_onnx(loaded)) is not None:
        picture = model_picture(model, title)
    else:
        road.draw(loaded, picture := Picture(title))
    return picture if picture.nodes and len(picture.nodes) <= MOST_NODES else None
