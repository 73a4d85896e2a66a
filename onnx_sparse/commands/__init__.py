"""What the commands do, as functions: `onnx_sparse.convert`, `check`, `inspect`, `score` and `report`.

Each returns a value that prints as the command does, and that notebooks show as tables.
"""
