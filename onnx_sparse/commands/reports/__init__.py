"""`report` and `benchmark`: a page about a model, and how long its runs take.

`report` and `benchmark` are the functions. `model_report` gathers what the page says of a model, and `origin` of its
source.
"""
