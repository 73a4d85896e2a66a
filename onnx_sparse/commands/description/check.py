"""`check`: what is wrong with a model before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onnx_sparse.commands.description.findings import Finding, find
from onnx_sparse.commands.inputs.model_settings import ModelSettings
from onnx_sparse.settings import function_of
from onnx_sparse.shown import Shown, Table


@dataclass(frozen=True, repr=False)
class Check(Shown):
    """What is wrong with a model; true if it has no error. Print it, or let a notebook show it.

        found: onnx_sparse.Check = onnx_sparse.check("model.onnx")
        assert found, found.findings

    Attributes:
        model: Its file, or a name for it.
        findings: What is wrong: each has a `level` (`error` or `warning`), `where` and a `message`.
        form: Its form: `domain`, `functions` or `plain`.
        not_for: The tools that do not take this form: why, and what to do.
    """

    model: str
    findings: tuple[Finding, ...]
    form: str
    not_for: Mapping[str, str]

    def __bool__(self) -> bool:
        return self.ok

    @property
    def ok(self) -> bool:
        """Whether there is no error; warnings may be there."""
        return not any(finding.level == "error" for finding in self.findings)

    def _tables(self) -> list[Table]:
        return [(["", "where", "what"], [[f.level, f.where, f.message] for f in self.findings])]

    @property
    def _title(self) -> str:
        errors = sum(finding.level == "error" for finding in self.findings)
        warnings = len(self.findings) - errors
        counts = [f"{count} {what}{'s' * (count > 1)}" for count, what in ((errors, "error"), (warnings, "warning"))]
        said = ", ".join(text for text, count in zip(counts, (errors, warnings), strict=True) if count)
        return f"{self.model}: {said or 'ok'}, form {self.form}"


@function_of(ModelSettings)
def check(settings: ModelSettings) -> Check:
    """Check a model before it runs: onnx's checker, types and shapes, operators, the limits of ONNX Runtime.

        assert onnx_sparse.check("model.onnx")

    The model may also be in memory: a ModelProto, bytes or an onnx_ir.Model.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not an ONNX model.
    """
    from onnx_sparse.commands.description.forms import NOT_FOR, form_of
    from onnx_sparse.models.files.model_files import file_of, read_light_model

    with file_of(settings.model) as path:
        proto = read_light_model(path)
        form = form_of(proto)
        return Check(settings.name, tuple(find(proto, path)), form, NOT_FOR[form])
