"""Write what is generated from the declarations and registries: `python docs/generate.py`. A test checks it.

These are pages of the documentation, the README's picture, the site's navigation, the C++ table of declarations, and
the help that the command shows without an import of the package.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path

from onnx_sparse.cli import help_text
from onnx_sparse.converters import openvino, torch
from onnx_sparse.converters.ascend import coverage as ascend_coverage
from onnx_sparse.converters.ascend import differences as ascend_differences
from onnx_sparse.converters.ascend import refusals as ascend_refusals
from onnx_sparse.converters.onnxruntime.guards import GUARDS
from onnx_sparse.converters.roads.table import roads
from onnx_sparse.converters.tensorflow import coverage
from onnx_sparse.converters.tensorflow.accepted_input import ACCEPTED
from onnx_sparse.converters.tensorflow.handlers import differences, structure_coverage
from onnx_sparse.converters.tensorflow.importing.refusals import REFUSALS
from onnx_sparse.converters.verification.intended_differences import EXPLAINED
from onnx_sparse.schemas import FAMILIES, OPS, cpp_table
from onnx_sparse.schemas.pages import index, page, table

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent
sys.path[:0] = [str(FOLDER), str(ROOT / "benchmarks")]  # which are no packages

import notebook_page  # noqa: E402
import record_page  # noqa: E402
from demo_picture import demo_picture  # noqa: E402


def files() -> dict[Path, str]:
    """Every generated file by its path, and the site's settings with their generated part renewed."""
    return {
        **pages(),
        FOLDER / "malformed_input.md": _malformed_input(),
        FOLDER / "tensorflow_differences.md": _tensorflow_differences(),
        FOLDER / "ascend_differences.md": _ascend_differences(),
        FOLDER / "measurements.md": record_page.page(),
        FOLDER / "passes.md": _passes(),
        FOLDER / "demo.svg": demo_picture(),
        notebook_page.NOTEBOOK.with_suffix(".md"): notebook_page.page(),
        FOLDER / "onnxruntime_faults.md": _onnxruntime_faults(),
        ROOT / "mkdocs.yml": _site(),
        ROOT / "onnx_sparse_command" / "help.txt": help_text(80),
        ROOT / "onnx_sparse" / "native" / "abi" / "declarations.inc": cpp_table.table(),
        ROOT / "onnx_sparse" / "native" / "abi" / "limits.inc": cpp_table.limits(),
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


def _site() -> str:
    """The site's settings, with the operators' pages in the navigation, by family."""
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    begin, end = "      # operators: written by docs/generate.py\n", "      # end of operators\n"
    groups = ""
    for family in FAMILIES:
        pages = "".join(f"          - {op.name}: operators/{op.name}.md\n" for op in family.ops)
        title = family.name.replace("_", " ").replace("csv", "CSV")
        groups += f"      - {title[0].upper()}{title[1:]}:\n{pages}"
    return re.sub(f"{begin}.*{end}", f"{begin}{groups}{end}", text, flags=re.DOTALL)


def _target(op_type: str) -> str:
    return ", ".join(_linked(name) if name in OPS else f"{name} (standard)" for name in op_type.split(", "))


def _linked(op_type: str) -> str:
    return f"[{op_type}](../operators/{op_type}.md)" if op_type in OPS else op_type


def _tensorflow_coverage() -> str:
    calls = json.loads((FOLDER / "coverage" / "tensorflow_calls.json").read_text("utf-8"))
    rows = [
        (f"`{row.source}`", _target(row.target), ", ".join(row.dtypes), _drawn(calls.get(row.source)), row.notes)
        for row in coverage()
    ]
    head = ("TensorFlow op", "becomes", "element types", "random calls", "notes")
    equal, refused, wrong, deaths = map(sum, zip(*calls.values(), strict=True))
    return (
        "# TensorFlow ops\n\n"
        "The converter supports these TensorFlow ops, with the element types and limits of each. It refuses other ops, "
        "and attributes that it does not read unless they have the default value. Tests compare the ops with "
        "TensorFlow's kernels over element types, attribute values and sizes of zero. Generated from the registry of "
        "handlers.\n\n"
        "Random calls have random attributes, element types, ranks, sizes and values, with NaN and infinities. The "
        f"last recorded run made {equal + refused + wrong + deaths:,} calls that TensorFlow accepts: {equal:,} models "
        f"gave its answer, {refused:,} calls were refused, {wrong:,} models were wrong, and {deaths:,} ended the "
        "process. The column counts the calls of each op that were equal and refused.\n\n"
        + table(head, rows)
        + "\n## Control flow, variables and lists\n\n"
        + table(
            ("TensorFlow op", "becomes"), [(f"`{op_type}`", text) for op_type, text in structure_coverage().items()]
        )
        + "\n## Refused\n\n"
        "One error lists all nodes that cannot be converted, and the reason for each. These ops are among them:\n\n"
        + table(("TensorFlow op", "reason"), [(f"`{op_type}`", reason) for op_type, reason in sorted(REFUSALS.items())])
        + "\nRewriting rules fuse embedding lookups (`onnx-sparse convert --explain` lists them).\n"
    )


def _drawn(counts: list[int] | None) -> str:
    if counts is None:
        return ""
    equal, refused, *failed = counts
    parts = ((equal, "equal"), (refused, "refused"), (sum(failed), "wrong"))
    return ", ".join(f"{count} {what}" for count, what in parts if count)


def _tensorflow_differences() -> str:
    rows = [(", ".join(f"`{op_type}`" for op_type in ops), what) for what, ops in differences().items()]
    return (
        "# Differences from TensorFlow\n\n"
        "A converted model gives TensorFlow's answers on a CPU, except in the cases on this page and for "
        "[malformed input](malformed_input.md). Floats differ in their last digits if sums are in another order. "
        "`--verify` counts the elements that differ for a known reason.\n\n"
        "On a CPU, ONNX Runtime computes successive operators of float16 in float32, without rounding between them; "
        "TensorFlow rounds after each. So answers differ in the digits of float16, and numbers that leave its range "
        "between two operators stay finite where TensorFlow has infinities or NaN. bfloat16 is rounded as in "
        "TensorFlow.\n\n"
        "## Operators\n\n" + table(("TensorFlow op", "difference"), rows) + "\n\n"
        "## Differences that verification accepts\n\n"
        "`--verify` counts these elements separately. They do not make a model wrong, if the tensor in which the "
        "difference arises confirms it.\n\n" + "\n".join(f"- {text}" for text in EXPLAINED) + "\n"
    )


def _malformed_input() -> str:
    head = ("functions", "malformed input", "the model's answer", "reason")
    rows = [
        (", ".join(f"`{name}`" for name in listed.functions), ", ".join(listed.inputs), listed.answer, listed.reason)
        for listed in ACCEPTED
    ]
    return (
        "# Malformed input\n\n"
        "A model that is converted from TensorFlow refuses malformed input that TensorFlow refuses on a CPU:\n\n"
        "- coordinates of sparse tensors that are out of range or, if TensorFlow checks that, unsorted or repeated,\n"
        "- row splits that decrease or do not begin with 0,\n"
        "- segment ids that are not sorted,\n"
        "- ids out of range.\n\n"
        "It also refuses most of what TensorFlow takes without a look, such as ids of rows without elements, or "
        "entries of `tf.sparse.add` in another order.\n\n"
        "The native kernels, the Python kernels and onnx's evaluator raise an error that names the operator, the "
        "input, the position and the value. [ValidateSparseIndices](operators/ValidateSparseIndices.md) and "
        "[ValidateRowSplits](operators/ValidateRowSplits.md) check inputs that no other operator in the model "
        "checks.\n\n"
        "Two forms of a model do not check values: function bodies (`--portable`), and OpenVINO, which runs the "
        "operators as subgraphs.\n\n"
        "## Negative ids\n\n"
        "ONNX's lookups (Gather, GatherElements, GatherND) count negative ids from the end. A converted model refuses "
        "negative ids if TensorFlow or torch does: in `tf.gather`, `tf.nn.embedding_lookup`, `torch.nn.Embedding`, "
        "`index_select`, `gather`, and in every scatter or reduction by ids. The message of ONNX Runtime shows such an "
        "id as the lowest integer.\n\n"
        "- torch's `x[ids]`, `take`, `index_put`, `put` and `index_fill` count from the end in torch as well.\n"
        "- OpenVINO's Gather counts from the end.\n"
        "- Ids that cannot be negative, such as buckets of a hash, sizes or positions, are not checked.\n"
        "- With `--check-ids`, all lookups refuse negative ids, including lookups of an ONNX file.\n"
        "- Models that `torch.onnx.export` writes with `translation_table()` are not checked.\n\n"
        "`python benchmarks/checked_ids.py` measures the cost. On one thread of a busy machine, on "
        "2026-11-25, a checked lookup took 1.2x to 1.5x the time of an unchecked one for rows of 1 to 64 floats "
        "(Gather), 2.0x for GatherElements and 2.2x for GatherND.\n\n"
        "## Malformed input with an answer\n\n"
        "A test tries every kind of malformed input with every function. TensorFlow refuses the input in this table, "
        "and the converted model answers it. The table is complete for these functions and inputs:\n\n"
        + table(head, rows)
        + "\n"
    )


def _passes() -> str:
    parts = []
    for road in roads().values():
        rows = [(str(number), step.name, step.does) for number, step in enumerate(road.passes(), 1)]
        parts.append(f"\n\n## From {road.title}\n\n{table(('step', 'pass', 'what it does'), rows)}")
    return (
        "# Passes\n\n"
        "After a source's nodes are converted, these passes run over the model, from top to bottom. `onnx-sparse "
        "convert --debug` prints the time of each pass and the number of nodes after it. Generated from the "
        "lists of passes." + "".join(parts) + "\n"
    )


def _onnxruntime_faults() -> str:
    rows = []
    for kind in sorted(GUARDS, key=lambda guard: (guard.effect, guard.name)):
        fault, _, cure = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")
        versions = " to ".join(kind.seen) + (", by processor, threads or memory" if kind.varies else "")
        operators = ", ".join(kind.anchors)
        rows.append((operators, " ".join(fault.split()), kind.effect, versions, " ".join(cure.split())))
    return (
        "# Faults of ONNX Runtime\n\n"
        "Some nodes give wrong results in ONNX Runtime, or end the process. Every converter, and `fuse`, replaces such "
        "nodes. A node is not replaced if its types, shapes and constants exclude the fault, so known sizes make "
        "smaller models. The smallest model that shows the fault was run in the listed versions; 1.21 is the oldest "
        "supported one. Generated from the guards in `converters/onnxruntime`.\n\n"
        + table(("operators", "fault", "effect", "versions", "replacement"), rows)
        + "\nNot guarded: division by 0 ends the process up to ONNX Runtime 1.24; later versions raise an error. Up to "
        "1.26, LayerNormalization, and the nodes that ONNX Runtime fuses into it, lose digits where the mean is 100 "
        "times the deviation or more, and give NaN from 1000 times on. An operator without a kernel for double in some "
        "supported version computes in float. `tests/atlas/expected.py` lists the values on which an operator still "
        "differs from exact arithmetic, and why.\n"
    )


def _torch_coverage() -> str:
    operators = re.compile(rf"\b({'|'.join(OPS)})\b")
    rows = [
        (f"`{row.source}`", operators.sub(lambda m: _linked(m[0]), row.target), row.notes) for row in torch.coverage()
    ]
    return (
        "# torch operators\n\n"
        "The converter supports these torch operators. torch's own exporter converts all others. Generated from the "
        "registry of handlers.\n\n"
        + table(("torch operator", "becomes", "notes"), rows)
        + "\nIllegal input of these operators is an error when the model runs, as in torch: ids out of range, negative "
        "ids, and bags that begin beyond the ids.\n"
    )


def _ascend_coverage() -> str:
    text = (
        "# Ascend operations\n\n"
        "The converter supports these operations. `convert` refuses operations without a handler in one error, or "
        "keeps them as nodes of a foreign domain with `--keep-unknown`. `replay` takes their results from the dump. "
        "[MaskedFill](../operators/MaskedFill.md), [Fill](../operators/Fill.md) and the operators of sparse features "
        "are in the domain `onnx_sparse`; all others are standard ONNX of opset 18, of torch_npu the file's own. "
        "Generated from the registries of handlers.\n\n"
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
        if title == "GE":
            refused = ascend_refusals().items()
            reasons = [(", ".join(f"`{name}`" for name in sorted(names)), why) for why, names in refused]
            text += (
                "\nThe next batch of an iterator (`DynamicGetNext`, `IteratorGetNext`) is an input of the model, or "
                "several.\n\n### Not converted\n\nOperators of these names are not converted, for the reason given. "
                "`*` stands for any text.\n\n" + table(("GE operation", "reason"), reasons) + "\n"
            )
    return text


def _ascend_differences() -> str:
    text = (
        "# Differences from Ascend\n\n"
        "A converted model gives the answers of exact arithmetic, rounded once after each operation, except in the "
        "cases on this page. Nothing here has been compared with an NPU. Where an NPU differs, `replay` shows it.\n\n"
        "- Half floats are computed in float32 and rounded once after each operation. An NPU may keep float32 between "
        "the operations that it fuses, or sum in half floats.\n"
        "- Floats differ in their last digits if sums are in another order.\n"
        "- NaN propagates through maxima and minima, whatever its position. Kernels of an NPU may drop it.\n"
        "- Sums, products and powers of integers wrap, as in numpy. Some NPUs saturate.\n"
        "- Values beyond float16 become infinities, or with `--fp16-overflow saturate` the largest float16.\n"
        "- A failed `Assert` is not an error.\n"
        "- Ids that are out of range are an error, also within a batch. Negative ids count from the end; `--check-ids` "
        "refuses them.\n"
    )
    for kind, listed in ascend_differences().items():
        rows = [(", ".join(f"`{name}`" for name in names), what) for what, names in listed.items()]
        text += f"\n## {kind}\n\n" + table((f"{kind} operation", "difference"), rows) + "\n"
    return text


_ON_OPENVINO = """
## On OpenVINO

`onnx_sparse.converters.openvino.extensions()` turns every operator of the domain into a subgraph of OpenVINO's standard
operators, except operators on strings. It covers every combination of optional inputs, int32 and int64 indices, static
and dynamic shapes, zero rows and zero entries. The limits of OpenVINO's CPU plugin (measured: 2026.4.1) remain:

- int64, uint64 and float64 are computed in 32 bits: values, indices, ids and positions must fit into int32, and an
  infinity in float64 becomes the largest float32. uint32 is computed as int32, and is right if it is only moved.
- bfloat16 results of operators that compute may be truncated instead of rounded.
- Strings are not supported. A model with strings, such as `StringToHashBucketFast`, raises an error with the reason.
- The rank of every tensor must be known: `Fill` needs `dims` of a known length, `SparseFillEmptyRows` with
  `order` = `row_major` a known number of columns, and `SparseReshape` ranks of at least 1.
- OpenVINO's ONNX frontend loses an input with a static dimension of 0. Make such a dimension dynamic.
- Illegal input (ids that are not sorted, indices out of range) is not reported.
"""


def _openvino_coverage() -> str:
    rows = [
        (f"`{row.source}`", ", ".join(_linked(name) for name in row.target.split(", ")), row.notes)
        for row in openvino.coverage()
    ]
    return (
        "# OpenVINO operators\n\n"
        "The converter supports these operators. A layer of a later operator set is converted as the newest listed "
        "version in its set. Generated from the registry of handlers.\n\n"
        + table(("OpenVINO operator", "becomes", "notes"), rows)
        + "\n"
        + _ON_OPENVINO
    )


if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text("utf-8") != text:  # what is written anew is compiled anew
            path.write_text(text, encoding="utf-8")
