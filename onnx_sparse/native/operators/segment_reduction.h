// Reducing rows by segment, in parallel: the common part of the embedding, segment and unsorted segment operators.

#pragma once

#include <cstdint>

#include "abi/call.h"
#include "loops/loops.h"

namespace onnx_sparse {

// How the row of an entry is found: by an index of 4 or 8 bytes, or entry k is row k (`own`).
enum class IndexWidth { own, int32, int64 };

// What the integers of quantized rows are multiplied by and, if there are two numbers, what is added: [rows, blocks,
// numbers] of float16, bfloat16 or float.
struct Quantization {
  Element element;
  const char* scale_bias;
  size_t blocks;  // of equal width, in a row
  size_t numbers;
};

// Some entries, each of them a row, reduced by segment to the rows of an output.
struct SegmentReduction {
  Reduction reduction;
  Finalize finalize;
  Element element;
  size_t width;       // elements of a row
  const char* table;  // the rows
  int64_t rows = -1;  // the number of rows; -1: the indices are known to be in range
  IndexWidth index_width = IndexWidth::own;
  const void* indices = nullptr;  // the row of each entry
  const char* weights = nullptr;  // the weight of each entry, in the output's type, or null
  const char* empty_row;          // the value of an empty segment
  char* output;
  Quantization quantization{};  // only of quantized rows; the output has the element type of the scales
};

// Entry k is of segment ids[k]; only the first `kept` entries belong to one of the segments. Returns whether every
// index is in [0, rows); if not, the output is not complete.
bool reduce_sorted(const Call& call, const SegmentReduction& reduction, const Tensor& ids, int64_t kept,
                   int64_t segments);

// The same, where segment s has the entries starts[s] ... starts[s + 1] - 1, and the last one those before `end`.
bool reduce_ordered(const Call& call, const SegmentReduction& reduction, const int32_t* starts, int64_t segments,
                    int64_t end);
bool reduce_ordered(const Call& call, const SegmentReduction& reduction, const int64_t* starts, int64_t segments,
                    int64_t end);

// How many of the sorted ids are less than `segments`.
int64_t count_below(const Tensor& ids, int64_t segments);

}  // namespace onnx_sparse
