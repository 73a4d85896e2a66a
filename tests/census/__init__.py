"""A census of torch's operators: every overload in every element type, converted, run and compared with torch.

    python -m census                                    (in the folder tests)
    python -m census --operator 'index_*' --draws 20 --seed 7
    python -m census --record census.jsonl --page       (adds to docs/torch_operators.md)

The calls are those with which torch tests itself (OpInfo), and calls drawn from the schemas of those overloads that
these do not reach. Each is exported with dynamic sizes and compared with torch on its example, with each size 0, 1 and
doubled, and on values at the ends of their types, infinite and NaN. Each whole number of a call is also given as a size
of an input. Exit 0: nothing differed, failed or ended the process, but for what `expected.py` lists.
"""
