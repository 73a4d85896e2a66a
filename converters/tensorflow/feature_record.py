"""Recording the features of a converted model: from what the source says, and from what the operators say."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from onnx import ModelProto

from onnx_sparse.converters.verification.sample_inputs import CompositeSpecs
from onnx_sparse.models.graphs import Names
from onnx_sparse.rows.input_roles import find_roles
from onnx_sparse.schemas.features import Feature, splits_role, write_features


def record_features(model: ModelProto, specs: CompositeSpecs) -> None:
    """Write the features of a model to its metadata: its sparse and ragged tensors, and all other inputs.

    What the source says counts first, then what the operators tell.

    Args:
        model: The converted model.
        specs: What the source says about its sparse and ragged tensors.
    """
    roles = find_roles(model)
    inputs = [value.name for value in model.graph.input]
    parts: dict[str, tuple[str, dict[str, str], tuple[int | None, ...] | None]] = {}
    said = {each.indices: each.name for each in specs.sparse} | {each.values: each.name for each in specs.ragged}
    for sparse in specs.sparse:
        named = {"indices": sparse.indices, "values": sparse.values, "dense_shape": sparse.dense_shape}
        parts[sparse.indices] = "sparse", named, sparse.shape
    for ragged in specs.ragged:
        splits = {splits_role(depth): name for depth, name in enumerate(ragged.splits)}
        parts[ragged.values] = "ragged", {"values": ragged.values, **splits}, None
    parts = {first: part for first, part in parts.items() if set(part[1].values()) <= set(inputs)}
    held = {name for _, named, _ in parts.values() for name in named.values()}
    for indices, values in roles.values.items():
        dense_shape = roles.coordinates.get(indices) or ""
        named = {"indices": indices, "values": min(values, default=""), "dense_shape": dense_shape}
        # Of several values with the same coordinates (weights, say) none is the feature.
        if len(values) == 1 and len({*named.values()}) == 3 and set(named.values()) <= set(inputs) - held:
            parts[indices] = "sparse", named, None
            held |= {*named.values()}
    names = Names(inputs)
    features = []
    for name in inputs:
        if name in parts:
            kind, named, shape = parts[name]
            size = roles.bounds.get(named["values"])
            called = said.get(name) or _common_name(named)
            if called in inputs and called not in named.values():  # that name would mean two things
                called = named["values"]
            if called not in named.values():
                called = names.fresh(called)
            features.append(Feature(called, kind, named, size, shape))
        elif name in roles.examples:
            features.append(Feature(name, "example", {"serialized": name}))
        elif name not in held:
            features.append(Feature(name, "dense", {"values": name}, roles.bounds.get(name)))
    write_features(model, features)


def _common_name(parts: Mapping[str, str]) -> str:
    """What the names of a feature's parts have in common: `items` of `items_indices` and `items_values`."""
    same = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*parts.values(), strict=False))
    return "".join(letters[0] for letters in same).rstrip("_/.:") or parts["values"]
