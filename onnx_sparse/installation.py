"""How this package was installed, and the command that adds an extra to that installation."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

_NAME = "onnx_sparse"


def install_command(extra: str) -> str:
    """The command that installs what an extra brings.

    An installer records where a distribution came from if that was no index (PEP 610): then an index may not have it.
    """
    return f"pip install {_source(extra)}"


def reinstall_command() -> str:
    """The command that installs this package again, as when a compiler has been installed."""
    return f"pip install --force-reinstall --no-deps --no-cache-dir {_source()}"


def _source(extra: str = "") -> str:
    bracket = f"[{extra}]" if extra else ""
    named = f"{_NAME}{bracket}"
    try:
        text = metadata.distribution(_NAME).read_text("direct_url.json")
        origin = json.loads(text) if text else {}
        url = str(origin.get("url", ""))
    except (metadata.PackageNotFoundError, ValueError, AttributeError):  # a source tree that is not installed
        return f'"{named}"'
    if version_control := origin.get("vcs_info"):
        return f'"{named} @ {version_control["vcs"]}+{url}@{version_control.get("commit_id", "main")}"'
    if not url.startswith("file:"):
        return f'"{named} @ {url}"' if url else f'"{named}"'
    path = Path(url2pathname(urlsplit(url).path))
    if not path.exists():  # a wheel that was removed after it was installed
        return f'"{named}"'
    editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f'{editable}"{path}{bracket}"'
