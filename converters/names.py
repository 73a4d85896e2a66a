"""Names that are not taken yet."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """The names of a model or graph: each is given once.

    Args:
        taken: Names that are not given.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = dict.fromkeys(taken, 0)  # with the last number tried, as many may want the same name

    def fresh(self, wanted: str) -> str:
        """The name, or the first free one of name_1, name_2, ..."""
        name = wanted
        while name in self._taken:
            self._taken[wanted] += 1
            name = f"{wanted}_{self._taken[wanted]}"
        self._taken[name] = 0
        return name
