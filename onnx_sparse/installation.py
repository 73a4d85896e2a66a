"""How this package was installed, and the command that adds an extra to that installation."""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_NAME = "onnx_sparse"


def install_command(extra: str) -> str:
    """The command that installs what an extra brings.

    An installer records where a distribution came from if that was no index (PEP 610): then an index may not have it.
    For a checkout, the command names what the extra needs, because pip would compile the checkout once more.
    """
    if "dir_info" in _origin() and (needed := _requirements(extra)):
        return f"pip install {' '.join(needed)}"
    return f"pip install {_source(extra)}"


def reinstall_command() -> str:
    """The command that installs this package again, as when a compiler has been installed."""
    return f"pip install --force-reinstall --no-deps --no-cache-dir {_source()}"


def _origin() -> dict[str, Any]:
    """Where this distribution came from; empty for an index, and for a source tree that is not installed."""
    try:
        text = metadata.distribution(_NAME).read_text("direct_url.json")
        origin = json.loads(text) if text else {}
    except (metadata.PackageNotFoundError, ValueError):
        return {}
    return origin if isinstance(origin, dict) else {}


def _requirements(extra: str) -> list[str]:
    """What an extra needs, each in quotes."""
    needed: list[str] = []
    for line in metadata.distribution(_NAME).requires or ():
        requirement, _, marker = line.partition(";")
        if re.search(rf"""extra == ['"]{re.escape(extra)}['"]""", marker) is None:
            continue
        own = re.match(rf"{_NAME}\[(.+)\]", requirement.strip().replace("-", "_"))
        more = [found for name in own[1].split(",") for found in _requirements(name.strip())] if own else []
        needed += more or [f'"{requirement.strip()}"']
    return list(dict.fromkeys(needed))


def _source(extra: str = "") -> str:
    bracket = f"[{extra}]" if extra else ""
    named = f"{_NAME}{bracket}"
    origin = _origin()
    url = str(origin.get("url", ""))
    if version_control := origin.get("vcs_info"):
        return f'"{named} @ {version_control["vcs"]}+{url}@{version_control.get("commit_id", "main")}"'
    if not url.startswith("file:"):
        return f'"{named} @ {url}"' if url else f'"{named}"'
    from urllib.request import url2pathname  # takes 40 ms, as it imports http and ssl

    path = Path(url2pathname(urlsplit(url).path))
    if not path.exists():  # a wheel that was removed after it was installed
        return f'"{named}"'
    editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f'{editable}"{path}{bracket}"'
