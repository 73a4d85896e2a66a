"""What ONNX Runtime's CPU kernels do not take of what ONNX allows: element types, ranks, modes and axes.

Beyond these limits a session does not load, or fails at every run, though the model is valid. One table holds them;
`python -m onnx_sparse.converters.kernels` probes the installed version and renews it.
"""
