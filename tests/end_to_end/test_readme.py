"""Every line of the worked examples in the README and the guides, run as it is, from the first to the last."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from support.ascend_graphs import layer, operation, write, write_tensors
from support.fused_models import SCATTERED_ROWS
from support.openvino_irs import IrBuilder

import onnx_sparse
from onnx_sparse.cli import main
from onnx_sparse.converters.openvino import convert

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
GUIDES = ("tensorflow", "report", "ascend", "openvino", "onnx", "rows", "tables", "serving")
#: These need an environment of their own size.
SEPARATE_GUIDES = ("torch",)
#: tests/converters/test_entry_points.py and test_roads.py run these.
PACKAGED_GUIDES = ("handlers", "roads")


def blocks(*texts: str) -> list[tuple[str, str]]:
    """The language and the text of each fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```", "\n".join(texts), re.DOTALL | re.MULTILINE)


def guide(name: str) -> str:
    return (ROOT / "docs" / "guides" / f"{name}.md").read_text("utf-8")


def test_no_guide_is_left_out() -> None:
    assert {path.stem for path in (ROOT / "docs" / "guides").glob("*.md")} == {
        *GUIDES,
        *SEPARATE_GUIDES,
        *PACKAGED_GUIDES,
    }


@pytest.mark.parametrize("name", SEPARATE_GUIDES)
def test_every_example_of_a_guide(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("torch", "onnxscript"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    found = blocks(guide(name))
    assert len(found) > 2
    for language, text in found:
        needed = re.findall(r"^(?:import|from) (torch_geometric|torchrec)\b", text, re.MULTILINE)
        if language == "python" and all(map(importlib.util.find_spec, needed)):
            exec(text, names)
        for line in text.splitlines() if language == "sh" else ():
            command, *arguments = shlex.split(line, comments=True)
            assert command == "onnx-sparse"
            assert main(arguments) == 0, line
    for path in tmp_path.glob("*.onnx"):
        onnx.checker.check_model(path, full_check=True)


def write_what_the_reader_has(folder: Path) -> None:
    """Write the files that the guides assume a reader has: a layer with its dump, an .air, an IR, a file."""
    x = np.ones((2, 3), np.float16)
    graph = layer(["x"], ["y"], [operation("ElewiseOperation", ["x", "x"], ["y"], {"elewiseType": 8})])
    write(folder, graph)
    write_tensors(folder / "dump", [x], [x + x])
    dump = folder / "msit_dump_20260101_120000"
    write(dump / "layer/77", graph, "Layer_0.json")
    write_tensors(dump / "tensors/0_77/0/0_Layer", [x], [x + x])
    shutil.copy(ROOT / "tests/data/ascend/fill_family.air", folder / "export.air")
    (folder / "tests").symlink_to(ROOT / "tests")
    net = IrBuilder()
    data, ids = net.parameter("data", "f32", [-1, 2]), net.parameter("segment_ids", "i64", [-1])
    net.result(net.layer("SegmentMax", "opset16", [data, ids], [("f32", [-1, 2])], {"fill_mode": "zero"}))
    net.save(folder)
    onnx.save(onnx.parser.parse_model(SCATTERED_ROWS), folder / "by_tf2onnx.onnx")
    lossy = onnx.parser.parse_model(SCATTERED_ROWS.replace(', reduction = "add"', ""))
    lossy.producer_name, lossy.graph.node[-1].name = "pytorch", "node_scatter_reduce"
    onnx.save(lossy, folder / "by_torch.onnx")
    (folder / "streaming").mkdir()
    onnx.save(convert(streaming().save(folder / "streaming")), folder / "streaming.onnx")


def streaming() -> IrBuilder:
    """A network that sums up what it is given, chunk by chunk."""
    net = IrBuilder()
    audio = net.parameter("audio", "f32", [1, 160])
    kind = {"variable_id": "sum", "variable_type": "f32", "variable_shape": "1,160"}
    before = net.layer("ReadValue", "opset6", [net.constant(np.zeros((1, 160), np.float32))], [("f32", [1, 160])], kind)
    after = net.layer("Add", "opset1", [before, audio], [("f32", [1, 160])], {"auto_broadcast": "numpy"})
    net.layer("Assign", "opset6", [after], [("f32", [1, 160])], kind)
    net.result(after)
    return net


def test_every_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("tensorflow", "openvino", "pyarrow"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    write_what_the_reader_has(tmp_path)
    names: dict[str, Any] = {}
    section = README[README.index("## Use it") : README.index("## Speed")]
    found = blocks(section, *map(guide, GUIDES))
    assert len(found) > 8
    for position, (language, text) in enumerate(found):
        if language == "sh":
            for line in text.splitlines():
                command, *arguments = shlex.split(line, comments=True)
                assert command == "onnx-sparse"
                assert main(arguments) == 0, line
        elif language == "python":
            following, shown = found[position + 1] if position + 1 < len(found) else ("", "")
            if following == "" and shown.startswith("onnx_sparse.KernelError: "):
                with pytest.raises(onnx_sparse.KernelError) as raised:
                    exec(text, names)
                assert shown == f"onnx_sparse.KernelError: {raised.value}\n"
                assert names["was_empty"].tolist() == [False, True, False, False]
            else:
                exec(text, names)
    for path in tmp_path.glob("*.onnx"):
        onnx.checker.check_model(path, full_check=True)
    assert {"portable.onnx", "plain.onnx", "fill.onnx", "for_openvino.xml"} <= set(os.listdir(tmp_path))
