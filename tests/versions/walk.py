"""Walks the versions of the packages that pyproject.toml allows, and takes every road in each.

    python tests/versions/walk.py --page                    every minor version; renews the table of docs/install.md
    python tests/versions/walk.py --package onnx            one package
    python tests/versions/walk.py --package onnx --versions 1.20.0 1.20.1
    python tests/versions/walk.py --lowest                  the first and the last of each package

One package at a time has another version, which pip installs into a folder of the cache; the others are those of this
environment. The exit status is 1 if a road fails in a version that pyproject.toml allows.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
ROADS = Path(__file__).with_name("roads.py")
PAGE = ROOT / "docs" / "install.md"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "onnx_sparse" / "versions"
PACKAGES = ("onnx", "onnxruntime", "onnxruntime-extensions", "numpy", "ml_dtypes", "openvino", "tensorflow", "torch")
_BEGIN, _END = "<!-- versions: written by tests/versions/walk.py -->\n", "<!-- end of versions -->\n"
_SECONDS = 300


def allowed() -> dict[str, Requirement]:
    """What pyproject.toml asks of each package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    texts = [*project["dependencies"], *(text for name in ("tensorflow", "torch", "openvino") for text in extras[name])]
    found = {requirement.name: requirement for requirement in map(Requirement, texts)}
    return {name: found[name] for name in PACKAGES}


def versions_of(package: str, requirement: Requirement) -> list[str]:
    """The versions that are allowed: the last one of each minor version, and the first one of all."""
    command = [sys.executable, "-m", "pip", "index", "versions", package]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    listed = re.search(r"Available versions: (.*)", text)
    if listed is None:
        raise SystemExit(f"pip lists no versions of {package}")
    known = sorted(v for v in map(Version, listed[1].split(", ")) if v in requirement.specifier and not v.is_prerelease)
    last = {(version.major, version.minor): version for version in known}
    return [str(version) for version in sorted({*last.values(), *known[:1]})]


def walked(package: str, version: str) -> dict[str, str | None]:
    """What came of each road with one version of a package: None, or an error."""
    folder = CACHE / f"{package}-{version}"
    if not folder.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        done = subprocess.run([*command, f"{package}=={version}"], capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            return {"": f"pip cannot install it: {last}"}
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"}
    results: dict[str, str | None] = {}
    waiting = roads()
    while waiting:  # in one process, and after a road that ends it in another
        found, ending = _taken(waiting, environment)
        results |= found
        waiting = waiting[len(found) :]
        if waiting:
            results[waiting.pop(0)] = ending
    return results


def _taken(names: list[str], environment: dict[str, str]) -> tuple[dict[str, str | None], str]:
    """What came of roads until the process ended, and how it ended."""
    command = [sys.executable, str(ROADS), *names]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=_SECONDS)
    except subprocess.TimeoutExpired as late:
        text = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        ending = f"takes more than {_SECONDS} s"
    else:
        text = done.stdout
        ending = f"the process ends with {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1][:160]}"
    lines = [json.loads(line) for line in text.splitlines() if line.startswith('{"road"')]
    return {line["road"]: line["error"] for line in lines}, ending


def roads() -> list[str]:
    """The names of the roads."""
    sys.path.insert(0, str(ROADS.parent))
    import roads as taken

    return list(taken.ROADS)


def write_page(results: dict[tuple[str, str], dict[str, str | None]]) -> None:
    """Renew the rows of some versions in the table of the page, which is between two marks, and the errors below it."""
    page = PAGE.read_text("utf-8")
    before, _, rest = page.partition(_BEGIN)
    old, _, after = rest.partition(_END)
    rows = {line.split("|")[1].strip(): line for line in old.splitlines() if line.startswith("| ")}
    errors = [line for line in old.splitlines() if line.startswith("- ")]
    names = roads()
    for (package, version), found in results.items():
        label = f"{package} {version}"
        cells = ["ok" if name in found and found[name] is None else "fails" for name in names]
        rows[label] = f"| {label} | {' | '.join(cells)} |"
        errors = [line for line in errors if not line.startswith(f"- {label}, ")]
        errors += [f"- {label}, {name or 'all'}: {error}" for name, error in found.items() if error]
    rows = {label: rows[label] for label in sorted(rows.keys() - {"version", "---"}, key=_order)}
    heading = [f"| version | {' | '.join(names)} |", f"| --- |{' --- |' * len(names)}"]
    text = "\n".join([*heading, *rows.values(), *([""] if errors else []), *errors]) + "\n"
    PAGE.write_text(f"{before}{_BEGIN}{text}{_END}{after}", "utf-8")


def _order(label: str) -> tuple[int, Version]:
    package, version = label.split()
    return PACKAGES.index(package), Version(version)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", action="append", choices=PACKAGES)
    parser.add_argument("--versions", nargs="+", metavar="VERSION")
    parser.add_argument("--lowest", action="store_true", help="only the first and the last version of each package")
    parser.add_argument("--page", action="store_true", help=f"renew their rows in {PAGE.relative_to(ROOT)}")
    arguments = parser.parse_args()
    results = {}
    for package, requirement in allowed().items():
        if arguments.package and package not in arguments.package:
            continue
        versions = arguments.versions or versions_of(package, requirement)
        for version in dict.fromkeys((versions[0], versions[-1]) if arguments.lowest else versions):
            found = results[package, version] = walked(package, version)
            wrong = [f"{road}: {error}" for road, error in found.items() if error]
            sys.stdout.write(f"{package} {version}: {'; '.join(wrong) or 'ok'}\n")
            sys.stdout.flush()
    if arguments.page:
        write_page(results)
    return int(any(error for found in results.values() for error in found.values()))


if __name__ == "__main__":
    sys.exit(main())
