// QuantizedEmbeddingSegmentsSum, -Mean, -SqrtN and QuantizedEmbeddingBagOffsetsSum, -Mean, -SqrtN.

#include "abi/call.h"
#include "operators/embedding.h"

namespace onnx_sparse {
namespace {

void by_segment_ids(const Call& call, const Combiner& combiner) {
  const bool has_halves = call.choice(0) == 1;
  const Lookup lookup{call.input(0), call.input(2), call.input(5), call.input(6), call.input(1), has_halves};
  reduce_by_segment_ids(call, lookup, combiner, call.input(3), call.input(4), 1);
}

void by_offsets(const Call& call, const Combiner& combiner) {
  const bool has_halves = call.choice(0) == 1;
  const Lookup lookup{call.input(0), call.input(2), call.input(4), call.input(5), call.input(1), has_halves};
  reduce_by_offsets(call, lookup, combiner, call.input(3), call.input(6), 1);
}

}  // namespace

void quantized_embedding_segments_sum(const Call& call) { by_segment_ids(call, kSum); }

void quantized_embedding_segments_mean(const Call& call) { by_segment_ids(call, kMean); }

void quantized_embedding_segments_sqrt_n(const Call& call) { by_segment_ids(call, kSqrtN); }

void quantized_embedding_bag_offsets_sum(const Call& call) { by_offsets(call, kSum); }

void quantized_embedding_bag_offsets_mean(const Call& call) { by_offsets(call, kMean); }

void quantized_embedding_bag_offsets_sqrt_n(const Call& call) { by_offsets(call, kSqrtN); }

}  // namespace onnx_sparse
