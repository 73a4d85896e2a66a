// Giving every row of a sparse tensor without an entry one entry: what SparseFillEmptyRows and RaggedFillEmptyRows have
// in common. One pass looks at the input; entries that are sorted go to the output in a second one, others through a
// counting sort.

#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "elements.h"
#include "kernel.h"

namespace onnx_sparse {

// The entries of a sparse tensor, entry k having the coordinates indices[k * rank] and the ranks - 1 that follow.
template <class Index>
struct Entries {
  const Index* indices;
  int64_t count;
  size_t rank;
  std::vector<int64_t> sizes;  // of the first dimensions, whose coordinates must be in range; [0] is the number of rows
  size_t compared;             // how many coordinates say where an entry belongs
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
        parts_(task_count(entries.count * static_cast<int64_t>(2 * entries.rank * sizeof(Index)))) {}

  // Looks at the entries; whether their coordinates are in range.
  bool scan() {
    std::vector<PartScan> parts(parts_);
    call_.parallel_for(parts_, [&](size_t part) {
      parts[part] = with_rank([&](auto rank) {
        return scan_part<decltype(rank)::value>(begin_of(part), begin_of(part + 1));
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

  // How many entries the output has. Only after a scan that found all in range.
  int64_t output_size() {
    if (!sorted_) count_rows();
    return sorted_ ? entries_.count + rows_ - rows_before_.back() : starts_[static_cast<size_t>(rows_)];
  }

  // Writes the output.
  void write(const FilledRows<Index>& out, const void* values, const void* default_value, size_t value_size) {
    if (!sorted_) sort_entries();
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
  };

  template <class Value>
  struct Values {
    Values(const void* values, const void* default_value, char* output)
        : from(static_cast<const Value*>(values)),
          missing(*static_cast<const Value*>(default_value)),
          to(reinterpret_cast<Value*>(output)) {}
    void move(int64_t k, int64_t position) const { to[position] = from[k]; }
    void fill(int64_t position) const { to[position] = missing; }
    const Value* from;
    const Value missing;
    Value* to;
  };

  // Calls a function with the number of coordinates, or 0 where it is not one that is worth code of its own.
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

  int64_t begin_of(size_t part) const {
    const auto length = entries_.count / static_cast<int64_t>(parts_);
    return part == parts_ ? entries_.count : length * static_cast<int64_t>(part);
  }

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
    const size_t checked = entries_.sizes.size();
    const bool compares_columns = entries_.compared > 1;
    bool outside = false;
    bool falls = false;
    int64_t new_rows = 0;
    const Index* before = first == 0 ? nullptr : entry(first - 1);
    const Index* here = entry(first);
    for (int64_t k = first; k < end; ++k, before = here, here += rank) {
      for (size_t c = 0; c < checked; ++c) {
        outside |= static_cast<uint64_t>(int64_t{here[c]}) >= static_cast<uint64_t>(entries_.sizes[c]);
      }
      if (before == nullptr || *before != *here) {
        ++new_rows;
        falls |= before != nullptr && *here < *before;
      } else if (compares_columns) {
        falls |= known_rank == 2 ? here[1] < before[1] : less_in_row(here, before);
      }
    }
    return {!outside, !falls, new_rows};
  }

  // Where the entries of each row begin in the output, a row without any having one.
  void count_rows() {
    starts_ = uninitialized<int64_t>(rows_ + 1);
    std::fill(starts_.get(), starts_.get() + rows_ + 1, int64_t{0});
    for (int64_t k = 0; k < entries_.count; ++k) ++starts_[static_cast<size_t>(row_of(k))];
    int64_t start = 0;
    for (int64_t row = 0; row <= rows_; ++row) {
      const int64_t count = starts_[static_cast<size_t>(row)];
      starts_[static_cast<size_t>(row)] = start;
      start += std::max(count, int64_t{1});
    }
  }

  // Puts the entries' numbers in the order of the output, -1 standing for what is filled in.
  void sort_entries() {
    const int64_t size = starts_[static_cast<size_t>(rows_)];
    sources_ = uninitialized<int64_t>(size);
    std::fill(sources_.get(), sources_.get() + size, int64_t{-1});
    const auto next = uninitialized<int64_t>(rows_);
    std::copy(starts_.get(), starts_.get() + rows_, next.get());
    for (int64_t k = 0; k < entries_.count; ++k) {
      const int64_t ahead = std::min(k + kPrefetchDistance, entries_.count - 1);
      __builtin_prefetch(&sources_[static_cast<size_t>(next[static_cast<size_t>(row_of(ahead))])], 1);
      sources_[static_cast<size_t>(next[static_cast<size_t>(row_of(k))]++)] = k;
    }
  }

  template <size_t rank, class MoveValues>
  void write_all(const FilledRows<Index>& out, const MoveValues& values) const {
    if (!sorted_) {
      const size_t tasks = task_count(starts_[static_cast<size_t>(rows_)] * 32);
      call_.parallel_for(tasks, [&](size_t task) {
        write_rows<rank>(row_split(task, tasks), row_split(task + 1, tasks), out, values);
      });
      return;
    }
    call_.parallel_for(parts_, [&](size_t part) { write_sorted<rank>(part, out, values); });
    // The rows after the last entry are all empty, and may be many.
    const int64_t last = entries_.count == 0 ? 0 : row_of(entries_.count - 1) + 1;
    const int64_t shift = entries_.count - rows_before_.back();
    const auto tasks = static_cast<int64_t>(task_count((rows_ - last) * 16));
    call_.parallel_for(static_cast<size_t>(tasks), [&](size_t task) {
      const int64_t length = (rows_ - last) / tasks;
      const int64_t first = last + length * static_cast<int64_t>(task);
      const int64_t end = static_cast<int64_t>(task) + 1 == tasks ? rows_ : first + length;
      for (int64_t row = first; row < end; ++row) write_empty<rank>(row, row + shift, out, values);
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
  void write_sorted(size_t part, const FilledRows<Index>& out, const MoveValues& values) const {
    const int64_t first = begin_of(part);
    int64_t row = first == 0 ? -1 : row_of(first - 1);
    int64_t shift = row + 1 - rows_before_[part];  // how many rows so far are empty
    for (int64_t k = first, end = begin_of(part + 1); k < end; ++k) {
      const int64_t next = row_of(k);
      if (next != row) {
        while (++row < next) {
          write_empty<rank>(row, k + shift, out, values);
          ++shift;
        }
        out.empty[row] = false;
      }
      write_entry<rank>(k, k + shift, out, values);
    }
  }

  // Where the rows of a task begin, each task having as many entries of the output.
  int64_t row_split(size_t task, size_t tasks) const {
    if (task == tasks) return rows_;
    const int64_t wanted = starts_[static_cast<size_t>(rows_)] / static_cast<int64_t>(tasks) * static_cast<int64_t>(task);
    return std::lower_bound(starts_.get(), starts_.get() + rows_, wanted) - starts_.get();
  }

  template <size_t rank, class MoveValues>
  void write_rows(int64_t row, int64_t end, const FilledRows<Index>& out, const MoveValues& values) const {
    for (; row < end; ++row) {
      const int64_t start = starts_[static_cast<size_t>(row)];
      const int64_t next = starts_[static_cast<size_t>(row) + 1];
      out.empty[row] = sources_[static_cast<size_t>(start)] < 0;
      if (out.empty[row]) {
        write_empty<rank>(row, start, out, values);
        continue;
      }
      for (int64_t position = start; position < next; ++position) prefetch(position + kPrefetchDistance);
      if (entries_.compared > 1 && next - start > 1) sort_row(start, next);
      for (int64_t position = start; position < next; ++position) {
        write_entry<rank>(sources_[static_cast<size_t>(position)], position, out, values);
      }
    }
  }

  // Fetches the entry that goes to a position of the output.
  void prefetch(int64_t position) const {
    if (position >= starts_[static_cast<size_t>(rows_)]) return;
    const int64_t source = sources_[static_cast<size_t>(position)];
    if (source >= 0) __builtin_prefetch(entry(source));
  }

  // Sorts a row's entries by their other coordinates; equal ones stay as they stand. Most rows are short: their first
  // columns are brought together and inserted one by one.
  void sort_row(int64_t start, int64_t end) const {
    int64_t* first = sources_.get() + start;
    const int64_t count = end - start;
    if (count > kShortRow || entries_.compared > 2) return sort_long_row(first, first + count);
    Index columns[kShortRow];
    for (int64_t i = 0; i < count; ++i) {
      const int64_t source = first[i];
      const Index column = entry(source)[1];
      int64_t at = i;
      for (; at > 0 && column < columns[at - 1]; --at) {
        columns[at] = columns[at - 1];
        first[at] = first[at - 1];
      }
      columns[at] = column;
      first[at] = source;
    }
  }

  void sort_long_row(int64_t* first, int64_t* last) const {
    const auto before = [&](int64_t a, int64_t b) {
      if (less_in_row(entry(a), entry(b))) return true;
      return a < b && !less_in_row(entry(b), entry(a));
    };
    if (!std::is_sorted(first, last, before)) std::sort(first, last, before);
  }

  static constexpr int64_t kShortRow = 32;
  static constexpr int64_t kPrefetchDistance = 24;

  const Call& call_;
  const Entries<Index>& entries_;
  const int64_t rows_;
  const size_t parts_;
  bool sorted_ = true;
  std::vector<int64_t> rows_before_;    // how many rows have entries in the parts before each
  std::unique_ptr<int64_t[]> starts_;   // of unsorted entries: where each row begins in the output
  std::unique_ptr<int64_t[]> sources_;  // and which entry stands at each place
};

}  // namespace onnx_sparse
