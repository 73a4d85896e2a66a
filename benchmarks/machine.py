"""The machine that benchmarks run on: processor, caches, frequency, load, and the versions of libraries.

    python benchmarks/machine.py

Every benchmark prints this with its table: a figure without it says little.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from onnx_sparse.benchmarking.machine import versions

#: The libraries whose versions are named where they are installed: what runs the kernels, and their peers.
PACKAGES = (
    "numpy",
    "onnx",
    "onnxruntime",
    "onnxruntime-extensions",
    "tensorflow",
    "tensorflow-cpu",
    "tf2onnx",
    "torch",
    "torch_geometric",
    "fbgemm-gpu-cpu",
    "openvino",
    "pyarrow",
)
#: The instruction sets that the native library and its peers choose among, as Linux names them.
_INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "amx_tile", "asimd", "sve")
_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Machine:
    """What a measurement depends on beside the code.

    Attributes:
        processor: The processor's name.
        stepping: Its vendor, family, model and stepping, as virtual machines often hide the name.
        cores: How many processors the system has.
        megahertz: The frequency that the system states, in virtual machines the nominal one; 0 where it states none.
        instructions: Those of the instruction sets that matter here.
        caches: The size of each cache, and how many of the processors share it.
        memory: GiB.
        system: The operating system.
        load: The load of the last minute.
        versions: The versions of libraries by name; onnx_sparse's has the commit, with a + if files were changed.
        native: The beginning of the native library's SHA-256; empty without one.
    """

    processor: str
    stepping: str
    cores: int
    megahertz: int
    instructions: tuple[str, ...]
    caches: Mapping[str, str]
    memory: float
    system: str
    load: float
    versions: Mapping[str, str]
    native: str

    @property
    def folder(self) -> str:
        """The name under which measurements of this processor are kept; equal for equal processors and core counts."""
        words = re.sub(r"\((r|tm)\)|\bcpu\b|@.*|processor", " ", f"{self.processor} ", flags=re.IGNORECASE)
        family = re.sub(r" stepping .*|^\w+ ", "", self.stepping)
        name = f"{words} {family} {self.cores} cores".lower()
        return re.sub(r"[^a-z0-9]+", "-", name).strip("-")

    def __str__(self) -> str:
        """Two lines: the hardware, and the software."""
        frequency = f" at {self.megahertz} MHz" if self.megahertz else ""
        caches = ", ".join(f"{name} {size}" for name, size in self.caches.items())
        hardware = [
            f"{self.processor} ({self.stepping})" if self.stepping else self.processor,
            f"{self.cores} cores{frequency}",
            *(name.upper() for name in self.instructions),
            caches,
            f"{self.memory:.0f} GiB",
            self.system,
            f"load {self.load:.1f}",
        ]
        software = [f"{name} {number}" for name, number in self.versions.items()]
        native = [f"native library {self.native}"] if self.native else []
        return ", ".join(filter(None, hardware)) + "\n" + ", ".join([*software, *native])

    def to_json(self) -> dict[str, Any]:
        """The attributes, as JSON has them."""
        return asdict(self) | {"instructions": list(self.instructions)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Machine:
        """The machine of a record."""
        return cls(**{**record, "instructions": tuple(record["instructions"])})


def this_machine() -> Machine:
    """The machine at hand. What a system other than Linux does not tell in files is left empty."""
    cpu = _first_processor()
    names = (("cpu family", "family"), ("model", "model"), ("stepping", "stepping"))
    stepping = " ".join([cpu.get("vendor_id", ""), *(f"{short} {cpu[name]}" for name, short in names if name in cpu)])
    flags = (cpu.get("flags") or cpu.get("Features") or "").split()
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    return Machine(
        processor=cpu.get("model name") or platform.processor() or platform.machine(),
        stepping=stepping.strip(),
        cores=os.cpu_count() or 1,
        megahertz=_megahertz(cpu),
        instructions=tuple(name for name in _INSTRUCTIONS if name in flags),
        caches=_caches(Path("/sys/devices/system/cpu/cpu0/cache")),
        memory=round(pages / 2**30, 1),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        load=round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else 0.0,
        versions=versions(PACKAGES) | {"onnx_sparse": _own_version()},
        native=_native_library(),
    )


def _first_processor() -> dict[str, str]:
    """What Linux says of the first processor."""
    path = Path("/proc/cpuinfo")
    text = path.read_text("utf-8").split("\n\n")[0] if path.exists() else ""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _megahertz(cpu: Mapping[str, str]) -> int:
    highest = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    if highest.exists():
        return int(highest.read_text()) // 1000
    return round(float(cpu.get("cpu MHz", 0)))


def _caches(folder: Path) -> dict[str, str]:
    """The caches of data of the first processor."""
    found = {}
    for index in sorted(folder.glob("index*")):
        level, kind, size, sharing = (
            (index / name).read_text().strip() for name in ("level", "type", "size", "shared_cpu_list")
        )
        if kind == "Instruction":
            continue
        count = sum(int(part.split("-")[-1]) - int(part.split("-")[0]) + 1 for part in sharing.split(","))
        kib = int(size.removesuffix("K"))
        text = f"{kib // 1024} MiB" if kib % 1024 == 0 else f"{kib} KiB"
        found[f"L{level}{'d' if kind == 'Data' else ''}"] = text + (f" shared by {count}" if count > 1 else "")
    return found


def _own_version() -> str:
    import onnx_sparse

    described = subprocess.run(
        ["git", "-C", _ROOT, "describe", "--always", "--dirty=+", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    )
    commit = described.stdout.strip()
    return f"{onnx_sparse.__version__} ({commit})" if commit else onnx_sparse.__version__


def _native_library() -> str:
    import onnx_sparse

    try:
        library = Path(onnx_sparse.get_library_path())
    except (OSError, RuntimeError, ImportError):
        return ""
    return hashlib.sha256(library.read_bytes()).hexdigest()[:12]


if __name__ == "__main__":
    here = this_machine()
    print(f"{here}\nmeasurements are kept in {here.folder}")
