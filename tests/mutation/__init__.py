"""Faults planted in the project's own sources, one at a time: `python -m mutation`."""
