"""From other frameworks' models to ONNX with operators of the domain `onnx_sparse`.

`convert` takes what the command line takes, and models in memory. There is one package for each source, with a
`convert` of its own options, a `verify`, and the `coverage` of its operators.
"""

from __future__ import annotations

from onnx_sparse.converters.errors import ConversionError, MissingPackageError, UnsupportedNode
from onnx_sparse.converters.sources import UnknownSourceError, convert

__all__ = ["ConversionError", "MissingPackageError", "UnknownSourceError", "UnsupportedNode", "convert"]
