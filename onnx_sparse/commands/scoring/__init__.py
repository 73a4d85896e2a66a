"""`score`: a model on files of rows.

`score` is the function, and `score_files` does it: which files, what is checked before, and what became of each.
"""
