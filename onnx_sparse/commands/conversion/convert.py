"""`convert`: a model from any source to ONNX, as on the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onnx_sparse.commands.conversion.settings import ConvertSettings, extended
from onnx_sparse.commands.errors import raised
from onnx_sparse.commands.sources import verification
from onnx_sparse.errors import CommandError
from onnx_sparse.html import text
from onnx_sparse.settings import function_of, in_python
from onnx_sparse.shown import Shown, Table, text_table

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_sparse.commands.conversion.smaller_tables import Tables
    from onnx_sparse.commands.sources.explanation import Declined, Rules
    from onnx_sparse.converters.verification.comparison import Record


@dataclass(frozen=True, repr=False)
class Conversion(Shown):
    """A converted model, and what was done to it. Print it, or let a notebook show it.

        made: onnx_sparse.Conversion = onnx_sparse.convert("saved_model")
        print(made.nodes, made.fired, made.notes)

    Attributes:
        model: The model.
        origin: The name of the road that it was converted by: `tensorflow`.
        nodes: Its nodes.
        nodes_before: The ONNX nodes before the rules were applied; None where there are no rules.
        fired: How often each rule was applied.
        declined: Where a rule met its pattern and was not applied: `rule`, `node` and `reason`.
        verification: How far the answers of both are apart, by output; None if that was not asked for.
        verified_inputs: What inputs were taken for when they were generated.
        notes: What the converter warned of.
        tables: What became of the tables that were to be smaller, and what difference that makes.
        explain: Whether it also prints where rules were not applied.
    """

    model: ModelProto
    origin: str
    nodes: int
    nodes_before: int | None = None
    fired: Mapping[str, int] = field(default_factory=dict)
    declined: Sequence[Declined] = ()
    verification: Sequence[Record] | None = None
    verified_inputs: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    tables: Tables | None = None
    explain: bool = False

    def save(self, path: str | os.PathLike[str], *, external_data: bool | None = None) -> None:
        """Write the model, whole or not at all.

        Args:
            path: The file.
            external_data: Whether tensors go to a file next to it; by default from 16 MiB on.

        Raises:
            ConversionError: It cannot be written.
        """
        from onnx_sparse.commands.conversion.save import save

        save(self.model, path, external_data=external_data)

    def __str__(self) -> str:
        lines = [self._title]
        if self.fired:
            lines.append("rules: " + ", ".join(f"{n} x{c}" if c > 1 else n for n, c in self.fired.items()))
        if self.explain:
            lines.append(text_table(*self._declined))
        lines.append(text_table(*self._records))
        return "\n".join(filter(None, [*lines, *(f"note: {note}" for note in self.notes)]))

    def _repr_html_(self) -> str:
        return super()._repr_html_() + "".join(f"<p>{text(note)}</p>" for note in self.notes)

    def _tables(self) -> list[Table]:
        return [(["rule", ">applied"], list(self.fired.items())), self._declined, self._records]

    @property
    def _title(self) -> str:
        before = "" if self.nodes_before is None else f" ({self.nodes_before} before the rules)"
        return f"{self.nodes} nodes from {self.origin}{before}"

    @property
    def _declined(self) -> tuple[list[str], list[list[object]]]:
        rows: list[list[object]] = [[entry["rule"], entry["node"], entry["reason"]] for entry in self.declined]
        return ["rule", "not applied at", "because"], rows

    @property
    def _records(self) -> tuple[list[str], list[list[object]]]:
        distance = verification.distance
        rows: list[list[object]] = [
            [r.output, r.dtype, list(r.shape), distance(r.max_abs), distance(r.tolerance), r.verdict.value, r.note]
            for r in self.verification or ()
        ]
        return ["output", "type", "shape", "largest difference", "allowed", "verdict", "note"], rows


@function_of(ConvertSettings, extended)
def convert(settings: ConvertSettings) -> Conversion:
    """Convert a model, whatever it comes from, as `onnx-sparse convert` does.

        onnx_sparse.convert("saved_model", "model.onnx")  # verify=True compares it with TensorFlow
        model = onnx_sparse.convert("saved_model").model

    The source may also be in memory: a Keras model, a `tf.function`, an ExportedProgram of torch, a model of OpenVINO
    or a ModelProto. Nothing is written if `output` is omitted.

    Raises:
        ConversionError: The source cannot be converted, with every reason; or the answers differ.
        MissingPackageError: A package that the source needs is not installed; a kind of ConversionError.
        ValueError: Arguments make no sense together, or for this source.
        TypeError: There is no such argument.
    """
    from onnx_sparse.commands.conversion.source import check, convert_source
    from onnx_sparse.converters.rewriting.explanation import count_nodes
    from onnx_sparse.models.data.references import holding_arrays
    from onnx_sparse.models.files.large_models import LARGE, finish, load, refers_to_arrays, whole_size

    with raised(extended()), holding_arrays() as is_inner:
        made = convert_source(check(settings), settings, keeps_model=True)
        if made.failure is not None:
            raise CommandError(made.failure)
        model = made.model
        if refers_to_arrays(model) and whole_size(model) >= LARGE:
            if settings.target is None:
                raise CommandError("the model is too large for one message: give the file to write as --output")
            model = load(settings.target)
        if not is_inner:
            finish(model, keeps_files=whole_size(model) >= LARGE)
    no_rules: Rules = {"fired": {}, "declined": ()}
    rules = made.document.get("rules", no_rules)
    return Conversion(
        model,
        made.conversion.road.name,
        count_nodes(model),
        made.document.get("nodes_before_rules"),
        rules["fired"],
        tuple(rules["declined"]),
        made.records,
        made.conversion.input_lines,
        tuple(in_python(note, extended()) for note in made.conversion.notes),
        made.document["tables"],
        settings.explain,
    )
