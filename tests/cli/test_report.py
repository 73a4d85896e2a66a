"""`onnx-sparse report`, `convert --report`, and the pictures in them."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from onnx_sparse.cli import demo
from onnx_sparse.commands.reports import model_report
from onnx_sparse.pictures import Picture, PictureNode
from onnx_sparse.reports.model_picture import model_picture

HOSTILE = '</script><script>document.title="owned"</script><img src="https://example.com/x.png" onerror="alert(1)">'


class Page(HTMLParser):
    """A page as a browser reads it: its elements, its text, and the JSON of its pictures."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self.feed(html)
        self.pictures = json.loads(self.scripts[0])

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script" and self.get_starttag_text() is not None and self.cdata_elem:
            self.scripts[-1] += data
        else:
            self.text += f"{data} "

    def requests(self) -> list[str]:
        """The addresses that elements would load from."""
        return [
            value
            for tag, attributes in self.tags
            for name, value in attributes.items()
            if name in ("src", "href", "srcset", "data", "poster")
            and not (tag == "a" and (value or "").startswith("#"))
        ]


@pytest.fixture
def report(cli, tmp_path):
    """Write a report and read it."""

    def write(path, *arguments):
        page = tmp_path / "report.html"
        result = cli("report", path, "-o", page, *arguments)
        assert result.code == 0, result.err
        return Page(page.read_text("utf-8"))

    return write


@pytest.fixture
def hostile(save, make_model, domain_node):
    """A model of which every name is written to leave the page's text."""
    inputs = {f"{HOSTILE}data": (TensorProto.FLOAT, ["K", 2]), f"{HOSTILE}ids": (TensorProto.INT64, [HOSTILE])}
    node = domain_node("SegmentMax", list(inputs), [f"{HOSTILE}out"], fill_mode="ZERO")
    node.name = f"{HOSTILE}/{HOSTILE}"
    model = make_model([node], inputs, {f"{HOSTILE}out": (TensorProto.FLOAT, ["S", 2])}, producer_name=HOSTILE)
    return save(model)


def test_the_page_says_what_the_other_commands_say(report, segment_max):
    page = report(segment_max)
    for said in ("SegmentMax", "data", "float32[K, 2]", "native", "quantize_static", "not in canonical form", "p99 ms"):
        assert said in page.text
    (picture,) = page.pictures.values()
    assert [node["label"] for node in picture["nodes"]] == ["data", "segment_ids", "SegmentMax", "highest"]
    assert picture["edges"] == [[0, 2], [1, 2], [2, 3]]


def test_names_of_a_model_are_text_and_nothing_else(report, hostile):
    page = report(hostile)
    assert page.requests() == []
    assert len(page.scripts) == 3  # the pictures, dagre and ours
    assert not [tag for tag, attributes in page.tags if tag == "img" or any(n.startswith("on") for n in attributes)]
    assert page.text.count(HOSTILE) >= 5
    assert page.pictures["after"]["nodes"][0]["name"] == f"{HOSTILE}data"


def test_the_page_forbids_requests_and_scripts_of_others(report, segment_max):
    page = report(segment_max)
    (policy,) = (a["content"] for tag, a in page.tags if tag == "meta" and a.get("http-equiv"))
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
    assert page.requests() == []
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", "".join(page.scripts[1:]))


def test_a_model_that_does_not_run_is_described_all_the_same(report, save, make_model):
    node = helper.make_node("NoSuchOperator", ["x"], ["y"], domain="elsewhere")
    model = make_model([node], {"x": (TensorProto.FLOAT, [2])}, {"y": (TensorProto.FLOAT, [2])})
    model.opset_import.append(helper.make_opsetid("elsewhere", 1))
    page = report(save(model))
    assert "no times:" in page.text
    assert "NoSuchOperator" in page.text


def test_no_times(report, segment_max):
    assert "p99 ms" not in report(segment_max, "--no-times").text


def test_a_source_is_drawn_verified_and_timed(report, segment_max, tmp_path):
    source = tmp_path / "source.onnx"
    source.write_bytes(segment_max.read_bytes())
    page = report(segment_max, "--source", source)
    assert list(page.pictures) == ["before", "after"]
    assert "1 of 1 outputs that agree" in " ".join(page.text.split())
    assert "the ONNX file" in page.text


def test_convert_writes_a_report_of_what_verification_refuses(cli, segment_max, tmp_path, monkeypatch):
    def wrong(model):
        changed = onnx.ModelProto.FromString(model.SerializeToString())
        changed.graph.node[-1].attribute[0].s = b"LOWEST"  # not ZERO
        return changed

    monkeypatch.setattr("onnx_sparse.models.forms.canonical.canonicalize", wrong)
    out, page = tmp_path / "out.onnx", tmp_path / "report.html"
    result = cli("convert", segment_max, "-o", out, "--verify", "--report", page)
    assert result.code == 1
    assert result.error.startswith("verification fails, no model is written")
    assert str(page) in result.out
    assert not out.exists()
    read = Page(page.read_text("utf-8"))
    assert list(read.pictures) == ["before", "after"]
    assert "0 of 1 outputs that agree" in " ".join(read.text.split())
    assert "verification fails, no model is written" in read.text
    assert "p99 ms" not in read.text


def test_convert_writes_a_report_with_the_rules(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(model_report, "is_there", lambda origin: False)  # TensorFlow takes seconds to load
    saved_model = next(Path(demo.__file__).parent.rglob("saved_model.pb")).parent
    out, page = tmp_path / "model.onnx", tmp_path / "report.html"
    result = cli("convert", saved_model, "-o", out, "--report", page, "--json")
    assert result.code == 0, result.err
    assert result.json["report"] == str(page)
    read = Page(page.read_text("utf-8"))
    assert "default-row" in read.text
    labels = [node["label"] for node in read.pictures["before"]["nodes"]]
    assert {"SparseFillEmptyRows", "SparseSegmentSum"} <= set(labels)
    assert labels[-2:] == ["totals", "was_empty"]
    assert not {"VarHandleOp", "ReadVariableOp"} & set(labels)
    (lookup,) = (node for node in read.pictures["before"]["nodes"] if node["label"] == "SparseSegmentSum")
    assert ["constant", "Variable"] in lookup["details"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("-o", "no/folder/report.html"), "there is no directory"),
        (("-o", "report.html", "--source", "nowhere"), "nowhere: no such file or directory"),
    ],
)
def test_what_is_refused(cli, segment_max, arguments, reason):
    assert reason in cli("report", segment_max, *arguments).error


def test_the_signature_of_a_source_is_chosen(cli, segment_max, tmp_path):
    saved_model = next(Path(demo.__file__).parent.rglob("saved_model.pb")).parent
    given = ("report", segment_max, "-o", tmp_path / "report.html", "--signature", "other", "--source")
    assert "'other'" in cli(*given, saved_model).error
    assert "only a SavedModel has that" in cli(*given, segment_max).err


def test_a_report_never_replaces_the_model(cli, segment_max):
    before = segment_max.read_bytes()
    assert cli("report", segment_max, "-o", segment_max).code == 2
    assert cli("convert", segment_max, "-o", segment_max, "--report", segment_max).code == 2
    assert segment_max.read_bytes() == before


def test_the_nodes_of_branches_are_drawn():
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 18]>
        g (bool c, float[2] x) => (float[2] y) {
          y = If (c) <
            then_branch = a () => (float[2] t) { t = Neg (x) },
            else_branch = b () => (float[2] e) { e = Abs (x) }
          >
        }"""
    )
    picture = model_picture(model, "a model")
    labels = [node.label for node in picture.nodes]
    edges = {(labels[source], labels[reader]) for source, reader in picture.edges}
    assert edges == {("c", "If"), ("x", "Neg"), ("x", "Abs"), ("Neg", "If"), ("Abs", "If"), ("If", "y")}
    assert {node.scope[-1] for node in picture.nodes if node.label in ("Neg", "Abs")} == {"then_branch", "else_branch"}


SCOPES = st.lists(st.sampled_from("abc"), max_size=10).map(tuple) | st.integers(0, 900).map(lambda k: (f"layer_{k}",))


@given(st.lists(SCOPES, max_size=200), st.integers(1, 8), st.sampled_from(["other", "input"]))
def test_pictures_are_folded_until_they_can_be_read(scopes, times, kind):
    picture = Picture("random")
    for position, scope in enumerate(scopes * times):
        reads = {position // 2, position - 1} - {-1, position}
        picture.add(PictureNode("Add", "/".join((*scope, f"n{position}")), kind, scope), sorted(reads))
    made = picture.to_json()
    groups = made["groups"]
    assert len(made["nodes"]) == len(picture.nodes)
    assert [tuple(edge) for edge in made["edges"]] == picture.edges
    shown = set()
    for position, node in enumerate(made["nodes"]):
        found, group, depth = f"n{position}", node["group"], 0
        while group >= 0:
            if not groups[group]["open"]:
                found = f"g{group}"
            group, depth = groups[group]["parent"], depth + 1
            assert depth <= len(groups), "scopes are in each other"
        shown.add(found)
    assert len(shown) <= 30


def test_scopes_are_named_and_say_what_they_hold():
    picture = Picture("layers")
    for name in ("a/b/Add", "a/b/Mul", "a/Relu", "c/Neg"):
        picture.add(PictureNode(name.rpartition("/")[2], name, scope=tuple(name.split("/")[:-1])))
    made = picture.to_json()
    assert [(group["label"], group["parent"], group["holds"]) for group in made["groups"]] == [
        ("a", -1, "Add, Mul, Relu"),
        ("a/b", 0, "Add, Mul"),
    ]
    assert [node["group"] for node in made["nodes"]] == [1, 1, 0, -1]


def test_constants_are_details_of_what_reads_them():
    picture = Picture("constants")
    constant = picture.add(PictureNode("Const", "axis", "constant"))
    picture.add(PictureNode("Concat", "joined"), [constant])
    made = picture.to_json()
    assert [node["name"] for node in made["nodes"]] == ["joined"]
    assert made["nodes"][0]["details"] == [["constant", "axis"]]
    assert made["edges"] == []


def test_the_page_can_be_heard(report, segment_max, tmp_path):
    """It has one main part, and each header of a table has a name; so has each button of a picture."""
    report(segment_max)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.count("<main>") == page.count("</main>") == 1
    assert not re.search(r"<th[^>]*>\s*</th>", page)
    drawn = [line for line in page.splitlines() if 'role: "button"' in line]
    assert drawn
    assert all("aria-label" in line for line in drawn)
