"""Runs the operations of a dumped layer on the CPU, each on the tensors that the NPU gave it, and compares the results.

So each operation is judged by itself: an error of one does not spread to the next. What the dump has no tensor of is
computed from what came before. With `chain`, results are passed on instead, which shows how an error grows.
"""

from __future__ import annotations

import contextlib
import math
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from onnx_sparse.converters.ascend.atb.collectives import COLLECTIVES, Rank, linear_parallel, magnitudes
from onnx_sparse.converters.ascend.atb.comparison import ROUNDOFF, Comparison, Rounding, compare
from onnx_sparse.converters.ascend.atb.conversion import written
from onnx_sparse.converters.ascend.atb.graph import AtbGraph, AtbNode, NodePath, with_unique_writes
from onnx_sparse.converters.ascend.atb.handlers import HANDLERS
from onnx_sparse.converters.ascend.atb.mistakes import variants
from onnx_sparse.converters.ascend.atb.mistakes.ranks import rank_mistakes
from onnx_sparse.converters.ascend.atb.mistakes.results import resemblances
from onnx_sparse.converters.ascend.atb.mistakes.trial import Trial
from onnx_sparse.converters.ascend.atb.operation import DoesNotRunError, OperationRunner
from onnx_sparse.converters.ascend.atb.operations import why_not
from onnx_sparse.converters.ascend.atb.parameters import Parameters
from onnx_sparse.converters.ascend.atb.records import OperationRecord, Records, TensorPlace, TensorRecord
from onnx_sparse.converters.ascend.atb.replay_outcomes import Outcome, Replay
from onnx_sparse.converters.ascend.atb.runs import Run
from onnx_sparse.converters.ascend.atb.tensor_file import read_tensor
from onnx_sparse.converters.errors import ConversionError, Unsupported, first_line
from onnx_sparse.converters.tensor import shape_text

Array = np.ndarray[Any, Any]
#: Operations on more elements are not run again to find a mistake.
_MOST_TRIED = 2**25
#: The norm of what a mistake leaves unexplained is at most this share of the right result's.
_UNEXPLAINED = 0.5
#: The path, name and type of a graph.
_Place = tuple[NodePath, str, str]


def replay(
    run: Run,
    runner: OperationRunner,
    *,
    tolerance: float | None = None,
    chain: bool = False,
    others: Sequence[Run] = (),
) -> Replay:
    """Run one layer of a dump.

    Args:
        run: The layer.
        runner: Runs its operations.
        tolerance: How far a floating tensor may be from the NPU's; None uses the tolerance of its element type.
        chain: Whether each operation reads the results computed here, and only the graph's inputs are the dump's.
        others: The other layers of the dump: operations between ranks read what the other devices recorded.

    Raises:
        ConversionError: The graph contradicts itself.
    """
    graph = with_unique_writes(run.graph, written)
    peers = tuple(other for other in others if other.is_peer_of(run))
    relatives = tuple(other for other in others if other is not run and other.is_relative_of(run))
    return _Layer(run, graph, run.records(), runner, tolerance, chain, peers, relatives).replay()


@dataclass
class _Value:
    """A tensor while the layer runs: as computed here, and what the dump has of it.

    Attributes:
        computed: As computed here, from when its operation has run until its last reader has.
        taken: Whether `computed` is the dump's: its operation could not be run.
        record: The first record of it in the dump, and in whose folder that is.
        digest: Of the NPU's data, once they have been read as the result of an operation.
        writer: The operation that wrote it.
        rounding: How it may be rounded, since operations that are computed here have read what the dump has.
    """

    computed: Array | None = None
    taken: bool = False
    record: tuple[TensorRecord, str] | None = None
    digest: int | None = None
    writer: str = ""
    rounding: Rounding | None = None


@dataclass
class _Layer:
    run: Run
    graph: AtbGraph
    records: Records
    runner: OperationRunner
    tolerance: float | None
    chain: bool
    peers: tuple[Run, ...] = ()
    relatives: tuple[Run, ...] = ()
    notes: list[str] = field(default_factory=list)
    values: dict[str, _Value] = field(default_factory=dict)
    places: dict[TensorPlace, str] = field(default_factory=dict)
    noise: dict[str, Array] = field(default_factory=dict)

    def replay(self) -> Replay:
        self._find_records()
        left = Counter(name for node in self.graph.nodes for name in node.inputs)
        left.update(name for _, names, _ in self._ends() for name in names)
        ends: dict[NodePath, list[tuple[tuple[str, ...], _Place]]] = {}
        for place, names, label in self._ends():
            ends.setdefault(place, []).append((names, label))
        outcomes: list[Outcome] = []
        for node in self.graph.nodes:
            outcomes.append(self._operation(node))
            self._release(left, node.inputs)
            for names, (path, name, op_type) in ends.get(node.path, ()):
                outcome = self._results(path, name, op_type, names)
                if outcome is not None:
                    outcomes.append(outcome)
                self._release(left, names)
        return Replay(self.run, tuple(outcomes), tuple(dict.fromkeys(self.notes)))

    def _ends(self) -> Iterator[tuple[NodePath, tuple[str, ...], _Place]]:
        """The graphs in the layer and the layer itself: the path of the last operation, and the results."""
        if not self.graph.nodes:
            return
        last = {node.path[:depth]: node.path for node in self.graph.nodes for depth in range(1, len(node.path))}
        for group in self.graph.groups:
            yield last[group.path], group.outputs, (group.path, group.name, group.op_type)
        outputs = self.graph.outputs
        yield self.graph.nodes[-1].path, outputs, ((), self.graph.name, self.graph.op_type)

    def _release(self, left: Counter[str], names: tuple[str, ...]) -> None:
        for name in names:
            left[name] -= 1
            if left[name] <= 0 and name in self.values:
                self.values[name].computed = None

    # --- what the dump has -------------------------------------------------------------------------------------------

    def _find_records(self) -> None:
        """The records of each tensor: as written by its operation, else as read by the first that reads it."""
        layer = int(self.run.identity or 0)
        for path, sides in (
            ((), (self.graph.inputs, self.graph.outputs)),
            *((node.path, (node.inputs, node.outputs)) for node in self.graph.nodes),
        ):
            ids = (*((layer,) if self.graph.op_type else ()), *(index for index, _ in path))
            for side, names in zip(("in", "out"), sides, strict=True):
                self.places |= {TensorPlace(ids, side, i): name for i, name in enumerate(names)}
        own = self.records.of((), self.graph.name)
        for position, name in enumerate(self.graph.inputs):
            value = self.values.setdefault(name, _Value(writer=self.graph.name))
            self._see(value, own.inputs[position] if position < len(own.inputs) else None, self.graph.name)
        for node in self.graph.nodes:
            record = self.records.of(node.path, node.name)
            for position, name in enumerate(node.inputs):
                self._see(self.values.setdefault(name, _Value()), self._read_by(record, position, name), node.name)
            for position, name in enumerate(node.outputs):
                value = self.values.setdefault(name, _Value(writer=node.name))
                self._see(value, self._written(node, record, position), node.name)

    def _read_by(self, record: OperationRecord, position: int, name: str) -> TensorRecord | None:
        """The record of an input, without data that are not the tensor's.

        msprobe saves the tensors of one name once. If an operation has since written in place, without an output that
        says so, that file has what was there before.
        """
        found = record.inputs[position] if position < len(record.inputs) else None
        if found is None or found.copy_of is None or self.places.get(found.copy_of, name) == name:
            return found
        return replace(found, file=None)

    @staticmethod
    def _see(value: _Value, record: TensorRecord | None, where: str) -> None:
        if value.record is None and record is not None and record.file is not None:
            value.record = record, where

    @staticmethod
    def _written(node: AtbNode, record: OperationRecord, position: int) -> TensorRecord | None:
        """The record of a result; that of an operation without outputs is of the input that it writes."""
        if position < len(record.outputs) and record.outputs[position] is not None:
            return record.outputs[position]
        handler = HANDLERS.get(node.kind)
        if record.outputs or handler is None or position >= len(handler.writes):
            return None
        place = handler.writes[position]
        return record.updated[place] if place < len(record.updated) else None

    def _read(self, record: TensorRecord) -> Array:
        assert record.file is not None
        return read_tensor(record.file, self.records.root)

    # --- operations --------------------------------------------------------------------------------------------------

    def _operation(self, node: AtbNode) -> Outcome:
        record = self.records.of(node.path, node.name)
        label = node.op_type or "plugin"
        try:
            results = self._run(node, record)
        except Unsupported as reason:
            return self._taken(node, record, Outcome(node.name, label, reason=str(reason)))
        except (ConversionError, DoesNotRunError) as error:
            return self._taken(node, record, Outcome(node.name, label, reason=str(error), failed=True))
        rounding = self._rounding(node, record)
        for name, result in zip(node.outputs, results, strict=True):
            self.values[name].computed, self.values[name].rounding = result, rounding
        outcome = self._compared(node, record)
        if outcome.verdict != "DIFFERS" or self.chain:
            return outcome
        return replace(outcome, resembles=self._resembling(node, record, results))

    def _run(self, node: AtbNode, record: OperationRecord) -> list[Array]:
        if not node.op_type:
            raise Unsupported("a plugin operation: the dump holds its name only, neither its type nor its parameters")
        if node.kind not in HANDLERS and node.kind not in COLLECTIVES:
            raise Unsupported(why_not(node.kind))
        if not node.outputs:
            raise Unsupported("it has no outputs")
        inputs = [self._input(node, record, position) for position in range(len(node.inputs))]
        param = self._param(node, record)
        self._note_parameters(node, record.param)
        if _ranks(node, param) > 1:
            result, self.noise[node.outputs[0]] = self._exchanged(node, Parameters(param), inputs)
            return [result]
        return self.runner.run(node, param, record, inputs)

    def _param(self, node: AtbNode, record: OperationRecord) -> Any:
        """The parameters of an operation: the graph's, else those of its folder."""
        own = node.param if node.param not in (None, "") else record.param
        param = record.param if self.run.borrowed and record.param is not None else own
        if record.param_error and (self.run.borrowed or own is None):
            raise ConversionError(record.param_error)
        return param

    def _exchanged(self, node: AtbNode, params: Parameters, inputs: list[Array]) -> tuple[Array, Array]:
        """The result of an operation between ranks.

        Returns:
            The result, and how far each element may be off because partial sums are rounded in an unknown order.
        """
        ranks, own = self._ranks(node, params, inputs)
        try:
            return self._computed(node, params, ranks, own)
        except (IndexError, ValueError) as error:  # numpy's, of shapes that do not fit together
            raise Unsupported(f"the tensors of its ranks do not fit together: {first_line(error)}") from error

    def _ranks(self, node: AtbNode, params: Parameters, inputs: list[Array]) -> tuple[list[Rank], int]:
        """All ranks of an operation, from what the other devices read in the same round, and the number of this one."""
        size = params.integer("rankSize", 0)
        own = params.integer("rank", self.run.device_number)
        found = {own: Rank(params, inputs)}
        for peer in self._peer_layers:
            there = next((other for other in peer.graph.nodes if other.path == node.path), None)
            if there is None or there.kind != node.kind:
                continue
            peer_params = Parameters(peer._param(there, peer.records.of(there.path, there.name)))
            number = peer_params.integer("rank", peer.run.device_number)
            if peer_params.text("commDomain") != params.text("commDomain"):
                continue
            if number in found:
                raise Unsupported(f"two devices of the dump have rank {number}")
            found[number] = Rank(peer_params, [peer._recorded(there, i) for i in range(len(there.inputs))])
        missing = [str(number) for number in range(size) if number not in found]
        if missing or len(found) != size:
            lacks = f"no rank {', '.join(missing[:8])}" if missing else f"{len(found)}"
            raise Unsupported(f"it exchanges tensors between {size} ranks, and the dump has {lacks} in this round")
        return [found[number] for number in range(size)], own

    def _computed(self, node: AtbNode, params: Parameters, ranks: list[Rank], own: int) -> tuple[Array, Array]:
        """The result of one rank, and how far it may be off."""
        size = len(ranks)
        if node.kind in COLLECTIVES:
            collective = COLLECTIVES[node.kind]
            result = collective.compute(ranks, own)
            sums = np.zeros(1) if collective.is_exact(params) else collective.compute(magnitudes(ranks), own)
        else:
            products = partial(self._product, node)
            result = linear_parallel(ranks, own, products, params)
            sums = linear_parallel(ranks, own, lambda *at: np.abs(products(*at).astype(np.float64)), params)
        roundoff = ROUNDOFF.get(str(result.dtype), 0.0)
        return result, np.abs(sums) * roundoff * (size - 1)

    def _product(self, node: AtbNode, rank: Rank, x: Array) -> Array:
        """The product of LinearParallelOperation on one rank."""
        if rank.params.integer("quantType", -1) not in (-1, 0):
            raise Unsupported("quantType: quantized LinearParallel is not supported")
        param = {"rankSize": 1, "transWeight": rank.params.flag("transWeight", True), "hasResidual": False}
        alone = replace(node, inputs=node.inputs[:2], outputs=node.outputs[:1])
        (y,) = self.runner.run(alone, param, OperationRecord(), [x, rank.inputs[1]])
        return y

    @cached_property
    def _peer_layers(self) -> list[_Layer]:
        """The same layer on the other devices, with its records."""
        layers = []
        for run in self.peers:
            graph = with_unique_writes(run.graph, written)
            layer = _Layer(run, graph, run.records(), self.runner, self.tolerance, chain=False)
            layer._find_records()
            layers.append(layer)
        return layers

    def _recorded(self, node: AtbNode, position: int) -> Array:
        """What an operation has read, as the dump says."""
        name = node.inputs[position]
        seen = self._read_by(self.records.of(node.path, node.name), position, name)
        found = seen if seen is not None and seen.file is not None else (self.values[name].record or (None,))[0]
        if found is None:
            raise Unsupported(f"the dump of device {self.run.device} has no data of {name}, which the operation reads")
        return self._read(found)

    def _input(self, node: AtbNode, record: OperationRecord, position: int) -> Array:
        """What an operation reads: its own record, or that of the tensor's writer, or what was computed."""
        name = node.inputs[position]
        value = self.values[name]
        seen = self._read_by(record, position, name)
        if self.chain and value.computed is not None:
            array = value.computed
        elif seen is not None and seen.file is not None:
            array = self._read(seen)
            self._check_same(node, position, name, array)
            before = None if value.computed is None else value.computed.shape
            self._note_reshape(node, position, name, before, array.shape)
            return array
        elif value.record is not None:
            array = self._read(value.record[0])
        elif value.computed is not None:
            array = value.computed
        else:
            writer = f", which {value.writer} should have written" if value.writer != self.graph.name else ""
            raise Unsupported(f"the dump has no data of its input {name}{writer}")
        wanted = None if seen is None or seen.shape is None or None in seen.shape else seen.shape
        if wanted is None or wanted == array.shape:
            return array
        if math.prod(d for d in wanted if d is not None) != array.size:
            raise Unsupported(f"it reads {name} {shape_text(array.shape)}, which is {shape_text(wanted)} in the dump")
        self._note_reshape(node, position, name, array.shape, wanted)
        return array.reshape([d for d in wanted if d is not None])

    def _note_parameters(self, node: AtbNode, recorded: object) -> None:
        if isinstance(node.param, dict) and isinstance(recorded, dict) and not self.run.borrowed:
            other = [key for key, value in node.param.items() if recorded.get(key, value) != value]
            if other:
                there, here = recorded[other[0]], node.param[other[0]]
                self.notes.append(
                    f"{node.name}: {other[0]} is {there!r} in op_param.json and {here!r} in the graph, which is what "
                    "runs here"
                )

    def _note_reshape(self, node: AtbNode, position: int, name: str, before: Any, after: Any) -> None:
        if before is not None and before != after:
            self.notes.append(
                f"{node.name}: input {position} ({name}) is reshaped from {shape_text(before)} to {shape_text(after)}, "
                "as the dump says; the graph does not"
            )

    def _check_same(self, node: AtbNode, position: int, name: str, array: Array) -> None:
        """Note an input that is not what its operation wrote: something has written there in between."""
        value = self.values[name]
        if value.digest is not None and value.digest != _digest(array):
            self.notes.append(
                f"{node.name}: input {position} ({name}) is not what {value.writer} wrote, as the dump says: something "
                "else has written there in between"
            )
            value.digest = None  # named once

    def _taken(self, node: AtbNode, record: OperationRecord, outcome: Outcome) -> Outcome:
        """Take the results of an operation that is not run from the dump, for the operations that read them."""
        for position, name in enumerate(node.outputs):
            value = self.values[name]
            found = self._written(node, record, position)
            if found is not None and found.file is not None:
                try:
                    value.computed, value.taken = self._read(found), True
                    value.digest = _digest(value.computed)
                except Unsupported:
                    value.computed = None
                except ConversionError as error:
                    return Outcome(node.name, outcome.op_type, reason=f"{outcome.reason}; {error}", failed=True)
        recorded = (self._written(node, record, position) for position in range(len(node.outputs)))
        return replace(outcome, files=tuple(None if found is None else found.file for found in recorded))

    def _compared(self, node: AtbNode, record: OperationRecord) -> Outcome:
        comparisons: list[Comparison] = []
        missing: list[str] = []
        for position, name in enumerate(node.outputs):
            value = self.values[name]
            found, where = self._written(node, record, position), node.name
            if (found is None or found.file is None) and value.record is not None:
                found, where = value.record
            if found is None or found.file is None:
                missing.append(name)
                continue
            try:
                npu = self._read(found)
            except (ConversionError, Unsupported) as error:
                failed = isinstance(error, ConversionError)
                return Outcome(node.name, node.op_type, tuple(comparisons), str(error), failed)
            value.digest = _digest(npu)
            compared = self._judged(node.name, name, npu, found)
            comparisons.append(compared if where == node.name else _with_note(compared, f"as {where} read it"))
        reason = f"the dump has no data of {', '.join(missing)}" if missing else ""
        return Outcome(node.name, node.op_type, tuple(comparisons), reason)

    def _judged(self, operation: str, name: str, npu: Array, found: TensorRecord) -> Comparison:
        """Compare a tensor that was computed here: one verdict, whether as an operation's result or as a graph's."""
        value = self.values[name]
        assert value.computed is not None
        assert value.rounding is not None
        compared = compare(operation, name, value.computed, npu, self.tolerance, **value.rounding)
        return replace(compared, file=found.file)

    def _rounding(self, node: AtbNode, record: OperationRecord) -> Rounding:
        """How the results of an operation may be rounded, by itself and by those before it that the dump lacks."""
        params = Parameters(node.param if isinstance(node.param, dict) else None)
        handler = HANDLERS.get(node.kind)
        exact = handler is not None and handler.is_exact(params)
        if _ranks(node, node.param) > 1 and node.kind in COLLECTIVES:
            exact = COLLECTIVES[node.kind].is_exact(params)
        sizes = (handler is not None and handler.sums and self._shape_read(node, record)) or (1,)
        terms = sizes[-2 if params.flag("transposeA", False) and len(sizes) > 1 else -1] or 1
        noise = self.noise.get(node.outputs[0])
        for position, name in enumerate(node.inputs):
            before = self.values[name].rounding
            if before is None or not self._reads_computed(node, record, position):
                continue
            exact, terms = exact and before["exact"], max(terms, before["terms"])
            if before["noise"] is not None:  # of any of its elements: they may have moved
                noise = np.asarray(np.max(before["noise"], initial=0) + (0 if noise is None else noise))
        return {"exact": exact, "terms": terms, "noise": noise}

    def _shape_read(self, node: AtbNode, record: OperationRecord) -> Sequence[int | None] | None:
        """The shape of an operation's first input: as recorded there or elsewhere, or as computed."""
        value = self.values[node.inputs[0]]
        read = (record.inputs[0] if record.inputs else None) or (None if value.record is None else value.record[0])
        if read is not None and read.shape:
            return read.shape
        return None if value.computed is None else value.computed.shape

    def _reads_computed(self, node: AtbNode, record: OperationRecord, position: int) -> bool:
        """Whether an operation reads what was computed here, not what the dump has."""
        value, seen = self.values[node.inputs[position]], self._read_by(record, position, node.inputs[position])
        if self.chain and value.computed is not None:
            return not value.taken
        return (seen is None or seen.file is None) and value.record is None

    def _resembling(self, node: AtbNode, record: OperationRecord, results: list[Array]) -> tuple[str, ...]:
        """The known mistakes whose results are the NPU's, where those computed here are not."""
        inputs = [self._input(node, record, position) for position in range(len(node.inputs))]
        if sum(array.size for array in (*inputs, *results)) > _MOST_TRIED:
            return ()
        recorded = [self._written(node, record, position) for position in range(len(results))]
        if any(found is None or found.file is None for found in recorded):
            return ()
        npu = [self._read(found) for found in recorded if found is not None]
        rounding = self.values[node.outputs[0]].rounding
        assert rounding is not None

        def compared(made: list[Array]) -> list[Comparison]:
            pairs = zip(made, npu, strict=True)
            return [compare(node.name, "", ours, theirs, self.tolerance, **rounding) for ours, theirs in pairs]

        right = _unexplained(compared(results))

        def agree(made: list[Array]) -> bool:
            if len(made) != len(npu):
                return False
            found = compared(made)
            # A small change that happens to meet a result just within its tolerance explains nothing.
            return all(one.ok for one in found) and _unexplained(found) <= _UNEXPLAINED * right

        mistakes = self._mistaken(node, record, inputs, results, npu)
        return tuple(dict.fromkeys(words for words, made in mistakes if agree(made)))

    def _mistaken(
        self, node: AtbNode, record: OperationRecord, inputs: list[Array], results: list[Array], npu: list[Array]
    ) -> Iterator[tuple[str, list[Array]]]:
        """What each known mistake makes of an operation."""
        param = self._param(node, record)
        ranks = _ranks(node, param)
        if ranks <= 1 and isinstance(param, dict | None):
            for words, trial in variants(node.kind, Trial(dict(param or {}), tuple(inputs))):
                runner = self.runner
                if trial.saturates is not None:
                    runner = runner.with_overflow(saturates=trial.saturates)
                with contextlib.suppress(Unsupported, ConversionError, DoesNotRunError, ValueError, IndexError):
                    made = runner.run(node, trial.param, record, list(trial.inputs))
                    yield words, trial.written(made)
        elif ranks > 1:
            everyone, own = self._ranks(node, Parameters(param), inputs)
            for words, compute in rank_mistakes(
                everyone, own, lambda ranks, number: self._computed(node, ranks[number].params, list(ranks), number)[0]
            ):
                with contextlib.suppress(Unsupported, ConversionError, ValueError, IndexError):
                    yield words, [compute()]
        if all(ours.size == theirs.size for ours, theirs in zip(results, npu, strict=True)):
            yield from resemblances(results, npu, inputs)
        for run in self.relatives:
            other = run.records().of(node.path, node.name)
            recorded = [self._written(node, other, position) for position in range(len(results))]
            if all(found is not None and found.file is not None for found in recorded):
                where = f"device {run.device_number}" if run.device != self.run.device else f"round {run.round}"
                with contextlib.suppress(Unsupported, ConversionError):
                    yield f"the result of {where}", [read_tensor(f.file, run.root) for f in recorded if f and f.file]

    def _results(self, path: NodePath, name: str, op_type: str, names: tuple[str, ...]) -> Outcome | None:
        """Compare the results of a graph; None if the dump has none of them."""
        record = self.records.of(path, name)
        comparisons: list[Comparison] = []
        missing: list[str] = []
        for tensor, found in zip(names, record.outputs, strict=False):
            if found is None or found.file is None:
                continue
            value = self.values.get(tensor)
            if value is None or value.computed is None or value.taken:
                missing.append(tensor)
                continue
            try:
                npu = self._read(found)
            except (ConversionError, Unsupported) as error:
                return Outcome(name, op_type, tuple(comparisons), str(error), isinstance(error, ConversionError))
            comparisons.append(self._judged(name, tensor, npu, found))
        if not comparisons and not missing:
            return None
        reason = f"{', '.join(missing)}: the operation that writes it is not run" if missing else ""
        return Outcome(name, op_type, tuple(comparisons), reason)


def _ranks(node: AtbNode, param: Any) -> int:
    """Between how many ranks an operation exchanges tensors; 0 for operations of one rank."""
    if node.kind not in COLLECTIVES and node.kind != "LinearParallel":
        return 0
    return Parameters(param if isinstance(param, dict) else None).integer("rankSize", 0)


def _unexplained(found: Sequence[Comparison]) -> float:
    """The norm of all differences; infinite if one of them is not finite."""
    return math.hypot(*(math.inf if one.euclidean is None else one.euclidean for one in found))


def _with_note(comparison: Comparison, note: str) -> Comparison:
    return replace(comparison, note=", ".join(filter(None, (comparison.note, note))))


def _digest(array: Array) -> int:
    """Tells data apart, whatever their shape."""
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data) if array.size else 0
