// The inner loops. They are compiled once for each instruction set, and the best one that the machine has is chosen
// when the library is first used. Nothing here allocates, throws or depends on ONNX Runtime.

#pragma once

#include <cstddef>
#include <cstdint>

namespace onnx_sparse {

// The element types that are computed with, in the order of the tables below. The last are those of quantized rows,
// which are only summed.
enum class Element {
  float16,
  bfloat16,
  float32,
  float64,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  quantized_int8,
  quantized_uint8,
  quantized_int4,
  quantized_uint4,
};
constexpr size_t kElementCount = 16;

// How rows are reduced to one.
enum class Reduction { add, add_weighted, multiply, maximum, minimum };
constexpr size_t kReductionCount = 5;

// What is done with a segment's reduced row at the end.
enum class Finalize {
  round,            // rounded to the element type
  keep,             // left in the compute type
  mean,             // divided by the number of rows; integers truncate
  tf_mean,          // the same, bit-identical to TensorFlow
  tf_sqrt_n,        // divided by the root of the number of rows, bit-identical to TensorFlow
  weighted_mean,    // divided by the sum of the weights, 0 where that is 0
  weighted_sqrt_n,  // divided by the root of the sum of the squared weights, 0 where that is 0
  combine_initial,  // reduced together with the value of an empty segment
  initial_mean,     // the same, and then divided by the number of rows
};

// Some segments and the rows of their entries. The rows of a segment are reduced in TensorFlow's order, which makes
// results bit-identical: the first n % 8 rows (8 for 0, 9 for 1) one by one, then blocks of eight, each reduced by
// itself first.
struct SegmentBatch {
  const char* table;
  size_t row_stride;          // bytes from one row to the next
  const int64_t* indices;     // the row of each entry, and prefetch_distance + 1 more if that is not 0
  int64_t prefetch_distance;  // how many entries ahead rows are prefetched; 0: not at all
  const void* weights;        // the weight of each entry, in the element type; only for add_weighted. Those of
                              // quantized rows are float, and null where all are 1
  const char* scales;         // quantized rows: a float scale and, if has_biases, a float that is added to each element
  size_t scale_stride;        // bytes from one row's to the next
  bool scales_of_entries;     // whether they are in the order of entries, not in that of rows
  bool has_biases;
  const int64_t* starts;  // [segments + 1]: segment s has the entries starts[s] ... starts[s + 1] - 1
  size_t segments;
  size_t width;    // elements of a row; at most kMostColumns
  bool is_signed;  // integers: whether they have a sign, by which a mean divides
  Finalize finalize;
  const char* empty_row;  // the value of an empty segment
  Element rounded;        // quantized rows: the element type of the output
  char* output;
  size_t output_stride;  // bytes from one output row to the next
};

// A wider row is reduced in parts.
constexpr size_t kMostColumns = 2048;

// The loops over rows of one element type.
struct RowLoops {
  void (*reduce)(const SegmentBatch& batch);
  // Reduces `count` rows, in the compute type, into an accumulator one by one.
  void (*accumulate)(void* accumulator, const void* rows, size_t count, size_t width);
  // Finalizes segment 0, whose reduced row is in the compute type.
  void (*finalize)(const SegmentBatch& batch, void* row);
};

// What a pass over the entries of a sparse tensor shows: rows are its first coordinates, columns its second ones.
struct EntryScan {
  bool outside;      // whether one is out of range
  bool falls;        // whether an entry belongs before the one before it
  int64_t new_rows;  // how many entries have another row than the one before
  uint64_t columns;  // every bit that a column has
};

// The most words that are sorted at a time.
constexpr int64_t kFewWords = 16;

struct Loops {
  const char* name;

  const RowLoops* rows[kElementCount];  // [kReductionCount] for each element type; one for quantized rows

  // Whether ids do not decrease and are not less than `before`.
  bool (*sorted32)(const int32_t* ids, size_t count, int32_t before);
  bool (*sorted64)(const int64_t* ids, size_t count, int64_t before);
  // Whether values are in [0, high).
  bool (*in_range32)(const int32_t* values, size_t count, int64_t high);
  bool (*in_range64)(const int64_t* values, size_t count, int64_t high);
  // Add what entries of one coordinate and of two show, the first of which is compared with the one at `before`. Where
  // the number of columns is -1, they may be any, and do not decide where an entry belongs.
  void (*scan32[2])(const int32_t* entries, const int32_t* before, size_t count, int64_t rows, int64_t columns,
                    EntryScan* seen);
  void (*scan64[2])(const int64_t* entries, const int64_t* before, size_t count, int64_t rows, int64_t columns,
                    EntryScan* seen);
  // Sorts at most kFewWords different words, which are less than 2^63.
  void (*sort_few)(uint64_t* first, uint64_t* last);
  // Whether bytes are 0 or 1.
  bool (*all_flags)(const uint8_t* bytes, size_t count);

  // For float16 and bfloat16: as float, `numbers` numbers from from[indices[k] * stride] on for each k; all numbers.
  void (*take[2])(const void* from, size_t stride, const int64_t* indices, size_t count, size_t numbers, float* to);
  void (*widen[2])(const void* from, size_t count, float* to);

  // By the binary logarithm of the element's size:
  void (*fill[4])(const void* value, size_t count, void* output);
  // output[i] = mask[i] ? value : x[i]
  void (*select[4])(const void* x, const uint8_t* mask, const void* value, size_t count, void* output);
};

// The loops for this machine.
const Loops& loops();

// How many rows ahead of the one that is read looked-up rows of so many bytes are prefetched on this machine; at most
// kMostPrefetched.
int64_t rows_ahead(int64_t row_bytes);
constexpr int64_t kMostPrefetched = 64;

}  // namespace onnx_sparse
