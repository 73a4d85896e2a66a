"""The common form of everything that can be converted: a source that can be run in TensorFlow and frozen."""

from __future__ import annotations

import difflib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensorflow.explanation import Derivation
from onnx_sparse.converters.verification.sample_inputs import CompositeSpecs
from onnx_sparse.converters.writing.tensor import Array, Shape
from onnx_sparse.models.graphs import Names

#: The elements that TensorFlow's optimizer may make for a placeholder: one for each dimension that is not known.
MOST_ELEMENTS = 2**27


@dataclass(frozen=True)
class Port:
    """An input or output of a source.

    Attributes:
        name: Its name in the ONNX model, which is the user's name for it.
        tensor: The TensorFlow tensor, `"dense/BiasAdd:0"`.
        dtype: TensorFlow's name of its element type, `"int64"`.
        shape: Its shape; None for an unknown rank or dimension.
    """

    name: str
    tensor: str
    dtype: str
    shape: Shape | None


@dataclass(frozen=True)
class Frozen:
    """A GraphDef without variables, with its inputs and outputs.

    Attributes:
        name: A name for the model.
        graph_def: The graph.
        inputs, outputs: Its inputs and outputs.
        lookup_tables: The keys and values of its lookup tables, by shared name.
        embedding_tables: Large tables that are not in the graph, by the placeholder that stands in for them.
        derivation: The outcome of the rules for tables.
    """

    name: str
    graph_def: Any
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    derivation: Derivation
    lookup_tables: Mapping[bytes, tuple[Array, Array]] = field(default_factory=dict)
    embedding_tables: Mapping[str, Array] = field(default_factory=dict)


class Source(ABC):
    """A loaded TensorFlow model.

    Attributes:
        name: A name for the model.
        inputs, outputs: Its inputs and outputs, in order.
        specs: What the specs of sparse and ragged tensors say about their parts.
    """

    name: str
    specs: CompositeSpecs
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    @abstractmethod
    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Run the source in TensorFlow: one array per output. Strings are bytes."""

    @abstractmethod
    def freeze(self) -> Frozen:
        """The source as a GraphDef with its variables turned into constants."""


def select(ports: tuple[Port, ...], names: Sequence[str] | None, kind: str, *, subset: bool) -> tuple[Port, ...]:
    """The ports of the given names, in that order; all ports for None.

    Args:
        ports: The available ports.
        names: The wanted names.
        kind: `"input"` or `"output"`, for the error.
        subset: Whether ports may be omitted.

    Raises:
        ConversionError: If there is no such port, or one that is needed is omitted.
    """
    if names is None:
        return ports
    by_name = {port.name: port for port in ports}
    refuse_unknown([name for name in names if name not in by_name], by_name, kind)
    refuse_repeated(names, kind)
    missing = [name for name in by_name if name not in names]
    if missing and not subset:
        raise ConversionError(f"the model needs every {kind}: {', '.join(missing)} was omitted")
    return tuple(by_name[name] for name in names)


def distinct(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """The names, with a suffix `_1`, `_2`, ... where a name is already taken."""
    free = Names(taken)
    return [free.fresh(name) for name in names]


def refuse_unknown(unknown: Sequence[str], known: Iterable[str], kind: str) -> None:
    """Raise a ConversionError for names that do not exist, with the nearest ones that do."""
    if not unknown:
        return
    known = list(known)
    complaints = []
    for name in unknown:
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
        listed = close or known[:10]
        hint = f"{'did you mean' if close else 'there is'} {', '.join(listed)}{'?' if close else ''}"
        complaints.append(f"no {kind} named {name!r}; {hint}" if listed else f"no {kind} named {name!r}")
    raise ConversionError("; ".join(complaints))


def refuse_repeated(names: Sequence[str], kind: str) -> None:
    """Raise a ConversionError for a name that is given twice."""
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ConversionError(f"{kind} {', '.join(sorted(repeated))} is given twice")


def refuse_huge(ports: Iterable[Port]) -> None:
    """Raise a ConversionError for huge inputs: TensorFlow's optimizer makes each, and ends the process if it cannot."""
    for port in ports:
        shape = list(port.shape or ())
        if math.prod(d for d in shape if d is not None) > MOST_ELEMENTS:
            raise ConversionError(
                f"input {port.name} has shape {shape}, of more than {MOST_ELEMENTS} elements; give its TensorSpec a "
                "shape with None"
            )


def refuse_what_onnx_lacks(ports: Iterable[Port], kind: str) -> None:
    """Raise a ConversionError for ports whose type a model's inputs and outputs cannot have."""
    complaints = []
    for port in ports:
        if port.dtype in ("complex64", "complex128", "variant", "resource") or port.dtype.startswith("q"):
            complaints.append(f"{kind} {port.name} is {port.dtype}, which ONNX Runtime cannot take or give")
    if complaints:
        raise ConversionError("; ".join(complaints))
