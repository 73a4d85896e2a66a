"""Each verb of several roads against numpy: one draw of operands for all roads, and a graph of one operator for each.

A verb is what an operator means, whatever a road calls it: `floor_div`, `one_hot`, `gather`. Its declaration says how
operands are drawn, what numpy answers, and how each road writes it. `pytest tests/verbs -k floor_div` runs one verb on
all roads; `python -m verbs --draws 50 --seed 3`, in the folder `tests`, runs all for long.
"""
