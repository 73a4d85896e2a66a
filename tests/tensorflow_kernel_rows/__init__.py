"""The rows of operators that are held against TensorFlow's kernels; see `tensorflow_kernels`."""

from __future__ import annotations

from tensorflow_kernel_rows.elementwise import ELEMENTWISE
from tensorflow_kernel_rows.shapes import SHAPES
from tensorflow_kernel_rows.sparse import SPARSE
from tensorflow_kernel_rows.texts import TEXTS
from tensorflow_kernel_rows.windows import WINDOWS

__all__ = ["ELEMENTWISE", "ROWS", "SHAPES", "SPARSE", "TEXTS", "WINDOWS"]

#: All rows.
ROWS = (*ELEMENTWISE, *SHAPES, *WINDOWS, *TEXTS, *SPARSE)
