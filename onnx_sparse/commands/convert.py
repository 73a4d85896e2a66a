"""`convert`: a model from any source to ONNX, as on the command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.commands import verification
from onnx_sparse.commands.errors import raised
from onnx_sparse.commands.text import text_table
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.html import html_table, text

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_sparse.converters.verification.comparison import Record


@dataclass(frozen=True)
class Conversion:
    """A converted model, and what became of it on the way. Print it, or let a notebook show it.

    Attributes:
        model: The model.
        origin: What it was converted from: `tensorflow`, `torch`, `openvino`, `ascend` or `onnx`.
        nodes: Its nodes.
        nodes_before: The ONNX nodes before the rules were applied; None where there are no rules.
        fired: How often each rule was applied.
        declined: Where a rule met its pattern and was not applied: `rule`, `node` and `reason`.
        verification: How far the answers of both are apart, by output; None if that was not asked for.
        verified_inputs: What inputs were taken for when they were generated.
        notes: What the converter warned of.
    """

    model: ModelProto = field(repr=False)
    origin: str
    nodes: int
    nodes_before: int | None = None
    fired: Mapping[str, int] = field(default_factory=dict)
    declined: Sequence[Mapping[str, str]] = ()
    verification: Sequence[Record] | None = None
    verified_inputs: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def save(self, path: str | os.PathLike[str], *, external_data: bool | None = None) -> None:
        """Write the model, whole or not at all.

        Args:
            path: The file.
            external_data: Whether tensors go to a file next to it; by default from 16 MiB on.

        Raises:
            ConversionError: It cannot be written.
        """
        from onnx import ModelProto

        from onnx_sparse.models.load_and_save import save_model

        copy = ModelProto()
        copy.CopyFrom(self.model)  # what goes to the other file leaves the model
        with raised():
            save_model(copy, Path(path), external=external_data)

    def __str__(self) -> str:
        lines = [self._title]
        if self.fired:
            lines.append("rules: " + ", ".join(f"{n} x{c}" if c > 1 else n for n, c in self.fired.items()))
        lines.append(text_table(*self._records))
        return "\n".join(filter(None, [*lines, *(f"note: {note}" for note in self.notes)]))

    def _repr_html_(self) -> str:
        columns, rows = self._records
        declined = [[entry["rule"], entry["node"], entry["reason"]] for entry in self.declined]
        parts = [f"<p>{text(self._title)}</p>"]
        parts += [html_table(["rule", ">fired"], list(self.fired.items()))] if self.fired else []
        parts += [html_table(["rule", "did not fire at", "because"], declined)] if declined else []
        parts += [html_table(columns, rows)] if rows else []
        return "".join([*parts, *(f"<p>{text(note)}</p>" for note in self.notes)])

    @property
    def _title(self) -> str:
        before = "" if self.nodes_before is None else f" ({self.nodes_before} before the rules)"
        return f"converted from {self.origin}: {self.nodes} nodes{before}"

    @property
    def _records(self) -> tuple[list[str], list[list[object]]]:
        distance = verification.distance
        rows: list[list[object]] = [
            [r.output, r.dtype, list(r.shape), distance(r.max_abs), distance(r.tolerance), r.verdict.value, r.note]
            for r in self.verification or ()
        ]
        return ["output", "type", "shape", "largest difference", "allowed", "verdict", "note"], rows


def convert(
    source: Any,
    output: str | os.PathLike[str] | None = None,
    *,
    origin: str | None = None,
    fuse: bool = False,
    repair_scatter: Sequence[str] = (),
    check_ids: bool = False,
    features: str | None = None,
    portable: bool = False,
    lower: bool = False,
    opset: int | None = None,
    external_data: bool | None = None,
    verify: bool = False,
    feeds: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> Conversion:
    """Convert a model, whatever it comes from, as `onnx-sparse convert` does.

        onnx_sparse.convert("saved_model", "model.onnx", verify=True)
        model = onnx_sparse.convert(keras_model).model

    Args:
        source: A SavedModel, GraphDef, checkpoint, Keras file, `.pt2`, OpenVINO IR, graph of Ascend or ONNX file; or in
            memory a Keras model, `tf.function`, ExportedProgram of torch or ModelProto.
        output: The file to write, when everything has succeeded.
        origin: What the source is: "tensorflow", "torch", "openvino", "ascend" or "onnx"; found out when omitted.
        fuse: In an ONNX file, replace standard nodes that are one of the domain's operators.
        repair_scatter: With `fuse`, what scatters become that lose rows: see `onnx_sparse.fuse`.
        check_ids: Let all lookups refuse negative ids.
        features: "ragged" gives each sparse feature a vector of values and one of row splits.
        portable: Add a body of standard ONNX for each of the domain's operators.
        lower: Standard ONNX only.
        opset: The opset of ai.onnx.
        external_data: Whether tensors go to a file next to `output`; by default from 16 MiB on.
        verify: Run source and model on the same inputs, and write only what agrees.
        feeds: The inputs for this; generated when omitted.
        progress: Called with what is being done.
        options: The options of the source's own `load` or `convert`: `signature`, `tag`, `inputs`, ...

    Raises:
        ConversionError: The source cannot be converted, with every reason; or the answers differ.
        MissingPackageError: A package that the source needs is not installed; a kind of ConversionError.
        ValueError: Options make no sense together.
        TypeError: The source has no such option.
    """
    from onnx_sparse.commands import conversion
    from onnx_sparse.converters.rewriting.explanation import count_nodes
    from onnx_sparse.converters.roads.table import road_of, roads
    from onnx_sparse.models.large_models import LARGE, finish, load, refers_to_arrays, whole_size
    from onnx_sparse.models.load_and_save import save_model
    from onnx_sparse.models.references import holding_arrays

    if portable and lower:
        raise ValueError("portable and lower exclude each other: one keeps the domain's operators, the other does not")
    if features not in (None, "ragged"):
        raise ValueError(f"features = {features!r} is not 'ragged'")
    if repair_scatter and (verify or not fuse):
        raise ValueError("repair_scatter is for fuse, and changes the answers: nothing can be verified")
    found = road_of(source).name if origin is None else origin
    if found not in roads():
        raise ValueError(f"origin = {origin!r} is not one of {', '.join(roads())}")
    if fuse and found != "onnx":
        raise ValueError("fuse is for ONNX models")
    if found == "onnx" and options:
        raise TypeError(f"a conversion of an ONNX model has no option {next(iter(options))!r}")
    tell = progress or (lambda stage: None)
    given = Path(source) if isinstance(source, (str, os.PathLike)) else source
    if isinstance(given, Path) and not given.exists():
        raise ConversionError(f"{given}: no such file or directory")
    asked = conversion.Options(fuse, tuple(repair_scatter), check_ids, features, options)
    made = conversion.Conversion(found, given, asked)
    with raised(), holding_arrays() as is_inner:
        plain = made.convert(tell)
        model = conversion.in_form(plain, portable=portable, lower=lower, opset=opset)
        records = made.verify(plain, model, tell, feeds) if verify or feeds is not None else None
        failure = verification.failure(records or (), given=feeds is not None)
        if failure is not None:
            raise ConversionError(failure)
        if output is not None:
            copy = type(model)()
            copy.CopyFrom(model)
            save_model(copy, Path(output), external=external_data)
        if refers_to_arrays(model) and whole_size(model) >= LARGE:
            if output is None:
                raise ConversionError("the model is too large for one message: give the file to write as output")
            model = load(output)
        if not is_inner:
            finish(model, keeps_files=whole_size(model) >= LARGE)
    document = made.report.document()
    rules = document.get("rules", {"fired": {}, "declined": ()})
    return Conversion(
        model,
        found,
        count_nodes(model),
        document.get("nodes_before_rules"),
        rules["fired"],
        tuple(rules["declined"]),
        records,
        made.input_lines,
        tuple(made.notes),
    )
