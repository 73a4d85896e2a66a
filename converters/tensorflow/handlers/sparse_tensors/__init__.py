"""Operators of sparse and ragged tensors, of segments and of counts."""
