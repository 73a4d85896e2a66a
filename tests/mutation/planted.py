"""One module with another source than that of its file: in this process, and in those that it starts."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

#: What Python runs first in each process that is started.
_FIRST = """
import json, sys
sys.path.insert(0, {tests!r})
from mutation.planted import Planted
del sys.path[0]
sys.meta_path.insert(0, Planted(*json.loads({given!r})))
"""


class Planted(MetaPathFinder):
    """Finds the module.

    Args:
        path: Its file, resolved.
        source: Its source.
    """

    def __init__(self, path: str, source: str) -> None:
        self.path, self.source = Path(path), source

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        name = f"{fullname.rpartition('.')[2]}.py"
        at = next((Path(folder) / name for folder in path or () if (Path(folder) / name).resolve() == self.path), None)
        if at is None:
            return None
        return importlib.util.spec_from_file_location(fullname, at, loader=_Loader(fullname, at, self.source))


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: Path, source: str) -> None:
        super().__init__(fullname, str(path))
        self.planted = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.planted, self.path, "exec")


def plant(path: Path, source: str) -> None:
    """Let this process, and all that it starts with its environment, find a file's module with a source."""
    given = [str(path.resolve()), source]
    sys.meta_path.insert(0, Planted(*given))
    folder = tempfile.mkdtemp()
    first = _FIRST.format(tests=str(Path(__file__).parents[1]), given=json.dumps(given))
    Path(folder, "sitecustomize.py").write_text(first, "utf-8")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
