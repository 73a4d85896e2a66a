"""The inputs and outputs of a model, and what is refused of them."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensor import Shape
from onnx_sparse.models.graphs import Names

#: The most elements of an input, one for each dimension that is not known.
MOST_ELEMENTS = 2**27


@dataclass(frozen=True)
class Port:
    """An input or output of a source.

    Attributes:
        name: Its name in the ONNX model, which is the user's name for it.
        tensor: The tensor in its graph, `"dense/BiasAdd:0"`.
        dtype: TensorFlow's name of its element type, `"int64"`.
        shape: Its shape; None for an unknown rank or dimension.
        renamed_from: What the source calls it, if that is another name.
    """

    name: str
    tensor: str
    dtype: str
    shape: Shape | None
    renamed_from: str = ""

    @property
    def source_name(self) -> str:
        """What the source calls it."""
        return self.renamed_from or self.name

    def renamed(self, name: str) -> Port:
        """It by another name in the ONNX model."""
        return self if name == self.name else replace(self, name=name, renamed_from=self.source_name)


def select(ports: tuple[Port, ...], names: Sequence[str] | None, kind: str, *, subset: bool) -> tuple[Port, ...]:
    """The ports of the given names, in that order; all ports for None.

    Args:
        ports: The available ports.
        names: The wanted names, or the tensors of the ports.
        kind: `"input"` or `"output"`, for the error.
        subset: Whether ports may be omitted.

    Raises:
        ConversionError: If there is no such port, or one that is needed is omitted.
    """
    if names is None:
        return ports
    by_name = {port.name: port for port in ports}
    # Tools for TensorFlow name inputs and outputs by their tensors, and users as the source does.
    by_tensor = {f"{port.source_name}:0": port.name for port in ports} | {port.tensor: port.name for port in ports}
    by_tensor |= {port.source_name: port.name for port in ports}
    names = [name if name in by_name else by_tensor.get(name, name) for name in names]
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
    """Raise a ConversionError for inputs so large that they are not meant: a damaged file says any size."""
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
