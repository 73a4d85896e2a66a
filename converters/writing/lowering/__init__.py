"""What operators of several sources mean, written once in ONNX's operators; handlers read attributes and call it.

A function here takes an emitter and tensors. It says what it gives at the ends of types, of NaN, of zero and of nothing.
"""
