"""Every line of the worked examples in the README and the guides, run as a reader does: each page in a new folder."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
from pathlib import Path
from typing import Any

import onnx
import pytest

import onnx_sparse
from onnx_sparse.cli import main

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
#: What each page leaves in the folder, among other files.
GUIDES = {
    "tensorflow": {"model.onnx"},
    "report": {"reported.onnx", "report.html", "times.svg"},
    "ascend": {"layer.onnx", "exported.onnx"},
    "openvino": {"from_ir.onnx", "streaming.onnx", "for_openvino.xml"},
    "onnx": {"portable.onnx", "plain.onnx", "plain_float16.onnx", "fused.onnx", "repaired.onnx"},
    "rows": {"baskets.onnx", "ragged.onnx", "out"},
    "tables": {"smaller.onnx", "apart.onnx", "new.onnx"},
    "keyed_tables": {"model.onnx", "rows.onnx", "items.parquet"},
    "serving": {"ragged_baskets.onnx", "repository"},
    "from_tensorflow_serving": {"baskets.onnx"},
    "from_tf2onnx": {"fused.onnx", "model.onnx", "plain.onnx"},
    "torch": {"recommender.onnx", "from_file.onnx", "standard.onnx"},
}
#: tests/converters/{writing/test_entry_points,roads/test_roads}.py run these.
PACKAGED_GUIDES = ("handlers", "roads")


def test_no_guide_is_left_out() -> None:
    assert {path.stem for path in (ROOT / "docs" / "guides").glob("*.md")} == {*GUIDES, *PACKAGED_GUIDES}


def run_blocks(page: str, folder: Path) -> None:
    """Run the commands and the Python of a page in this folder; its models must be valid."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    for (language, text), (following, shown) in zip(found, [*found[1:], ("", "")], strict=True):
        needed = re.findall(r"^(?:import|from) (torch_geometric|torchrec)\b", text, re.MULTILINE)
        if language == "sh":
            for line in text.splitlines():
                command, *arguments = shlex.split(line, comments=True)
                assert command == "onnx-sparse"
                assert main(arguments) == 0, line
        elif language == "python" and following == "" and shown.startswith("onnx_sparse.KernelError: "):
            with pytest.raises(onnx_sparse.KernelError) as raised:
                exec(text, names)
            assert shown == f"onnx_sparse.KernelError: {raised.value}\n"
            assert names["was_empty"].tolist() == [False, True, False, False]
        elif language == "python" and all(map(importlib.util.find_spec, needed)):
            exec(text, names)
    for path in folder.glob("*.onnx"):
        onnx.checker.check_model(path, full_check=True)


@pytest.mark.parametrize("name", ["README", "cookbook", *GUIDES])
def test_every_example(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("torch", "onnxscript") if name == "torch" else ("tensorflow", "openvino", "pyarrow"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    if name == "README":
        run_blocks(README[README.index("## Use it") : README.index("## Speed")], tmp_path)
    elif name == "cookbook":
        run_blocks((ROOT / "docs" / "cookbook.md").read_text("utf-8"), tmp_path)
    else:
        run_blocks((ROOT / "docs" / "guides" / f"{name}.md").read_text("utf-8"), tmp_path)
        assert GUIDES[name] <= set(os.listdir(tmp_path))
