#include "segments.h"

#include <algorithm>

#include "elements.h"

namespace onnx_sparse {
namespace {

// A batch ends with the segment in which it reaches so many entries.
constexpr int64_t kBatchEntries = 512;
constexpr int64_t kBatchSegments = 256;
// A segment of more entries is reduced by several threads together.
constexpr int64_t kLongSegment = 4096;
// How many blocks of eight entries of a long segment make a task, and how much memory their sums may take at a time.
constexpr int64_t kTaskBlocks = 64;
constexpr int64_t kBlockSumBytes = 1 << 20;
// Looked-up rows are fetched so many entries ahead.
constexpr int64_t kPrefetchDistance = 8;

// Where the entries of each segment stand: the sorted ids say it ...
template <class Id>
struct SortedIds {
  const Id* ids;
  int64_t kept;

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
  int64_t segment_at(int64_t entry) const { return ids[entry]; }
};

// ... or a table of starts does.
struct Starts {
  const int64_t* starts;
  int64_t segments;

  int64_t entries() const { return starts[segments]; }
  int64_t begin_of(int64_t segment) const { return starts[segment]; }
  int64_t end_of(int64_t segment, int64_t) const { return starts[segment + 1]; }
  int64_t segment_at(int64_t entry) const {
    return std::upper_bound(starts, starts + segments + 1, entry) - starts - 1;
  }
};

// Which row an entry is.
template <class Index>
struct IndexedRow {
  static constexpr bool looked_up = true;
  const Index* indices;
  int64_t operator()(int64_t entry) const { return indices[entry]; }
};

struct OwnRow {
  static constexpr bool looked_up = false;
  int64_t operator()(int64_t entry) const { return entry; }
};

size_t element_size(Element element) {
  constexpr size_t sizes[] = {2, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8};
  return sizes[static_cast<size_t>(element)];
}

bool is_half(Element element) { return element == Element::float16 || element == Element::bfloat16; }

// A part of the columns, wide rows having several.
struct Columns {
  size_t first;
  size_t count;
};

template <class Grouping, class RowOf>
class Reducer {
 public:
  Reducer(const Call& call, const RowReduction& reduction, int64_t segments, Grouping grouping, RowOf row_of)
      : call_(call),
        reduction_(reduction),
        segments_(segments),
        grouping_(grouping),
        row_of_(row_of),
        size_(element_size(reduction.element)),
        row_bytes_(static_cast<int64_t>(reduction.width * size_)),
        entries_(grouping.entries()) {}

  void run() const {
    if (segments_ == 0 || reduction_.width == 0) return;
    const size_t parts = (reduction_.width + kMostColumns - 1) / kMostColumns;
    const size_t ranges = (task_count(cost_of(entries_ + segments_)) + parts - 1) / parts;
    call_.parallel_for(ranges * parts, [&](size_t task) {
      const auto range = static_cast<int64_t>(task / parts);
      const auto count = static_cast<int64_t>(ranges);
      reduce_range(split(range, count), split(range + 1, count), columns(task % parts));
    });
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

 private:
  // What so many entries and segments take, as bytes moved.
  int64_t cost_of(int64_t count) const { return count * (row_bytes_ + 32); }

  Columns columns(size_t part) const {
    const size_t first = part * kMostColumns;
    return {first, std::min(kMostColumns, reduction_.width - first)};
  }

  // Where the range of segments `range` of `ranges` begins: each has as many entries and segments together.
  int64_t split(int64_t range, int64_t ranges) const {
    if (range == ranges) return segments_;
    const int64_t wanted = (entries_ + segments_) / ranges * range;
    int64_t low = 0;
    int64_t high = segments_;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (grouping_.begin_of(middle) + middle >= wanted) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  SegmentBatch batch(const Columns& columns) const {
    SegmentBatch made{};
    made.prefetch_distance = RowOf::looked_up ? static_cast<int>(kPrefetchDistance) : 0;
    made.width = columns.count;
    made.finish = reduction_.finish;
    made.empty_row = reduction_.empty_row + columns.first * size_;
    made.output_stride = static_cast<size_t>(row_bytes_);
    return made;
  }

  const char* weights_at(int64_t entry) const {
    return reduction_.weights == nullptr ? nullptr : reduction_.weights + static_cast<size_t>(entry) * size_;
  }

  char* output_at(int64_t segment, const Columns& columns) const {
    return reduction_.output + segment * row_bytes_ + columns.first * size_;
  }

  // Writes the addresses of the rows of some entries, and of those that are prefetched while the last are read.
  void locate(int64_t first, int64_t count, const Columns& columns, const char** rows) const {
    const char* table = reduction_.table + columns.first * size_;
    int64_t k = 0;
    const int64_t ahead = RowOf::looked_up ? kPrefetchDistance : 0;
    const int64_t there = std::min(count + ahead, entries_ - first);
    for (; k < there; ++k) rows[k] = table + row_of_(first + k) * row_bytes_;
    for (; k < count + ahead; ++k) rows[k] = rows[there - 1];
  }

  void reduce(const SegmentBatch& batch) const {
    loops().reduce[static_cast<size_t>(reduction_.element)][static_cast<size_t>(reduction_.reduction)](batch);
  }

  void reduce_range(int64_t segment, int64_t segments_end, const Columns& columns) const {
    if (segment == segments_end) return;
    const char* rows[kLongSegment + kPrefetchDistance];
    int64_t starts[kBatchSegments + 1];
    starts[0] = 0;
    SegmentBatch some = batch(columns);
    some.rows = rows;
    some.starts = starts;
    int64_t entry = grouping_.begin_of(segment);
    while (segment < segments_end) {
      int64_t count = 0;
      int64_t end = entry;
      for (; count < kBatchSegments && segment + count < segments_end; ++count) {
        const int64_t next = grouping_.end_of(segment + count, end);
        const bool too_many = count == 0 ? next - entry > kLongSegment : next - entry > kBatchEntries;
        if (too_many) break;
        end = next;
        starts[count + 1] = end - entry;
      }
      if (count == 0) {  // a long segment: not here
        entry = grouping_.end_of(segment, entry);
        ++segment;
        continue;
      }
      if (end > entry) locate(entry, end - entry, columns, rows);
      some.segments = static_cast<size_t>(count);
      some.weights = weights_at(entry);
      some.output = output_at(segment, columns);
      reduce(some);
      segment += count;
      entry = end;
    }
  }

  // The blocks of a long segment are reduced in parallel, and their results one after another: the same order, and so
  // the same bits, as on one thread.
  void reduce_long(int64_t segment, int64_t begin, int64_t end, const Columns& columns) const {
    const int64_t rest = (end - begin) % 8;
    const int64_t head = rest < 2 ? rest + 8 : rest;
    const int64_t blocks = (end - begin - head) / 8;
    const size_t sum_bytes = columns.count * (is_half(reduction_.element) ? sizeof(float) : size_);
    const int64_t at_once =
        std::max(kBlockSumBytes / static_cast<int64_t>(sum_bytes) / kTaskBlocks * kTaskBlocks, kTaskBlocks * 8);
    const auto sums = uninitialized<char>(std::min(at_once, blocks) * static_cast<int64_t>(sum_bytes));
    const auto total = uninitialized<char>(static_cast<int64_t>(sum_bytes));
    const auto element = static_cast<size_t>(reduction_.element);
    const auto join = static_cast<size_t>(reduction_.reduction);

    reduce_equal(begin, 1, head, columns, total.get(), sum_bytes);
    for (int64_t first = 0; first < blocks; first += at_once) {
      const int64_t count = std::min(at_once, blocks - first);
      const auto tasks = static_cast<size_t>((count + kTaskBlocks - 1) / kTaskBlocks);
      const auto task = [&](size_t t) {
        const int64_t from = static_cast<int64_t>(t) * kTaskBlocks;
        reduce_equal(begin + head + 8 * (first + from), std::min(kTaskBlocks, count - from), 8, columns,
                     sums.get() + static_cast<size_t>(from) * sum_bytes, sum_bytes);
      };
      if (task_count(8 * cost_of(count)) > 1) {
        call_.parallel_for(tasks, task);
      } else {
        for (size_t t = 0; t < tasks; ++t) task(t);
      }
      loops().accumulate[element][join](total.get(), sums.get(), static_cast<size_t>(count), columns.count);
    }
    loops().finish[element][join](batch(columns), total.get(), end - begin, weights_at(begin),
                                  output_at(segment, columns));
  }

  // Reduces `count` runs of `length` entries each, and leaves the results in the type computed in.
  void reduce_equal(int64_t entry, int64_t count, int64_t length, const Columns& columns, char* output,
                    size_t stride) const {
    const char* rows[kTaskBlocks * 8 + kPrefetchDistance];
    int64_t starts[kTaskBlocks + 1];
    for (int64_t i = 0; i <= count; ++i) starts[i] = i * length;
    locate(entry, count * length, columns, rows);
    SegmentBatch some = batch(columns);
    some.rows = rows;
    some.starts = starts;
    some.segments = static_cast<size_t>(count);
    some.weights = weights_at(entry);
    some.finish = Finish::keep;
    some.output = output;
    some.output_stride = stride;
    reduce(some);
  }

  const Call& call_;
  const RowReduction& reduction_;
  const int64_t segments_;
  const Grouping grouping_;
  const RowOf row_of_;
  const size_t size_;
  const int64_t row_bytes_;
  const int64_t entries_;
};

template <class Id>
void reduce_sorted_by(const Call& call, const RowReduction& reduction, const Tensor& ids, int64_t kept,
                      int64_t segments, const Tensor* indices) {
  const SortedIds<Id> grouping{ids.as<Id>(), kept};
  if (indices == nullptr) {
    Reducer(call, reduction, segments, grouping, OwnRow()).run();
  } else {
    Reducer(call, reduction, segments, grouping, IndexedRow<Id>{indices->as<Id>()}).run();
  }
}

}  // namespace

void reduce_sorted(const Call& call, const RowReduction& reduction, const Tensor& ids, int64_t kept, int64_t segments,
                   const Tensor* indices) {
  if (ids.type == ORT_INT32) {
    reduce_sorted_by<int32_t>(call, reduction, ids, kept, segments, indices);
  } else {
    reduce_sorted_by<int64_t>(call, reduction, ids, kept, segments, indices);
  }
}

int64_t count_below(const Tensor& ids, int64_t segments) {
  const int64_t size = ids.size();
  return ids.type == ORT_INT32 ? SortedIds<int32_t>{ids.as<int32_t>(), size}.begin_of(segments)
                               : SortedIds<int64_t>{ids.as<int64_t>(), size}.begin_of(segments);
}

void reduce_ordered(const Call& call, const RowReduction& reduction, const int64_t* starts, int64_t segments,
                    const int64_t* order) {
  Reducer(call, reduction, segments, Starts{starts, segments}, IndexedRow<int64_t>{order}).run();
}

}  // namespace onnx_sparse
