"""Operators that compute numbers of numbers."""
