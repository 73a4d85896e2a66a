"""Sessions of ONNX Runtime: registration of the kernels, and a session that takes what plain ones refuse."""
