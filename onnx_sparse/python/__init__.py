"""Kernels for ONNX Runtime in Python, through onnxruntime-extensions: to read, step through and change."""
