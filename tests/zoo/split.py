"""Whether a zoo's model answers the same when its tables are split over shards."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

#: Sums of sums are rounded otherwise: by as much of the largest answer.
_RELATIVE = 1e-5


def split_fault(model: ModelProto, batches: Iterable[dict[str, Any]], name: str) -> str:
    """What is wrong with a model that is split; empty if nothing is, or it has no table that can be split.

    Args:
        model: The model.
        batches: Its inputs.
        name: Its name, by which the number of shards and whether answers are exact are drawn.
    """
    import onnx_sparse
    from onnx_sparse.sharding.session import local_session, opened

    drawn = zlib.crc32(name.encode())
    shards, exact = drawn % 8 + 1, bool(drawn & 8)
    with tempfile.TemporaryDirectory(prefix="zoo-") as folder:
        path = Path(folder) / "model.onnx"
        copy = ModelProto()  # what is saved has no tensors afterwards
        copy.CopyFrom(model)
        onnx_sparse.save(copy, path)
        try:
            onnx_sparse.shard(path, path.with_name("split"), shards=shards, exact=exact, at_least=1)
        except ValueError as error:
            known = ("no table that lookups read", "these tables cannot be split", "cannot be split: ids of another")
            return "" if any(reason in str(error) for reason in known) else f"does not split: {error}"
        whole, split = opened(path, 1, "auto"), local_session(path.with_name("split"), 1)
        for feeds in batches:
            expected, got = _answered(whole, feeds), _answered(split, feeds)
            if isinstance(expected, str) != isinstance(got, str):
                return f"in {shards} shards: {got}; whole: {expected}"
            for value, one, other in zip(whole.get_outputs(), expected, got, strict=False):
                if not isinstance(expected, str) and not _equal(one, other, exact):
                    return f"in {shards} shards, output {value.name} differs"
    return ""


def _answered(session: Any, feeds: dict[str, Any]) -> Any:
    try:
        return session.run(None, feeds)
    except Exception as error:  # of ONNX Runtime, which have no common base class
        return str(error)


def _equal(one: Any, other: Any, exact: bool) -> bool:
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    if exact or one.dtype.kind != "f":
        return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))
    scale = np.abs(one[np.isfinite(one)]).max(initial=0)
    return bool(np.allclose(one, other, rtol=_RELATIVE, atol=_RELATIVE * scale, equal_nan=True))
