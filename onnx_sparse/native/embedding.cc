// EmbeddingSegmentsSum, EmbeddingSegmentsMean, EmbeddingSegmentsSqrtN.

#include "embedding.h"

#include "kernels.h"
#include "requirements.h"
#include "segment_order.h"

namespace onnx_sparse {
namespace {

// Whether the segment ids are sorted. Throws an InvalidArgument unless they are legal under segment_ids_order.
bool check_segment_ids(const Call& call, const Tensor& ids, int64_t segments) {
  const bool any_order = call.choice(0) == 1;
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
bool reduce_in_any_order(const Call& call, SegmentReduction work, const Tensor& segment_ids, int64_t segments) {
  const size_t element_bytes = size_of(call.input(0).type);
  return in_segment_order(call, segment_ids, segments, work.width * element_bytes, [&](const auto& order) {
    const auto indices = order.values(work.indices, size_of(segment_ids.type));
    const auto weights = work.weights ? order.values(work.weights, element_bytes) : nullptr;
    work.indices = indices.get();
    work.weights = weights.get();
    return order.reduce(work);
  });
}

void embedding_segments(const Call& call, const Combiner& combiner) {
  const Lookup lookup{call.input(0), call.input(1), call.input(4), call.input(5)};
  const Tensor& segment_ids = call.input(2);
  const int64_t segments = call.input(3).integer();
  const bool sorted = check_segment_ids(call, segment_ids, segments);
  auto* output =
      static_cast<char*>(call.allocate_rows(0, segments, lookup.table, 1, equation("num_segments", segments)));
  const int64_t kept = sorted ? count_below(segment_ids, segments) : segment_ids.size();
  optional_row("default_index", lookup.default_index, lookup.table);
  if (segments == 0) return;  // however wide its rows

  std::vector<char> zeros;
  const SegmentReduction work = reduction_of(lookup, combiner, output, &zeros);
  const bool in_order = sorted || work.width == 0;  // without elements, only indices are checked
  const bool in_range = in_order ? reduce_sorted(call, work, segment_ids, kept, segments)
                                 : reduce_in_any_order(call, work, segment_ids, segments);
  if (!in_range) {
    require_in_range("indices", lookup.indices, kept, lookup.table.dims[0]);
  }
}

}  // namespace

int64_t optional_row(std::string_view name, const Tensor& index, const Tensor& table) {
  const int64_t row = index ? index.integer() : -1;
  if (row < -1 || row >= table.dims[0]) throw out_of_range(name, index, 0, row, "-1", table.dims[0]);
  return row;
}

SegmentReduction reduction_of(const Lookup& lookup, const Combiner& combiner, char* output, std::vector<char>* zeros) {
  const Tensor& table = lookup.table;
  const int64_t default_row = lookup.default_index ? lookup.default_index.integer() : -1;
  SegmentReduction work{};
  work.reduction = lookup.weights ? Reduction::add_weighted : combiner.reduction;
  work.finalize = lookup.weights ? combiner.weighted : combiner.unweighted;
  work.element = element_of(table.type);
  work.width = static_cast<size_t>(table.size_from(1));
  work.table = table.as<char>();
  work.rows = table.dims[0];
  work.index_width = lookup.indices.type == ORT_INT32 ? IndexWidth::int32 : IndexWidth::int64;
  work.indices = lookup.indices.data;
  work.weights = lookup.weights.as<char>();
  if (default_row < 0) {
    *zeros = constant_row(table.type, Constant::zero, work.width);
    work.empty_row = zeros->data();
  } else {
    work.empty_row = work.table + static_cast<size_t>(default_row) * work.width * size_of(table.type);
  }
  work.output = output;
  return work;
}

void embedding_segments_sum(const Call& call) { embedding_segments(call, kSum); }

void embedding_segments_mean(const Call& call) { embedding_segments(call, kMean); }

void embedding_segments_sqrt_n(const Call& call) { embedding_segments(call, kSqrtN); }

}  // namespace onnx_sparse
