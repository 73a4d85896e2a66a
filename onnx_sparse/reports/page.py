"""The page of a report: one HTML file that needs nothing beside it, and that no text of a model can change.

All text is escaped; pictures are JSON without `<`; and the page forbids requests and all scripts but its own.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from onnx_sparse.html import html_table, text
from onnx_sparse.reports.contents import Contents

_CLASSES = {"ok": "good", "yes": "good", "no": "bad", "error": "bad", "DIFFERS": "bad", "NOT COMPARED": "bad"}


def page(contents: Contents) -> str:
    """The HTML of a report."""
    scripts = [_resource("dagre.min.js"), _resource("report.js")]
    pictures = {name: picture.to_json() for name, picture in contents.pictures.items()}
    data = json.dumps(pictures, separators=(",", ":")).replace("<", "\\u003c").replace("\u2028", "\\u2028")
    return document(contents.title, contents.subtitle, contents.tiles, list(_sections(contents)), scripts, data)


def document(
    title: str,
    subtitle: str,
    tiles: Mapping[str, str],
    sections: Sequence[tuple[str, str]],
    scripts: Sequence[str] = (),
    pictures: str = "",
) -> str:
    """An HTML document that needs nothing beside it.

    Args:
        title: Its title.
        subtitle: What stands below.
        tiles: Figures at the top, by their names.
        sections: The name and HTML of each section; empty ones are left out.
        scripts: The only scripts that run.
        pictures: What the scripts draw, as JSON without `<`.
    """
    policy = "; script-src " + " ".join(f"'sha256-{_digest(script)}'" for script in scripts) if scripts else ""
    sections = [(name, html) for name, html in sections if html]
    links = "".join(f'<a href="#{_anchor(name)}">{name}</a>' for name, _ in sections)
    body = "".join(f'<section id="{_anchor(name)}"><h2>{name}</h2>{html}</section>' for name, html in sections)
    data = f'<script type="application/json" id="pictures">{pictures}</script>' if pictures else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'"
        f'{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{_resource('report.css')}</style></head><body>"
        f'<header><h1>{text(title)}</h1><p class="soft">{text(subtitle)}</p>'
        f"{_tiles(tiles)}<nav>{links}</nav></header><main>{body}</main>{data}"
        f"{''.join(f'<script>{script}</script>' for script in scripts)}</body></html>\n"
    )


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def _tiles(tiles: Mapping[str, str]) -> str:
    made = "".join(f'<div class="tile"><b>{text(value)}</b>{text(name)}</div>' for name, value in tiles.items())
    return f'<div class="tiles">{made}</div>'


def _sections(contents: Contents) -> Iterator[tuple[str, str]]:
    yield (
        "Graph",
        "".join(_picture(name, picture.title) for name, picture in contents.pictures.items()) + _notes(contents.notes),
    )
    yield "Rules", _rules(contents.rules)
    yield "Verification", _verification(contents)
    yield "Inputs and outputs", _values(contents.inspected)
    yield "Tables", _table(("table", "shape", "type", ">size", "read by"), contents.tables)
    yield "What runs it", _tools(contents)
    yield "Times", _times(contents)


def _picture(name: str, title: str) -> str:
    buttons = "".join(
        f'<button type="button" data-zoom="{how}" aria-label="{said}">{sign}</button>'
        for how, said, sign in (("out", "smaller", "&minus;"), ("in", "larger", "+"), ("fit", "fit the width", "fit"))
    )
    hint = "Click a dashed box to unfold it. Click a node to see its details."
    return (
        f'<div class="picture" id="picture-{name}" data-name="{name}" data-title="{text(title)}"><h3>{text(title)}</h3>'
        f'<div class="bar">{buttons}<span class="soft">{hint}</span></div><div class="canvas" tabindex="0"></div>'
        f'<div class="details table" aria-live="polite"></div><noscript>The picture needs JavaScript.</noscript></div>'
    )


def _notes(notes: Iterable[str]) -> str:
    return "".join(f'<p class="soft">{text(note)}</p>' for note in notes)


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return html_table(columns, rows, classes=_CLASSES) if rows else ""


def _rules(rules: Mapping[str, Any] | None) -> str:
    if rules is None:
        return ""
    fired = _table(("rule", ">applied"), [[rule, count] for rule, count in rules["fired"].items()])
    declined = _table(
        ("rule", "not applied at", "because"), [[d["rule"], d["node"], d["reason"]] for d in rules["declined"]]
    )
    said = '<p class="soft">A rule replaces a pattern of nodes by other nodes with the same answers.</p>'
    return (f"{said}{fired}" if fired else "<p>No rule was applied.</p>") + (
        f"<h3>Rules that found their pattern and were not applied</h3>{declined}" if declined else ""
    )


def _verification(contents: Contents) -> str:
    records = contents.verification
    if records is None:
        return ""
    rows = [
        [
            record["output"],
            f"{record['dtype']}[{', '.join(map(str, record['shape']))}]",
            _distance(record["max_abs"]),
            _distance(record["max_rel"]),
            _distance(record["tolerance"]),
            record["batches_with_rows"],
            record["status"] if record["ok"] else record["verdict"].upper(),
            record["worst"],
            record["where"],
            record["note"],
        ]
        for record in records
    ]
    columns = (
        "output",
        "type",
        ">largest difference",
        ">relative",
        ">allowed",
        ">batches",
        "verdict",
        "worst batch",
        "there",
        "note",
    )
    inputs = _table(("input", "taken for"), list(contents.verified_inputs.items()))
    return _table(columns, rows) + (f"<h3>Inputs that were generated</h3>{inputs}" if inputs else "")


def _distance(value: float | None) -> str:
    return "-" if value is None else "0" if value == 0 else f"{value:.2g}"


def _values(inspected: Mapping[str, Any]) -> str:
    values = [["input", v["name"], v["type"]] for v in inspected["inputs"]]
    values += [["output", v["name"], v["type"]] for v in inspected["outputs"]]
    features = [
        [
            f["name"],
            f["kind"],
            ", ".join(f"{role}: {name}" for role, name in f["inputs"].items()),
            f["vocabulary_size"] or "",
        ]
        for f in inspected["features"]
    ]
    shown = _table(("feature", "kind", "inputs", ">vocabulary"), features)
    return _table(("", "name", "type"), values) + (f"<h3>Features</h3>{shown}" if shown else "")


def _tools(contents: Contents) -> str:
    form, inspected = contents.form, contents.inspected
    opsets = ", ".join(f"{domain} {version}" for domain, version in inspected["opsets"].items())
    said = f"Form {form['name']}: {form['what']}. IR {inspected['ir_version']}, opsets {opsets}."
    backends = [
        [name.replace("_", " "), "yes" if b["runs"] else "no", "; ".join(b["why_not"]) or b["what"]]
        for name, b in inspected["backends"].items()
    ]
    refused = _table(("not for", "why, and what to do"), list(form["not_for"].items()))
    findings = _table(("", "where", "what"), [[f["level"], f["where"], f["message"]] for f in contents.findings])
    return _with_code(
        f"<p>{text(said)}</p>"
        + (_table(("backend", "runs", ""), backends) if inspected["nodes"] else "")
        + (f"<h3>Tools that do not take this form</h3>{refused}" if refused else "")
        + (f"<h3>Findings of <code>check</code></h3>{findings}" if findings else "")
    )


def _with_code(html: str) -> str:
    """HTML whose text between backticks is shown as code."""
    return re.sub(r"`([^`<>]+)`", r"<code>\1</code>", html)


def _times(contents: Contents) -> str:
    shown = contents.benchmark._repr_html_() if contents.benchmark is not None else ""
    operators = contents.operators
    if operators:
        most = max(row.share for row in operators)
        rows = "".join(
            f"<tr><td>{text(row.operator)}</td><td>{row.count}</td><td>{1e6 * row.seconds:.3g}</td>"
            f'<td class="times"><span class="share" style="width:{100 * row.share / most:.0f}px"></span> '
            f"{row.share:.0%}</td></tr>"
            for row in operators
        )
        shown += (
            f"<h3>By operator</h3><p>{text(contents.profiled)}</p>"
            '<div class="table" tabindex="0"><table><thead><tr><th>operator</th><th>nodes</th><th>µs per run</th>'
            f"<th>share</th></tr></thead><tbody>{rows}</tbody></table></div>"
        )
    return shown
