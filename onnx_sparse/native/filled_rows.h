// Adding an entry to each empty row of a sparse tensor: the common part of SparseFillEmptyRows and RaggedFillEmptyRows.
// One pass checks the input; a second one copies sorted entries to the output, and unsorted ones go through a counting
// sort.

#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "elements.h"
#include "kernel.h"

namespace onnx_sparse {

// The entries of a sparse tensor: entry k has the coordinates indices[k * rank] and the rank - 1 that follow.
template <class Index>
struct Entries {
  const Index* indices;
  int64_t count;
  size_t rank;
  std::vector<int64_t> sizes;  // of the first dimensions, whose coordinates must be in range; [0] is the number of rows
  size_t compared;             // how many coordinates decide where an entry belongs
};

template <class Index>
struct FilledRows {
  Index* indices;
  char* values;  // null: the caller moves the values by the positions
  bool* empty;
  Index* positions;  // where each entry went, or null
};

template <class Index>
class RowFiller {
 public:
  RowFiller(const Call& call, const Entries<Index>& entries)
      : call_(call),
        entries_(entries),
        rows_(entries.sizes.empty() ? 0 : entries.sizes[0]),
        parts_(std::clamp(task_count(entries.count * static_cast<int64_t>(2 * entries.rank * sizeof(Index))), size_t{1},
                          static_cast<size_t>(std::max(entries.count, int64_t{1})))) {}

  // Reads the entries and returns whether their coordinates are in range.
  bool scan() {
    const std::vector<int64_t>& sizes = entries_.sizes;
    if (entries_.count > 0 && std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return false;
    std::vector<PartScan> parts(parts_);
    call_.parallel_for(parts_, [&](size_t part) {
      parts[part] = with_rank([&](auto rank) {
        return scan_part<decltype(rank)::value>(begin_of(part, parts_), begin_of(part + 1, parts_));
      });
    });
    bool in_range = true;
    rows_before_.assign(1, 0);
    for (const PartScan& part : parts) {
      in_range &= part.in_range;
      sorted_ &= part.sorted;
      rows_before_.push_back(rows_before_.back() + part.new_rows);
    }
    return in_range;
  }

  // How many entries the output has, which the caller refuses if it is more than an Index can say. To be called only
  // after a scan that found all in range.
  int64_t output_size() { return sorted_ ? entries_.count + rows_ - rows_before_.back() : count_rows(); }

  // Writes the output.
  void write(const FilledRows<Index>& out, const void* values, const void* default_value, size_t value_size) {
    if (!sorted_ && entries_.compared > 1) sort_entries();
    with_rank([&](auto rank) {
      constexpr size_t known_rank = decltype(rank)::value;
      switch (out.values == nullptr ? 0 : value_size) {
        case 0:
          return write_all<known_rank>(out, NoValues());
        case 1:
          return write_all<known_rank>(out, Values<uint8_t>(values, default_value, out.values));
        case 2:
          return write_all<known_rank>(out, Values<uint16_t>(values, default_value, out.values));
        case 4:
          return write_all<known_rank>(out, Values<uint32_t>(values, default_value, out.values));
        default:
          return write_all<known_rank>(out, Values<uint64_t>(values, default_value, out.values));
      }
    });
  }

 private:
  struct PartScan {
    bool in_range;
    bool sorted;
    int64_t new_rows;  // how many entries have another row than the one before
  };

  struct NoValues {
    void move(int64_t, int64_t) const {}
    void fill(int64_t) const {}
    void prefetch(int64_t) const {}
  };

  template <class Value>
  struct Values {
    Values(const void* values, const void* default_value, char* output)
        : from(static_cast<const char*>(values)), missing(read(default_value)), to(reinterpret_cast<Value*>(output)) {}
    void move(int64_t k, int64_t position) const { to[position] = read(from + static_cast<size_t>(k) * sizeof(Value)); }
    void fill(int64_t position) const { to[position] = missing; }
    void prefetch(int64_t k) const { __builtin_prefetch(from + static_cast<size_t>(k) * sizeof(Value)); }
    static Value read(const void* at) {  // from any address
      Value value;
      std::memcpy(&value, at, sizeof value);
      return value;
    }
    const char* from;
    const Value missing;
    Value* to;
  };

  // Calls a function with the number of coordinates, or with 0 where that number has no code of its own.
  template <class Function>
  auto with_rank(const Function& function) const {
    switch (entries_.rank) {
      case 1:
        return function(std::integral_constant<size_t, 1>());
      case 2:
        return function(std::integral_constant<size_t, 2>());
      default:
        return function(std::integral_constant<size_t, 0>());
    }
  }

  int64_t begin_of(size_t part, size_t parts) const {
    const auto length = entries_.count / static_cast<int64_t>(parts);
    return part == parts ? entries_.count : length * static_cast<int64_t>(part);
  }

  // Whether the entries of a row are sorted.
  bool sorts_rows() const { return sources_ != nullptr || packed_ != nullptr; }

  const Index* entry(int64_t k) const { return entries_.indices + static_cast<size_t>(k) * entries_.rank; }
  int64_t row_of(int64_t k) const { return *entry(k); }

  // Compares the coordinates after the row.
  bool less_in_row(const Index* a, const Index* b) const {
    for (size_t c = 1; c < entries_.compared; ++c) {
      if (a[c] != b[c]) return a[c] < b[c];
    }
    return false;
  }

  template <size_t known_rank>
  PartScan scan_part(int64_t first, int64_t end) const {
    const size_t rank = known_rank ? known_rank : entries_.rank;
    const bool compares_columns = entries_.compared > 1;
    const size_t checked = entries_.sizes.size();
    const auto is_outside = [](Index coordinate, uint64_t highest) {
      return static_cast<uint64_t>(int64_t{coordinate}) > highest;
    };
    const auto highest = [&](size_t c) { return static_cast<uint64_t>(entries_.sizes[c]) - 1; };
    bool outside = false;
    bool falls = false;
    // The first entry of all has a new row, and is compared with itself. There are no branches, because the lengths of
    // rows would be mispredicted.
    int64_t new_rows = first == 0 && end > 0;
    const Index* here = entry(first);
    const Index* before = first == 0 ? here : here - rank;
    const uint64_t highest_row = first < end ? highest(0) : 0;
    const uint64_t highest_column = checked > 1 ? highest(1) : ~uint64_t{0};
    for (int64_t k = first; k < end; ++k, before = here, here += rank) {
      outside |= is_outside(here[0], highest_row);
      if (rank > 1) outside |= is_outside(here[1], highest_column);
      if (known_rank == 0) {
        for (size_t c = 2; c < checked; ++c) outside |= is_outside(here[c], highest(c));
      }
      new_rows += *before != *here;
      falls |= *here < *before;
      if (compares_columns) {
        const bool falls_in_row = known_rank == 2 ? here[1] < before[1] : less_in_row(here, before);
        falls |= static_cast<bool>((*here == *before) & falls_in_row);
      }
    }
    return {!outside, !falls, new_rows};
  }

  // Computes where the entries of each row begin in the output (an empty row has one), and where among them the entries
  // of each part of the input begin. Returns how many entries the output has; if an Index cannot say it, the places are
  // wrong.
  int64_t count_rows() {
    const int64_t row_length = entries_.count / std::max(rows_, int64_t{1});
    sort_parts_ = static_cast<size_t>(std::clamp(row_length, int64_t{1}, kMostSortParts));
    next_ = uninitialized<Index>(rows_ * static_cast<int64_t>(sort_parts_));
    call_.parallel_for(sort_parts_, [&](size_t part) {
      Index* counts = next_of(part);
      std::fill(counts, counts + rows_, Index{0});
      const int64_t end = begin_of(part + 1, sort_parts_);
      for (int64_t k = begin_of(part, sort_parts_); k < end; ++k) ++counts[row_of(k)];
    });
    starts_ = uninitialized<Index>(rows_ + 1);
    int64_t start = 0;
    for (int64_t row = 0; row < rows_; ++row) {
      starts_[static_cast<size_t>(row)] = static_cast<Index>(start);
      int64_t next = start;
      for (size_t part = 0; part < sort_parts_; ++part) {
        next += std::exchange(next_of(part)[row], static_cast<Index>(next));
      }
      start = std::max(next, start + 1);
    }
    starts_[static_cast<size_t>(rows_)] = static_cast<Index>(start);
    return start;
  }

  // Where in the output the next entry of each row goes, for one part of the input.
  Index* next_of(size_t part) const { return next_.get() + part * static_cast<size_t>(rows_); }

  // Calls a function with the number and the output position of each entry of a part; entries of a row keep their
  // order.
  template <class Fetch, class Place>
  void place_entries(size_t part, const Fetch& fetch, const Place& place) const {
    Index* next = next_of(part);
    const int64_t end = begin_of(part + 1, sort_parts_);
    for (int64_t k = begin_of(part, sort_parts_); k < end; ++k) {
      fetch(next[row_of(std::min(k + kPrefetchDistance, end - 1))]);
      place(k, next[row_of(k)]++);
    }
  }

  // Puts the entries in the order of the output's rows.
  void sort_entries() {
    const int64_t size = starts_[static_cast<size_t>(rows_)];
    if (entries_.compared == 2 && entries_.count <= kMostPacked && entries_.sizes.size() > 1 &&
        entries_.sizes[1] <= kMostPacked) {
      packed_ = uninitialized<uint64_t>(size);
      place_sources(packed_.get(),
                    [&](int64_t k) { return static_cast<uint64_t>(entry(k)[1]) << 32 | static_cast<uint64_t>(k); });
    } else {
      sources_ = uninitialized<Index>(size);
      place_sources(sources_.get(), [](int64_t k) { return static_cast<Index>(k); });
    }
  }

  // Puts what stands for each entry in the order of the output's rows. Positions that are filled in get entry 0.
  template <class Source, class SourceOf>
  void place_sources(Source* sources, const SourceOf& source_of) {
    std::fill(sources, sources + starts_[static_cast<size_t>(rows_)], Source{0});
    call_.parallel_for(sort_parts_, [&](size_t part) {
      place_entries(
          part, [&](int64_t position) { __builtin_prefetch(sources + position, 1); },
          [&](int64_t k, int64_t position) { sources[position] = source_of(k); });
    });
  }

  template <size_t rank, class MoveValues>
  void write_all(const FilledRows<Index>& out, const MoveValues& values) const {
    if (!sorted_) {
      if (!sorts_rows()) {
        const auto stride = static_cast<int64_t>(entries_.rank);
        call_.parallel_for(sort_parts_, [&](size_t part) {
          place_entries(
              part, [&](int64_t position) { __builtin_prefetch(out.indices + position * stride, 1); },
              [&](int64_t k, int64_t position) { write_entry<rank>(k, position, out, values); });
        });
      }
      const size_t tasks = task_count(int64_t{starts_[static_cast<size_t>(rows_)]} * 32);
      call_.parallel_for(tasks, [&](size_t task) {
        write_rows<rank>(row_split(task, tasks), row_split(task + 1, tasks), out, values);
      });
      return;
    }
    call_.parallel_for(parts_, [&](size_t part) { write_sorted<rank>(part, out, values); });
    // The rows after the last entry are all empty, and may be many.
    const int64_t last = entries_.count == 0 ? 0 : row_of(entries_.count - 1) + 1;
    const int64_t shift = entries_.count - rows_before_.back();
    call_.for_parts(rows_ - last, (rows_ - last) * 16, [&](int64_t first, int64_t end) {
      for (int64_t row = last + first; row < last + end; ++row) write_empty<rank>(row, row + shift, out, values);
    });
  }

  template <size_t known_rank, class MoveValues>
  void write_empty(int64_t row, int64_t position, const FilledRows<Index>& out, const MoveValues& values) const {
    const size_t rank = known_rank ? known_rank : entries_.rank;
    Index* to = out.indices + static_cast<size_t>(position) * rank;
    to[0] = static_cast<Index>(row);
    for (size_t c = 1; c < rank; ++c) to[c] = 0;
    values.fill(position);
    out.empty[row] = true;
  }

  template <size_t known_rank, class MoveValues>
  void write_entry(int64_t k, int64_t position, const FilledRows<Index>& out, const MoveValues& values) const {
    const size_t rank = known_rank ? known_rank : entries_.rank;
    const Index* from = entries_.indices + static_cast<size_t>(k) * rank;
    Index* to = out.indices + static_cast<size_t>(position) * rank;
    for (size_t c = 0; c < rank; ++c) to[c] = from[c];
    values.move(k, position);
    if (out.positions != nullptr) out.positions[k] = static_cast<Index>(position);
  }

  // One part of sorted entries, and the empty rows before each of them.
  template <size_t rank, class MoveValues>
  void write_sorted(size_t part, const FilledRows<Index> out, const MoveValues values) const {
    const int64_t first = begin_of(part, parts_);
    int64_t row = first == 0 ? -1 : row_of(first - 1);
    int64_t shift = row + 1 - rows_before_[part];  // how many rows so far are empty
    const int64_t end = begin_of(part + 1, parts_);
    int64_t k = first;
    for (; k < end && row_of(k) == row; ++k) write_entry<rank>(k, k + shift, out, values);  // begun by the part before
    for (; k < end; ++k) {
      const int64_t next = row_of(k);
      for (++row; row < next; ++row, ++shift) write_empty<rank>(row, k + shift, out, values);
      row = next;
      out.empty[row] = false;
      write_entry<rank>(k, k + shift, out, values);
    }
  }

  // Where the rows of a task begin; all tasks have about the same number of output entries.
  int64_t row_split(size_t task, size_t tasks) const {
    if (task == tasks) return rows_;
    const int64_t size = starts_[static_cast<size_t>(rows_)];
    const int64_t wanted = size / static_cast<int64_t>(tasks) * static_cast<int64_t>(task);
    return std::lower_bound(starts_.get(), starts_.get() + rows_, wanted) - starts_.get();
  }

  template <size_t rank, class MoveValues>
  void write_rows(int64_t row, int64_t end, const FilledRows<Index>& out, const MoveValues& values) const {
    const int64_t limit = starts_[static_cast<size_t>(end)];
    for (; row < end; ++row) {
      const int64_t start = starts_[static_cast<size_t>(row)];
      const int64_t next = starts_[static_cast<size_t>(row) + 1];
      out.empty[row] = next_of(sort_parts_ - 1)[row] == start;
      if (out.empty[row]) write_empty<rank>(row, start, out, values);
      if (out.empty[row] || !sorts_rows()) continue;
      // An entry is prefetched while it is one of the task's own: other tasks are sorting theirs.
      const int64_t ahead_end = std::min(next + kPrefetchDistance, limit);
      if (packed_ != nullptr) {
        uint64_t* packed = packed_.get();
        for (int64_t ahead = start + kPrefetchDistance; ahead < ahead_end; ++ahead) {
          const auto source = static_cast<int64_t>(packed[ahead] & kMostPacked);
          values.prefetch(source);
          if (out.positions != nullptr) __builtin_prefetch(out.positions + source, 1);
        }
        sort_packed(packed + start, packed + next);
        for (int64_t position = start; position < next; ++position) {
          const uint64_t source = packed[position];
          write_packed(row, source, position, out, values);
        }
      } else {
        Index* sources = sources_.get();
        for (int64_t ahead = start + kPrefetchDistance; ahead < ahead_end; ++ahead) {
          __builtin_prefetch(entry(sources[ahead]));
        }
        sort_row(sources + start, sources + next);
        for (int64_t position = start; position < next; ++position) {
          write_entry<rank>(sources[position], position, out, values);
        }
      }
    }
  }

  // Writes an entry of two coordinates, which need not be read again.
  template <class MoveValues>
  void write_packed(int64_t row, uint64_t source, int64_t position, const FilledRows<Index>& out,
                    const MoveValues& values) const {
    const auto k = static_cast<int64_t>(source & kMostPacked);
    out.indices[2 * position] = static_cast<Index>(row);
    out.indices[2 * position + 1] = static_cast<Index>(source >> 32);
    values.move(k, position);
    if (out.positions != nullptr) out.positions[k] = static_cast<Index>(position);
  }

  // Sorts a row's entries by their columns, stably. Most rows are short, and a branch would be mispredicted for about
  // each of their entries: each is counted among the others instead.
  static void sort_packed(uint64_t* first, uint64_t* last) {
    const auto count = static_cast<size_t>(last - first);
    if (count > kShortRow) return std::sort(first, last);
    uint64_t unsorted[kShortRow];
    std::copy_n(first, count, unsorted);
    for (size_t i = 0; i < count; ++i) {
      size_t before = 0;
      for (size_t j = 0; j < count; ++j) before += unsorted[j] < unsorted[i];
      first[before] = unsorted[i];
    }
  }

  // Sorts a row's entries by their other coordinates, stably.
  void sort_row(Index* first, Index* last) const {
    const auto before = [&](Index a, Index b) {
      if (less_in_row(entry(a), entry(b))) return true;
      return a < b && !less_in_row(entry(b), entry(a));
    };
    if (!std::is_sorted(first, last, before)) std::sort(first, last, before);
  }

  static constexpr size_t kShortRow = 16;
  static constexpr int64_t kMostPacked = 0xffffffff;
  static constexpr int64_t kPrefetchDistance = 24;
  static constexpr int64_t kMostSortParts = 4;

  const Call& call_;
  const Entries<Index>& entries_;
  const int64_t rows_;
  const size_t parts_;
  bool sorted_ = true;
  std::vector<int64_t> rows_before_;  // how many rows have entries in the parts before each
  // Of unsorted entries:
  size_t sort_parts_ = 0;
  std::unique_ptr<Index[]> starts_;  // where each row begins in the output
  std::unique_ptr<Index[]> next_;    // where the next entry of each row goes, by part of the input
  // Which entry goes to each output position, where rows are sorted, too: its number, or its column and number.
  std::unique_ptr<Index[]> sources_;
  std::unique_ptr<uint64_t[]> packed_;
};

}  // namespace onnx_sparse
