// EmbeddingSegmentsSum, EmbeddingSegmentsMean, EmbeddingSegmentsSqrtN.

#include "embedding.h"

#include "kernels.h"
#include "requirements.h"
#include "segment_order.h"

namespace onnx_sparse {
namespace {

// Whether the segment ids are sorted. Throws an InvalidArgument unless they are legal under segment_ids_order.
bool check_segment_ids(const Call& call, const Tensor& ids, int64_t segments, bool any_order) {
  if (!any_order) {
    require_sorted(call, "segment_ids", ids);
    return true;
  }
  const bool sorted = are_sorted(call, ids);
  const bool in_range = sorted ? count_below(ids, segments) == ids.size() : are_in_range(call, ids, segments);
  if (!in_range) require_in_range("segment_ids", ids, ids.size(), segments);
  return sorted;
}

// Reduces entries whose segment ids are in any order. Returns whether every index is in range.
bool reduce_in_any_order(const Call& call, SegmentReduction work, size_t weight_bytes, const Tensor& segment_ids,
                         int64_t segments) {
  return in_segment_order(call, segment_ids, segments, work.width * weight_bytes, [&](const auto& order) {
    const auto indices = order.values(work.indices, size_of(segment_ids.type));
    const auto weights = work.weights ? order.values(work.weights, weight_bytes) : nullptr;
    work.indices = indices.get();
    work.weights = weights.get();
    return order.reduce(work);
  });
}

void embedding_segments(const Call& call, const Combiner& combiner) {
  const Lookup lookup = plain_lookup(call.input(0), call.input(1), call.input(4), call.input(5));
  reduce_by_segment_ids(call, lookup, combiner, call.input(2), call.input(3), 0);
}

}  // namespace

void reduce_by_segment_ids(const Call& call, const Lookup& lookup, const Combiner& combiner, const Tensor& segment_ids,
                           const Tensor& num_segments, size_t order) {
  require_blocks(lookup);
  const int64_t segments = num_segments.integer();
  const bool sorted = check_segment_ids(call, segment_ids, segments, call.choice(order) == 1);
  char* output = allocate_output(call, lookup, segments, equation("num_segments", segments));
  const int64_t kept = sorted ? count_below(segment_ids, segments) : segment_ids.size();
  optional_row("default_index", lookup.default_index, lookup.table);
  if (segments == 0) return;  // however wide its rows

  const LookupReduction prepared(call, lookup, combiner, output);
  const SegmentReduction& work = prepared.reduction;
  const bool in_order = sorted || work.width == 0;  // without elements, only indices are checked
  const bool in_range = in_order ? reduce_sorted(call, work, segment_ids, kept, segments)
                                 : reduce_in_any_order(call, work, prepared.weight_bytes, segment_ids, segments);
  if (!in_range) require_in_range("indices", lookup.indices, kept, lookup.table.dims[0]);
}

Lookup plain_lookup(const Tensor& table, const Tensor& indices, const Tensor& default_index, const Tensor& weights) {
  static const Tensor none{};
  return {table, indices, default_index, weights, none, false};
}

void require_blocks(const Lookup& lookup) {
  if (!lookup.scale_bias) return;
  const int64_t blocks = lookup.scale_bias.dims[1];
  const int64_t numbers = lookup.scale_bias.dims[2];
  const int64_t columns = lookup.table.dims[1];
  if (numbers != 1 && numbers != 2) {
    throw InvalidArgument{"scale_bias has " + std::to_string(numbers) + " numbers for each block; expected 1 or 2"};
  }
  if (blocks == 0 || columns % blocks != 0) {
    throw InvalidArgument{"scale_bias has " + std::to_string(blocks) + " blocks, which do not divide the " +
                          std::to_string(columns) + " columns of emb_table"};
  }
}

char* allocate_output(const Call& call, const Lookup& lookup, int64_t rows, const std::string& cause) {
  if (!lookup.scale_bias) return static_cast<char*>(call.allocate_rows(0, rows, lookup.table, 1, cause));
  const int64_t width = lookup.table.dims[1] * (lookup.has_halves ? 2 : 1);
  return static_cast<char*>(call.allocate(0, {rows, width}, size_of(lookup.scale_bias.type), cause));
}

int64_t optional_row(std::string_view name, const Tensor& index, const Tensor& table) {
  const int64_t row = index ? index.integer() : -1;
  if (row < -1 || row >= table.dims[0]) throw out_of_range(name, index, 0, row, "-1", table.dims[0]);
  return row;
}

namespace {

Element quantized_element(const Lookup& lookup) {
  if (lookup.table.type == ORT_INT8) return lookup.has_halves ? Element::quantized_int4 : Element::quantized_int8;
  return lookup.has_halves ? Element::quantized_uint4 : Element::quantized_uint8;
}

// The reduction of a lookup without the row of an empty segment.
SegmentReduction reduction_of(const Lookup& lookup, const Combiner& combiner, char* output) {
  const Tensor& table = lookup.table;
  SegmentReduction work{};
  work.reduction = lookup.weights ? Reduction::add_weighted : combiner.reduction;
  work.finalize = lookup.weights ? combiner.weighted : combiner.unweighted;
  work.element = lookup.scale_bias ? quantized_element(lookup) : element_of(table.type);
  work.width = static_cast<size_t>(table.size_from(1)) * (lookup.has_halves ? 2 : 1);
  work.table = table.as<char>();
  work.rows = table.dims[0];
  work.index_width = lookup.indices.type == ORT_INT32 ? IndexWidth::int32 : IndexWidth::int64;
  work.indices = lookup.indices.data;
  work.weights = lookup.weights.as<char>();
  work.output = output;
  if (lookup.scale_bias) {
    work.quantization = {element_of(lookup.scale_bias.type), lookup.scale_bias.as<char>(),
                         static_cast<size_t>(lookup.scale_bias.dims[1]),
                         static_cast<size_t>(lookup.scale_bias.dims[2])};
  }
  return work;
}

}  // namespace

LookupReduction::LookupReduction(const Call& call, const Lookup& lookup, const Combiner& combiner, char* output)
    : reduction(reduction_of(lookup, combiner, output)) {
  const int64_t default_row = lookup.default_index ? lookup.default_index.integer() : -1;
  const OrtElementType output_type = lookup.scale_bias ? lookup.scale_bias.type : lookup.table.type;
  weight_bytes = size_of(output_type);
  if (lookup.scale_bias || default_row < 0) {
    empty_row = constant_row(output_type, Constant::zero, reduction.width);
    reduction.empty_row = empty_row.data();
  } else {
    const auto row_bytes = reduction.width * size_of(lookup.table.type);
    reduction.empty_row = reduction.table + static_cast<size_t>(default_row) * row_bytes;
  }
  if (!lookup.scale_bias) return;
  if (default_row >= 0 && reduction.width > 0) {  // the only row of a segment is its sum
    SegmentReduction of_default = reduction;
    of_default.finalize = Finalize::round;
    of_default.index_width = IndexWidth::int64;
    of_default.indices = &default_row;
    of_default.weights = nullptr;
    of_default.output = empty_row.data();
    const int64_t start = 0;
    reduce_ordered(call, of_default, &start, 1, 1);
  }
}

void embedding_segments_sum(const Call& call) { embedding_segments(call, kSum); }

void embedding_segments_mean(const Call& call) { embedding_segments(call, kMean); }

void embedding_segments_sqrt_n(const Call& call) { embedding_segments(call, kSqrtN); }

}  // namespace onnx_sparse
