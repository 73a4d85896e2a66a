"""The suffixes of ONNX files, binary and in onnx's text forms."""

from __future__ import annotations

#: Those of files that are read.
ONNX_SUFFIXES = (".onnx", ".onnxtxt", ".onnxtext", ".onnxjson", ".textproto")
#: Those of files that are written: a name without a suffix is of no other format.
WRITTEN_SUFFIXES = ("", *ONNX_SUFFIXES)
