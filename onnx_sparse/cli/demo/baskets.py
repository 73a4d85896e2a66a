"""The demo's data: four baskets of groceries, and the names of the files that hold its recording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]

MODEL_FILE = "demo_model.onnxtxt"
ANSWERS_FILE = "demo_answers.json"

#: What can be in a basket: name, price, energy (kcal).
ITEMS = (("water", 0.4, 0), ("bread", 2.2, 250), ("cheese", 4.75, 402), ("apple", 0.85, 95))
#: Four baskets as a sparse tensor: [basket, place in it] and the item; basket 1 is empty.
INPUTS: dict[str, list[Any]] = {
    "indices": [[0, 0], [0, 1], [2, 0], [2, 1], [2, 2], [3, 0]],
    "items": [1, 2, 3, 3, 1, 2],
    "shape": [4, 3],
}


def make_feeds() -> Arrays:
    """The inputs as arrays."""
    import numpy as np

    return {name: np.array(values, np.int64) for name, values in INPUTS.items()}


def make_rows() -> str:
    """The inputs as a CSV file with a row for each basket."""
    baskets: list[list[int]] = [[] for _ in range(INPUTS["shape"][0])]
    for (basket, _place), item in zip(INPUTS["indices"], INPUTS["items"], strict=True):
        baskets[basket].append(item)
    return "".join(["basket,items\n", *(f'{number},"{items}"\n' for number, items in enumerate(baskets))])
