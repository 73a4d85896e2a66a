"""Show what is in a model: its inputs and outputs, the nodes of our operators (also those in
subgraphs and model-local functions), and the backends that can run them, with reasons for those that cannot.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.cli import output

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_sparse.cli.model_graph import PlacedNode

NAME = "inspect"
SUMMARY = "show our operators in a model, and the backends that can run them"
EXAMPLES = """
onnx-sparse inspect model.onnx
onnx-sparse inspect model.onnx --json | jq '.nodes[].op'
"""

_STYLES = {"yes": "green", "no": "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="an ONNX file")


def run(arguments: argparse.Namespace) -> int:
    """Show the model."""
    from onnx_sparse.cli.files.model_file import load_model

    described = describe(load_model(arguments.model), arguments.model)
    if arguments.json:
        output.write_json(described)
    else:
        _show(described)
    return output.DONE


def describe(model: ModelProto, path: Path) -> dict[str, Any]:
    """Everything that the command shows, as JSON."""
    from onnx_sparse.cli.forms import form_of
    from onnx_sparse.cli.model_graph import disk_size, infer_types, nodes, opset_imports, other_domains, type_text
    from onnx_sparse.cli.runnable_backends import BACKENDS, PYTHON, canonical_obstacle, obstacles
    from onnx_sparse.converters.rewriting.rules.lost_rows import lost_rows

    typed = infer_types(model)
    placed_nodes = list(nodes(typed))
    ours = [placed for placed in placed_nodes if placed.is_ours]
    against = {id(placed): obstacles(model, placed) for placed in ours}
    why_not = {name: [why for placed in ours for why in against[id(placed)][name]] for name in BACKENDS}
    if ours and not why_not[PYTHON]:
        why_not[PYTHON] += filter(None, [canonical_obstacle(model)])
    return {
        "model": str(path),
        "size": disk_size(model, path),
        "other_domains": other_domains(model),
        "form": form_of(model),
        "ir_version": model.ir_version,
        "opsets": opset_imports(model),
        "producer": output.printable(f"{model.producer_name} {model.producer_version}".strip()),
        "inputs": [{"name": output.printable(v.name), "type": type_text(v)} for v in model.graph.input],
        "outputs": [{"name": output.printable(v.name), "type": type_text(v)} for v in model.graph.output],
        "features": _describe_features(model),
        "nodes": [_describe_node(placed, against[id(placed)]) for placed in ours],
        "other_nodes": dict(Counter(_operator(p) for p in placed_nodes if not p.is_ours).most_common()),
        "lost_rows": [{"node": output.printable(node), "how": output.printable(how)} for node, how in lost_rows(typed)],
        "functions": sorted({_function_name(f.domain, f.name, f.overload) for f in model.functions}),
        "backends": {
            name: {
                "runs": not why_not[name],
                "why_not": list(dict.fromkeys(why_not[name])),
                "what": what,
            }
            for name, what in BACKENDS.items()
        },
    }


def _describe_features(model: ModelProto) -> list[dict[str, Any]]:
    """The features that a model records; none if its record does not fit it."""
    from onnx_sparse.rows.model_features import features

    try:
        known = features(model)
    except ValueError:
        return []
    return [
        {
            "name": output.printable(feature.name),
            "kind": feature.kind,
            "inputs": {role: output.printable(name) for role, name in feature.inputs.items()},
            "vocabulary_size": feature.vocabulary_size,
        }
        for feature in known.values()
    ]


def _describe_node(placed: PlacedNode, against: dict[str, list[str]]) -> dict[str, Any]:
    from onnx_sparse.cli.model_graph import type_name
    from onnx_sparse.models.canonical import canonical_gaps

    op = placed.op
    binding = placed.type_binding(op) if op else {}
    return {
        "name": placed.label,
        "op": placed.operator,
        "exists": op is not None,
        "types": {variable: type_name(dtype) for variable, dtype in binding.items()},
        "attributes": {
            a.name: output.printable(f"@{a.ref_attr_name}" if a.ref_attr_name else a.s)
            for a in placed.node.attribute
            if a.s or a.ref_attr_name
        },
        "canonical": op is not None and not canonical_gaps(placed.node),
        "backends": {name: not why for name, why in against.items()},
    }


def _operator(placed: PlacedNode) -> str:
    domain = output.printable(placed.node.domain)
    name = output.printable(placed.node.op_type)
    return name if domain in ("", "ai.onnx") else f"{domain}.{name}"


def _function_name(*parts: str) -> str:
    return ".".join(output.printable(part) for part in parts if part)


def _show(described: dict[str, Any]) -> None:
    from onnx_sparse.cli.files.model_file import size_text
    from onnx_sparse.cli.model_graph import who_runs

    opsets = ", ".join(f"{domain} {version}" for domain, version in described["opsets"].items())
    output.heading(described["model"])
    facts = [f"IR {described['ir_version']}", f"opsets {opsets}", size_text(described["size"])]
    if described["producer"]:
        facts.append(f"by {described['producer']}")
    output.write_line(output.printable(", ".join(facts)))
    output.write_line()
    values = [["input", v["name"], v["type"]] for v in described["inputs"]]
    values += [["output", v["name"], v["type"]] for v in described["outputs"]]
    output.table(["", "name", "type"], values)
    output.write_line()
    composed = [feature for feature in described["features"] if len(feature["inputs"]) > 1]
    if composed:
        rows = [
            [feature["name"], feature["kind"], ", ".join(f"{r}: {name}" for r, name in feature["inputs"].items())]
            for feature in composed
        ]
        output.table(["feature", "kind", "inputs"], rows)
        output.write_line()
    if not described["nodes"]:
        output.write_line(f"No node of our domain: {who_runs(described['other_domains'])}.")
    else:
        _show_nodes(described)
    if described["other_nodes"]:
        counts = (f"{name} x{count}" if count > 1 else name for name, count in described["other_nodes"].items())
        output.write_line()
        output.paragraph(f"Other nodes: {', '.join(counts)}")
    if described["lost_rows"]:
        output.write_line()
        rows = [[found["node"], found["how"]] for found in described["lost_rows"]]
        output.table(["node", "why its answers may differ from the source's"], rows)


def _show_nodes(described: dict[str, Any]) -> None:
    rows = [
        [
            node["op"],
            node["name"],
            " ".join(f"{variable}={dtype}" for variable, dtype in node["types"].items()) or "-",
            " ".join(f"{name}={value}" for name, value in node["attributes"].items()) or "-",
        ]
        for node in described["nodes"]
    ]
    columns = ["our operator", "node", "types", "attributes"]
    if not all(node["canonical"] for node in described["nodes"]):  # as a rule they are, and lines are 80 wide
        columns.append("canonical")
        for row, node in zip(rows, described["nodes"], strict=True):
            row.append("yes" if node["canonical"] else "no")
    output.table(columns, rows, styles=_STYLES, paths=["node"])
    output.write_line()
    backends = [
        [name.replace("_", " "), "yes" if backend["runs"] else "no", "; ".join(backend["why_not"]) or backend["what"]]
        for name, backend in described["backends"].items()
    ]
    output.table(["backend", "runs", ""], backends, styles=_STYLES)
