// Reducing rows by segment, in parallel: what the embedding, segment and unsorted segment operators have in common.

#pragma once

#include <cstdint>

#include "kernel.h"
#include "loops.h"

namespace onnx_sparse {

// Some entries, each of a row, reduced by segment to the rows of an output.
struct RowReduction {
  Reduction reduction;
  Finish finish;
  Element element;
  size_t width;           // elements of a row
  const char* table;      // the rows
  const char* weights;    // of each entry, or null
  const char* empty_row;  // what an empty segment is
  char* output;
};

// Entry k is row `indices[k]`, or row k without indices, of the segment ids[k]; only the first `kept` entries belong to
// one of the segments.
void reduce_sorted(const Call& call, const RowReduction& reduction, const Tensor& ids, int64_t kept, int64_t segments,
                   const Tensor* indices);

// Segment s has the rows order[starts[s]] ... order[starts[s + 1] - 1].
void reduce_ordered(const Call& call, const RowReduction& reduction, const int64_t* starts, int64_t segments,
                    const int64_t* order);

// How many of the sorted ids are less than `segments`.
int64_t count_below(const Tensor& ids, int64_t segments);

}  // namespace onnx_sparse
