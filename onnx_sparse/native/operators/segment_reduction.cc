#include "operators/segment_reduction.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "loops/elements.h"

namespace onnx_sparse {
namespace {

// A batch has at most so many segments, and ends with the segment in which it reaches so many entries.
constexpr int64_t kBatchSegments = 512;
constexpr int64_t kBatchEntries = 2048;
// A segment with more entries is reduced by several threads together.
constexpr int64_t kLongSegment = 4096;
// How many blocks of eight entries of a long segment make a task, and how much memory their sums may take at a time.
constexpr int64_t kTaskBlocks = 64;
constexpr int64_t kBlockSumBytes = 1 << 18;
// The rows of a table of so many bytes stay in the second-level cache, and prefetches would only take time.
constexpr int64_t kCachedBytes = 1 << 20;

// The first number below `end` whose value is at least `wanted`, or `end`; values do not decrease.
template <class ValueOf>
int64_t first_reaching(int64_t wanted, int64_t end, const ValueOf& value_of) {
  int64_t low = 0;
  while (low < end) {
    const int64_t middle = low + (end - low) / 2;
    if (value_of(middle) >= wanted) {
      end = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Where the entries of each segment are, by the sorted ids ...
template <class Id>
struct SortedIds {
  const Id* ids;
  int64_t kept;
  int64_t segments;

  int64_t entries() const { return kept; }
  int64_t begin_of(int64_t segment) const {
    return std::lower_bound(ids, ids + kept, segment, [](Id id, int64_t s) { return id < s; }) - ids;
  }
  // The end of a segment that begins at `begin`.
  int64_t end_of(int64_t segment, int64_t begin) const {
    const int64_t near = std::min(kept, begin + kLongSegment + 1);
    int64_t end = begin;
    while (end < near && ids[end] == segment) ++end;
    return end < near || near == kept ? end : begin_of(segment + 1);
  }
  // Writes where the next segments' entries begin, and returns for how many segments: `most`, or fewer if they reach
  // kBatchEntries. It stores once per entry, because a branch would be mispredicted once in every segment.
  int64_t starts_of(int64_t segment, int64_t most, int64_t entry, int64_t* starts) const {
    const int64_t limit = std::min(kept, entry + kBatchEntries);
    const int64_t stop = segment + most;
    std::fill_n(starts, most + 1, entry);
    int64_t k = entry;
    for (; k + 4 <= limit && ids[k + 3] < stop; k += 4) {
      for (int64_t j = k; j < k + 4; ++j) starts[ids[j] - segment + 1] = j + 1;
    }
    for (; k < limit && ids[k] < stop; ++k) starts[ids[k] - segment + 1] = k + 1;
    int64_t count = most;
    if (k == limit && limit < kept) {
      count = ids[k - 1] - segment + 1;
      starts[count] = end_of(ids[k - 1], k);
    }
    int64_t last = entry;
    for (int64_t s = 1; s <= count; ++s) starts[s] = last = std::max(starts[s], last);
    return count;
  }
  int64_t segment_at(int64_t entry) const { return ids[entry]; }
  // A segment with about `wanted` entries and segments together before it; it grows with `wanted`.
  int64_t split(int64_t wanted) const {
    const int64_t low = first_reaching(wanted, kept, [this](int64_t k) { return ids[k] + k; });
    return std::min(std::max(wanted - low, low == 0 ? 0 : int64_t{ids[low - 1]} + 1), segments);
  }
};

// ... or by a table of starts.
template <class Position>
struct Starts {
  const Position* starts;
  int64_t segments;
  int64_t end;  // of the last segment

  int64_t entries() const { return end; }
  int64_t begin_of(int64_t segment) const { return segment < segments ? starts[segment] : end; }
  int64_t end_of(int64_t segment, int64_t) const { return begin_of(segment + 1); }
  int64_t starts_of(int64_t segment, int64_t most, int64_t entry, int64_t* some) const {
    int64_t count = 0;
    some[0] = entry;
    while (count < most && some[count] - entry < kBatchEntries) {
      ++count;
      some[count] = begin_of(segment + count);
    }
    return count;
  }
  int64_t segment_at(int64_t entry) const { return std::upper_bound(starts, starts + segments, entry) - starts - 1; }
  int64_t split(int64_t wanted) const {
    return first_reaching(wanted, segments, [this](int64_t s) { return starts[s] + s; });
  }
};

// How many bytes so many elements take.
size_t bytes_of(Element element, size_t count) {
  if (element >= Element::quantized_int4) return count / 2;
  constexpr size_t sizes[] = {2, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1, 1};
  return count * sizes[static_cast<size_t>(element)];
}

bool is_quantized(Element element) { return element >= Element::quantized_int8; }

bool is_signed(Element element) { return element >= Element::int8 && element <= Element::int64; }

bool is_half(Element element) { return element == Element::float16 || element == Element::bfloat16; }

// The type in which an element is computed with.
Element compute_type(Element element) { return is_half(element) || is_quantized(element) ? Element::float32 : element; }

// A part of the columns; wide rows have several, and those with blocks.
struct Columns {
  size_t first;
  size_t count;
  size_t block;
};

template <class Grouping>
class Reducer {
 public:
  Reducer(const Call& call, const SegmentReduction& reduction, const Grouping& grouping)
      : call_(call),
        reduction_(reduction),
        grouping_(grouping),
        rounded_(is_quantized(reduction.element) ? reduction.quantization.element : reduction.element),
        row_bytes_(static_cast<int64_t>(bytes_of(reduction.element, reduction.width))),
        output_row_bytes_(bytes_of(rounded_, reduction.width)),
        blocks_(is_quantized(reduction.element) ? reduction.quantization.blocks : 1),
        chunks_((reduction.width / blocks_ + kMostColumns - 1) / kMostColumns),
        entries_(grouping.entries()),
        segments_(grouping.segments) {}

  void run() const {
    if (segments_ == 0) return;
    if (reduction_.width == 0) {  // there is nothing to write, however many segments there are
      for (int64_t entry = 0; entry < entries_; entry += kLongSegment) check_only(entry);
      return;
    }
    // The blocks of a row are in few cache lines, so one task has them all.
    const size_t parts = chunks_ * blocks_;
    const size_t tasks = blocks_ == 1 ? chunks_ : 1;
    const size_t ranges = (task_count(cost_of(entries_ + segments_)) + tasks - 1) / tasks;
    if (ranges * tasks == 1) return reduce_all(parts);
    std::vector<int64_t> splits;
    for (size_t range = 0; range < ranges; ++range) {
      splits.push_back(
          grouping_.split((entries_ + segments_) / static_cast<int64_t>(ranges) * static_cast<int64_t>(range)));
    }
    splits.push_back(segments_);
    call_.parallel_for(ranges * tasks, [&](size_t task) {
      const size_t part = task % tasks;
      reduce_range(splits[task / tasks], splits[task / tasks + 1], part, blocks_ == 1 ? part + 1 : parts);
    });
    reduce_long_segments(parts);
  }

  // Whether all indices of the run are in range.
  bool all_in_range() const { return all_in_range_.load(); }

 private:
  // Few entries: on this thread, and without an allocation.
  void reduce_all(size_t parts) const {
    call_.parallel_for(1, [&](size_t) { reduce_range(0, segments_, 0, parts); });
    reduce_long_segments(parts);
  }

  void reduce_long_segments(size_t parts) const {
    for (int64_t entry = 0; entry < entries_;) {
      const int64_t segment = grouping_.segment_at(entry);
      const int64_t begin = grouping_.begin_of(segment);
      const int64_t end = grouping_.end_of(segment, begin);
      if (end - begin > kLongSegment) {
        for (size_t part = 0; part < parts; ++part) reduce_long(segment, begin, end, columns(part));
      }
      entry = std::max(end, entry + kLongSegment);
    }
  }

  // The cost of so many entries and segments, in bytes moved.
  int64_t cost_of(int64_t count) const {
    int64_t cost;
    return __builtin_mul_overflow(count, row_bytes_ + 32, &cost) ? std::numeric_limits<int64_t>::max() : cost;
  }

  const RowLoops& row_loops() const {
    const auto reduction = is_quantized(reduction_.element) ? 0 : static_cast<size_t>(reduction_.reduction);
    return loops().rows[static_cast<size_t>(reduction_.element)][reduction];
  }

  Columns columns(size_t part) const {
    const size_t block_width = reduction_.width / blocks_;
    const size_t block = part / chunks_;
    const size_t first = part % chunks_ * kMostColumns;
    return {block * block_width + first, std::min(kMostColumns, block_width - first), block};
  }

  SegmentBatch batch(const Columns& columns) const {
    const int64_t rows = reduction_.rows < 0 ? entries_ : reduction_.rows;
    const bool in_cache = rows <= kCachedBytes / std::max(row_bytes_, int64_t{1});
    const bool prefetch = reduction_.index_width != IndexWidth::own && !in_cache;
    SegmentBatch made{};
    made.table = reduction_.table + bytes_of(reduction_.element, columns.first);
    made.row_stride = static_cast<size_t>(row_bytes_);
    made.prefetch_distance = prefetch ? rows_ahead(row_bytes_) : 0;
    made.width = columns.count;
    made.is_signed = is_signed(reduction_.element);
    made.finalize = reduction_.finalize;
    made.empty_row = reduction_.empty_row + bytes_of(rounded_, columns.first);
    made.rounded = rounded_;
    made.output_stride = output_row_bytes_;
    return made;
  }

  char* output_at(int64_t segment, const Columns& columns) const {
    return reduction_.output + static_cast<size_t>(segment) * output_row_bytes_ + bytes_of(rounded_, columns.first);
  }

  // Reduces `count` segments, whose entries begin at starts[0], unless an index is out of range; then the whole run
  // fails in the end.
  void reduce(SegmentBatch& some, const int64_t* starts, int64_t count, const Columns& columns) const {
    const int64_t first = starts[0];
    const int64_t size = starts[count] - first;
    int64_t own[kBatchEntries + kLongSegment + kMostPrefetched + 1];
    some.indices = indices_of(first, size, some.prefetch_distance == 0 ? 0 : some.prefetch_distance + 1, own);
    if (some.indices == nullptr) {
      all_in_range_.store(false, std::memory_order_relaxed);
      return;
    }
    int64_t own_starts[kBatchSegments + 1];
    for (int64_t s = 0; s <= count; ++s) own_starts[s] = starts[s] - first;
    some.starts = own_starts;
    some.segments = static_cast<size_t>(count);
    some.weights = weights_at(first);
    if (is_quantized(reduction_.element)) {
      reduce_quantized(some, static_cast<size_t>(size), columns.block);
    } else {
      row_loops().reduce(some);
    }
  }

  // Float scales are read with their rows; others are gathered and widened first.
  void reduce_quantized(SegmentBatch& some, size_t size, size_t block) const {
    float weights[kBatchEntries + kLongSegment];
    float scales[2 * (kBatchEntries + kLongSegment)];
    const Quantization& quantization = reduction_.quantization;
    const size_t stride = blocks_ * quantization.numbers;
    some.has_biases = quantization.numbers == 2;
    some.scales = quantization.scale_bias + bytes_of(rounded_, block * quantization.numbers);
    some.scale_stride = stride * sizeof(float);
    if (is_half(rounded_)) {
      loops().take[static_cast<size_t>(rounded_)](some.scales, stride, some.indices, size, quantization.numbers,
                                                  scales);
      some.scales = reinterpret_cast<const char*>(scales);
      some.scale_stride = quantization.numbers * sizeof(float);
      some.scales_of_entries = true;
      if (some.weights != nullptr) {
        loops().widen[static_cast<size_t>(rounded_)](some.weights, size, weights);
        some.weights = weights;
      }
    }
    row_loops().reduce(some);
  }

  void check_only(int64_t entry) const {
    int64_t own[kLongSegment];
    if (indices_of(entry, std::min(kLongSegment, entries_ - entry), 0, own) == nullptr) all_in_range_.store(false);
  }

  // The rows of `count` entries and of some more to prefetch; null if an entry's index is out of range. They are
  // written to `own` unless they are in memory in this form.
  const int64_t* indices_of(int64_t first, int64_t count, int64_t more, int64_t* own) const {
    const auto size = static_cast<size_t>(count);
    const int64_t there = std::min(count + more, entries_ - first);
    switch (reduction_.index_width) {
      case IndexWidth::own:
        std::iota(own, own + count, first);
        return own;
      case IndexWidth::int32: {
        const int32_t* indices = static_cast<const int32_t*>(reduction_.indices) + first;
        if (reduction_.rows >= 0 && !loops().in_range32(indices, size, reduction_.rows)) return nullptr;
        std::copy_n(indices, there, own);
        break;
      }
      case IndexWidth::int64: {
        const int64_t* indices = static_cast<const int64_t*>(reduction_.indices) + first;
        if (reduction_.rows >= 0 && !loops().in_range64(indices, size, reduction_.rows)) return nullptr;
        if (there == count + more && count > 0) return indices;  // an empty tensor's address may be null
        std::copy_n(indices, there, own);
        break;
      }
    }
    std::fill(own + there, own + count + more, int64_t{0});
    return own;
  }

  const void* weights_at(int64_t entry) const {
    return reduction_.weights == nullptr ? nullptr
                                         : reduction_.weights + bytes_of(rounded_, static_cast<size_t>(entry));
  }

  // Reduces the parts of the columns from `first_part` up to `end_part` of some segments.
  void reduce_range(int64_t segment, int64_t segments_end, size_t first_part, size_t end_part) const {
    if (segment >= segments_end) return;
    int64_t starts[kBatchSegments + 1];
    int64_t entry = grouping_.begin_of(segment);
    while (segment < segments_end) {
      const int64_t most = std::min(kBatchSegments, segments_end - segment);
      const int64_t count = grouping_.starts_of(segment, most, entry, starts);
      entry = starts[count];
      // Only the last can be a long segment, which is reduced after all others.
      const int64_t reduced = starts[count] - starts[count - 1] > kLongSegment ? count - 1 : count;
      for (size_t part = first_part; part < end_part && reduced > 0; ++part) {
        const Columns some_columns = columns(part);
        SegmentBatch some = batch(some_columns);
        some.output = output_at(segment, some_columns);
        reduce(some, starts, reduced, some_columns);
      }
      segment += count;
    }
  }

  // The blocks of a long segment are reduced in parallel, and their results one after another: the same order, and so
  // the same bits, as on one thread.
  void reduce_long(int64_t segment, int64_t begin, int64_t end, const Columns& columns) const {
    const int64_t rest = (end - begin) % 8;
    const int64_t head = rest < 2 ? rest + 8 : rest;
    const int64_t blocks = (end - begin - head) / 8;
    const size_t sum_bytes = bytes_of(compute_type(reduction_.element), columns.count);
    const int64_t at_once =
        std::max(kBlockSumBytes / std::max(static_cast<int64_t>(sum_bytes), int64_t{1}) / kTaskBlocks * kTaskBlocks,
                 kTaskBlocks * 8);
    const auto sums = uninitialized<char>(std::min(at_once, blocks) * static_cast<int64_t>(sum_bytes));
    const auto total = uninitialized<char>(static_cast<int64_t>(sum_bytes));

    reduce_equal(begin, 1, head, columns, total.get(), sum_bytes);
    for (int64_t first = 0; first < blocks; first += at_once) {
      const int64_t count = std::min(at_once, blocks - first);
      const auto tasks = static_cast<size_t>((count + kTaskBlocks - 1) / kTaskBlocks);
      const auto task = [&](size_t t) {
        const int64_t from = static_cast<int64_t>(t) * kTaskBlocks;
        reduce_equal(begin + head + 8 * (first + from), std::min(kTaskBlocks, count - from), 8, columns,
                     sums.get() + static_cast<size_t>(from) * sum_bytes, sum_bytes);
      };
      if (task_count(cost_of(8 * count)) > 1) {
        call_.parallel_for(tasks, task);
      } else {
        for (size_t t = 0; t < tasks; ++t) task(t);
      }
      row_loops().accumulate(total.get(), sums.get(), static_cast<size_t>(count), columns.count);
    }
    const int64_t starts[] = {0, end - begin};
    SegmentBatch whole = batch(columns);
    whole.starts = starts;
    whole.weights = weights_at(begin);
    std::unique_ptr<float[]> weights;
    if (whole.weights != nullptr && is_quantized(reduction_.element) && is_half(rounded_)) {
      weights = uninitialized<float>(end - begin);
      loops().widen[static_cast<size_t>(rounded_)](whole.weights, static_cast<size_t>(end - begin), weights.get());
      whole.weights = weights.get();
    }
    whole.output = output_at(segment, columns);
    row_loops().finalize(whole, total.get());
  }

  // Reduces `count` runs of `length` entries each, and leaves the results in the compute type.
  void reduce_equal(int64_t entry, int64_t count, int64_t length, const Columns& columns, char* output,
                    size_t stride) const {
    int64_t starts[kTaskBlocks + 1];
    for (int64_t i = 0; i <= count; ++i) starts[i] = entry + i * length;
    SegmentBatch some = batch(columns);
    some.finalize = Finalize::keep;
    some.output = output;
    some.output_stride = stride;
    reduce(some, starts, count, columns);
  }

  const Call& call_;
  const SegmentReduction& reduction_;
  const Grouping grouping_;
  const Element rounded_;  // the element type of the output
  const int64_t row_bytes_;
  const size_t output_row_bytes_;
  const size_t blocks_;
  const size_t chunks_;  // of a block's columns
  const int64_t entries_;
  const int64_t segments_;
  mutable std::atomic<bool> all_in_range_{true};
};

template <class Grouping>
bool run_reducer(const Call& call, const SegmentReduction& reduction, const Grouping& grouping) {
  const Reducer<Grouping> reducer(call, reduction, grouping);
  reducer.run();
  return reducer.all_in_range();
}

}  // namespace

bool reduce_sorted(const Call& call, const SegmentReduction& reduction, const Tensor& ids, int64_t kept,
                   int64_t segments) {
  return ids.type == ORT_INT32 ? run_reducer(call, reduction, SortedIds<int32_t>{ids.as<int32_t>(), kept, segments})
                               : run_reducer(call, reduction, SortedIds<int64_t>{ids.as<int64_t>(), kept, segments});
}

int64_t count_below(const Tensor& ids, int64_t segments) {
  const int64_t size = ids.size();
  return ids.type == ORT_INT32 ? SortedIds<int32_t>{ids.as<int32_t>(), size, 0}.begin_of(segments)
                               : SortedIds<int64_t>{ids.as<int64_t>(), size, 0}.begin_of(segments);
}

bool reduce_ordered(const Call& call, const SegmentReduction& reduction, const int32_t* starts, int64_t segments,
                    int64_t end) {
  return run_reducer(call, reduction, Starts<int32_t>{starts, segments, end});
}

bool reduce_ordered(const Call& call, const SegmentReduction& reduction, const int64_t* starts, int64_t segments,
                    int64_t end) {
  return run_reducer(call, reduction, Starts<int64_t>{starts, segments, end});
}

}  // namespace onnx_sparse
