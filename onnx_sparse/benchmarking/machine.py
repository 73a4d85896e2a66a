"""The machine that a benchmark ran on: figures mean nothing without it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

#: The packages whose versions decide how fast a model runs.
_PACKAGES = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "numpy", "tensorflow", "torch", "openvino")


@dataclass(frozen=True)
class Machine:
    """A machine.

    Attributes:
        processor: The processor's name.
        cores: How many processors this process may use.
        load: How many processes ran on average in the last minute, before the benchmark.
        system: The operating system.
        versions: The versions of Python and of the packages that run models.
    """

    processor: str
    cores: int
    load: float | None
    system: str
    versions: dict[str, str]

    def __str__(self) -> str:
        load = "" if self.load is None else f", load {self.load:.1f}"
        return f"{self.processor}, {self.cores} core{'s' * (self.cores > 1)}{load}"

    @property
    def software(self) -> str:
        """The versions, in one line."""
        return ", ".join(f"{name} {number}" for name, number in self.versions.items())


def this_machine() -> Machine:
    """The machine that this process runs on."""
    return Machine(
        processor=_processor(),
        cores=usable_cores(),
        load=round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        system=f"{platform.system()} {platform.machine()}",
        versions=versions(_PACKAGES),
    )


def usable_cores() -> int:
    """How many processors this process may use: containers often have fewer than the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text("utf-8", "replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of onnx_sparse, Python and those of the packages that are installed."""
    from onnx_sparse.version import __version__

    found = {"onnx_sparse": __version__, "python": platform.python_version()}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
