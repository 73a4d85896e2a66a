"""What each input of a model was taken for, in one line."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.verification.dataflow import Origin
from onnx_sparse.converters.verification.sample_inputs import Sampler

#: The most features and words that a line names.
_MOST_NAMED = 6


def input_lines(sampler: Sampler) -> dict[str, str]:
    """What each input of a model was taken for, by name."""
    return {name: _line(sampler, name) for name in sampler.values}


def _line(sampler: Sampler, name: str) -> str:
    roles = sampler.roles
    if name in roles.examples:
        features = roles.examples[name]
        said = [_feature(sampler, Origin(name, feature.key)) for feature in features[:_MOST_NAMED]]
        more = len(features) - len(said)
        return f"messages: {'; '.join(said)}{f'; {more} more' if more else ''}"
    if name in roles.coordinates:
        shape = roles.coordinates[name]
        return f"coordinates of sparse entries{f' inside {shape}' if shape else ''}"
    if name in sampler.splits:
        return "row splits"
    if name in sampler.starts:
        return "where bags begin"
    if name in sampler.lengths:
        return "lengths of bags"
    if name in roles.shapes:
        return "a dense shape"
    if name in roles.counts:
        return "a number of rows"
    if name in roles.segments:
        return "sorted segment ids"
    dtype = sampler.values[name].type.tensor_type.elem_type
    return _values(sampler, Origin(name), dtype)


def _feature(sampler: Sampler, origin: Origin) -> str:
    partition = sampler.partitions.get(origin)
    key = (origin.key or b"").decode(errors="replace")
    if partition is not None and partition.kind != "values":
        kinds = {"rowids": "row ids", "splits": "row splits", "lengths": "row lengths"}
        return f"{key} = {kinds.get(partition.kind, f'row {partition.kind}')}"
    dtype = next(f.dtype for f in sampler.roles.examples[origin.input] if f.key == origin.key)
    return f"{key} = {_values(sampler, origin, dtype)}"


def _values(sampler: Sampler, origin: Origin, dtype: object) -> str:
    values = sampler.values_of
    known = values.constraints
    compared = [*known.words.get(origin, ()), *known.numbers.get(origin, ())]
    among = f", {', '.join(_named(value) for value in compared[:_MOST_NAMED])} among them" if compared else ""
    keys = known.keys.get(origin)
    if dtype == TensorProto.STRING:
        if encoded := known.encoded.get(origin):
            return f"encoded text, such as {_named(encoded[0].encode('ascii', 'replace').decode()[:40])}"
        if texts := values.number_texts.get(origin):
            return f"text that holds numbers, such as {_named(texts[0])}"
        return f"words of a table{among}" if keys else f"words{among}"
    if dtype == TensorProto.BOOL:
        return "true and false"
    bound = sampler.roles.bounds.get(origin.input) if origin.key is None else None
    if origin in known.bounds or bound is not None:
        low, high = known.bounds.get(origin, (0, (bound or 1) - 1))
        high = high if bound is None else min(high, bound - 1)
        return f"ids from {max(low, 0)} to {high}{among}"
    if origin.key is None and origin.input in sampler.roles.indexed:
        return f"ids of the rows of {sampler.roles.indexed[origin.input][0]}"
    if keys:
        return f"keys of a table{among}"
    is_float = dtype in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
    return f"{'normally distributed numbers' if is_float else 'small integers'}{among}"


def _named(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
