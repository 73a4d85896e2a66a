// Reducing rows by segment, in parallel: what the embedding, segment and unsorted segment operators have in common.

#pragma once

#include <cstdint>

#include "kernel.h"
#include "loops.h"

namespace onnx_sparse {

// How an entry's row is known: from an index of 4 or 8 bytes, or entry k is row k.
enum class IndexWidth { own, int32, int64 };

// Some entries, each of them a row, reduced by segment to the rows of an output.
struct SegmentReduction {
  Reduction reduction;
  Finish finish;
  Element element;
  size_t width;       // elements of a row
  const char* table;  // the rows
  int64_t rows = -1;  // how many there are; -1: the indices are known to be right
  IndexWidth index_width = IndexWidth::own;
  const void* indices = nullptr;  // of each entry: its row
  const char* weights = nullptr;  // of each entry, or null
  const char* empty_row;          // what an empty segment is
  char* output;
};

// Entry k is of segment ids[k]; only the first `kept` entries belong to one of the segments. Returns whether every
// index is in [0, rows); if not, the output is not complete.
bool reduce_sorted(const Call& call, const SegmentReduction& reduction, const Tensor& ids, int64_t kept,
                   int64_t segments);

// Segment s has the entries starts[s] ... starts[s + 1] - 1.
void reduce_ordered(const Call& call, const SegmentReduction& reduction, const int64_t* starts, int64_t segments);

// How many of the sorted ids are less than `segments`.
int64_t count_below(const Tensor& ids, int64_t segments);

}  // namespace onnx_sparse
