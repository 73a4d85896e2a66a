"""`python -m onnx_sparse`: the command line."""

from __future__ import annotations

import sys

from onnx_sparse.cli import main

if __name__ == "__main__":
    sys.exit(main())
