"""Which distributions installed the module `onnxruntime`: two of them overwrite each other's files.

ONNX Runtime comes under several names (onnxruntime, onnxruntime-gpu, onnxruntime-openvino, ...), one for each kind of
device. pip does not know that they install the same module.
"""

from __future__ import annotations

import itertools
import warnings
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

_PLAIN = "onnxruntime"
#: How their names begin. To read what every installed distribution owns would take as long as importing ONNX Runtime.
_NAMES = ("onnxruntime", "ort_nightly")


def onnxruntime_packages() -> dict[str, str]:
    """The names and versions of the distributions that own the module `onnxruntime`."""
    spec = find_spec("onnxruntime")
    if spec is None or not spec.submodule_search_locations:
        return {}
    folder = Path(spec.submodule_search_locations[0]).parent
    found = itertools.chain.from_iterable(folder.glob(f"{name}*.dist-info") for name in _NAMES)
    distributions = map(metadata.Distribution.at, sorted(found))
    owners = [d for d in distributions if "\nonnxruntime/__init__.py," in f"\n{d.read_text('RECORD') or ''}"]
    return {owner.name: owner.version for owner in owners}


def installation_problem() -> str | None:
    """What is wrong with the files of ONNX Runtime, and the repair; None where nothing is known to be."""
    packages = onnxruntime_packages()
    names = " ".join(packages)
    if len(packages) > 1:
        listed = " and ".join(f"{name} {version}" for name, version in packages.items())
        kept = next(name for name in packages if name != _PLAIN)
        return (
            f"{listed} overwrite each other's files, so execution providers may be missing. "
            f"Keep one: `pip uninstall -y {names}`, then for instance `pip install {kept}`"
        )
    spec = find_spec("onnxruntime")
    if packages and spec is not None and spec.origin is None:
        return (
            f"files of {names} are missing; pip removes those that it shares with another distribution together with "
            f"that one. Repair it: `pip install --force-reinstall --no-deps {names}`"
        )
    return None


@cache
def require_whole_installation() -> None:
    """Warn, once, of what is wrong with the files of ONNX Runtime.

    Raises:
        ImportError: So many are missing that it has no sessions.
    """
    problem = installation_problem()
    if problem is None:
        return
    import onnxruntime

    if not hasattr(onnxruntime, "InferenceSession"):
        raise ImportError(problem)
    warnings.warn(problem, stacklevel=3)
