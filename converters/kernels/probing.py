"""Renews the table: probes the installed version, whose entries replace those that the table has of it.

    python -m onnx_sparse.converters.kernels

A test compares the table with the installed version.
"""

from __future__ import annotations

from collections import defaultdict

from onnx import TensorProto, defs

from onnx_sparse.converters.kernels.form_probes import refused_forms
from onnx_sparse.converters.kernels.table import probed, read, write
from onnx_sparse.converters.kernels.type_probes import loads, refused_types

#: The oldest operator set that ONNX Runtime promises to run.
_LOWEST = 7
#: The newest operator set in which models are written.
_HIGHEST = 26


def highest_opset() -> int:
    """The highest operator set that the installed version runs."""
    identity = defs.get_schema("Identity", _LOWEST)
    opsets = range(min(_HIGHEST, defs.onnx_opset_version()), _LOWEST, -1)
    return next(opset for opset in opsets if loads(identity, {"T": TensorProto.FLOAT}, opset))


def lacking() -> dict[str, set[str]]:
    """What the installed version lacks, by subject."""
    found: dict[str, set[str]] = defaultdict(set)
    for opset in range(_LOWEST, highest_opset() + 1):
        for subject, dtype in refused_types(opset):
            found[f"{subject}, opset {opset}"].add(dtype)
    for subject, form in refused_forms():
        found[subject].add(form)
    return dict(found)


def installed() -> str:
    """The installed version."""
    import onnxruntime as ort

    return ".".join(ort.__version__.split(".")[:2])


def main() -> None:
    """Write what the installed version lacks into the table."""
    version = installed()
    kept = {s: {thing: where - {version} for thing, where in things.items()} for s, things in read().items()}
    table: dict[str, dict[str, frozenset[str]]] = defaultdict(dict, kept)
    for subject, things in lacking().items():
        for thing in things:
            table[subject][thing] = table[subject].get(thing, frozenset()) | {version}
    left = {s: {thing: where for thing, where in things.items() if where} for s, things in table.items()}
    write(probed() | {version: highest_opset()}, left)
