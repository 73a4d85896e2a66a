"""The semantics again, in plain Python loops over single elements: slow, obvious, and sharing no code with the kernels.

An oracle takes the inputs by name and returns `Expected` by output name. Floats are as exact as float64 sums can be;
with them comes the error that another order of additions and one rounding to the element type may cause.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
from contract import csv_records, encoded_strings, keyed_tables, message_oracles, regular_expressions, text_oracles
from contract.expected import Array, Expected, Inputs, Oracle, elements, python_value


def is_integer(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu"


def wrap(value: int, dtype: np.dtype[Any]) -> int:
    """An integer wrapped to the dtype's range."""
    info = np.iinfo(dtype)
    return (value - int(info.min)) % (int(info.max) - int(info.min) + 1) + int(info.min)


def lowest(dtype: np.dtype[Any]) -> Any:
    return int(np.iinfo(dtype).min) if is_integer(dtype) else float(ml_dtypes.finfo(dtype).min)


def highest(dtype: np.dtype[Any]) -> Any:
    return int(np.iinfo(dtype).max) if is_integer(dtype) else float(ml_dtypes.finfo(dtype).max)


def greatest_of_nothing(dtype: np.dtype[Any], attributes: Mapping[str, str]) -> Any:
    infinite = attributes.get("initial") == "NEG_INF" and not is_integer(dtype)
    return -math.inf if infinite else lowest(dtype)


def least_of_nothing(dtype: np.dtype[Any], attributes: Mapping[str, str]) -> Any:
    infinite = attributes.get("initial") == "POS_INF" and not is_integer(dtype)
    return math.inf if infinite else highest(dtype)


def exact_sum(values: list[float]) -> float:
    """The sum rounded once; infinities and NaN are added as in IEEE 754."""
    special = [v for v in values if not math.isfinite(v)]
    return sum(special) if special else math.fsum(values)


def fold(kind: str, values: list[Any], dtype: np.dtype[Any]) -> tuple[Any, float]:
    """Reduce the values of one element of a segment that is not empty; returns the result and its tolerance."""
    if kind in ("max", "min"):
        if any(v != v for v in values):
            return math.nan, 0.0
        return (max if kind == "max" else min)(values), 0.0
    if is_integer(dtype):
        return wrap(sum(values) if kind == "add" else math.prod(values), dtype), 0.0
    if kind == "add":
        return exact_sum(values), sum_error(values, dtype)
    product = math.prod(values)
    return product, len(values) * step(dtype) * abs(product) if math.isfinite(product) else 0.0


def step(dtype: np.dtype[Any]) -> float:
    """The relative rounding step of the dtype in which the operator computes."""
    return 2.0**-52 if dtype == np.float64 else 2.0**-23


def sum_error(values: list[float], dtype: np.dtype[Any]) -> float:
    magnitude = sum(abs(v) for v in values)
    return len(values) * step(dtype) * magnitude if math.isfinite(magnitude) else 0.0


def segments_of(segment_ids: Array, num_segments: int) -> list[list[int]]:
    """The positions of each segment's entries; entries with other ids are in none."""
    return [[k for k, s in enumerate(segment_ids.reshape(-1)) if int(s) == segment] for segment in range(num_segments)]


def reduce_by_segment(
    kind: str, rows: list[list[Any]], positions: list[list[int]], width: int, dtype: np.dtype[Any], empty: Any
) -> tuple[list[Any], list[float]]:
    result, tolerance = [], []
    for entries in positions:
        for column in range(width):
            value, error = fold(kind, [rows[k][column] for k in entries], dtype) if entries else (empty, 0.0)
            result.append(value)
            tolerance.append(error)
    return result, tolerance


def rows_of(array: Array, count: int) -> tuple[list[list[Any]], int]:
    """The array as `count` rows of Python values, and their width."""
    flat = elements(array)
    width = len(flat) // count if count else 0
    return [flat[k * width : (k + 1) * width] for k in range(count)], width


def row_width(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def segment_count(inputs: Inputs) -> int:
    given = inputs.get("num_segments")
    if given is not None and int(given) >= 0:
        return int(given)
    ids = inputs["segment_ids"]
    return int(ids[-1]) + 1 if ids.size else 0


def segment_reduction(kind: str, empty: Callable[[np.dtype[Any], Mapping[str, str]], Any]) -> Callable[..., Any]:
    def oracle(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
        data = inputs["data"]
        size = segment_count(inputs)
        positions = segments_of(inputs["segment_ids"], size)
        rows, _ = rows_of(data, len(data))
        width = row_width(data.shape[1:])
        values, tolerance = reduce_by_segment(kind, rows, positions, width, data.dtype, empty(data.dtype, attributes))
        return {"output": Expected(data.dtype, (size, *data.shape[1:]), values, tolerance)}

    return oracle


def segment_mean(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    return mean_of_slices(inputs["data"], inputs["segment_ids"], segment_count(inputs))


def unsorted_segment_mean(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    return mean_of_slices(inputs["data"], inputs["segment_ids"], int(inputs["num_segments"]))


def mean_of_slices(data: Array, ids: Array, size: int) -> dict[str, Expected]:
    positions = segments_of(ids, size)
    rows, _ = rows_of(data, ids.size)
    width = row_width(data.shape[ids.ndim :])
    sums, tolerance = reduce_by_segment("add", rows, positions, width, data.dtype, 0)
    counts = [max(len(p), 1) for p in positions for _ in range(width)]
    if is_integer(data.dtype):
        means = [abs(s) // n * (1 if s >= 0 else -1) for s, n in zip(sums, counts, strict=True)]
    else:
        means = [s / n for s, n in zip(sums, counts, strict=True)]
        tolerance = [
            t / n + abs(m) * step(data.dtype) * 2 if math.isfinite(m) else 0.0
            for t, n, m in zip(tolerance, counts, means, strict=True)
        ]
    return {"output": Expected(data.dtype, (size, *data.shape[ids.ndim :]), means, tolerance)}


def unsorted_reduction(kind: str, initial: Callable[[np.dtype[Any], Mapping[str, str]], Any]) -> Callable[..., Any]:
    def oracle(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
        data, ids, size = inputs["data"], inputs["segment_ids"], int(inputs["num_segments"])
        start = initial(data.dtype, attributes)
        rows, _ = rows_of(data, ids.size)
        width = row_width(data.shape[ids.ndim :])
        positions = [[*p, len(rows)] for p in segments_of(ids, size)]
        values, tolerance = reduce_by_segment(kind, [*rows, [start] * width], positions, width, data.dtype, start)
        return {"output": Expected(data.dtype, (size, *data.shape[ids.ndim :]), values, tolerance)}

    return oracle


def embedding_segments(combiner: str) -> Callable[..., Any]:
    def oracle(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
        segments = segments_of(inputs["segment_ids"], int(inputs["num_segments"]))
        lowest_index = 0 if attributes.get("negative_indices") == "drop" else -math.inf
        kept = [[k for k in segment if inputs["indices"][k] >= lowest_index] for segment in segments]
        return looked_up(combiner, inputs, kept)

    return oracle


def embedding_bag_offsets(combiner: str) -> Callable[..., Any]:
    def oracle(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
        indices, begins = [int(i) for i in inputs["indices"]], [int(b) for b in inputs["offsets"]]
        padding = int(inputs.get("padding_index", -1))
        if attributes.get("include_last_offset", "false") == "false" and begins:
            begins.append(len(indices))
        bags = [range(begin, end) for begin, end in itertools.pairwise(begins)]
        lowest_index = 0 if attributes.get("negative_indices") == "drop" else -math.inf
        kept = [[k for k in bag if indices[k] != padding and indices[k] >= lowest_index] for bag in bags]
        return looked_up(combiner, inputs, kept)

    return oracle


def looked_up(combiner: str, inputs: Inputs, bags: list[list[int]]) -> dict[str, Expected]:
    """The rows of the entries of each bag, reduced."""
    table, indices = inputs["emb_table"], inputs["indices"]
    weights = inputs.get("per_sample_weights")
    default = inputs.get("default_index")
    rows, _ = rows_of(table, len(table))
    width = row_width(table.shape[1:])
    values, tolerance = [], []
    for entries in bags:
        weight = [python_value(weights[k]) if weights is not None and weights.size else 1 for k in entries]
        for column in range(width):
            if not entries:
                filled = default is not None and int(default) >= 0
                values.append(rows[int(default)][column] if filled else 0)
                tolerance.append(0.0)
                continue
            elements_of_bag = [rows[int(indices[k])][column] for k in entries]
            if combiner == "max":
                value, error = fold("max", elements_of_bag, table.dtype)
            else:
                value, error = weighted(combiner, elements_of_bag, weight, table.dtype)
            values.append(value)
            tolerance.append(error)
    return {"output": Expected(table.dtype, (len(bags), *table.shape[1:]), values, tolerance)}


def quantized(lookup: Oracle) -> Oracle:
    """A lookup in a table of integers: the same in the table of float32 that they stand for."""

    def oracle(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
        table = dequantized(inputs["emb_table"], inputs["scale_bias"], attributes.get("bits", "8"))
        answer = lookup({**inputs, "emb_table": table}, attributes)["output"]
        return {"output": Expected(inputs["scale_bias"].dtype, answer.shape, answer.elements, answer.tolerance)}

    return oracle


def dequantized(table: Array, scale_bias: Array, bits: str) -> Array:
    width = table.shape[1] * (2 if bits == "4" else 1)
    floats = np.zeros((len(table), width), np.float32)
    for row, column in itertools.product(range(len(table)), range(width)):
        if bits == "8":
            integer = int(table[row, column])
        else:
            integer = (int(table[row, column // 2]) >> (4 * (column % 2))) % 16
            if table.dtype == np.int8 and integer >= 8:
                integer -= 16
        scale, *bias = scale_bias[row, column * scale_bias.shape[1] // width]
        with np.errstate(all="ignore"):
            value = np.float32(integer) * np.float32(scale)
            floats[row, column] = value + np.float32(bias[0]) if bias else value
    return floats


def weighted(combiner: str, values: list[Any], weights: list[Any], dtype: np.dtype[Any]) -> tuple[Any, float]:
    products = [v * w for v, w in zip(values, weights, strict=True)]
    if is_integer(dtype):
        return wrap(sum(products), dtype), 0.0
    total, error = exact_sum(products), 2 * sum_error(products, dtype)
    if combiner == "sum":
        return total, error
    divided = weights if combiner == "mean" else [w * w for w in weights]
    divisor = exact_sum(divided) if combiner == "mean" else math.sqrt(exact_sum(divided))
    if divisor == 0:
        return 0.0, 0.0
    result = total / divisor
    relative = (len(weights) + 4) * step(dtype)
    return result, 2 * (error / abs(divisor) + relative * abs(result)) if math.isfinite(result) else 0.0


def sparse_fill_empty_rows(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    indices, values, shape = inputs["indices"], inputs["values"], inputs["dense_shape"]
    rank = len(shape)
    entries = [([int(c) for c in indices[k]], values[k], k) for k in range(len(indices))]
    filled = {entry[0][0] for entry in entries}
    empty = [row not in filled for row in range(int(shape[0]))]
    default = inputs["default_value"][()]
    everything = entries + [([row] + [0] * (rank - 1), default, None) for row in range(len(empty)) if empty[row]]
    by_all = attributes.get("order", "row_major") == "row_major"
    everything.sort(key=lambda entry: entry[0] if by_all else entry[0][0])
    positions = {origin: position for position, (_, _, origin) in enumerate(everything) if origin is not None}
    return {
        "output_indices": Expected.exactly(
            indices.dtype, (len(everything), rank), [c for coordinates, _, _ in everything for c in coordinates]
        ),
        "output_values": Expected.exactly(
            values.dtype, (len(everything),), [python_value(value) for _, value, _ in everything]
        ),
        "empty_row_indicator": Expected.exactly(bool, (len(empty),), empty),
        "reverse_index_map": Expected.exactly(
            indices.dtype, (len(indices),), [positions[k] for k in range(len(indices))]
        ),
    }


def ragged_fill_empty_rows(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    as_sparse = {
        "values": inputs["values"],
        "indices": inputs["value_rowids"].reshape(-1, 1),
        "dense_shape": inputs["nrows"].reshape(1),
        "default_value": inputs["default_value"],
    }
    filled = sparse_fill_empty_rows(as_sparse, {})
    rowids = filled.pop("output_indices")
    return {"output_value_rowids": Expected(rowids.dtype, rowids.shape[:1], rowids.elements), **filled}


def sparse_reshape(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    before = [int(d) for d in inputs["input_shape"]]
    after = [int(d) for d in inputs["new_shape"]]
    if -1 in after:
        after[after.index(-1)] = math.prod(before) // math.prod(d for d in after if d != -1)
    coordinates = []
    for entry in inputs["input_indices"]:
        linear = 0
        for size, coordinate in zip(before, entry, strict=True):
            linear = linear * size + int(coordinate)
        reshaped = []
        for size in reversed(after):
            reshaped.append(linear % size)
            linear //= size
        coordinates += reversed(reshaped)
    shape = (len(inputs["input_indices"]), len(after))
    return {
        "output_indices": Expected.exactly(np.int64, shape, coordinates),
        "output_shape": Expected.exactly(np.int64, (len(after),), after),
    }


def validate_sparse_indices(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    indices = inputs["indices"]
    return {"output": Expected.exactly(indices.dtype, indices.shape, [int(c) for entry in indices for c in entry])}


def validate_row_splits(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    splits = inputs["row_splits"]
    return {"output": Expected.exactly(splits.dtype, splits.shape, [int(split) for split in splits])}


def fill(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    dims = [int(d) for d in inputs["dims"]]
    value = python_value(inputs["value"][()])
    return {"output": Expected.exactly(inputs["value"].dtype, dims, [value] * math.prod(dims))}


def masked_fill(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    x, mask, value = inputs["x"], inputs["mask"], python_value(inputs["value"][()])
    output = []
    for position in np.ndindex(*x.shape):
        # Align on the right; a dimension of 1 is broadcast.
        aligned = position[x.ndim - mask.ndim :]
        masked = mask[tuple(0 if size == 1 else p for p, size in zip(aligned, mask.shape, strict=True))]
        output.append(value if masked else python_value(x[position]))
    return {"output": Expected.exactly(x.dtype, x.shape, output)}


ORACLES: dict[str, Oracle] = {
    "SparseFillEmptyRows": sparse_fill_empty_rows,
    "RaggedFillEmptyRows": ragged_fill_empty_rows,
    "SparseReshape": sparse_reshape,
    "ValidateSparseIndices": validate_sparse_indices,
    "ValidateRowSplits": validate_row_splits,
    "EmbeddingSegmentsSum": embedding_segments("sum"),
    "EmbeddingSegmentsMean": embedding_segments("mean"),
    "EmbeddingSegmentsSqrtN": embedding_segments("sqrtn"),
    "EmbeddingBagOffsetsSum": embedding_bag_offsets("sum"),
    "EmbeddingBagOffsetsMean": embedding_bag_offsets("mean"),
    "EmbeddingBagOffsetsSqrtN": embedding_bag_offsets("sqrtn"),
    "EmbeddingBagOffsetsMax": embedding_bag_offsets("max"),
    **{
        f"QuantizedEmbeddingSegments{name}": quantized(embedding_segments(name.lower()))
        for name in ("Sum", "Mean", "SqrtN")
    },
    **{
        f"QuantizedEmbeddingBagOffsets{name}": quantized(embedding_bag_offsets(name.lower()))
        for name in ("Sum", "Mean", "SqrtN")
    },
    "SegmentSum": segment_reduction("add", lambda dtype, attributes: 0),
    "SegmentProd": segment_reduction("mul", lambda dtype, attributes: 1),
    "SegmentMean": segment_mean,
    "SegmentMax": segment_reduction("max", lambda d, a: lowest(d) if a["fill_mode"] == "LOWEST" else 0),
    "SegmentMin": segment_reduction("min", lambda d, a: highest(d) if a["fill_mode"] == "HIGHEST" else 0),
    "UnsortedSegmentSum": unsorted_reduction("add", lambda dtype, attributes: 0),
    "UnsortedSegmentMean": unsorted_segment_mean,
    "UnsortedSegmentProd": unsorted_reduction("mul", lambda dtype, attributes: 1),
    "UnsortedSegmentMax": unsorted_reduction("max", greatest_of_nothing),
    "UnsortedSegmentMin": unsorted_reduction("min", least_of_nothing),
    "Fill": fill,
    "MaskedFill": masked_fill,
    "FindKeys": keyed_tables.find_keys,
    "FindStrings": keyed_tables.find_strings,
    "IndexKeys": keyed_tables.index_keys,
    "IndexStrings": keyed_tables.index_strings,
    "StringToHashBucketFast": text_oracles.string_to_hash_bucket_fast,
    "StringToHashBucketStrong": text_oracles.string_to_hash_bucket_strong,
    "RaggedStringSplit": text_oracles.ragged_string_split,
    "RaggedReduceJoin": text_oracles.ragged_reduce_join,
    "ReplaceCharacters": text_oracles.replace_characters,
    "StringNGrams": text_oracles.string_n_grams,
    "StringLength": text_oracles.string_length,
    "Substr": text_oracles.substr,
    "StringStrip": text_oracles.string_strip,
    "StringCase": text_oracles.string_case,
    "UnicodeDecode": text_oracles.unicode_decode,
    "UnicodeEncode": text_oracles.unicode_encode,
    "RegexReplace": regular_expressions.regex_replace,
    "RegexSplit": regular_expressions.regex_split,
    "AsString": text_oracles.as_string,
    "SummarizeTensor": text_oracles.summarize_tensor,
    "DecodeCSV": csv_records.decode_csv,
    "DecodeBase64": encoded_strings.decode_base64,
    "EncodeBase64": encoded_strings.encode_base64,
    "DecodeRaw": encoded_strings.decode_raw,
    "DecodeCompressed": encoded_strings.decode_compressed,
    "ParseTensor": encoded_strings.parse_tensor,
    "ParseExample": message_oracles.parse_example,
    "ParseSequenceExample": message_oracles.parse_sequence_example,
}
