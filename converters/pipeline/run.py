"""What a pass is, and the function that runs a list of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from onnx import ModelProto

from onnx_sparse.converters.rewriting.explanation import Attempt, Rewriting, count_nodes

_log = logging.getLogger(__name__)


@dataclass
class Draft:
    """A model on its way through the passes.

    Attributes:
        model: The model. A pass changes it, or puts another one in its place.
        positions: Inputs whose integers are positions, beside those that operators take as such.
        attempts: The outcome of the rules and guards so far.
        rewritten_from: How many nodes the model had before the first rules; None before them.
    """

    model: ModelProto
    positions: frozenset[str] = frozenset()
    attempts: list[Attempt] = field(default_factory=list)
    rewritten_from: int | None = None

    def begin_rewriting(self) -> None:
        """Count the nodes before the first rules."""
        if self.rewritten_from is None:
            self.rewritten_from = count_nodes(self.model)

    def rewriting(self) -> Rewriting:
        """What rules and guards have done."""
        nodes = count_nodes(self.model)
        before = nodes if self.rewritten_from is None else self.rewritten_from
        return Rewriting(nodes_before=before, nodes=nodes, attempts=tuple(self.attempts))


@dataclass(frozen=True)
class Pass:
    """A step with a name.

    Attributes:
        name: What explanations and logs call it.
        does: What it does, for the documentation.
        apply: Changes the draft.
        stage: What `progress` is called with as it begins; nothing for most.
    """

    name: str
    does: str
    apply: Callable[[Draft], None]
    stage: str = ""


def run(draft: Draft, passes: Sequence[Pass], tell: Callable[[str], None] = lambda stage: None) -> ModelProto:
    """Apply passes to a draft, in their order.

    With the logger `onnx_sparse` at the level DEBUG, as `--debug` sets it, each pass says how long it took and what it
    made of the number of nodes.

    Args:
        draft: The draft; it is changed.
        passes: The passes.
        tell: Called with the stages that passes name.

    Returns:
        The draft's model.

    Raises:
        ConversionError: A pass found that the model is not valid.
    """
    explained = _log.isEnabledFor(logging.DEBUG)
    for step in passes:
        if step.stage:
            tell(step.stage)
        before, began = count_nodes(draft.model) if explained else 0, time.perf_counter()
        step.apply(draft)
        if explained:
            took, nodes = 1e3 * (time.perf_counter() - began), count_nodes(draft.model)
            change = f"{before} -> {nodes} nodes" if nodes != before else f"{nodes} nodes"
            _log.debug("%s: %s in %.1f ms", step.name, change, took)
    return draft.model
