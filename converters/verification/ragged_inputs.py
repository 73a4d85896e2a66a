"""The recorded features of models that are verified, and those that are sparse in a source and ragged in its model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations, islice, permutations
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.verification.sample_inputs import (
    BagsInput,
    CompositeSpecs,
    RaggedInput,
    Sampler,
    SparseInput,
)
from onnx_sparse.schemas.declaration import numpy_dtype
from onnx_sparse.schemas.features import Feature, features_of

Array = np.ndarray[Any, Any]

#: Deeper ragged tensors are not guessed.
_MOST_DEPTH = 3

#: More choices of the inputs that are the values of row splits, or of lengths, are not guessed.
_MOST_SUBSETS = 64


def recorded_specs(model: ModelProto) -> CompositeSpecs:
    """The sparse and ragged tensors that a model records as features."""
    features = _features(model)
    sparse = [
        SparseInput(f.inputs["indices"], f.inputs["values"], f.inputs["dense_shape"], f.shape)
        for f in features
        if f.kind == "sparse"
    ]
    ragged = [RaggedInput(f.inputs["values"], f.row_splits) for f in features if f.kind == "ragged"]
    return CompositeSpecs(tuple(sparse), tuple(ragged))


class RaggedInputs:
    """The features that a model takes as values and row splits, and its source as a sparse tensor.

    Args:
        model: The model, which records them.
        source: The inputs of the source.

    Attributes:
        features: These features, with the inputs of the source by role.
    """

    def __init__(self, model: ModelProto, source: Collection[str]) -> None:
        found = ((feature, feature.source) for feature in _features(model))
        # What a source has made ragged itself is so in both.
        self.features = [(feature, named) for feature, named in found if named and {*named.values()} <= {*source}]
        self._types = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}

    def as_sparse(self, model: ModelProto) -> ModelProto:
        """A model that describes the inputs of the source: coordinates and dense shapes in place of the row splits."""
        if not self.features:
            return model
        described = ModelProto()
        described.CopyFrom(model)
        inputs = {value.name: value for value in described.graph.input}
        for feature, source in self.features:
            inputs.pop(feature.inputs["row_splits"], None)
            for name, shape in ((source["indices"], [None, 2]), (source["dense_shape"], [2])):
                inputs[name] = helper.make_tensor_value_info(name, TensorProto.INT64, shape)
        kept = list(inputs.values())
        del described.graph.input[:]
        described.graph.input.extend(kept)
        return described

    def specs(self, specs: CompositeSpecs) -> CompositeSpecs:
        """What is known about the source's sparse and ragged tensors, with these features among them."""
        known = {sparse.indices for sparse in specs.sparse}
        more = [
            SparseInput(source["indices"], source["values"], source["dense_shape"], feature.shape)
            for feature, source in self.features
            if source["indices"] not in known
        ]
        return CompositeSpecs((*specs.sparse, *more), specs.ragged, specs.bags)

    def of_source(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The inputs of the source for given inputs, which may be those of the model or of the source already.

        Raises:
            ConversionError: Row splits do not fit their values.
        """
        made = dict(feeds)
        for feature, source in self.features:
            given = made.pop(feature.inputs["row_splits"], None)
            if given is not None:
                splits, values = np.asarray(given, np.int64), made.get(feature.inputs["values"])
                lengths = np.diff(splits)
                ends = splits[[0, -1]].tolist() if splits.size else []
                if (lengths < 0).any() or (values is not None and ends != [0, len(values)]):
                    raise ConversionError(
                        f"input {feature.inputs['row_splits']}: {splits.tolist()} are not row splits of "
                        f"{'?' if values is None else len(values)} values: they begin with 0, do not decrease, and end "
                        "with the number of values"
                    )
                rows = np.repeat(np.arange(len(lengths)), lengths)
                places = np.arange(len(rows)) - splits[rows]
                made[source["indices"]] = np.stack([rows, places], axis=1)
                made[source["dense_shape"]] = np.array([len(lengths), _width(feature, lengths)])
        return made

    def of_model(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The inputs of the model for those of the source; entries of a row keep their order."""
        made = dict(feeds)
        for feature, source in self.features:
            rows, count = made.pop(source["indices"])[:, 0], int(made.pop(source["dense_shape"])[0])
            order = np.argsort(rows, kind="stable")
            name = feature.inputs["row_splits"]
            made[feature.inputs["values"]] = made[source["values"]][order]
            ends = np.searchsorted(rows[order], np.arange(count + 1))
            made[name] = ends.astype(numpy_dtype(self._types[name]))
        return made


def ragged_guesses(sampler: Sampler) -> Iterator[CompositeSpecs]:
    """Which inputs may form ragged tensors, where nothing in the model says it.

    Of row splits that operators name, some of the other inputs are the values; the rest has an element for each row.
    Vectors of integers may be the splits of all other inputs, in each order of depth; or each those of one of them; or
    the lengths of rows of some of them.
    """
    roles, types = sampler.roles, {name: value.type.tensor_type for name, value in sampler.values.items()}
    open_ones = [
        name
        for name, dtype in types.items()
        if dtype.shape.dim and sampler.known_size(name, 0) is None and name not in {*roles.coordinates, *roles.shapes}
    ]
    vectors = [
        name
        for name in open_ones
        if types[name].elem_type in (TensorProto.INT32, TensorProto.INT64) and len(types[name].shape.dim) == 1
    ]
    known = sampler.specs
    stated = {name for ragged in known.ragged for name in (ragged.values, *ragged.splits)}
    if named := [name for name in vectors if name in roles.splits and name not in stated]:
        others = [name for name in open_ones if name not in roles.splits and name not in stated]
        for values in islice(_subsets(others), _MOST_SUBSETS):
            found = tuple(RaggedInput(name, (named[0],)) for name in values)
            yield CompositeSpecs(known.sparse, (*known.ragged, *found), known.bags)
    for count in range(1, min(len(vectors), _MOST_DEPTH) + 1):
        for splits in permutations(vectors, count):
            values = [name for name in open_ones if name not in splits]
            if values:
                found = tuple(RaggedInput(name, splits) for name in values)
                yield CompositeSpecs(known.sparse, found, known.bags)
            if 1 < count == len(values):
                each = tuple(RaggedInput(name, (one,)) for name, one in zip(values, splits, strict=True))
                yield CompositeSpecs(known.sparse, each, known.bags)
    yield from islice(_lengths(sampler, open_ones, vectors), _MOST_SUBSETS)


def _lengths(sampler: Sampler, open_ones: list[str], vectors: list[str]) -> Iterator[CompositeSpecs]:
    """Which vectors may be lengths of rows, the values of which sum to the elements of other inputs."""
    known, roles = sampler.specs, sampler.roles
    ids = {*roles.splits, *roles.bounds, *roles.indexed, *roles.keys, *roles.segments}
    counts = _subsets([name for name in vectors if name not in ids])
    for lengths in sorted(counts, key=len):
        for entries in _subsets([name for name in open_ones if name not in {*lengths, *roles.splits}]):
            bags = (BagsInput(tuple(entries), lengths=lengths[0]), *(BagsInput(lengths=name) for name in lengths[1:]))
            yield CompositeSpecs(known.sparse, known.ragged, (*known.bags, *bags))


def _subsets(names: Sequence[str]) -> Iterator[list[str]]:
    """All choices of names but none, the largest first."""
    for count in range(len(names), 0, -1):
        yield from map(list, combinations(names, count))


def _features(model: ModelProto) -> list[Feature]:
    """The features that a model records of its own inputs; a record that cannot be read says nothing."""
    inputs = {value.name for value in model.graph.input}
    try:
        return [feature for feature in features_of(model) if {*feature.inputs.values()} <= inputs]
    except ValueError:
        return []


def _width(feature: Feature, lengths: Array) -> int:
    """The width of the dense shape: what the source states, or the longest row."""
    stated = feature.shape[1] if feature.shape is not None else None
    return int(lengths.max(initial=0)) if stated is None else stated
