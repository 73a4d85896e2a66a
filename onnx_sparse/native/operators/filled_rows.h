// Adding an entry to each empty row of a sparse tensor: the common part of SparseFillEmptyRows and RaggedFillEmptyRows.
// One pass checks the input; a second one copies it to the output, unsorted entries in the order of row_order.h.

#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "abi/call.h"
#include "loops/elements.h"
#include "loops/loops.h"
#include "operators/row_order.h"

namespace onnx_sparse {

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
        parts_(entries.count, entries.count * static_cast<int64_t>(2 * entries.rank * sizeof(Index))) {}

  // Reads the entries and returns whether their coordinates are in range.
  bool scan() {
    const std::vector<int64_t>& sizes = entries_.sizes;
    if (entries_.count == 0) return true;
    if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return false;
    std::vector<EntryScan> scans(parts_.count());
    call_.parallel_for(parts_.count(),
                       [&](size_t part) { scans[part] = scan_part(parts_.begin_of(part), parts_.begin_of(part + 1)); });
    EntryScan all{};
    for (const EntryScan& part : scans) {
      all.outside |= part.outside;
      all.falls |= part.falls;
      all.columns |= part.columns;
      rows_before_.push_back(rows_before_.back() + part.new_rows);
    }
    if (all.outside) return false;
    if (all.falls) order_.emplace(call_, entries_, all.columns);
    return true;
  }

  // How many entries the output has, which the caller refuses if it is more than an Index can say. To be called once,
  // after a scan that found all in range.
  int64_t output_size() {
    if (!order_) return entries_.count + rows_ - rows_before_.back();
    order_->sort();
    return order_->output_begin(order_->buckets());
  }

  // Writes the output.
  void write(const FilledRows<Index>& out, const void* default_value) const {
    switch (entries_.rank) {
      case 1:
        return write_of_rank<1>(out, default_value);
      case 2:
        return write_of_rank<2>(out, default_value);
      default:
        return write_of_rank<0>(out, default_value);
    }
  }

 private:
  struct NoValue {};

  // Sorted entries between which no row is empty are copied at a time, but only so many: their coordinates are still in
  // the first-level cache when they are read again. Shorter ones take less time entry by entry.
  static constexpr int64_t kMostInRun = 256;
  static constexpr int64_t kShortRun = 4;

  // From any address.
  template <class Value>
  static Value read(const void* at) {
    Value value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }

  // What is written. A rank of 0 is one that has no code of its own.
  template <size_t known_rank, class Value>
  struct Output {
    static constexpr size_t kRank = known_rank;
    static constexpr bool kHasValues = !std::is_same_v<Value, NoValue>;

    FilledRows<Index> to;
    Value missing;
    size_t rank;

    size_t width() const { return known_rank ? known_rank : rank; }
    Index* at(int64_t position) const { return to.indices + static_cast<size_t>(position) * width(); }
    Value& value_at(int64_t position) const { return reinterpret_cast<Value*>(to.values)[position]; }
    static const char* value_of(const Entries<Index>& entries, int64_t k) {
      return entries.values + static_cast<size_t>(k) * sizeof(Value);
    }

    void write_empty(int64_t row, int64_t position) const {
      at(position)[0] = static_cast<Index>(row);
      for (size_t c = 1; c < width(); ++c) at(position)[c] = 0;
      if constexpr (kHasValues) value_at(position) = missing;
      to.empty[row] = true;
    }

    void copy_coordinates(const Entries<Index>& entries, int64_t k, int64_t position) const {
      const Index* from = entries.indices + static_cast<size_t>(k) * width();
      for (size_t c = 0; c < width(); ++c) at(position)[c] = from[c];
    }

    // Moves what belongs to entry k beside its coordinates.
    void move(const Entries<Index>& entries, int64_t k, int64_t position) const {
      if constexpr (kHasValues) value_at(position) = read<Value>(value_of(entries, k));
      if (to.positions != nullptr) to.positions[k] = static_cast<Index>(position);
    }

    // Copies the entries `first` to `end` to consecutive positions.
    void copy_run(const Entries<Index>& entries, int64_t first, int64_t end, int64_t position) const {
      const int64_t shift = position - first;
      for (int64_t k = first; k < end; ++k) copy_coordinates(entries, k, k + shift);
      if constexpr (kHasValues) {
        for (int64_t k = first; k < end; ++k) value_at(k + shift) = read<Value>(value_of(entries, k));
      }
      if (to.positions != nullptr) {
        for (int64_t k = first; k < end; ++k) to.positions[k] = static_cast<Index>(k + shift);
      }
    }

    void prefetch(const Entries<Index>& entries, int64_t k) const {
      if constexpr (kHasValues) __builtin_prefetch(value_of(entries, k));
      if (to.positions != nullptr) __builtin_prefetch(to.positions + k, 1);
    }
  };

  // Scans the entries `first` to `end`; the first of all has a new row.
  EntryScan scan_part(int64_t first, int64_t end) const {
    EntryScan seen{};
    seen.new_rows = first == 0;
    if (entries_.rank > 2) {
      for (int64_t k = first; k < end; ++k) scan_entry(entries_.at(k), entries_.at(std::max(k - 1, int64_t{0})), seen);
      return seen;
    }
    const int64_t columns = entries_.sizes.size() > 1 ? entries_.sizes[1] : -1;
    const auto scan_entries = [&](int64_t from, int64_t before, int64_t count) {
      const Index* here = entries_.at(from);
      const auto number = static_cast<size_t>(count);
      if constexpr (sizeof(Index) == sizeof(int32_t)) {
        loops().scan32[entries_.rank - 1](here, entries_.at(before), number, rows_, columns, &seen);
      } else {
        loops().scan64[entries_.rank - 1](here, entries_.at(before), number, rows_, columns, &seen);
      }
    };
    if (first == 0) scan_entries(0, 0, 1);  // compared with itself
    const int64_t second = std::max(first, int64_t{1});
    if (second < end) scan_entries(second, second - 1, end - second);
    return seen;
  }

  void scan_entry(const Index* here, const Index* before, EntryScan& seen) const {
    for (size_t c = 0; c < entries_.sizes.size(); ++c) {
      seen.outside |= static_cast<uint64_t>(int64_t{here[c]}) >= static_cast<uint64_t>(entries_.sizes[c]);
    }
    seen.new_rows += *before != *here;
    seen.falls |= *here < *before || (*here == *before && entries_.less_in_row(here, before));
  }

  template <size_t rank>
  void write_of_rank(const FilledRows<Index>& out, const void* default_value) const {
    switch (entries_.value_size) {
      case 0:
        return write_all(Output<rank, NoValue>{out, {}, entries_.rank});
      case 1:
        return write_all(Output<rank, uint8_t>{out, read<uint8_t>(default_value), entries_.rank});
      case 2:
        return write_all(Output<rank, uint16_t>{out, read<uint16_t>(default_value), entries_.rank});
      case 4:
        return write_all(Output<rank, uint32_t>{out, read<uint32_t>(default_value), entries_.rank});
      default:
        return write_all(Output<rank, uint64_t>{out, read<uint64_t>(default_value), entries_.rank});
    }
  }

  template <class Out>
  void write_all(const Out& out) const {
    if (order_) {
      call_.parallel_for(order_->buckets(), [&](size_t bucket) { write_bucket(bucket, out); });
      return;
    }
    call_.parallel_for(parts_.count(), [&](size_t part) { write_part(part, out); });
    // The rows after the last entry are all empty, and may be many.
    const int64_t last = entries_.count == 0 ? 0 : entries_.row_of(entries_.count - 1) + 1;
    const int64_t shift = entries_.count - rows_before_.back();
    call_.for_parts(rows_ - last, (rows_ - last) * 16, [&](int64_t first, int64_t end) {
      for (int64_t row = last + first; row < last + end; ++row) out.write_empty(row, row + shift);
    });
  }

  // Writes entries from a position on, and the empty rows before each of them; `row` is that of the entry before the
  // first. Returns the row of the last.
  template <class RowOf, class Write, class Out>
  static int64_t write_entries(int64_t first, int64_t end, int64_t row, int64_t position, const RowOf& row_of,
                               const Write& write, const Out& out) {
    for (int64_t k = first; k < end; ++k, ++position) {
      const int64_t next = row_of(k);
      // The only branch: entries of one row and of the next one are written alike.
      for (; row + 1 < next; ++position) out.write_empty(++row, position);
      row = next;
      out.to.empty[row] = false;
      write(k, row, position);
    }
    return row;
  }

  // One part of sorted entries.
  template <class Out>
  void write_part(size_t part, const Out& out) const {
    const int64_t end = parts_.begin_of(part + 1);
    int64_t k = parts_.begin_of(part);
    int64_t row = k == 0 ? -1 : entries_.row_of(k - 1);
    const int64_t empty_before = row + 1 - rows_before_[part];
    while (k < end && entries_.row_of(k) == row) {  // the part before says that it is not empty
      const int64_t first = k;
      for (const int64_t stop = run_end(first, end); k < stop && entries_.row_of(k) == row;) ++k;
      out.copy_run(entries_, first, k, first + empty_before);
    }
    if (rows_ - rows_before_.back() < entries_.count / kShortRun) {
      write_runs(k, end, row, k + empty_before, out);
      return;
    }
    const auto write = [&](int64_t entry, int64_t, int64_t position) {
      out.copy_run(entries_, entry, entry + 1, position);
    };
    write_entries(k, end, row, k + empty_before, [&](int64_t entry) { return entries_.row_of(entry); }, write, out);
  }

  // The same as write_entries for sorted entries, copying those at a time between which no row is empty.
  template <class Out>
  void write_runs(int64_t k, int64_t end, int64_t row, int64_t position, const Out& out) const {
    while (k < end) {
      for (const int64_t next = entries_.row_of(k); row + 1 < next; ++position) out.write_empty(++row, position);
      const int64_t first = k;
      const int64_t stop = run_end(first, end);
      for (int64_t next = 0; k < stop && (next = entries_.row_of(k)) <= row + 1; ++k) {
        row = next;
        out.to.empty[row] = false;
      }
      out.copy_run(entries_, first, k, position);
      position += k - first;
    }
  }

  static int64_t run_end(int64_t first, int64_t end) { return std::min(end, first + kMostInRun); }

  // One bucket of entries that were not sorted, and the empty rows behind them.
  template <class Out>
  void write_bucket(size_t number, const Out out) const {
    const RowOrder<Index>& order = *order_;
    const auto bucket = order.bucket(number);
    const auto row_of = [bucket](int64_t place) { return bucket.row_of(place); };
    int64_t row = order.first_row(number) - 1;
    if (Out::kRank > 0 && order.has_coordinates()) {
      const auto write = [=](int64_t place, int64_t of_row, int64_t position) {
        out.prefetch(entries_, bucket.number_of(place + RowOrder<Index>::kAhead));
        Index* to = out.at(position);
        to[0] = static_cast<Index>(of_row);
        if constexpr (Out::kRank == 2) to[1] = bucket.column_of(place);
        out.move(entries_, bucket.number_of(place), position);
      };
      row = write_entries(order.begin_of(number), order.end_of(number), row, order.output_begin(number), row_of, write,
                          out);
    } else {
      const auto write = [=](int64_t place, int64_t, int64_t position) {
        const int64_t ahead = bucket.number_of(place + RowOrder<Index>::kAhead);
        __builtin_prefetch(entries_.at(ahead));
        out.prefetch(entries_, ahead);
        const int64_t k = bucket.number_of(place);
        out.copy_coordinates(entries_, k, position);
        out.move(entries_, k, position);
      };
      row = write_entries(order.begin_of(number), order.end_of(number), row, order.output_begin(number), row_of, write,
                          out);
    }
    const int64_t rows_end = order.rows_end(number);
    const int64_t shift = order.output_begin(number + 1) - rows_end;
    for (++row; row < rows_end; ++row) out.write_empty(row, row + shift);
  }

  const Call& call_;
  const Entries<Index>& entries_;
  const int64_t rows_;
  const Parts parts_;
  std::vector<int64_t> rows_before_{0};   // how many rows have entries in the parts before each
  std::optional<RowOrder<Index>> order_;  // of entries that are not sorted
};

}  // namespace onnx_sparse
