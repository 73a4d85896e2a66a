"""Writes what the installed ONNX Runtime lacks into the table."""

from onnx_sparse.converters.kernels.probing import main

main()
