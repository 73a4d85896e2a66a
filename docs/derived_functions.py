"""For the reference: functions whose arguments derive from settings are shown as Python sees them."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import griffe


class DerivedFunctions(griffe.Extension):
    """Gives a function that `function_of` makes its arguments, and the documentation of these."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Replace what the source says of such a function."""
        if not any(str(decorator.value).startswith("function_of(") for decorator in func.decorators):
            return
        function = getattr(importlib.import_module(func.module.path), func.name)
        signature = inspect.signature(function)
        func.parameters = griffe.Parameters(*(_parameter(each) for each in signature.parameters.values()))
        func.docstring = griffe.Docstring(inspect.getdoc(function) or "", parent=func, parser="google")


def _parameter(each: inspect.Parameter) -> griffe.Parameter:
    default = None if each.default is inspect.Parameter.empty else repr(each.default)
    kind = griffe.ParameterKind(each.kind.description)
    return griffe.Parameter(each.name, annotation=str(each.annotation), kind=kind, default=default)
