"""Changes of a model's tables: what is written grows with the change, not with the table.

`changes` plans and writes them, from the `deltas` of rows by their `keys`, in an `opened_model`. `replacement` puts
other keys and rows in place of a table.
"""

from __future__ import annotations

from onnx_sparse.commands.table_updates.opened_model import OpenedModel

__all__ = ["OpenedModel"]
