"""Ragged tensors: values, and row splits that say where rows begin; every lookup that can takes the splits as they are.

`features` gives a model ragged features in place of sparse ones, `inputs` does it for a whole file. The rules that let
lookups take row splits are `rewriting/rules/ragged.py`.
"""
