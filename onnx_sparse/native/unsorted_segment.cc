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

// The entries by segment, stably. Entries with negative ids are dropped.
template <class Position>
struct Order {
  std::unique_ptr<Position[]> starts;  // [buckets + 1]: where the entries of each bucket of 2^shift segments begin
  std::unique_ptr<Position[]> entries;
};

// A counting sort.
template <class Position, class Id>
Order<Position> order_by_bucket(const Id* ids, int64_t size, int64_t buckets, int shift) {
  // While entries are placed, starts[b + 1] is where the next entry of bucket b goes.
  Order<Position> order{uninitialized<Position>(buckets + 2), uninitialized<Position>(size)};
  Position* next = order.starts.get() + 1;
  std::fill(order.starts.get(), order.starts.get() + buckets + 2, Position{0});
  for (int64_t k = 0; k < size; ++k) {
    if (ids[k] >= 0) ++next[(ids[k] >> shift) + 1];
  }
  for (int64_t b = 0; b < buckets; ++b) next[b + 1] += next[b];
  for (int64_t k = 0; k < size; ++k) {
    if (ids[k] >= 0) order.entries[static_cast<size_t>(next[ids[k] >> shift]++)] = static_cast<Position>(k);
  }
  return order;
}

// How many bits of the ids to leave to a sort within buckets, so that the table of starts takes no more memory than the
// output or a few positions per entry.
template <class Position>
int shift_for(int64_t size, int64_t segments, size_t row_bytes) {
  int shift = 0;
  if (row_bytes < sizeof(Position)) {
    while (segments >> shift > std::max(4 * size, int64_t{1024})) ++shift;
  }
  return shift;
}

template <class Position, class Id>
void reduce_unsorted(const Call& call, SegmentReduction& work, const Tensor& segment_ids, int64_t segments) {
  const Id* ids = segment_ids.as<Id>();
  const int64_t size = segment_ids.size();
  const int shift = shift_for<Position>(size, segments, work.width * size_of(call.input(0).type));
  const int64_t buckets = ((segments - 1) >> shift) + 1;
  const Order<Position> order = order_by_bucket<Position>(ids, size, buckets, shift);
  work.index_width = sizeof(Position) == sizeof(int32_t) ? IndexWidth::int32 : IndexWidth::int64;
  work.indices = order.entries.get();
  if (shift == 0) return reduce_ordered(call, work, order.starts.get(), segments);

  Position* entries = order.entries.get();
  const auto kept = int64_t{order.starts[static_cast<size_t>(buckets)]};
  const auto sorted = uninitialized<Id>(kept);
  call.for_parts(buckets, kept * 64, [&](int64_t first, int64_t end) {
    for (int64_t bucket = first; bucket < end; ++bucket) {
      Position* begin_of_bucket = entries + order.starts[static_cast<size_t>(bucket)];
      Position* end_of_bucket = entries + order.starts[static_cast<size_t>(bucket) + 1];
      std::sort(begin_of_bucket, end_of_bucket,
                [&](Position a, Position b) { return ids[a] < ids[b] || (ids[a] == ids[b] && a < b); });
      Id* to = sorted.get() + (begin_of_bucket - entries);
      for (Position* entry = begin_of_bucket; entry < end_of_bucket; ++entry) *to++ = ids[*entry];
    }
  });
  Tensor sorted_ids;
  sorted_ids.type = segment_ids.type;
  sorted_ids.dims = &kept;
  sorted_ids.rank = 1;
  sorted_ids.data = sorted.get();
  reduce_sorted(call, work, sorted_ids, kept, segments);
}

template <class Id>
void reduce_unsorted(const Call& call, SegmentReduction& work, const Tensor& segment_ids, int64_t segments) {
  if (segment_ids.size() <= std::numeric_limits<int32_t>::max()) {
    reduce_unsorted<int32_t, Id>(call, work, segment_ids, segments);
  } else {
    reduce_unsorted<int64_t, Id>(call, work, segment_ids, segments);
  }
}

void unsorted_segment(const Call& call, Reduction reduction, Constant initial,
                      Finalize finalize = Finalize::combine_initial) {
  const Tensor& data = call.input(0);
  const Tensor& segment_ids = call.input(1);
  const int64_t segments = call.input(2).integer();
  const bool narrow = segment_ids.type == ORT_INT32;

  narrow ? require_below<int32_t>(segment_ids, segments) : require_below<int64_t>(segment_ids, segments);
  auto* output =
      static_cast<char*>(call.allocate_rows(0, segments, data, segment_ids.rank, equation("num_segments", segments)));
  if (segments == 0) return;  // however wide its rows
  const auto width = static_cast<size_t>(data.size_from(segment_ids.rank));
  if (width == 0) return;

  const std::vector<char> empty_row = constant_row(data.type, initial, width);
  SegmentReduction work{};
  work.reduction = reduction;
  work.finalize = finalize;
  work.element = element_of(data.type);
  work.width = width;
  work.table = data.as<char>();
  work.empty_row = empty_row.data();
  work.output = output;
  narrow ? reduce_unsorted<int32_t>(call, work, segment_ids, segments)
         : reduce_unsorted<int64_t>(call, work, segment_ids, segments);
}

}  // namespace

void unsorted_segment_sum(const Call& call) { unsorted_segment(call, Reduction::add, Constant::zero); }

void unsorted_segment_mean(const Call& call) {
  unsorted_segment(call, Reduction::add, Constant::zero, Finalize::initial_mean);
}

void unsorted_segment_prod(const Call& call) { unsorted_segment(call, Reduction::multiply, Constant::one); }

void unsorted_segment_max(const Call& call) { unsorted_segment(call, Reduction::maximum, Constant::lowest); }

void unsorted_segment_min(const Call& call) { unsorted_segment(call, Reduction::minimum, Constant::highest); }

}  // namespace onnx_sparse
