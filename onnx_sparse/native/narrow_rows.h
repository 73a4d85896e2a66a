// Summing short segments of narrow rows, where what takes time is not the rows: a loop that ends where its segment does
// is mispredicted at each end. A part of the inner loops.

#pragma once

#include "batch_rows.h"
#include "vectors.h"

namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS {
namespace {

// A segment of so many entries at most is summed without a branch: all of them are read, and those of the next segments
// are left out.
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

// Whether segments of rows of so many columns are summed by `sum_narrow_rows`: those that are in one register, or fill
// two. Rows of a cache line and more are prefetched as they are read, which it does not do.
template <class R>
constexpr bool is_narrow(size_t width) {
  const size_t bytes = width * sizeof(typename R::Compute);
  return R::is_sum && std::is_floating_point_v<typename R::Compute> && !R::is_half && !R::is_quantized && bytes <= 64 &&
         bytes <= 2 * kVectorBytes && (bytes <= kVectorBytes || bytes % kVectorBytes == 0);
}

// Sums the rows of the entries `begin` to `end`, in the order in which all rows are reduced; there are `there` entries
// from `begin` on.
template <class R, size_t width>
ONNX_SPARSE_INLINE void sum_narrow_rows(const SegmentBatch& batch, int64_t begin, int64_t end, int64_t there,
                                        typename R::Compute* output) {
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
    return sum.write(output);
  }
  const int64_t head_end = begin + head_of(end - begin);
  for (int64_t k = begin + 1; k < head_end; ++k) sum.add(read(k));
  for (int64_t block = head_end; block < end; block += 8) {
    Row eight = read(block);
    for (int64_t k = block + 1; k < block + 8; ++k) eight.add(read(k));
    sum.add(eight);
  }
  sum.write(output);
}

// Prefetches the rows of a batch, from the first that is far enough on. Beside the sums that would take longer: what
// their entries have in common is computed once here.
template <size_t row_bytes>
ONNX_SPARSE_INLINE void fetch_rows(const SegmentBatch& batch) {
  if (batch.prefetch_distance == 0) return;
  const bool in_two_lines = (reinterpret_cast<uintptr_t>(batch.table) | batch.row_stride) % 64 + row_bytes > 64;
  const int64_t end = batch.starts[batch.segments] + batch.prefetch_distance;
  for (int64_t k = batch.starts[0] + batch.prefetch_distance; k < end; ++k) {
    const uintptr_t row = address_of(batch, k);
    fetch(row);
    if (in_two_lines) fetch(row + row_bytes - 1);
  }
}

}  // namespace
}  // namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS
