// EmbeddingSegmentsSum, EmbeddingSegmentsMean, EmbeddingSegmentsSqrtN.

#include "operators/embedding.h"

#include <algorithm>
#include <array>
#include <memory>

#include "abi/call.h"
#include "operators/entries.h"
#include "operators/requirements.h"
#include "operators/segment_order.h"

namespace onnx_sparse {
namespace {

// The entries of a lookup by segment, perhaps without those of negative indices.
class KeptEntries {
 public:
  KeptEntries(const Lookup& lookup, const Tensor& ids, bool drop_negative)
      : indices(lookup.indices), segment_ids(ids), weights(lookup.weights) {
    if (drop_negative) indices.type == ORT_INT32 ? keep_not_negative<int32_t>() : keep_not_negative<int64_t>();
  }

  Tensor indices;
  Tensor segment_ids;
  Tensor weights;

 private:
  template <class Id>
  void keep_not_negative() {
    const Id* all = indices.as<Id>();
    const int64_t count = indices.size();
    if (!any_negative(all, count)) return;
    const LeftOut<Id> left_out{-1, true};
    count_ = std::count_if(all, all + count, [](Id index) { return index >= 0; });
    const size_t weight_bytes = weights ? size_of(weights.type) : 0;
    memory_ = {kept_values<sizeof(Id)>(all, all, count, left_out),
               kept_values<sizeof(Id)>(segment_ids.data, all, count, left_out),
               kept_weights_of(weights.data, weight_bytes, all, count, left_out)};
    Tensor* const kept[] = {&indices, &segment_ids, &weights};
    for (size_t i = 0; i < memory_.size(); ++i) {
      kept[i]->dims = &count_;
      kept[i]->data = memory_[i].get();
    }
  }

  std::array<std::unique_ptr<char[]>, 3> memory_;  // of the tensors, where entries are left out
  int64_t count_ = 0;
};

// Whether the segment ids of the entries that are kept are sorted. Throws an InvalidArgument, with positions among all
// of them, unless they are legal under segment_ids_order.
bool check_segment_ids(const Call& call, const Tensor& kept, const Tensor& all, const LeftOutWhereNegative& left_out,
                       int64_t segments, bool any_order) {
  const bool sorted = are_sorted(call, kept);
  if (!any_order && !sorted) require_sorted("segment_ids", all, left_out);
  if (!any_order) return true;
  const bool in_range = sorted ? count_below(kept, segments) == kept.size() : are_in_range(call, kept, segments);
  if (!in_range) require_in_range("segment_ids", all, all.size(), segments, left_out);
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

// Throws an InvalidArgument unless the indices of the entries of segments that there are, those that are left out
// aside, are in range.
void require_used_in_range(const Lookup& lookup, const Tensor& segment_ids, int64_t segments,
                           const LeftOutWhereNegative& left_out) {
  int64_t end = segment_ids.size();  // behind the last entry that is used
  while (end > 0 && (left_out(end - 1) || segment_ids.integer(static_cast<size_t>(end - 1)) >= segments)) --end;
  require_in_range("indices", lookup.indices, end, lookup.table.dims[0], left_out);
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
  const bool drop_negative = call.choice(order + 1) == 1;
  const LeftOutWhereNegative left_out{drop_negative ? &lookup.indices : nullptr};
  const KeptEntries entries(lookup, segment_ids, drop_negative);
  const Tensor& ids = entries.segment_ids;
  const bool sorted = check_segment_ids(call, ids, segment_ids, left_out, segments, call.choice(order) == 1);
  char* output = allocate_output(call, lookup, segments, {"num_segments", segments});
  optional_row("default_index", lookup.default_index, lookup.table);
  if (segments == 0) return;  // however wide its rows

  const int64_t used = sorted ? count_below(ids, segments) : ids.size();
  const Lookup kept{lookup.table,    entries.indices,   lookup.default_index,
                    entries.weights, lookup.scale_bias, lookup.has_halves};
  const LookupReduction prepared(call, kept, combiner, output);
  const SegmentReduction& work = prepared.reduction;
  const bool in_order = sorted || work.width == 0;  // without elements, only indices are checked
  const bool in_range = in_order ? reduce_sorted(call, work, ids, used, segments)
                                 : reduce_in_any_order(call, work, prepared.weight_bytes, ids, segments);
  if (!in_range) require_used_in_range(lookup, segment_ids, segments, left_out);
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

char* allocate_output(const Call& call, const Lookup& lookup, int64_t rows, const Cause& cause) {
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
    own_empty_row.emplace(output_type, Constant::zero, reduction.width);
    reduction.empty_row = own_empty_row->data();
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
    of_default.output = own_empty_row->data();
    const int64_t start = 0;
    reduce_ordered(call, of_default, &start, 1, 1);
  }
}

void embedding_segments_sum(const Call& call) { embedding_segments(call, kSum); }

void embedding_segments_mean(const Call& call) { embedding_segments(call, kMean); }

void embedding_segments_sqrt_n(const Call& call) { embedding_segments(call, kSqrtN); }

}  // namespace onnx_sparse
