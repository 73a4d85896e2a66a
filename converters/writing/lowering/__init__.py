"""Verbs that several roads have: what an operator computes, written once in ONNX, whatever the sources call it."""
