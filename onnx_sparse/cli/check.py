"""Check a model before it runs: onnx's full checker, strict type and shape inference with our
schemas, unknown operators, canonical form, and the limits of the installed ONNX Runtime. It also
reports the form of the model, and the tools that do not take that form.

Errors keep the model from running and make the command fail; warnings do not.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from onnx_sparse.cli import output
from onnx_sparse.cli.arguments import add_options
from onnx_sparse.commands.inputs.model_settings import ModelSettings
from onnx_sparse.errors import FAILED, printable

NAME = "check"
SUMMARY = "find what is wrong with a model before it runs"
EXAMPLES = """
onnx-sparse check model.onnx
onnx-sparse check model.onnx --json | jq '.findings[].message'
"""

_STYLES = {"error": "bold red", "warning": "yellow"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_options(parser, ModelSettings)


def run(arguments: argparse.Namespace) -> int:
    """Print what is wrong with the model; fails when any of it is an error."""
    from onnx_sparse.commands.description.findings import find
    from onnx_sparse.commands.description.forms import FORMS, NOT_FOR, form_of
    from onnx_sparse.models.files.load_and_save import load_model

    model = load_model(arguments.model)
    findings = list(find(model, arguments.model))
    form = form_of(model)
    errors = sum(finding.level == "error" for finding in findings)
    if arguments.json:
        document = {
            "model": str(arguments.model),
            "ok": not errors,
            "findings": [asdict(f) for f in findings],
            "form": form,
            "not_for": NOT_FOR[form],
        }
        output.write_json(document)
    else:
        if findings:
            output.table(["", "where", "what"], [[f.level, f.where, f.message] for f in findings], styles=_STYLES)
            output.write_line()
        output.write_line(f"form {form}: {FORMS[form]}")
        if NOT_FOR[form]:
            output.write_line()
            output.table(
                ["tool that cannot use it", "why, and what to do"], [list(row) for row in NOT_FOR[form].items()]
            )
            output.write_line()
        output.write_line(f"{printable(arguments.model)}: {_verdict(errors, len(findings) - errors)}")
    return FAILED if errors else output.DONE


def _verdict(errors: int, warnings: int) -> str:
    counts = [
        f"{count} {word}{'s' * (count > 1)}" for count, word in ((errors, "error"), (warnings, "warning")) if count
    ]
    return ", ".join(counts) or "ok"
