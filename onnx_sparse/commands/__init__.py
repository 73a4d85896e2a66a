"""What the commands do, as functions: `onnx_sparse.convert`, `check`, `inspect`, `score` and `report`.

Each returns a value that prints as the command does, and that notebooks show as tables. `description`, `tables`,
`reports`, `scoring` and `conversion` hold them, `sources` and `table_updates` what they do with sources and tables, and
`inputs` what they are given.
"""

from __future__ import annotations

from collections.abc import Callable

#: Called with what is being done.
Progress = Callable[[str], None]
