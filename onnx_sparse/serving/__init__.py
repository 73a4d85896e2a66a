"""A server of models: the Open Inference Protocol (v2) over HTTP and gRPC, and rows as JSON by feature.

`onnx-sparse serve` runs it. Requests that arrive during a run form the next batch.
"""
