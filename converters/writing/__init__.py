"""Writing ONNX nodes: tensors, emitters of nodes, and what several sources write in the same way."""
