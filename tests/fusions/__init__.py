"""Graphs around the rewrites of ONNX Runtime's optimizer, optimized and not."""
