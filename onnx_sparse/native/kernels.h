// The operators, each a function in the file of its family.

#pragma once

#include "kernel.h"

namespace onnx_sparse {

void sparse_fill_empty_rows(const Call& call);
void ragged_fill_empty_rows(const Call& call);
void sparse_reshape(const Call& call);

void embedding_segments_sum(const Call& call);
void embedding_segments_mean(const Call& call);
void embedding_segments_sqrt_n(const Call& call);

void segment_sum(const Call& call);
void segment_mean(const Call& call);
void segment_max(const Call& call);
void segment_min(const Call& call);
void segment_prod(const Call& call);

void unsorted_segment_sum(const Call& call);
void unsorted_segment_max(const Call& call);
void unsorted_segment_min(const Call& call);
void unsorted_segment_prod(const Call& call);

void fill(const Call& call);
void masked_fill(const Call& call);

void string_to_hash_bucket_fast(const Call& call);

}  // namespace onnx_sparse
