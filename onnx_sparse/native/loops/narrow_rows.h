// Summing short segments of narrow rows, where what takes time is not the rows: a loop that ends where its segment does
// is mispredicted at each end. A part of the inner loops.

#pragma once

#include "loops/batch_rows.h"
#include "loops/vectors.h"

namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS {
namespace {

// A segment of so many entries at most is summed without a branch where rows are in the cache: all of them are read,
// and those of the next segments are left out.
constexpr int64_t kShortSegment = 8;

// -1 for the entries of a segment, of which there are `count`: kMasks[kShortSegment - count + k].
template <class Bits>
constexpr Bits kMasks[2 * kShortSegment] = {-1, -1, -1, -1, -1, -1, -1, -1};

// A row of a few columns in registers; what is beyond it in the last is 0.
template <class C, size_t width>
struct NarrowRow {
  static constexpr size_t kBytes = width * sizeof(C) <= 16                        ? 16
                                   : kVectorBytes < 32 || width * sizeof(C) <= 32 ? 32
                                                                                  : 64;
  static constexpr size_t kLanes = (kBytes < kVectorBytes ? kBytes : kVectorBytes) / sizeof(C);
  static constexpr size_t kVectors = (width + kLanes - 1) / kLanes;
  using V = Vector<C, kLanes>;
  using Bits = std::conditional_t<sizeof(C) == 4, int32_t, int64_t>;

  V vectors[kVectors];

  // From any address.
  static ONNX_SPARSE_INLINE NarrowRow read(const C* from) {
    if constexpr (width % kLanes == 0) {
      NarrowRow row;
      ONNX_SPARSE_UNROLL for (size_t v = 0; v < kVectors; ++v) row.vectors[v] = load<C, kLanes>(from + v * kLanes);
      return row;
    } else if constexpr (width == 1) {
      return {V{load<C, 1>(from)}};
    } else if constexpr (width == 2) {
      return {V{load<C, 1>(from), load<C, 1>(from + 1)}};
    } else {
      static_assert(width == 3);
#if defined(__AVX2__)
      if constexpr (sizeof(C) == 4) {  // what is beyond the row may be no memory
        return {bits_as<V>(_mm_maskload_ps(reinterpret_cast<const float*>(from), _mm_setr_epi32(-1, -1, -1, 0)))};
      }
#endif
      return {V{load<C, 1>(from), load<C, 1>(from + 1), load<C, 1>(from + 2)}};
    }
  }

  ONNX_SPARSE_INLINE void write(C* to) const { std::memcpy(to, vectors, width * sizeof(C)); }

  ONNX_SPARSE_INLINE void multiply(C weight) {
    const V weights = all_lanes<C, kLanes>(weight);
    ONNX_SPARSE_UNROLL for (size_t v = 0; v < kVectors; ++v) vectors[v] = vectors[v] * weights;
  }

  ONNX_SPARSE_INLINE void add(const NarrowRow& row) {
    ONNX_SPARSE_UNROLL for (size_t v = 0; v < kVectors; ++v) vectors[v] = vectors[v] + row.vectors[v];
  }

  // Adds a row where the mask is -1.
  ONNX_SPARSE_INLINE void add_if(Bits mask, const NarrowRow& row) {
    const Vector<Bits, kLanes> masks = all_lanes<Bits, kLanes>(mask);
    ONNX_SPARSE_UNROLL for (size_t v = 0; v < kVectors; ++v) {
      vectors[v] = masks ? vectors[v] + row.vectors[v] : vectors[v];
    }
  }
};

// Whether segments of rows of so many columns are summed here: those that are in one register, or fill
// two.
template <class R>
constexpr bool is_narrow(size_t width) {
  const size_t bytes = width * sizeof(typename R::Compute);
  return R::is_sum && std::is_floating_point_v<typename R::Compute> && !R::is_half && !R::is_quantized && bytes <= 64 &&
         bytes <= 2 * kVectorBytes && (bytes <= kVectorBytes || bytes % kVectorBytes == 0);
}

// Whether a row may be in two cache lines. A second prefetch of one line takes as long as another line's.
template <size_t row_bytes>
ONNX_SPARSE_INLINE bool is_in_two_lines(const SegmentBatch& batch) {
  return (reinterpret_cast<uintptr_t>(batch.table) | batch.row_stride) % 64 + row_bytes > 64;
}

// Adds the rows of the entries behind `begin` up to `end` to the first, in the order in which all rows are reduced.
template <class Row, class Read>
ONNX_SPARSE_INLINE void add_rows(Row& sum, int64_t begin, int64_t end, const Read& read) {
  if (end - begin <= kMostHead) {  // a fifth of the time less than with the two loops below
    for (int64_t k = begin + 1; k < end; ++k) sum.add(read(k));
    return;
  }
  const int64_t head_end = begin + head_of(end - begin);
  for (int64_t k = begin + 1; k < head_end; ++k) sum.add(read(k));
  for (int64_t block = head_end; block < end; block += 8) {
    Row eight = read(block);
    for (int64_t k = block + 1; k < block + 8; ++k) eight.add(read(k));
    sum.add(eight);
  }
}

// The sum of the rows of the entries `begin` to `end`; there are `there` entries from `begin` on.
template <class R, size_t width>
ONNX_SPARSE_INLINE NarrowRow<typename R::Compute, width> sum_of_cached(const SegmentBatch& batch, int64_t begin,
                                                                       int64_t end, int64_t there) {
  using C = typename R::Compute;
  using Row = NarrowRow<C, width>;
  const auto read = [&](int64_t k) __attribute__((always_inline)) {
    Row row = Row::read(reinterpret_cast<const C*>(address_of(batch, k)));
    if constexpr (R::weighted) row.multiply(load<C, 1>(static_cast<const C*>(batch.weights) + k));
    return row;
  };
  Row sum = read(begin);
  if (end - begin <= kShortSegment && there >= kShortSegment) {
    const auto* masks = kMasks<typename Row::Bits> + (kShortSegment - (end - begin));
    ONNX_SPARSE_UNROLL for (int64_t k = 1; k < kShortSegment; ++k) sum.add_if(masks[k], read(begin + k));
  } else {
    add_rows(sum, begin, end, read);
  }
  return sum;
}

// One of two addresses, without a branch, which would be mispredicted.
ONNX_SPARSE_INLINE uintptr_t either(bool first, uintptr_t a, uintptr_t b) {
  return b ^ ((a ^ b) & (uintptr_t{0} - static_cast<uintptr_t>(first)));
}

// The same where rows are prefetched: that takes longer than a misprediction at a segment's end, during which it goes
// on. Reading rows of the next segments would keep it from that. There may be no entry.
template <class R, size_t width>
ONNX_SPARSE_INLINE NarrowRow<typename R::Compute, width> sum_of_prefetched(const SegmentBatch& batch, int64_t begin,
                                                                           int64_t end) {
  using C = typename R::Compute;
  using Row = NarrowRow<C, width>;
  static constexpr C kOne = 1;
  const bool in_two_lines = is_in_two_lines<R::bytes_of(width)>(batch);
  const auto read_at = [&](int64_t k, uintptr_t row, uintptr_t weight) __attribute__((always_inline)) {
    const uintptr_t far = address_of(batch, k + batch.prefetch_distance);
    fetch(far);
    if (in_two_lines) fetch(far + R::bytes_of(width) - 1);
    Row made = Row::read(reinterpret_cast<const C*>(row));
    if constexpr (R::weighted) made.multiply(load<C, 1>(reinterpret_cast<const C*>(weight)));
    return made;
  };
  const auto weight_of = [&](int64_t k) __attribute__((always_inline)) {
    return reinterpret_cast<uintptr_t>(batch.weights) + static_cast<uintptr_t>(k) * sizeof(C);
  };
  const bool is_empty = begin == end;
  Row sum = read_at(begin, either(is_empty, reinterpret_cast<uintptr_t>(batch.empty_row), address_of(batch, begin)),
                    either(is_empty, reinterpret_cast<uintptr_t>(&kOne), weight_of(begin)));
  add_rows(sum, begin, end,
           [&](int64_t k) __attribute__((always_inline)) { return read_at(k, address_of(batch, k), weight_of(k)); });
  return sum;
}

}  // namespace
}  // namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS
