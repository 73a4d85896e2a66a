"""What `convert` reports about a verification: how far apart the answers of two models are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx_sparse.cli import output

_VERDICTS = {True: "ok", False: "DIFFERS"}
_STYLES = {"ok": "green", "DIFFERS": "bold red"}


def document(record: Any) -> dict[str, Any]:
    """The verification of one output, as a part of `--json`'s document."""
    fields = ("output", "dtype", "shape", "max_abs", "max_rel", "ok", "note")
    values = {name: getattr(record, name) for name in fields}
    values["worst"] = getattr(record, "worst", "")
    return {**values, "dtype": str(values["dtype"]), "shape": [int(d) for d in values["shape"]], "ok": bool(record.ok)}


def show(records: Sequence[dict[str, Any]]) -> None:
    """Print how far apart the two models' answers are, output by output."""
    rows = [
        [
            record["output"],
            record["dtype"],
            f"[{', '.join(map(str, record['shape']))}]",
            _distance(record["max_abs"]),
            _distance(record["max_rel"]),
            _VERDICTS[record["ok"]],
            record["worst"],
            record["note"] or "",
        ]
        for record in records
    ]
    output.table(
        ["output", "type", "shape", ">max abs", ">max rel", "verdict", "worst batch", "note"], rows, styles=_STYLES
    )


def _distance(value: float | None) -> str:
    return "-" if value is None else "0" if value == 0 else f"{value:.2g}"
