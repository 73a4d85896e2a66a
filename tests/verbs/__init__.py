"""Each verb of several roads against numpy: one draw of operands for all roads, and a graph of one operator for each.

A verb is what an operator means, whatever a road calls it: `floor_div`, `one_hot`, `gather`. Its declaration says how
operands are drawn, what numpy answers, and how each road writes it. `pytest tests/verbs -k floor_div` runs one verb on
all roads; `python -m verbs --draws 50 --seed 3`, in the folder `tests`, runs all for long.
"""

from __future__ import annotations

from collections.abc import Mapping

from verbs.declaration import VERBS, Verb


def declared() -> Mapping[str, Verb]:
    """The verbs by name, of all modules."""
    from verbs import elementwise, images, moving, reducing

    assert all((elementwise, images, moving, reducing))
    return VERBS
