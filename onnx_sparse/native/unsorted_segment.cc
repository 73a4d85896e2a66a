// UnsortedSegmentSum, -Mean, -Max, -Min and -Prod.

#include <algorithm>
#include <limits>

#include "elements.h"
#include "kernels.h"
#include "requirements.h"
#include "segments.h"

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

// The entries by segment, stably: a counting sort. Entries with negative ids are dropped.
struct Order {
  std::unique_ptr<int64_t[]> starts;  // [segments + 1]
  std::unique_ptr<int64_t[]> entries;
};

template <class Id>
Order order_by_segment(const Tensor& segment_ids, int64_t segments) {
  const Id* ids = segment_ids.as<Id>();
  const int64_t size = segment_ids.size();
  // While entries are placed, starts[s + 1] is where the next entry of segment s goes.
  Order order{uninitialized<int64_t>(segments + 2), uninitialized<int64_t>(size)};
  int64_t* next = order.starts.get() + 1;
  std::fill(order.starts.get(), order.starts.get() + segments + 2, int64_t{0});
  for (int64_t k = 0; k < size; ++k) {
    if (ids[k] >= 0) ++next[ids[k] + 1];
  }
  for (int64_t s = 0; s < segments; ++s) next[s + 1] += next[s];
  for (int64_t k = 0; k < size; ++k) {
    if (ids[k] >= 0) order.entries[static_cast<size_t>(next[ids[k]]++)] = k;
  }
  return order;
}

void unsorted_segment(const Call& call, Reduction reduction, Constant initial,
                      Finalize finalize = Finalize::combine_initial) {
  const Tensor& data = call.input(0);
  const Tensor& segment_ids = call.input(1);
  const int64_t segments = call.input(2).integer();
  const bool narrow = segment_ids.type == ORT_INT32;
  const auto width = static_cast<size_t>(data.size_from(segment_ids.rank));

  narrow ? require_below<int32_t>(segment_ids, segments) : require_below<int64_t>(segment_ids, segments);
  std::vector<int64_t> shape(data.dims + segment_ids.rank, data.dims + data.rank);
  shape.insert(shape.begin(), segments);
  auto* output = static_cast<char*>(call.allocate(0, shape, size_of(data.type), equation("num_segments", segments)));
  if (segments == 0 || width == 0) return;

  const Order order =
      narrow ? order_by_segment<int32_t>(segment_ids, segments) : order_by_segment<int64_t>(segment_ids, segments);
  const std::vector<char> empty_row = constant_row(data.type, initial, width);
  SegmentReduction work{};
  work.reduction = reduction;
  work.finalize = finalize;
  work.element = element_of(data.type);
  work.width = width;
  work.table = data.as<char>();
  work.index_width = IndexWidth::int64;
  work.indices = order.entries.get();
  work.empty_row = empty_row.data();
  work.output = output;
  reduce_ordered(call, work, order.starts.get(), segments);
}

}  // namespace

void unsorted_segment_sum(const Call& call) { unsorted_segment(call, Reduction::add, Constant::zero); }

void unsorted_segment_mean(const Call& call) { unsorted_segment(call, Reduction::add, Constant::zero, Finalize::mean); }

void unsorted_segment_prod(const Call& call) { unsorted_segment(call, Reduction::multiply, Constant::one); }

void unsorted_segment_max(const Call& call) { unsorted_segment(call, Reduction::maximum, Constant::lowest); }

void unsorted_segment_min(const Call& call) { unsorted_segment(call, Reduction::minimum, Constant::highest); }

}  // namespace onnx_sparse
