"""Runs an exported model once, as its program runs: on the example, and with each of its sizes 0, 1 and doubled.

torch's library of translations changes with each release. What it writes may not load, or may fail at every run; that
is found here, in milliseconds, before somebody deploys it. `verify` draws inputs of its own and compares more.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto

from onnx_sparse.converters.errors import ConversionError, UnsupportedNode, first_line
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.torch.examples import Example
from onnx_sparse.converters.torch.reference import TorchReference
from onnx_sparse.converters.torch.source import Source
from onnx_sparse.converters.verification.comparison import Verdict, compare, half_floats
from onnx_sparse.converters.verification.isolation import Isolated
from onnx_sparse.converters.verification.verify import verify
from onnx_sparse.models.graphs import all_nodes
from onnx_sparse.models.onnx_tools import LARGEST_PROTO
from onnx_sparse.schemas import OPS
from onnx_sparse.schemas.declaration import FLOATS, element_type
from onnx_sparse.sessions.quiet import quiet_session

#: How many sizes are tried; a program that has more depends on them alike.
_MOST_SIZES = 8

#: Functions of torch that read memory by integers which they do not check: with other sizes they may end the process.
_UNCHECKED = re.compile(r"aten\._?(segment_reduce|jagged|padded_dense|nested|embedding_bag)|(?!aten\.)\w+\.\w+\.\w+")

#: Operators that say which of the elements comes first.
ORDERING = frozenset(("ArgMax", "ArgMin", "TopK"))

#: How ONNX Runtime names the node that fails, when it loads a model and when it runs it.
_NODE = re.compile(r"(?:Name:'|[Nn]ode:? ?\(?)(?P<name>[^\s')]+)['):]")


def require_run(source: Source, model: ModelProto, made_for: Mapping[str, str]) -> None:
    """Load a model and run it, and compare it with torch.

    A batch that torch or the program's own conditions refuse is passed over. A program without an example is loaded
    only, and a model of 2 GB or more not at all.

    Args:
        source: The program.
        model: What was made of it.
        made_for: The call of torch for which a node was written, by the node's name.

    Raises:
        ConversionError: The model does not load, a run fails, or its answer is not torch's.
    """
    if model.ByteSize() >= LARGEST_PROTO:
        return

    def make() -> Callable[[Mapping[str, Array] | None], list[Array]]:
        session = quiet_session(model)
        return lambda feeds: [] if feeds is None else session.run(None, dict(feeds))

    with Isolated(make) as run:
        trial = _Trial(source, model, run, made_for)
        trial.load()
        for batch, feeds in _batches(source):
            trial.compare(feeds, batch)


@dataclass(frozen=True)
class _Trial:
    """A program, its model, what runs that (and loads it, for None), and the calls for which its nodes were written."""

    source: Source
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

    def compare(self, feeds: Mapping[str, Array], batch: str) -> None:
        """Run a batch in both; `batch` says how it differs from the example, and is empty for that.

        Raises:
            ConversionError: The run fails, or the answer is not torch's.
        """
        wrong = self._wrong(feeds, batch)
        if not wrong:
            return
        if drawn := distinct(feeds, self.model):  # where elements are equal, frameworks choose different ones
            wrong = self._wrong(drawn, batch)
        message = f"output {wrong!r} of the converted model is not torch's on the example{batch}"
        if wrong and (drawn or not batch):
            raise ConversionError(f"{message}; run=False (convert --no-run) returns the model all the same")
        if wrong:
            warnings.warn(f"{message}: verify=True compares more", stacklevel=5)

    def _wrong(self, feeds: Mapping[str, Array], batch: str) -> str:
        """The first output that is not torch's; empty if all are, or if the batch is refused."""
        try:
            wanted = self.source.run(feeds)
        except Exception:  # whatever torch raises for what it does not take
            return ""
        try:
            got = self.run(feeds)
        except Exception as error:  # whatever ONNX Runtime raises
            if (batch and is_refusal(error)) or self.source.guard(feeds):
                return ""
            raise self._failure(error, f"the converted model fails on the example{batch}") from error
        if self._agree(wanted, got):
            return ""
        if len(wanted) != len(got):  # of as many parts as a size has
            return "" if self.source.guard(feeds) else self.model.graph.output[0].name
        # Rounding and random numbers are not faults, which takes longer to see.
        records = verify(TorchReference(self.source, self.model), self.model, feeds=feeds)
        wrong = [record.output for record in records if record.verdict is Verdict.DIFFERENT]
        if not wrong:
            return ""
        if batch and [want.ndim for want in wanted] != [answer.ndim for answer in got]:
            return ""  # torch squeezes a size that happens to be 1; an output of a file has one rank
        return "" if self.source.guard(feeds) else wrong[0]

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


def distinct(feeds: Mapping[str, Array], model: ModelProto) -> dict[str, Array]:
    """The inputs with other floats, no two of which are equal; empty if none are.

    Whole numbers, which may be ids, are others only where the model orders elements.
    """
    draw = np.random.default_rng(0)
    floats = {name for name, array in feeds.items() if element_type(array.dtype) in FLOATS}
    whole = {name for name, array in feeds.items() if array.dtype.kind in "iu"}
    chosen = floats | (whole if any(node.op_type in ORDERING for node in all_nodes(model.graph.node)) else set())
    drawn = {
        name: draw.permutation(np.linspace(-2, 2, feeds[name].size) if name in floats else np.arange(feeds[name].size))
        .reshape(feeds[name].shape)
        .astype(feeds[name].dtype)
        for name in sorted(chosen)
    }
    return {**feeds, **drawn} if drawn else {}


def _batches(source: Source) -> Iterator[tuple[str, dict[str, Array]]]:
    """The example, then with each size 0, 1 and doubled: what to say of it, and the inputs."""
    if source.program.example_inputs is None:
        return
    example = Example(source)
    yield "", example.feeds
    if reads_unchecked(source):
        return
    for symbol, (name, axis) in list(example.places.items())[:_MOST_SIZES]:
        known = example.sizes[symbol]
        for size in dict.fromkeys((0, 1, 2 * known)):
            if size != known:
                yield f" with {name}.shape[{axis}] = {size}", example.resized({symbol: size})


def reads_unchecked(source: Source) -> bool:
    """Whether the program calls a function that, with other sizes, reads memory that is not a tensor's."""
    calls = [node for node in source.program.graph.nodes if node.op == "call_function"]
    return any(_UNCHECKED.match(str(call.target)) or _attends_to_less(call) for call in calls)


def _attends_to_less(call: Any) -> bool:
    """Whether there may be fewer values than keys, which torch does not check."""
    if not str(call.target).startswith("aten.scaled_dot_product_attention"):
        return False
    keys, values = (argument.meta["val"].shape[-2] for argument in call.args[1:3])
    return str(keys) != str(values)


def is_refusal(error: Exception) -> bool:
    """Whether an operator of the domain says that it is given what is not legal, such as places beyond the end."""
    return any(f"{op}: " in str(error) for op in OPS)
