"""What a program says about its inputs: which sizes are the same, which ids index what, where bags begin."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from onnx_sparse.converters.torch.source import Source
from onnx_sparse.converters.verification.layout import Axis, Layout, Size
from onnx_sparse.converters.verification.sample_inputs import BagsInput, CompositeSpecs, RaggedInput

#: Operators whose result has the elements of their first argument.
_CARRIERS = frozenset(
    ("_to_copy", "alias", "clone", "contiguous", "detach", "expand", "expand_as", "flatten", "repeat", "reshape")
) | {"select", "slice", "squeeze", "t", "to", "transpose", "unsqueeze", "view"}

#: Operators whose result is a number, or several, of their first argument's, or of their sum.
_READING = frozenset(("item", "_local_scalar_dense", "getitem", "unbind", "split", "split_with_sizes", "sum"))

#: For operators that take ids: the arguments with the ids, and with the tensor that they index.
_INDEXING = {
    "embedding": ("indices", "weight"),
    "embedding_bag": ("indices", "weight"),
    "_embedding_bag": ("indices", "weight"),
    "_embedding_bag_forward_only": ("indices", "weight"),
    **dict.fromkeys(
        ["gather", "index_select", "index_add", "index_copy", "index_fill", "index_reduce"], ("index", "self")
    ),
    **dict.fromkeys(["scatter", "scatter_add", "scatter_reduce"], ("index", "self")),
    "take_along_dim": ("indices", "self"),
}


def describe(source: Source) -> tuple[CompositeSpecs, Layout]:
    """The bags among the inputs of a program, and the sizes and bounds of its inputs."""
    program = source.program
    inputs = {
        node.name: node.meta["val"].shape
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in source.inputs and hasattr(node.meta.get("val"), "shape")
    }
    bags: list[BagsInput] = []
    ragged: list[RaggedInput] = []
    ids: dict[str, Any] = {}
    for name, arguments in _calls(program):
        if name.endswith(("embedding_bag", "embedding_bag_forward_only")):
            entries = _origins(arguments, inputs, "indices", "per_sample_weights")
            _add_starts(entries, _origin(arguments["offsets"], inputs), arguments["include_last_offset"], bags, ragged)
        elif name == "segment_reduce":
            entries = _origins(arguments, inputs, "data")
            _add_starts(entries, _origin(arguments["offsets"], inputs), True, bags, ragged)
            if lengths := _origin(arguments["lengths"], inputs):
                bags.append(BagsInput(entries, lengths=lengths))
        if name == "split_with_sizes" and (lengths := _summed(arguments["split_sizes"], inputs)):
            bags.append(BagsInput(_origins(arguments, inputs, "self"), None, lengths, len(arguments["split_sizes"])))
        if name == "index":
            for axis, indices in enumerate(arguments["indices"]):
                origin = _origin(indices, inputs)
                if origin is not None:
                    ids.setdefault(origin, arguments["self"].meta["val"].shape[axis])
        if named := _INDEXING.get(name):
            indices, indexed = (arguments[part] for part in named)
            origin = _origin(indices, inputs)
            if origin is not None and hasattr(indexed, "meta"):
                shape = indexed.meta["val"].shape or (1,)  # a scalar is indexed as one element
                ids.setdefault(origin, shape[arguments.get("dim", 0) or 0])
    per_entry = {name for found in bags for name in found.entries} | {found.values for found in ragged}
    sizes, symbols = _sizes(inputs, per_entry)
    bounds: dict[str, Size] = {}
    for origin, size in ids.items():
        if isinstance(size, int):
            bounds[origin] = size
        elif str(size) in symbols:
            bounds[origin] = symbols[str(size)]
    return CompositeSpecs(ragged=tuple(ragged), bags=tuple(bags)), Layout(sizes=sizes, bounds=bounds)


def _add_starts(
    entries: tuple[str, ...], offsets: str | None, with_end: bool, bags: list[BagsInput], ragged: list[RaggedInput]
) -> None:
    """Add the input that says where bags begin, with or without the end of the last one."""
    if offsets is not None and with_end:
        ragged += [RaggedInput(name, (offsets,)) for name in entries]
    elif offsets is not None:
        bags.append(BagsInput(entries, starts=offsets))


def _calls(program: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The operators that a program calls, with their arguments by name."""
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if node.op == "call_function" and schema is not None:
            places = dict(zip((argument.name for argument in schema.arguments), node.args, strict=False))
            arguments = {argument.name: argument.default_value for argument in schema.arguments} | places | node.kwargs
            yield schema.name.rpartition("::")[2], {"include_last_offset": False, "offsets": None} | arguments


def _origin(node: Any, inputs: dict[str, Any], carriers: frozenset[str] = _CARRIERS) -> str | None:
    """The input that a tensor's elements are taken from."""
    while node is not None and hasattr(node, "op"):
        if node.op == "placeholder":
            return node.name if node.name in inputs else None
        schema = getattr(node.target, "_schema", None)
        name = "getitem" if node.target is operator.getitem else schema and schema.name.rpartition("::")[2]
        if name not in carriers:
            return None
        node = node.args[0]
    return None


def _summed(sizes: Any, inputs: dict[str, Any]) -> str | None:
    """The input whose numbers were added up for each of several sizes: the lengths of the bags of several features."""
    origins = {_origin(size, inputs, _CARRIERS | _READING) for size in sizes}
    return origins.pop() if len(origins) == 1 else None


def _origins(arguments: dict[str, Any], inputs: dict[str, Any], *names: str) -> tuple[str, ...]:
    found = (_origin(arguments.get(name), inputs) for name in names)
    return tuple(name for name in found if name is not None)


def _sizes(inputs: dict[str, Any], entries: set[str]) -> tuple[dict[Axis, Size], dict[str, Axis]]:
    """The dimensions that have the size of another one, and the one that each symbol is first seen in.

    The number of entries is what bags say, so it is taken from an input with entries where one has the symbol.
    """
    ordered = sorted(inputs, key=lambda name: name not in entries)
    symbols: dict[str, Axis] = {}
    for leading in (True, False):  # numbers of rows are found first
        for name in ordered:
            for axis, size in enumerate(inputs[name]):
                if not isinstance(size, int) and (axis == 0) == leading:
                    symbols.setdefault(str(size), (name, axis))
    sizes: dict[Axis, Size] = {
        (name, axis): symbols[str(size)]
        for name, shape in inputs.items()
        for axis, size in enumerate(shape)
        if not isinstance(size, int) and symbols[str(size)] != (name, axis)
    }
    return sizes, symbols
