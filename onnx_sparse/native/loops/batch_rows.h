// Where the rows of a batch are, and in which order they are reduced. A part of the inner loops.

#pragma once

#include "loops/loops.h"
#include "loops/vectors.h"

namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS {
namespace {

// At most so many rows are reduced one by one before the blocks of eight.
constexpr int64_t kMostHead = 9;

// The number of these.
ONNX_SPARSE_INLINE int64_t head_of(int64_t count) {
  const int64_t head = ((count - 2) & 7) + 2;  // no branch: segments' lengths would be mispredicted
  return head < count ? head : count;
}

// A row's address; an index that is only prefetched may be out of range, and then its address is of no row.
ONNX_SPARSE_INLINE uintptr_t address_of(const SegmentBatch& batch, int64_t entry) {
  return reinterpret_cast<uintptr_t>(batch.table) + static_cast<uintptr_t>(batch.indices[entry]) * batch.row_stride;
}

// Prefetches into the second-level cache, which takes more requests at a time than the first.
ONNX_SPARSE_INLINE void fetch(uintptr_t address) { __builtin_prefetch(reinterpret_cast<void*>(address), 0, 2); }

}  // namespace
}  // namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS
