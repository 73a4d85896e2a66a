"""What the arguments of a function are called.

TensorFlow calls the tensors of a dict that is passed as the parameter f: f, f_1, f_2, ... The source calls them by
their keys, and so does the model. Names that the user has given, to specs or by a signature, stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from onnx_sparse.converters.tensorflow.reading.ports import Port
from onnx_sparse.converters.verification.sample_inputs import CompositeSpecs
from onnx_sparse.models.graphs import Names
from onnx_sparse.schemas.features import ROLES, splits_role

#: The keys and positions that lead to a part of a structure.
Path: TypeAlias = "tuple[str | int, ...]"


@dataclass(frozen=True)
class Argument:
    """A tensor, sparse tensor or ragged tensor that a function takes.

    Attributes:
        parameter: The name of the function's parameter, or of the spec.
        path: The keys and positions below the parameter; none if the argument has a name of its own.
        tensors: The names of its tensors.
        kind: `dense`, `sparse` or `ragged`.
    """

    parameter: str
    path: Path
    tensors: tuple[str, ...]
    kind: str

    @classmethod
    def of(cls, user: str, path: Path, tensors: tuple[str, ...], kind: str, name: str | None) -> Argument:
        """An argument of a traced function.

        Args:
            user: What its user, or else its parameter, calls it.
            path: Where it is in the function's positional and named arguments.
            tensors: The names of its tensors.
            kind: Its kind.
            name: The name in its spec.
        """
        below = path[2:]  # after whether it is passed by position or by name, and its place or name
        is_named = not user or name == user or below[-1:] == (user,)
        return cls(user or tensors[0], () if is_named else below, tensors, kind)

    @property
    def has_keys(self) -> bool:
        """Whether keys say what it is, not only its position in a list."""
        return any(isinstance(key, str) and key for key in self.path)

    @property
    def roles(self) -> tuple[str, ...]:
        """The role of each of its tensors."""
        if self.kind == "ragged":
            return "values", *map(splits_role, range(len(self.tensors) - 1))
        return ROLES[self.kind]


@dataclass(frozen=True)
class Named:
    """What an argument and its tensors are called in the model."""

    argument: Argument
    name: str
    tensors: tuple[str, ...]


def named(arguments: Sequence[Argument]) -> list[Named]:
    """What arguments are called in the model: no name is that of an argument and of another argument's tensor."""
    names = _names(arguments)
    taken = set(names)
    kept = [
        tensors[0] == name and not argument.has_keys and taken.isdisjoint(tensors[1:])
        for name, argument in zip(names, arguments, strict=True)
        for tensors in [argument.tensors]
    ]
    for argument, is_kept in zip(arguments, kept, strict=True):
        taken.update(argument.tensors if is_kept else ())
    found = []
    for name, argument, is_kept in zip(names, arguments, kept, strict=True):
        tensors = argument.tensors if is_kept else (name,)
        joint = "_"
        while len(tensors) < len(argument.tensors):  # those of a sparse or ragged tensor
            parts = tuple(f"{name}{joint}{role}" for role in argument.roles)
            tensors = parts if taken.isdisjoint(parts) else ()
            joint += "_"
        taken.update(tensors)
        found.append(Named(argument, name, tensors))
    return found


def with_names(
    ports: Sequence[Port], specs: CompositeSpecs, arguments: Sequence[Argument]
) -> tuple[tuple[Port, ...], CompositeSpecs]:
    """Inputs, and their sparse and ragged tensors, with the names that the arguments have in the model.

    If any gets another name, the inputs are in the order of the arguments.
    """
    new: dict[str, str] = {}
    names: dict[str, str] = {}
    for each in named(arguments):
        new.update(zip(each.argument.tensors, each.tensors, strict=True))
        names.update(dict.fromkeys(each.tensors, each.name) if each.tensors != each.argument.tensors else {})
    if not names:
        return tuple(ports), specs
    by_name = {port.name: port for port in ports}
    made = tuple(by_name[name].renamed(new.get(name, name)) for name in dict.fromkeys([*new, *by_name]))
    sparse = tuple(
        replace(
            each,
            indices=(first := new.get(each.indices, each.indices)),
            values=new.get(each.values, each.values),
            dense_shape=new.get(each.dense_shape, each.dense_shape),
            name=names.get(first, ""),
        )
        for each in specs.sparse
    )
    ragged = tuple(
        replace(
            each,
            values=(first := new.get(each.values, each.values)),
            splits=tuple(new.get(name, name) for name in each.splits),
            name=names.get(first, ""),
        )
        for each in specs.ragged
    )
    return made, replace(specs, sparse=sparse, ragged=ragged)


def result_names(results: Iterable[tuple[Path, bool, int]]) -> list[str]:
    """The names of the tensors that a function returns: the keys of its results, or their positions.

    Args:
        results: The keys and positions that lead to each result, whether it is a sparse tensor, and the number of its
            tensors.
    """
    names = []
    for path, is_sparse, count in results:
        first = [f"output_{key}" if isinstance(key, int) else key for key in (path or (0,))[:1]]
        name = "_".join(map(str, (*first, *path[1:])))
        parts = ROLES["sparse"] if is_sparse else range(count)
        names += [name] if count == 1 else [f"{name}_{part}" for part in parts]
    return names


def _names(arguments: Sequence[Argument]) -> list[str]:
    """What each argument is called: its keys, after the parameter's name where other arguments have the same keys."""
    wanted = [_keys(argument) for argument in arguments]
    count = Counter(wanted)
    wanted = [
        f"{argument.parameter}_{name}" if count[name] > 1 and argument.has_keys else name
        for name, argument in zip(wanted, arguments, strict=True)
    ]
    free, found = Names(), dict[int, str]()
    for position in sorted(range(len(wanted)), key=lambda k: len(arguments[k].path)):
        found[position] = free.fresh(wanted[position])
    return [found[position] for position in range(len(wanted))]


def _keys(argument: Argument) -> str:
    if not argument.path:
        return argument.parameter
    if not argument.has_keys:
        return argument.tensors[0]
    keys = "_".join(map(str, argument.path))
    return keys if isinstance(argument.path[0], str) else f"{argument.parameter}_{keys}"
