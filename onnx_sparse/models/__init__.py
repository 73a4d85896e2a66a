"""From model to model: canonical form, function bodies, inlining, quantized tables, and files of models.

`graphs` walks through nested graphs, `domain_nodes` and `key_lookups` find nodes of ours in them.
"""
