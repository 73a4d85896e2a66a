"""`inspect`: what is in a model, and what can run it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.commands.inputs.model_settings import ModelSettings
from onnx_sparse.settings import function_of
from onnx_sparse.shown import Shown, Table, text_table

if TYPE_CHECKING:
    from onnx_sparse.commands.description.contents import Description


@dataclass(frozen=True, repr=False)
class Inspection(Shown):
    """What is in a model. Print it, or let a notebook show it.

        seen: onnx_sparse.Inspection = onnx_sparse.inspect("model.onnx")
        print(seen["features"], seen["backends"])

    Attributes:
        document: What `onnx-sparse inspect --json` says: `inputs`, `outputs`, `features`, `nodes` (of the domain),
            `other_nodes`, `functions`, `opsets`, `form`, `size`, `backends`, ...
    """

    document: Description

    def __getitem__(self, name: str) -> Any:
        return self.document[name]  # type: ignore[literal-required]

    def __str__(self) -> str:
        tables = (text_table(columns, rows) for columns, rows in self._tables())
        return "\n\n".join(filter(None, [self._title, *tables]))

    @property
    def _title(self) -> str:
        opsets = ", ".join(f"{domain} {version}" for domain, version in self["opsets"].items())
        count = len(self["nodes"])
        others = sum(self["other_nodes"].values())
        return f"{self['model']}: {count + others} nodes, {count} of the domain; opsets {opsets}"

    def _tables(self) -> list[Table]:
        values = [[kind, v["name"], v["type"]] for kind in ("input", "output") for v in self[f"{kind}s"]]
        features = [
            [f["name"], f["kind"], ", ".join(f"{role}: {name}" for role, name in f["inputs"].items())]
            for f in self["features"]
        ]
        nodes = [[node["op"], node["name"]] for node in self["nodes"]]
        backends = [
            [name.replace("_", " "), "yes" if b["runs"] else "no", "; ".join(b["why_not"]) or b["what"]]
            for name, b in self["backends"].items()
        ]
        return [
            (["", "name", "type"], values),
            (["feature", "kind", "inputs"], features),
            (["operator", "node"], nodes),
            (["backend", "runs", ""], backends if nodes else []),
        ]


@function_of(ModelSettings)
def inspect(settings: ModelSettings) -> Inspection:
    """What is in a model: inputs, features, nodes of the domain, and what can run them.

        print(onnx_sparse.inspect("model.onnx"))

    The model may also be in memory: a ModelProto, bytes or an onnx_ir.Model.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not an ONNX model.
    """
    from onnx_sparse.commands.description.contents import describe
    from onnx_sparse.models.files.model_files import model_of, read_light_model

    if isinstance(settings.model, (str, os.PathLike)):
        return Inspection(describe(read_light_model(settings.model), Path(settings.model)))
    proto = model_of(settings.model)
    return Inspection({**describe(proto, Path("the model")), "size": proto.ByteSize()})
