// EmbeddingSegmentsSum, EmbeddingSegmentsMean, EmbeddingSegmentsSqrtN.

#include "elements.h"
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

void embedding_segments(const Call& call, Finalize unweighted, Finalize weighted) {
  const Tensor& table = call.input(0);
  const Tensor& indices = call.input(1);
  const Tensor& segment_ids = call.input(2);
  const Tensor& default_index = call.input(4);
  const Tensor& weights = call.input(5);
  const int64_t segments = call.input(3).integer();
  const bool sorted = check_segment_ids(call, segment_ids, segments);
  auto* output = static_cast<char*>(call.allocate_rows(0, segments, table, 1, equation("num_segments", segments)));
  const int64_t kept = sorted ? count_below(segment_ids, segments) : segment_ids.size();
  const int64_t default_row = default_index ? default_index.integer() : -1;
  if (default_row < -1 || default_row >= table.dims[0]) {
    throw out_of_range("default_index", default_index, 0, default_row, "-1", table.dims[0]);
  }

  if (segments == 0) return;  // however wide its rows

  const auto width = static_cast<size_t>(table.size_from(1));
  const std::vector<char> zeros = constant_row(table.type, Constant::zero, default_row < 0 ? width : 0);
  const char* empty_row = default_row < 0
                              ? zeros.data()
                              : table.as<char>() + static_cast<size_t>(default_row) * width * size_of(table.type);
  SegmentReduction work{};
  work.reduction = weights ? Reduction::add_weighted : Reduction::add;
  work.finalize = weights ? weighted : unweighted;
  work.element = element_of(table.type);
  work.width = width;
  work.table = table.as<char>();
  work.rows = table.dims[0];
  work.index_width = indices.type == ORT_INT32 ? IndexWidth::int32 : IndexWidth::int64;
  work.indices = indices.data;
  work.weights = weights.as<char>();
  work.empty_row = empty_row;
  work.output = output;
  const bool in_order = sorted || width == 0;  // without elements, only indices are checked
  const bool in_range = in_order ? reduce_sorted(call, work, segment_ids, kept, segments)
                                 : reduce_in_any_order(call, work, segment_ids, segments);
  if (!in_range) {
    require_in_range("indices", indices, kept, table.dims[0]);
  }
}

}  // namespace

void embedding_segments_sum(const Call& call) { embedding_segments(call, Finalize::round, Finalize::round); }

void embedding_segments_mean(const Call& call) { embedding_segments(call, Finalize::tf_mean, Finalize::weighted_mean); }

void embedding_segments_sqrt_n(const Call& call) {
  embedding_segments(call, Finalize::tf_sqrt_n, Finalize::weighted_sqrt_n);
}

}  // namespace onnx_sparse
