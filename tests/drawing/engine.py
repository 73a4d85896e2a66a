"""Draws graphs of every declared generator, rewrites them, runs them and compares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto
from support.drawn_nodes import Drawn, pick
from support.random_nodes import compared

from drawing.assembly import assembled
from drawing.declaration import GENERATORS, Generator
from drawing.judges import judge
from onnx_sparse import InferenceSession
from onnx_sparse.converters import ConversionError, pipeline
from onnx_sparse.converters.onnx import phases as onnx_phases
from onnx_sparse.converters.onnxruntime.guards import GUARDS
from onnx_sparse.converters.rewriting import simplification
from onnx_sparse.converters.rewriting.checked_ids import CheckedIds
from onnx_sparse.converters.rewriting.rule import Rule
from onnx_sparse.converters.rewriting.rules.lost_rows import LostRows
from onnx_sparse.converters.tensorflow import phases as tensorflow_phases
from onnx_sparse.converters.verification.isolation import EndedError, Isolated

#: A rule, one of its anchors, and what draws graphs around it.
Case = tuple[type[Rule[Any]], str, Generator]

_FINISH = (pipeline.INFER, pipeline.guard_against(), pipeline.REFUSE_UNSUPPORTED)

#: The passes that models go through, as on the roads that end in them.
ROADS = {
    "guards": (pipeline.INFER, *_FINISH),
    "simplification": (
        pipeline.INFER,
        pipeline.rewrite_by([simplification.PHASE]),
        pipeline.SIMPLIFY,
        *_FINISH,
    ),
    "rules for files": (pipeline.INFER, pipeline.rewrite_by(onnx_phases.PHASES), *_FINISH),
    "rules of TensorFlow": (pipeline.INFER, pipeline.rewrite_by(tensorflow_phases.PHASES), *_FINISH),
}


@dataclass
class Report:
    """What was found.

    Attributes:
        outcomes: How many graphs were equal, refused, without a judge, different, or ended the process.
        fired: How often each rule replaced a node of each anchor, and how often it was drawn for it.
        found: What is wrong, with the seed that draws it again.
        refused: Why graphs were refused.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    drawn: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    def add(self, said: dict[str, Any]) -> None:
        kind = said["outcome"].partition(":")[0]
        kind = kind if kind in ("equal", "refused", "no judge", "not drawn", "ends the process") else "differs"
        self.outcomes[kind] += 1
        self.drawn[said["case"]] += 1
        self.fired[said["case"]] += said.get("fired", 0)
        if kind in ("differs", "ends the process"):
            self.found.append(f"seed {said['seed']}, {said['case']}: {said['outcome']} {said.get('what', '')}")
        elif kind in ("refused", "no judge", "not drawn"):
            self.refused[f"{said['case']}: {said['outcome']}"] += 1


#: Rules whose answers are others on purpose, on request: there is nothing that they are equal to.
_CHANGING = (CheckedIds, LostRows)


def every_rule() -> list[type[Rule[Any]]]:
    """The guards, and the rules of all phases."""
    phases = (*onnx_phases.PHASES, *tensorflow_phases.PHASES, simplification.PHASE)
    found = {type(rule): None for phase in phases for rule in phase}
    return [*GUARDS, *(rule for rule in found if rule not in _CHANGING)]


def cases(chosen: str = "") -> list[Case]:
    """Every generator of every anchor, in a fixed order: those of some, or with a leading ! those of all others."""
    from drawing import guards_of_shapes, guards_of_values, rules  # noqa: F401

    every = [(rule, anchor, generator) for (rule, anchor), made in GENERATORS.items() for generator in made]
    every.sort(key=lambda case: (case[0].__name__, case[1], case[2].__name__))
    part, is_wanted = chosen.removeprefix("!"), not chosen.startswith("!")
    return [case for case in every if (part in f"{case[0].__name__} of {case[1]}") == is_wanted]


def outcome(drawn: Drawn, rule: type[Rule[Any]], rng: np.random.Generator) -> tuple[str, bool, str]:
    """What comes of a drawn graph, whether the rule replaced a node, and by which road it went."""
    road = pick(rng, *ROADS)
    try:
        with np.errstate(all="ignore"):
            want = judge(drawn)
    except Exception as error:  # the evaluator has operators and types that it does not compute
        want, reason = None, f"{type(error).__name__}: {error}"
    model, graph = assembled(drawn, want, rng)
    draft = pipeline.Draft(ModelProto.FromString(model.SerializeToString()))
    try:
        converted = pipeline.run(draft, ROADS[road])
    except ConversionError as error:
        fired = any(attempt.fired and attempt.rule == rule.name for attempt in draft.attempts)
        return f"refused: {error.unsupported[0].reason if error.unsupported else error}", fired, road
    fired = any(attempt.fired and attempt.rule == rule.name for attempt in draft.attempts)
    try:
        have = InferenceSession(converted).run(None, graph.feeds)
    except Exception as error:
        text = " ".join(str(error).split())[-300:]
        # Kernels depend on ranks: of one that is not known, ONNX Runtime may refuse what would else be rewritten.
        if drawn.op_type == "AffineGrid" and "IsAxisInRange" in text:
            return "refused: ONNX Runtime folds the branch of a constant AffineGrid that is not taken", fired, road
        if want is None:
            return "refused: by ONNX Runtime, and there is no judge", fired, road
        return (f"fails: {text}" if graph.is_known else "refused: a rank is not known"), fired, road
    if want is None:
        return f"no judge: {reason.splitlines()[0][:100]}", fired, road
    return compared(drawn, want, have), fired, road


def _examine(seed: int, case: Case) -> dict[str, Any]:
    rule, anchor, generator = case
    rng = np.random.default_rng(seed)
    drawn = generator(rng, anchor)
    said, fired, road = outcome(drawn, rule, rng)
    operands = {name: f"{a.dtype}{list(a.shape)}" for name, a in drawn.given().items()}
    what = f"[{road}, opset {drawn.opset}, {operands}, {drawn.attributes}]"
    return {"outcome": said, "fired": int(fired), "what": what}


def examine(every: Sequence[Case], seeds: Iterable[int]) -> Report:
    """Examine the graphs of some seeds, each of the generator that is its turn, in a process that may end."""
    report = Report()
    with Isolated(lambda: lambda seed: _examine(seed, every[seed % len(every)])) as run:
        for seed in seeds:
            rule, anchor, _ = every[seed % len(every)]
            said = {"seed": seed, "case": f"{rule.__name__} of {anchor}"}
            try:
                said |= run(seed)
            except EndedError:
                said["outcome"] = "ends the process"
            except Exception as error:  # of the rule: an error of ours
                said["outcome"] = f"raises {type(error).__name__}: {str(error)[:300]}"
            report.add(said)
    return report
