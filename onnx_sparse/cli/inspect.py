"""Show what is in a model: its inputs and outputs, the nodes of our operators (also those in
subgraphs and model-local functions), and the backends that can run them, with reasons for those that cannot.
"""

from __future__ import annotations

import argparse

from onnx_sparse.cli import output
from onnx_sparse.cli.arguments import add_options
from onnx_sparse.commands.description.contents import Description
from onnx_sparse.commands.inputs.model_settings import ModelSettings
from onnx_sparse.errors import printable

NAME = "inspect"
SUMMARY = "show our operators in a model, and the backends that can run them"
EXAMPLES = """
onnx-sparse inspect model.onnx
onnx-sparse inspect model.onnx --json | jq '.nodes[].op'
"""

_STYLES = {"yes": "green", "no": "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_options(parser, ModelSettings)


def run(arguments: argparse.Namespace) -> int:
    """Show the model."""
    from onnx_sparse.commands.description.contents import describe
    from onnx_sparse.models.files.load_and_save import load_model

    described = describe(load_model(arguments.model), arguments.model)
    if arguments.json:
        output.write_json(dict(described))
    else:
        _show(described)
    return output.DONE


def _show(described: Description) -> None:
    from onnx_sparse.commands.inputs.model_graph import who_runs
    from onnx_sparse.models.files.load_and_save import size_text

    opsets = ", ".join(f"{domain} {version}" for domain, version in described["opsets"].items())
    output.heading(described["model"])
    facts = [f"IR {described['ir_version']}", f"opsets {opsets}", size_text(described["size"])]
    if described["producer"]:
        facts.append(f"by {described['producer']}")
    output.write_line(printable(", ".join(facts)))
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


def _show_nodes(described: Description) -> None:
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
