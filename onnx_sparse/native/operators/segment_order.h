// The entries of segments whose ids come in any order, in the order of their segments: a counting sort.

#pragma once

#include <algorithm>
#include <cstring>
#include <limits>

#include "loops/elements.h"
#include "operators/segment_reduction.h"

namespace onnx_sparse {

// The positions of the entries by segment, stably. Entries with negative ids are left out. The other ids are less than
// the number of segments.
template <class Position, class Id>
class SegmentOrder {
 public:
  // `row_bytes` is the size of an output row.
  SegmentOrder(const Call& call, const Id* ids, int64_t size, int64_t segments, size_t row_bytes)
      : call_(call),
        segments_(segments),
        shift_(shift_for(size, segments, row_bytes)),
        buckets_(((segments - 1) >> shift_) + 1),
        starts_(uninitialized<Position>(buckets_ + 2)),
        entries_(uninitialized<Position>(size)) {
    order_by_bucket(ids, size);
    if (shift_ > 0) sort_buckets(ids);
  }

  const Position* entries() const { return entries_.get(); }
  static constexpr IndexWidth width() {
    return sizeof(Position) == sizeof(int32_t) ? IndexWidth::int32 : IndexWidth::int64;
  }

  // The entries' values, of 1, 2, 4 or 8 bytes each and at any address, in this order.
  std::unique_ptr<char[]> values(const void* from, size_t value_bytes) const {
    switch (value_bytes) {
      case 1:
        return values_of<1>(from);
      case 2:
        return values_of<2>(from);
      case 4:
        return values_of<4>(from);
      default:
        return values_of<8>(from);
    }
  }

  // Reduces entries that are in this order. Returns whether every index is in range; if not, the output is not
  // complete.
  bool reduce(const SegmentReduction& reduction) const {
    if (shift_ == 0) return reduce_ordered(call_, reduction, starts_.get(), segments_, kept());
    const int64_t count = kept();
    Tensor ids;
    ids.type = sizeof(Id) == sizeof(int32_t) ? ORT_INT32 : ORT_INT64;
    ids.dims = &count;
    ids.rank = 1;
    ids.data = sorted_ids_.get();
    return reduce_sorted(call_, reduction, ids, count, segments_);
  }

 private:
  // How many bits of the ids to leave to a sort within buckets, so that the table of starts takes no more memory than
  // the output or a few positions per entry.
  static int shift_for(int64_t size, int64_t segments, size_t row_bytes) {
    int shift = 0;
    if (row_bytes < sizeof(Position)) {
      while (segments >> shift > std::max(4 * size, int64_t{1024})) ++shift;
    }
    return shift;
  }

  int64_t kept() const { return starts_[static_cast<size_t>(buckets_)]; }

  // While entries are placed, starts_[b + 1] is where the next entry of bucket b goes.
  void order_by_bucket(const Id* ids, int64_t size) {
    Position* next = starts_.get() + 1;
    std::fill(starts_.get(), starts_.get() + buckets_ + 2, Position{0});
    for (int64_t k = 0; k < size; ++k) {
      if (ids[k] >= 0) ++next[(ids[k] >> shift_) + 1];
    }
    for (int64_t b = 0; b < buckets_; ++b) next[b + 1] += next[b];
    for (int64_t k = 0; k < size; ++k) {
      if (ids[k] >= 0) entries_[static_cast<size_t>(next[ids[k] >> shift_]++)] = static_cast<Position>(k);
    }
  }

  void sort_buckets(const Id* ids) {
    sorted_ids_ = uninitialized<Id>(kept());
    call_.for_parts(buckets_, kept() * 64, [&](int64_t first, int64_t end) {
      for (int64_t bucket = first; bucket < end; ++bucket) {
        Position* begin_of_bucket = entries_.get() + starts_[static_cast<size_t>(bucket)];
        Position* end_of_bucket = entries_.get() + starts_[static_cast<size_t>(bucket) + 1];
        std::sort(begin_of_bucket, end_of_bucket,
                  [&](Position a, Position b) { return ids[a] < ids[b] || (ids[a] == ids[b] && a < b); });
        Id* to = sorted_ids_.get() + (begin_of_bucket - entries_.get());
        for (Position* entry = begin_of_bucket; entry < end_of_bucket; ++entry) *to++ = ids[*entry];
      }
    });
  }

  template <size_t bytes>
  std::unique_ptr<char[]> values_of(const void* from) const {
    const int64_t count = kept();
    auto ordered = uninitialized<char>(count * static_cast<int64_t>(bytes));
    call_.for_parts(count, count * static_cast<int64_t>(2 * bytes + sizeof(Position)), [&](int64_t first, int64_t end) {
      for (auto k = static_cast<size_t>(first); k < static_cast<size_t>(end); ++k) {
        const auto entry = static_cast<size_t>(entries_[k]);
        std::memcpy(ordered.get() + k * bytes, static_cast<const char*>(from) + entry * bytes, bytes);
      }
    });
    return ordered;
  }

  const Call& call_;
  const int64_t segments_;
  const int shift_;
  const int64_t buckets_;                     // of 2^shift segments each
  const std::unique_ptr<Position[]> starts_;  // where the entries of each bucket begin
  const std::unique_ptr<Position[]> entries_;
  std::unique_ptr<Id[]> sorted_ids_;  // of the entries, where a bucket has several segments
};

// Calls use(order) with the order of entries by their segments, of which there is at least one.
template <class Use>
auto in_segment_order(const Call& call, const Tensor& ids, int64_t segments, size_t row_bytes, const Use& use) {
  const int64_t size = ids.size();
  const auto with_ids = [&](const auto* first) {
    using Id = std::remove_cv_t<std::remove_reference_t<decltype(*first)>>;
    return size <= std::numeric_limits<int32_t>::max()
               ? use(SegmentOrder<int32_t, Id>(call, first, size, segments, row_bytes))
               : use(SegmentOrder<int64_t, Id>(call, first, size, segments, row_bytes));
  };
  return ids.type == ORT_INT32 ? with_ids(ids.as<int32_t>()) : with_ids(ids.as<int64_t>());
}

}  // namespace onnx_sparse
