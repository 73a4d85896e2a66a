"""The rewriting rules. Each source lists those that it applies, in phases, in its own `phases` module."""
