"""Two dumps of one model against each other, and each against what is computed here: which of the two is wrong?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onnx_sparse.converters.ascend.atb.comparison import Comparison, compare
from onnx_sparse.converters.ascend.atb.replay_outcomes import Outcome, Replay
from onnx_sparse.converters.ascend.atb.tensor_file import read_tensor
from onnx_sparse.converters.errors import ConversionError, Unsupported


@dataclass(frozen=True)
class Pair:
    """A tensor that both dumps have.

    Attributes:
        first: Its layer in the first dump.
        second: Its layer in the second dump.
        operation: The operation that wrote it.
        tensor: Its name.
        verdicts: What the replay of each dump says of it.
        between: The first dump's tensor compared with the second's; None if they cannot be compared.
    """

    first: Replay
    second: Replay
    operation: str
    tensor: str
    verdicts: tuple[str, str]
    between: Comparison | None

    @property
    def cause(self) -> str:
        """Why the tensors differ: which dump is wrong here, or that only their inputs differ; "" if they agree."""
        wrong = [
            place for place, verdict in zip(("first", "second"), self.verdicts, strict=True) if verdict == "DIFFERS"
        ]
        if wrong:
            return "both are wrong" if len(wrong) == 2 else f"the {wrong[0]} is wrong"
        if self.between is None or self.between.ok:
            return ""
        known = set(self.verdicts) <= {"equal", "ok"}
        return "both are right: their inputs differ" if known else "they differ; not all of them can be computed here"


def pairs(first: Sequence[Replay], second: Sequence[Replay], tolerance: float | None = None) -> Iterator[Pair]:
    """The tensors of two dumps, in the order of execution of the first.

    Layers correspond by name, round and device; rounds and devices that only one dump has, by their order.
    """
    others: dict[str, list[Replay]] = defaultdict(list)
    for replay in second:
        others[replay.run.graph.name].append(replay)
    taken: dict[str, int] = defaultdict(int)
    for replay in first:
        name = replay.run.graph.name
        place = (replay.run.round, replay.run.device_number)
        same = [other for other in others[name] if (other.run.round, other.run.device_number) == place]
        other = same[0] if same else (others[name][taken[name]] if taken[name] < len(others[name]) else None)
        taken[name] += 1
        if other is not None:
            yield from _of_layers(replay, other, tolerance)


def _of_layers(first: Replay, second: Replay, tolerance: float | None) -> Iterator[Pair]:
    there = {outcome.operation: outcome for outcome in second.outcomes}
    for outcome in first.outcomes:
        other = there.get(outcome.operation)
        if other is None:
            continue
        tensors = {comparison.tensor: comparison for comparison in other.comparisons}
        for comparison in outcome.comparisons:
            theirs = tensors.get(comparison.tensor)
            if theirs is not None:
                verdicts = comparison.verdict, theirs.verdict
                between = _between(first, second, comparison, theirs, tolerance)
                yield Pair(first, second, outcome.operation, comparison.tensor, verdicts, between)
        if not outcome.comparisons and not other.comparisons:
            yield from _not_computed(first, second, outcome, other, tolerance)


def _not_computed(
    first: Replay, second: Replay, outcome: Outcome, other: Outcome, tolerance: float | None
) -> Iterator[Pair]:
    """The results of an operation that cannot be computed here, such as a plugin."""
    for position, (ours, theirs) in enumerate(zip(outcome.files, other.files, strict=False)):
        if ours is None or theirs is None:
            continue
        try:
            arrays = read_tensor(ours, first.run.root), read_tensor(theirs, second.run.root)
        except (ConversionError, Unsupported):
            continue
        tensor = f"result {position}"
        between = compare(outcome.operation, tensor, *arrays, tolerance)
        yield Pair(first, second, outcome.operation, tensor, (outcome.verdict, other.verdict), between)


def _between(
    first: Replay, second: Replay, ours: Comparison, theirs: Comparison, tolerance: float | None
) -> Comparison | None:
    if ours.file is None or theirs.file is None:
        return None
    try:
        arrays = read_tensor(ours.file, first.run.root), read_tensor(theirs.file, second.run.root)
    except (ConversionError, Unsupported):
        return None
    return compare(ours.operation, ours.tensor, *arrays, tolerance, terms=ours.terms)
