"""Operators that make, move, pick or sort elements."""
