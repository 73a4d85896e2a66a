"""Operators of strings and of the messages and lines in them."""
