"""Write what is generated from the declarations and registries: `python docs/generate.py`. A test checks it.

These are pages of the documentation, the README's table of operators, and the C++ table of declarations.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from onnx_sparse.converters import openvino, torch
from onnx_sparse.converters.ascend import coverage as ascend_coverage
from onnx_sparse.converters.tensorflow import coverage
from onnx_sparse.converters.tensorflow.handlers.registry import REFUSALS
from onnx_sparse.schemas import FAMILIES, OPS, cpp_table
from onnx_sparse.schemas.pages import index, overview, page, table

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent
sys.path.insert(0, str(ROOT / "benchmarks"))  # which are no package

import record_page  # noqa: E402


def files() -> dict[Path, str]:
    """Every generated file by its path, and the README with its generated part renewed."""
    return {
        **pages(),
        FOLDER / "measurements.md": record_page.page(),
        ROOT / "README.md": _readme(),
        ROOT / "onnx_sparse" / "native" / "declarations.inc": cpp_table.table(),
    }


def pages() -> dict[Path, str]:
    """Every generated page of the operators and converters by its path."""
    operators = {FOLDER / "operators" / f"{op.name}.md": page(op) for op in OPS.values()}
    return {
        FOLDER / "operators" / "README.md": index(FAMILIES),
        **operators,
        FOLDER / "coverage" / "ascend.md": _ascend_coverage(),
        FOLDER / "coverage" / "tensorflow.md": _tensorflow_coverage(),
        FOLDER / "coverage" / "torch.md": _torch_coverage(),
        FOLDER / "coverage" / "openvino.md": _openvino_coverage(),
    }


def _readme() -> str:
    text = (ROOT / "README.md").read_text("utf-8")
    begin, end = "<!-- operators: written by docs/generate.py -->\n", "<!-- end of operators -->\n"
    return re.sub(f"{begin}.*{end}", f"{begin}\n{overview(FAMILIES, 'docs/operators')}\n\n{end}", text, flags=re.DOTALL)


def _target(op_type: str) -> str:
    return _linked(op_type) if op_type in OPS else f"{op_type} (standard)"


def _linked(op_type: str) -> str:
    return f"[{op_type}](../operators/{op_type}.md)" if op_type in OPS else op_type


def _tensorflow_coverage() -> str:
    rows = [(f"`{row.source}`", _target(row.target), ", ".join(row.dtypes), row.notes) for row in coverage()]
    head = ("TensorFlow op", "becomes", "element types", "notes")
    return (
        "# TensorFlow ops converted here\n\n"
        "These ops have a handler here; tf2onnx converts all others. Generated from the registry of handlers.\n\n"
        + table(head, rows)
        + "\n## Refused\n\n"
        "What is refused is refused by name, with its reason and all such nodes at once. Among these ops:\n\n"
        + table(("TensorFlow op", "reason"), [(f"`{op_type}`", reason) for op_type, reason in sorted(REFUSALS.items())])
        + "\nRewriting rules fuse embedding lookups (`onnx-sparse convert --explain` lists them).\n"
    )


def _torch_coverage() -> str:
    operators = re.compile(rf"\b({'|'.join(OPS)})\b")
    rows = [
        (f"`{row.source}`", operators.sub(lambda m: _linked(m[0]), row.target), row.notes) for row in torch.coverage()
    ]
    return (
        "# torch operators converted here\n\n"
        "torch's own exporter converts all others. Generated from the registry of handlers.\n\n"
        + table(("torch operator", "becomes", "notes"), rows)
        + "\nIllegal input of these operators is an error when the model runs, as it is in torch: ids out of range, "
        "negative ones, bags that begin beyond the ids.\n"
    )


def _ascend_coverage() -> str:
    text = (
        "# Ascend operations converted here\n\n"
        "Generated from the registries of handlers. `convert` refuses operations without a handler in one error, or "
        "keeps them as nodes of a foreign domain with `--keep-unknown`; `replay` takes their results from the dump. "
        "[MaskedFill](../operators/MaskedFill.md), [Fill](../operators/Fill.md) and the operators of sparse features "
        "are this project's domain; all others are standard ONNX of opset 17."
        "\n\n"
        "Half floats are computed in float32 and rounded after each operation. Nothing here has been compared with an "
        "NPU: the definitions come from public sources and specifications.\n"
    )
    for title, rows in ascend_coverage().items():
        if title == "ATB":
            counts = {state: sum(row.state == state for row in rows) for state in ("have", "partly", "not")}
            text += (
                f"\n## {title}\n\nAll {len(rows)} inference operations of ATB: {counts['have']} are converted, "
                f"{counts['partly']} partly, {counts['not']} not.\n\n"
            )
            states = [(f"`{row.source}`", row.state, row.target, row.notes) for row in rows]
            text += table((f"{title} operation", "state", "becomes", "notes"), states) + "\n"
            continue
        cells = [(f"`{row.source}`", row.target, row.notes) for row in rows]
        text += f"\n## {title}\n\n" + table((f"{title} operation", "becomes", "notes"), cells) + "\n"
    return text


_ON_OPENVINO = """
## On OpenVINO

`onnx_sparse.converters.openvino.extensions()` turns every operator of the domain, except those on strings, into a
subgraph of OpenVINO's standard operators. It covers every combination of optional inputs, int32 and int64 indices,
static and dynamic shapes, zero rows and zero entries. The limits of OpenVINO's CPU plugin (measured: 2026.4.1) remain:

- int64, uint64 and float64 are computed in 32 bits: values, indices, ids and positions must fit into int32, and an
  infinity in float64 becomes the largest float32. uint32 is computed as int32, and is right where it is only moved.
- bfloat16 results of operators that compute may be truncated instead of rounded.
- Strings are not supported; a model with them (`StringToHashBucketFast`, say) is refused, with the reason.
- The rank of every tensor must be known: `Fill` needs `dims` of a known length, `SparseFillEmptyRows` with
  `order` = `row_major` a known number of columns, and `SparseReshape` ranks of at least 1.
- OpenVINO's ONNX frontend loses an input with a static dimension of 0; leave such a dimension dynamic.
- Illegal input (ids that are not sorted, indices out of range) is not reported.
"""


def _openvino_coverage() -> str:
    rows = [
        (f"`{row.source}`", ", ".join(_linked(name) for name in row.target.split(", ")), row.notes)
        for row in openvino.coverage()
    ]
    return (
        "# OpenVINO operators converted here\n\n"
        "A layer of a later operator set is converted as the newest version here that its set has. Generated from the "
        "registry of handlers.\n\n" + table(("OpenVINO operator", "becomes", "notes"), rows) + "\n" + _ON_OPENVINO
    )


if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text("utf-8") != text:  # what is written anew is compiled anew
            path.write_text(text, encoding="utf-8")
