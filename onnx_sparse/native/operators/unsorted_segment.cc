// UnsortedSegmentSum, -Mean, -Max, -Min and -Prod.

#include <algorithm>
#include <limits>

#include "abi/call.h"
#include "loops/elements.h"
#include "operators/requirements.h"
#include "operators/segment_order.h"

namespace onnx_sparse {
namespace {

template <class Id>
void require_below(const Tensor& segment_ids, int64_t segments) {
  const Id* ids = segment_ids.as<Id>();
  const int64_t size = segment_ids.size();
  const Id* high = std::find_if(ids, ids + size, [&](Id id) { return id >= segments; });
  if (high == ids + size) return;
  const std::string low = std::to_string(std::numeric_limits<Id>::min());
  throw out_of_range("segment_ids", segment_ids, high - ids, *high, low, segments);
}

void unsorted_segment(const Call& call, Reduction reduction, Constant initial,
                      Finalize finalize = Finalize::combine_initial) {
  const Tensor& data = call.input(0);
  const Tensor& segment_ids = call.input(1);
  const int64_t segments = call.input(2).integer();
  const bool narrow = segment_ids.type == ORT_INT32;

  narrow ? require_below<int32_t>(segment_ids, segments) : require_below<int64_t>(segment_ids, segments);
  auto* output =
      static_cast<char*>(call.allocate_rows(0, segments, data, segment_ids.rank, {"num_segments", segments}));
  if (segments == 0) return;  // however wide its rows
  const auto width = static_cast<size_t>(data.size_from(segment_ids.rank));
  if (width == 0) return;

  const ConstantRow empty_row(data.type, initial, width);
  SegmentReduction work{};
  work.reduction = reduction;
  work.finalize = finalize;
  work.element = element_of(data.type);
  work.width = width;
  work.table = data.as<char>();
  work.empty_row = empty_row.data();
  work.output = output;
  in_segment_order(call, segment_ids, segments, width * size_of(data.type), [&](const auto& order) {
    work.index_width = order.width();
    work.indices = order.entries();
    order.reduce(work);
  });
}

}  // namespace

void unsorted_segment_sum(const Call& call) { unsorted_segment(call, Reduction::add, Constant::zero); }

void unsorted_segment_mean(const Call& call) {
  unsorted_segment(call, Reduction::add, Constant::zero, Finalize::initial_mean);
}

void unsorted_segment_prod(const Call& call) { unsorted_segment(call, Reduction::multiply, Constant::one); }

void unsorted_segment_max(const Call& call) {
  unsorted_segment(call, Reduction::maximum, call.choice(0) == 0 ? Constant::lowest : Constant::negative_infinity);
}

void unsorted_segment_min(const Call& call) {
  unsorted_segment(call, Reduction::minimum, call.choice(0) == 0 ? Constant::highest : Constant::positive_infinity);
}

}  // namespace onnx_sparse
