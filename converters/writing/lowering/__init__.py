"""What operators of several sources mean, written once in ONNX's operators; handlers read attributes and call it.

A function takes an emitter and tensors, and says what it gives at the ends of types, of NaN, of zero and of nothing.
"""
