"""Ragged tensors: values, and row splits that say where rows begin; every lookup that can takes the splits as they are.

`rows` recognises what graphs compute from splits, `rules` makes lookups of it that take splits, and `features` gives a
model ragged features in place of sparse ones.
"""
