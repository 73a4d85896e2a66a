"""ONNX Runtime as a target: its known faults with their cures, its kernels' element types, and layouts that it likes.

Every road passes its models through `guards.guard`.
"""
