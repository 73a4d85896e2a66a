"""The native kernels' shared library: where it is, and how its errors are raised in Python."""
