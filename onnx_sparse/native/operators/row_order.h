// The entries of a sparse tensor in the order of their rows. Each becomes a word of 64 bits; the words are put into
// buckets of neighboring rows, each of which fits into the caches, and is sorted by itself.

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "abi/call.h"
#include "loops/loops.h"

namespace onnx_sparse {

// Entry k has the coordinates indices[k * rank] and the rank - 1 that follow, and perhaps a value.
template <class Index>
struct Entries {
  const Index* indices;
  int64_t count;
  size_t rank;
  std::vector<int64_t> sizes;  // of the first dimensions, whose coordinates must be in range; [0] is the number of rows
  size_t compared;             // how many coordinates decide where an entry belongs
  const char* values;          // at any address; null where the caller moves them
  size_t value_size;           // 0 where there are none

  const Index* at(int64_t k) const { return indices + static_cast<size_t>(k) * rank; }
  int64_t row_of(int64_t k) const { return *at(k); }

  // Compares the coordinates after the row.
  bool less_in_row(const Index* a, const Index* b) const {
    for (size_t c = 1; c < compared; ++c) {
      if (a[c] != b[c]) return a[c] < b[c];
    }
    return false;
  }
};

template <class Index>
class RowOrder {
 public:
  // All coordinates that decide must be in range. `columns` has every bit that a second coordinate has.
  RowOrder(const Call& call, const Entries<Index>& entries, uint64_t columns)
      : call_(call),
        entries_(entries),
        sort_few_(loops().sort_few),
        number_bits_(bits_of(static_cast<uint64_t>(entries.count) - 1)) {
    const auto last_row = static_cast<uint64_t>(entries.sizes[0]) - 1;
    const int64_t wanted = entries.count / kBucketEntries + entries.sizes[0] / kBucketEntries;
    const int64_t most = std::clamp(wanted, int64_t{1}, kMostBuckets);
    while (last_row >> bucket_shift_ >= static_cast<uint64_t>(most)) ++bucket_shift_;
    bucket_shift_ = std::min(bucket_shift_, 63 - number_bits_);
    buckets_ = static_cast<size_t>(last_row >> bucket_shift_) + 1;
    column_bits_ = entries.rank == 2 ? bits_of(columns) : 0;
    has_coordinates_ = entries.rank <= 2 && bucket_shift_ + number_bits_ + column_bits_ < 64;
    if (!has_coordinates_) column_bits_ = 0;
  }

  // To be called once, before all that follows.
  void sort() {
    words_ = words();
    fill_buckets(words_.get());
    std::unique_ptr<uint64_t[]> unsorted;
    if (counts_rows()) {
      unsorted = std::move(words_);
      words_ = words();
    }
    output_begins_.assign(buckets_ + 1, 0);
    call_.parallel_for(buckets_, [&](size_t bucket) {
      const int64_t rows = counts_rows() ? sort_by_counting(bucket, unsorted.get()) : sort_by_comparing(bucket);
      output_begins_[bucket + 1] = end_of(bucket) - begin_of(bucket) + (rows_end(bucket) - first_row(bucket) - rows);
    });
    for (size_t bucket = 0; bucket < buckets_; ++bucket) output_begins_[bucket + 1] += output_begins_[bucket];
  }

  size_t buckets() const { return buckets_; }

  // The places in the order that the entries of a bucket have.
  int64_t begin_of(size_t bucket) const { return bucket == 0 ? 0 : ends_[bucket - 1]; }
  int64_t end_of(size_t bucket) const { return ends_[bucket]; }

  // Where they begin in the output, in which each row without one has an entry, too; for the bucket behind the last,
  // the size of the output.
  int64_t output_begin(size_t bucket) const { return output_begins_[bucket]; }

  // The rows of a bucket.
  int64_t first_row(size_t bucket) const { return static_cast<int64_t>(bucket) << bucket_shift_; }
  int64_t rows_end(size_t bucket) const { return bucket + 1 == buckets_ ? entries_.sizes[0] : first_row(bucket + 1); }

  // What the words say of the entries at the places of a bucket. It is copied to where it is used, so that compilers
  // need not read it again for each entry.
  struct Bucket {
    const uint64_t* words;
    int64_t first_row;
    int row_shift;
    int column_shift;
    uint64_t column_mask;
    int number_shift;
    uint64_t number_mask;

    int64_t row_of(int64_t place) const { return first_row + static_cast<int64_t>(words[place] >> row_shift); }
    // Only where the order has coordinates.
    Index column_of(int64_t place) const { return static_cast<Index>(words[place] >> column_shift & column_mask); }
    // At most kAhead places behind the last entry of all, this is some entry's.
    int64_t number_of(int64_t place) const { return static_cast<int64_t>(words[place] >> number_shift & number_mask); }
  };
  static constexpr int64_t kAhead = 24;
  Bucket bucket(size_t bucket) const {
    return {words_.get(),       first_row(bucket), row_shift(),       column_shift(),
            mask(column_bits_), number_shift(),    mask(number_bits_)};
  }

  // Whether the words have all coordinates of the entries.
  bool has_coordinates() const { return has_coordinates_; }

 private:
  // A bucket has about so many entries and rows, unless rows are long; but there are not more buckets than the
  // processor finds the pages of.
  static constexpr int64_t kBucketEntries = 4096;
  static constexpr int64_t kMostBuckets = 2048;
  static constexpr int64_t kMostParts = 16;
  static constexpr int kCountedRowBits = 11;

  static int bits_of(uint64_t number) { return number == 0 ? 0 : 64 - __builtin_clzll(number); }
  static uint64_t mask(int bits) { return (uint64_t{1} << bits) - 1; }

  // From the highest bit on, a word has the entry's row in its bucket, its column and its number; where columns do not
  // decide, they are the last.
  int row_shift() const { return number_bits_ + column_bits_; }
  int column_shift() const { return entries_.compared > 1 ? number_bits_ : 0; }
  int number_shift() const { return entries_.compared > 1 ? 0 : column_bits_; }

  uint64_t word_of(int64_t k) const {
    const Index* entry = entries_.at(k);
    uint64_t word = (static_cast<uint64_t>(entry[0]) & mask(bucket_shift_)) << row_shift();
    if (column_bits_ > 0) word |= (static_cast<uint64_t>(entry[1]) & mask(column_bits_)) << column_shift();
    return word | static_cast<uint64_t>(k) << number_shift();
  }

  // The coordinates of a word's entry.
  const Index* coordinates(uint64_t word) const {
    return entries_.at(static_cast<int64_t>(word >> number_shift() & mask(number_bits_)));
  }

  size_t bucket_of(int64_t k) const { return static_cast<size_t>(entries_.row_of(k) >> bucket_shift_); }

  // Words, and some behind them that stand for the first entry.
  std::unique_ptr<uint64_t[]> words() const {
    auto words = uninitialized<uint64_t>(entries_.count + kAhead);
    std::fill_n(words.get() + entries_.count, kAhead, uint64_t{0});
    return words;
  }

  // Puts the words into their buckets, in the order of the entries.
  void fill_buckets(uint64_t* words) {
    const Parts parts(entries_.count, entries_.count * 16, kMostParts);
    std::vector<int64_t> places(parts.count() * buckets_, 0);  // [parts, buckets]
    const auto for_parts = [&](const auto& work) {
      call_.parallel_for(parts.count(), [&](size_t part) {
        work(parts.begin_of(part), parts.begin_of(part + 1), places.data() + part * buckets_);
      });
    };
    for_parts([&](int64_t first, int64_t end, int64_t* counts) {
      for (int64_t k = first; k < end; ++k) ++counts[bucket_of(k)];
    });
    int64_t begin = 0;
    for (size_t bucket = 0; bucket < buckets_; ++bucket) {
      for (size_t at = bucket; at < places.size(); at += buckets_) begin += std::exchange(places[at], begin);
      ends_.push_back(begin);
    }
    for_parts([&](int64_t first, int64_t end, int64_t* next) {
      for (int64_t k = first; k < end; ++k) words[next[bucket_of(k)]++] = word_of(k);
    });
  }

  // Whether a bucket has so few rows that its words are sorted by counting.
  bool counts_rows() const { return bucket_shift_ <= kCountedRowBits; }

  // Both sort a bucket and return how many rows have entries.
  int64_t sort_by_counting(size_t bucket, const uint64_t* unsorted) {
    int64_t places[1 << kCountedRowBits];
    const auto rows = static_cast<size_t>(rows_end(bucket) - first_row(bucket));
    std::fill_n(places, rows, int64_t{0});
    const int shift = row_shift();
    const int64_t end = end_of(bucket);
    for (int64_t k = begin_of(bucket); k < end; ++k) ++places[unsorted[k] >> shift];
    int64_t place = begin_of(bucket);
    int64_t present = 0;
    for (size_t row = 0; row < rows; ++row) {
      present += places[row] > 0;
      place += std::exchange(places[row], place);
    }
    uint64_t* words = words_.get();
    for (int64_t k = begin_of(bucket); k < end; ++k) words[places[unsorted[k] >> shift]++] = unsorted[k];
    if (entries_.compared == 1) return present;
    int64_t begin = begin_of(bucket);
    for (size_t row = 0; row < rows; begin = places[row++]) sort_row(words + begin, words + places[row]);
    return present;
  }

  int64_t sort_by_comparing(size_t bucket) {
    uint64_t* const end = words_.get() + end_of(bucket);
    std::sort(words_.get() + begin_of(bucket), end);
    int64_t present = 0;
    for (uint64_t* first = words_.get() + begin_of(bucket); first < end; ++present) {
      uint64_t* last = first + 1;
      while (last < end && *last >> row_shift() == *first >> row_shift()) ++last;
      if (!has_coordinates_ && entries_.compared > 1) sort_row(first, last);
      first = last;
    }
    return present;
  }

  // Sorts a row's words by the coordinates after the row, stably.
  void sort_row(uint64_t* first, uint64_t* last) const {
    if (has_coordinates_) return last - first > kFewWords ? std::sort(first, last) : sort_few_(first, last);
    const auto before = [&](uint64_t a, uint64_t b) {
      if (entries_.less_in_row(coordinates(a), coordinates(b))) return true;
      return a < b && !entries_.less_in_row(coordinates(b), coordinates(a));
    };
    if (!std::is_sorted(first, last, before)) std::sort(first, last, before);
  }

  const Call& call_;
  const Entries<Index>& entries_;
  void (*const sort_few_)(uint64_t*, uint64_t*);
  const int number_bits_;
  int bucket_shift_ = 0;  // by how many bits a row exceeds its bucket
  int column_bits_;
  bool has_coordinates_;
  size_t buckets_;
  std::unique_ptr<uint64_t[]> words_;
  std::vector<int64_t> ends_;           // of the buckets' places
  std::vector<int64_t> output_begins_;  // of the buckets
};

}  // namespace onnx_sparse
