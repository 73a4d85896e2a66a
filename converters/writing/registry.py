"""The registry of a source's handlers, and how they are registered.

A handler is a function of a node and an emitter that returns the node's results in the source's order:

    @handles("Tile", to="Tile")
    def tile(node: Node, emit: Emitter) -> Results:
        return emit.op("Tile", node[0], node[1])

Every source has its own `Node`, which shows an operator's inputs and attributes as the source writes them. A handler
that cannot convert a node raises `Unsupported` with the reason; the driver collects these, so that a user sees all of
them at once. A node of which its handler does not read an input or attribute is refused, too; see `reads`.
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from inspect import signature
from typing import Any, Generic, TypeVar

from onnx_sparse.converters.errors import ConversionError, Unsupported, first_line
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.reads import Node, refuse_unread

#: What a handler returns: its only result, or all of them.
Results = Tensor | tuple[Tensor, ...]
Function = TypeVar("Function", bound=Callable[..., object])


@dataclass(frozen=True)
class Handler:
    """How one operator of a source is converted.

    Attributes:
        op_type: The operator.
        function: The function that converts it.
        to: The ONNX operators that it becomes.
        notes: What is not supported.
        dtypes: The element types that are converted, where the handlers of a source say them.
        differs: Where the result is meant to differ from the source's.
        ignored: The inputs and attributes that it need not read: they say how the source computes, but not what.
        defaults: The values of attributes that it need not read: the defaults of the source, which alone are converted.
    """

    op_type: str
    function: Callable[..., Any]
    to: str
    notes: str = ""
    dtypes: tuple[str, ...] = ()
    differs: str = ""
    ignored: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def convert(self, node: Node, emit: Any) -> tuple[Tensor, ...]:
        """The results of a node.

        Raises:
            Unsupported: It cannot be converted, or has an input or attribute that was not read; or a handler of another
                package fails.
        """
        try:
            results = self.function(node, emit)
        except (Unsupported, ConversionError, KeyError, MemoryError):
            raise
        except Exception as error:  # whatever a handler of another package raises; a fault of ours shows itself
            if self.is_ours:
                raise
            raise Unsupported(f"{self.described} raised {type(error).__name__}: {first_line(error)}") from error
        made = results if isinstance(results, tuple) else (results,)
        if not self.is_ours and (bad := [one for one in made if not isinstance(one, Tensor)]):
            raise Unsupported(f"{self.described} returned {type(bad[0]).__name__}; expected tensors")
        refuse_unread(node, self.ignored, self.defaults)
        return made

    @property
    def is_ours(self) -> bool:
        """Whether it comes with this package."""
        return self.function.__module__.startswith("onnx_sparse.")

    @property
    def described(self) -> str:
        """The handler in an error, with the package that brings it."""
        module = self.function.__module__
        package = _PACKAGES.get(module.partition(".")[0])
        return f"the handler {module}.{self.function.__qualname__}{f' of {package}' if package else ''}"


def lowered(function: Callable[..., Tensor]) -> Callable[[Any, Any], Tensor]:
    """The handler of an operator that a function of `writing/lowering` computes of its inputs, and that is all of it.

    handles("FloorDiv", to="Div")(lowered(division.floor_div))
    """
    count = len(signature(function).parameters) - 1  # all but the emitter

    def handler(node: Any, emit: Any) -> Tensor:
        return function(emit, *node.take(count))

    handler.__doc__ = function.__doc__
    return handler


def import_handlers(package: str, path: Iterable[str]) -> None:
    """Import every module of a package and of those in it: `import_handlers(__name__, __path__)` fills the registry."""
    for module in pkgutil.walk_packages(path, f"{package}."):
        importlib.import_module(module.name)


#: The group of the entry points by which other packages bring handlers.
ENTRY_POINTS = "onnx_sparse.handlers"
#: The sources whose handlers other packages can bring.
SOURCES = ("tensorflow", "torch", "openvino", "atb", "ge")
#: The names of packages that bring handlers, by their modules.
_PACKAGES: dict[str, str] = {}


def load_entry_points(source: str) -> None:
    """Import the modules of other packages that register handlers of a source.

    A package names them in the group `onnx_sparse.handlers`; the name of an entry point is that of the source, and may
    go on after a dot. One that cannot be loaded is warned of, and the others are loaded.

    Args:
        source: `tensorflow`, `torch`, `openvino`, `atb` or `ge`.
    """
    for point in entry_points(group=ENTRY_POINTS):
        named = point.name.partition(".")[0]
        if named in SOURCES and named != source:
            continue
        package = point.dist.name if point.dist is not None else "an installed package"
        try:
            if named not in SOURCES:
                raise ValueError(f"{named!r} is not one of {', '.join(SOURCES)}")
            _PACKAGES[point.module.partition(".")[0]] = package
            point.load()
        except Exception as error:  # whatever the module raises
            reason = str(error) if named not in SOURCES else f"{type(error).__name__}: {error}"
            warnings.warn(
                f"the handlers of {package} are not loaded: entry point {point.name} = {point.value}: {reason}",
                stacklevel=2,
            )


HandlerType = TypeVar("HandlerType", bound=Handler)


@dataclass(frozen=True)
class CoverageRow:
    """One operator of a source, for the documentation.

    Attributes:
        source: The operator as the source names it.
        target: The ONNX operators that it becomes.
        notes: What is not supported, or where the result differs.
        dtypes: The element types, where the handlers of the source say them.
        state: `have`, `partly` or `not`, where the source's list has all its operators.
    """

    source: str
    target: str
    notes: str
    dtypes: tuple[str, ...] = ()
    state: str = ""


class Registry(dict[str, HandlerType], Generic[HandlerType]):
    """The handlers of a source by operator.

    Args:
        handler: The class of its handlers, which may have fields of their own.
    """

    def __init__(self, handler: type[HandlerType]) -> None:
        super().__init__()
        self._handler = handler

    def handles(
        self,
        *op_types: str,
        to: str | Mapping[str, str] = "",
        notes: str = "",
        replaces: bool = False,
        **own: Any,
    ) -> Callable[[Function], Function]:
        """Register the decorated function as the handler of operators.

        It raises a ValueError for an operator that has a handler already, or none to replace.

        Args:
            op_types: The operators.
            to: The ONNX operators that they become, for all or by operator; that of the same name when omitted.
            notes: What is not supported.
            replaces: Whether the handlers that are there are replaced.
            own: `differs`, `ignored`, `defaults`, and the fields that only handlers of this source have.
        """

        def register(function: Function) -> Function:
            for op_type in op_types:
                known = self.get(op_type)
                if replaces and (known is None or not known.is_ours):
                    state = "has no handler to replace" if known is None else f"is replaced by {known.described}"
                    raise ValueError(f"{op_type} {state}")
                if known is not None and not replaces:
                    raise ValueError(f"{op_type} has a handler already; replaces=True replaces it")
                target = to if isinstance(to, str) else to[op_type]
                self[op_type] = self._handler(op_type, function, target or op_type, notes, **own)
            return function

        return register

    def differences(self, form: str = "{}") -> dict[str, list[str]]:
        """Where results are meant to differ from the source's: the operators, sorted by name, by what differs."""
        found: dict[str, list[str]] = {}
        for op_type, handler in self.items():
            if handler.differs:
                found.setdefault(handler.differs, []).append(form.format(op_type))
        return {what: sorted(found[what]) for what in sorted(found, key=lambda what: min(found[what]))}

    def coverage(self, form: str = "{}") -> list[CoverageRow]:
        """The operators, sorted by name and version; `form` makes the source's name of the registry's."""
        rows = sorted(
            self.items(), key=lambda row: [int(part) if part.isdecimal() else part for part in row[0].split("-")]
        )
        return [
            CoverageRow(form.format(op_type), row.to, "; ".join(filter(None, (row.notes, row.differs))), row.dtypes)
            for op_type, row in rows
        ]
