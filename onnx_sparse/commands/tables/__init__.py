"""`tables` and `shard`: the embedding tables of a model, shown, changed, and split over machines.

`tables` and `shard` are the functions; `contents` shows and writes what tables hold.
"""
