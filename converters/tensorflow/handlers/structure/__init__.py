"""Operators about the graph: constants, variables, tables, branches, loops, lists, complex numbers."""
