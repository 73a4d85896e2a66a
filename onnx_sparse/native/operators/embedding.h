// Looked-up rows that are reduced: what EmbeddingSegments* and EmbeddingBagOffsets* have in common.

#pragma once

#include <memory>
#include <optional>

#include "loops/elements.h"
#include "operators/segment_reduction.h"

namespace onnx_sparse {

// The inputs of a lookup; default_index and weights may be null tensors. Only quantized tables have scales.
struct Lookup {
  const Tensor& table;
  const Tensor& indices;
  const Tensor& default_index;
  const Tensor& weights;
  const Tensor& scale_bias;
  bool has_halves;  // whether a byte of the table is two integers
};

// The inputs of a lookup in a table that is not quantized.
Lookup plain_lookup(const Tensor& table, const Tensor& indices, const Tensor& default_index, const Tensor& weights);

// How the rows of a lookup are reduced and finished, without weights and with them.
struct Combiner {
  Reduction reduction;
  Finalize unweighted;
  Finalize weighted;
};
constexpr Combiner kSum{Reduction::add, Finalize::round, Finalize::round};
constexpr Combiner kMean{Reduction::add, Finalize::tf_mean, Finalize::weighted_mean};
constexpr Combiner kSqrtN{Reduction::add, Finalize::tf_sqrt_n, Finalize::weighted_sqrt_n};
constexpr Combiner kMaximum{Reduction::maximum, Finalize::round, Finalize::round};

// The row that an optional index names, or -1. Throws an InvalidArgument unless it is in [-1, rows of the table).
int64_t optional_row(std::string_view name, const Tensor& index, const Tensor& table);

// Throws an InvalidArgument unless the blocks of a quantized table divide its columns and have one or two numbers.
void require_blocks(const Lookup& lookup);

// Allocates the output of a lookup; `cause` is what asks for so many rows.
char* allocate_output(const Call& call, const Lookup& lookup, int64_t rows, const Cause& cause);

// What a lookup reduces to the rows of `output`, and the memory that it needs beside its inputs.
struct LookupReduction {
  LookupReduction(const Call& call, const Lookup& lookup, const Combiner& combiner, char* output);

  SegmentReduction reduction{};
  size_t weight_bytes;
  std::optional<ConstantRow> own_empty_row;  // what an empty segment is, unless that is a row of the table
};

// Reduce a lookup by segment_ids or offsets, the whole of the operators; `padding` may be a null tensor. The attribute
// of the order of the ids, or of the last offset, is at the given index, and behind it that of negative indices.
void reduce_by_segment_ids(const Call& call, const Lookup& lookup, const Combiner& combiner, const Tensor& segment_ids,
                           const Tensor& num_segments, size_t order);
void reduce_by_offsets(const Call& call, const Lookup& lookup, const Combiner& combiner, const Tensor& offsets,
                       const Tensor& padding, size_t last_offset);

}  // namespace onnx_sparse
