"""Runs an exported model once, as its program runs: on the example, and with each of its sizes 0, 1 and doubled.

torch's library of translations changes with each release. What it writes may not load, or may fail at every run; that
is found here, in milliseconds, before somebody deploys it. `verify` draws inputs of its own and compares more.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import ModelProto

from onnx_sparse.converters.errors import ConversionError, UnsupportedNode, first_line
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.torch.examples import Example
from onnx_sparse.converters.torch.reference import TorchReference
from onnx_sparse.converters.torch.source import IsolatedSource, Source
from onnx_sparse.converters.torch.state import nodes_before
from onnx_sparse.converters.verification.comparison import Verdict, compare, half_floats
from onnx_sparse.converters.verification.isolation import Isolated
from onnx_sparse.converters.verification.verify import verify
from onnx_sparse.models.tools.onnx_tools import LARGEST_PROTO
from onnx_sparse.schemas import OPS
from onnx_sparse.sessions.quiet import quiet_session

#: How many sizes are tried; a program that has more depends on them alike.
_MOST_SIZES = 8

#: Functions of torch that read memory by integers which they do not check: with other sizes they may end the process.
_UNCHECKED = re.compile(r"aten\._?(segment_reduce|jagged|padded_dense|nested|embedding_bag)|(?!aten\.)\w+\.\w+\.\w+")

#: The way to a model that is not run, in messages.
_OR_RETURN = "run=False (convert --no-run) returns the model"

#: How ONNX Runtime names the node that fails, when it loads a model and when it runs it.
_NODE = re.compile(r"(?:Name:'|[Nn]ode:? ?\(?)(?P<name>[^\s')]+)['):]")


def require_run(source: Source, model: ModelProto, made_for: Mapping[str, str]) -> None:
    """Load a model and run it, and compare it with torch.

    The program runs, not the module that it was exported from: in a process of its own, as the model does, on copies of
    what it changes. A batch is passed over if torch or the program's own conditions refuse it, or if a tensor has
    another rank with it. A program without an example is loaded only, and a model of 2 GB or more not at all.

    Args:
        source: The program.
        model: What was made of it.
        made_for: The call of torch for which a node was written, by the node's name.

    Raises:
        ConversionError: The program keeps a state, the model does not load, a run fails, or its answer is not torch's.
    """
    if model.ByteSize() >= LARGEST_PROTO:
        return

    def make() -> Callable[[Mapping[str, Array] | None], list[Array]]:
        session = quiet_session(model)
        return lambda feeds: [] if feeds is None else session.run(None, dict(feeds))

    _refuse_state(source)
    with Isolated(make) as run, source.isolated() as program:
        trial = _Trial(program, model, run, made_for)
        trial.load()
        if source.program.example_inputs is None:
            return
        example = Example(source)
        trial.compare(example.feeds, "")
        trial.compare_sizes(example, unchecked_sizes(source))


def _refuse_state(source: Source) -> None:
    """Refuse a program with outputs that depend on what it was called with before; say what else is not kept.

    Raises:
        ConversionError: With the names of the buffers.
    """
    if read := source.state.read:
        raise ConversionError(
            f"{source.name} changes {', '.join(read)} in each call, and its outputs depend on that: a model of ONNX "
            "keeps nothing between runs. Take such a buffer as an argument of forward and return its new value; "
            f"{_OR_RETURN} with the values at the export"
        )
    if written := source.state.written:
        warnings.warn(
            f"{source.name} changes {', '.join(written)} in each call, which the model does not; no output depends on "
            "it. Export in evaluation mode, module.eval(), unless this is meant",
            stacklevel=6,
        )


@dataclass(frozen=True)
class _Trial:
    """A program, its model, what runs that (and loads it, for None), and the calls for which its nodes were written."""

    program: IsolatedSource
    model: ModelProto
    run: Callable[[Mapping[str, Array] | None], list[Array]]
    made_for: Mapping[str, str]

    def load(self) -> None:
        """Load the model.

        Raises:
            ConversionError: ONNX Runtime refuses it, or ends its process.
        """
        try:
            self.run(None)
        except Exception as error:  # whatever ONNX Runtime raises
            raise self._failure(error, "ONNX Runtime does not load the converted model") from error

    def compare_sizes(self, example: Example, unchecked: Collection[Any]) -> None:
        """Compare the example with each of its sizes 0, 1 and doubled.

        Where torch refuses that, because sizes must be the same that nothing says are, those of one value are changed
        together. Those that are `unchecked` are all 0, or stay: torch reads memory beyond what they say.

        Raises:
            ConversionError: A run fails, or an answer is not torch's.
        """
        free = [symbol for symbol in example.places if symbol not in unchecked]
        if none := [symbol for symbol in example.places if symbol in unchecked and example.sizes[symbol]]:
            self.compare(example.resized(dict.fromkeys(none, 0)), _said(example, none, 0))
        for symbol in free[:_MOST_SIZES]:
            known = example.sizes[symbol]
            same = [other for other in free if example.sizes[other] == known]
            for size in dict.fromkeys((0, 1, 2 * known)):
                if size == known:
                    continue
                for symbols in ([symbol], same):
                    feeds = example.resized(dict.fromkeys(symbols, size))
                    if self.compare(feeds, _said(example, symbols, size)) or len(same) == 1:
                        break

    def compare(self, feeds: Mapping[str, Array], batch: str) -> bool:
        """Run a batch in both; `batch` says how it differs from the example, and is empty for that.

        Nothing excuses a model that fails or differs on the example: it is of no use to who gave it.

        Returns:
            Whether torch takes the batch.

        Raises:
            ConversionError: The run fails, or the answer is not torch's.
        """
        try:
            wanted = self.program.run(feeds)
        except Exception as error:  # whatever torch raises for what it does not take; it may end its process
            if not batch:
                warnings.warn(
                    f"torch refuses the example, so the model was only loaded: {first_line(error)}", stacklevel=6
                )
            return False
        try:
            got = self.run(feeds)
        except Exception as error:  # whatever ONNX Runtime raises
            if batch and (is_refusal(error) or self.program.guard(feeds)):
                return True
            raise self._failure(error, f"the converted model fails on the example{batch}") from error
        if (wrong := self._wrong(feeds, wanted, got)) and not (batch and self.program.guard_of_answer(feeds)):
            raise ConversionError(
                f"output {wrong!r} of the converted model is not torch's on the example{batch}; {_OR_RETURN} all the "
                "same"
            )
        return True

    def _wrong(self, feeds: Mapping[str, Array], wanted: Sequence[Array], got: Sequence[Array]) -> str:
        """The first output that is not torch's; empty if all are."""
        if self._agree(wanted, got):
            return ""
        if len(wanted) != len(got):  # of as many parts as a size has
            return str(self.model.graph.output[0].name)
        # Rounding and random numbers are not faults, which takes longer to see.
        records = verify(TorchReference(self.program, self.model), self.model, feeds=feeds)
        return next((record.output for record in records if record.verdict is Verdict.DIFFERENT), "")

    def _agree(self, wanted: Sequence[Array], got: Sequence[Array]) -> bool:
        computed = half_floats(self.model)
        pairs = zip(wanted, got, strict=False)
        return len(wanted) == len(got) and all(compare("", w, g, "", "", computed).ok for w, g in pairs)

    def _failure(self, error: Exception, what: str) -> ConversionError:
        text = f"{what}: {first_line(error)}"
        # Guards name what they write after the node.
        names = (found["name"].split("/")[0] for found in _NODE.finditer(str(error)))
        for name in names:
            if name in self.made_for:
                return ConversionError(unsupported=[UnsupportedNode(name, self.made_for[name], text)])
        return ConversionError(text)


def _said(example: Example, symbols: Sequence[Any], size: int) -> str:
    """How a batch differs from the example."""
    places = (f"{name}.shape[{axis}]" for name, axis in map(example.places.__getitem__, symbols))
    return f" with {' = '.join(places)} = {size}"


def unchecked_sizes(source: Source) -> set[Any]:
    """The sizes of inputs that a function depends on which, with other ones, reads memory that is not a tensor's."""
    calls = [node for node in source.program.graph.nodes if node.op == "call_function"]
    found: set[Any] = set()
    for node in nodes_before([call for call in calls if _UNCHECKED.match(str(call.target)) or _attends_to_less(call)]):
        if node.op == "placeholder":
            sizes = getattr(node.meta.get("val"), "shape", ())
            found |= {symbol for size in sizes if not isinstance(size, int) for symbol in size.node.expr.free_symbols}
    return found


def _attends_to_less(call: Any) -> bool:
    """Whether there may be fewer values than keys, which torch does not check."""
    if not str(call.target).startswith("aten.scaled_dot_product_attention"):
        return False
    keys, values = (argument.meta["val"].shape[-2] for argument in call.args[1:3])
    return str(keys) != str(values)


def is_refusal(error: Exception) -> bool:
    """Whether an operator of the domain says that it is given what is not legal, such as places beyond the end."""
    return any(f"{op}: " in str(error) for op in OPS)
