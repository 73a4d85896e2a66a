// Looked-up rows that are reduced: what EmbeddingSegments* and EmbeddingBagOffsets* have in common.

#pragma once

#include <vector>

#include "elements.h"
#include "segments.h"

namespace onnx_sparse {

// The inputs of a lookup; default_index and weights may be null tensors.
struct Lookup {
  const Tensor& table;
  const Tensor& indices;
  const Tensor& default_index;
  const Tensor& weights;
};

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

// The reduction of a lookup to the rows of `output`. `zeros` becomes the row of an empty bag where there is no default.
SegmentReduction reduction_of(const Lookup& lookup, const Combiner& combiner, char* output, std::vector<char>* zeros);

}  // namespace onnx_sparse
