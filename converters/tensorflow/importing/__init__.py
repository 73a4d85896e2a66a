"""From a TensorFlow model that has been read to ONNX, without TensorFlow."""
