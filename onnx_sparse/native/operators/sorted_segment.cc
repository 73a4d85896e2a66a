// SegmentSum, SegmentMean, SegmentMax, SegmentMin, SegmentProd.

#include <limits>

#include "abi/call.h"
#include "loops/elements.h"
#include "operators/requirements.h"
#include "operators/segment_reduction.h"

namespace onnx_sparse {
namespace {

// The number of segments where it is not given: the last id + 1.
int64_t segments_of(const Tensor& segment_ids, const Cause& cause) {
  const int64_t size = segment_ids.size();
  if (size == 0) return 0;
  const int64_t last = segment_ids.integer(static_cast<size_t>(size - 1));
  if (last == std::numeric_limits<int64_t>::max()) {
    throw InvalidArgument{cause.text() + ": an output of more than 2^63 - 1 segments cannot be allocated"};
  }
  return last + 1;
}

// What asks for that many.
Cause cause_of(const Tensor& segment_ids) {
  const int64_t size = segment_ids.size();
  if (size == 0) return {"segment_ids", segment_ids};
  return {"segment_ids", segment_ids.integer(static_cast<size_t>(size - 1)), size - 1};
}

void segment(const Call& call, Reduction reduction, Finalize finalize, Constant empty) {
  const Tensor& data = call.input(0);
  const Tensor& segment_ids = call.input(1);
  const Tensor& num_segments = call.input(2);
  require_sorted(call, "segment_ids", segment_ids);
  const Cause cause = num_segments ? Cause("num_segments", num_segments.integer()) : cause_of(segment_ids);
  const int64_t segments = num_segments ? num_segments.integer() : segments_of(segment_ids, cause);
  auto* output = static_cast<char*>(call.allocate_rows(0, segments, data, 1, cause));
  if (segments == 0) return;  // however wide its rows

  const auto width = static_cast<size_t>(data.size_from(1));
  const ConstantRow empty_row(data.type, empty, width);
  SegmentReduction work{};
  work.reduction = reduction;
  work.finalize = finalize;
  work.element = element_of(data.type);
  work.width = width;
  work.table = data.as<char>();
  work.empty_row = empty_row.data();
  work.output = output;
  reduce_sorted(call, work, segment_ids, count_below(segment_ids, segments), segments);
}

// The value of an empty segment by the attribute fill_mode: ZERO, or `extremum`.
Constant fill_mode(const Call& call, Constant extremum) { return call.choice(0) == 0 ? Constant::zero : extremum; }

}  // namespace

void segment_sum(const Call& call) { segment(call, Reduction::add, Finalize::round, Constant::zero); }

void segment_mean(const Call& call) { segment(call, Reduction::add, Finalize::mean, Constant::zero); }

void segment_prod(const Call& call) { segment(call, Reduction::multiply, Finalize::round, Constant::one); }

void segment_max(const Call& call) {
  segment(call, Reduction::maximum, Finalize::round, fill_mode(call, Constant::lowest));
}

void segment_min(const Call& call) {
  segment(call, Reduction::minimum, Finalize::round, fill_mode(call, Constant::highest));
}

}  // namespace onnx_sparse
