// EmbeddingBagOffsetsSum, -Mean, -SqrtN and -Max.

#include "abi/call.h"
#include "operators/embedding.h"
#include "operators/entries.h"
#include "operators/requirements.h"

namespace onnx_sparse {
namespace {

// Reduces the entries of bags that begin at the offsets, the last of which ends at `end`, without those of the index
// `padding` and perhaps negative ones. Returns whether every index is in range; if not, the output is not complete.
template <class Id>
bool reduce_bags(const Call& call, SegmentReduction work, size_t weight_bytes, const Id* offsets, int64_t bags,
                 int64_t end, int64_t padding, bool drop_negative) {
  const auto* indices = static_cast<const Id*>(work.indices);
  const LeftOut<Id> left_out{static_cast<Id>(padding), drop_negative && any_negative(indices, end)};
  if (padding < 0 && !left_out.negative) return reduce_ordered(call, work, offsets, bags, end);
  const auto starts = uninitialized<Id>(bags);
  int64_t entry = 0;
  int64_t kept = 0;
  for (int64_t bag = 0; bag < bags; ++bag) {
    for (; entry < offsets[bag]; ++entry) kept += !left_out(indices[entry]);
    starts[static_cast<size_t>(bag)] = static_cast<Id>(kept);
  }
  for (; entry < end; ++entry) kept += !left_out(indices[entry]);
  const auto kept_indices = kept_values<sizeof(Id)>(indices, indices, end, left_out);
  const auto kept_weights = kept_weights_of(work.weights, weight_bytes, indices, end, left_out);
  work.indices = kept_indices.get();
  work.weights = kept_weights.get();
  return reduce_ordered(call, work, starts.get(), bags, kept);
}

void embedding_bag_offsets(const Call& call, const Combiner& combiner, const Tensor& weights, const Tensor& padding) {
  const Lookup lookup = plain_lookup(call.input(0), call.input(1), call.input(3), weights);
  reduce_by_offsets(call, lookup, combiner, call.input(2), padding, 0);
}

}  // namespace

void reduce_by_offsets(const Call& call, const Lookup& lookup, const Combiner& combiner, const Tensor& offsets,
                       const Tensor& padding, size_t last_offset) {
  require_blocks(lookup);
  const int64_t count = lookup.indices.size();
  const int64_t offset_count = offsets.size();
  const bool last_is_end = call.choice(last_offset) != 0;
  const bool drop_negative = call.choice(last_offset + 1) == 1;
  if (last_is_end && offset_count == 0) throw InvalidArgument{"offsets has 0 elements; at least 1 expected"};
  if (call.choice(last_offset) != 2) {
    require_offsets(call, "offsets", offsets, count);
  } else if (offsets.integer() != 0 || offsets.integer(static_cast<size_t>(offset_count - 1)) != count ||
             !are_sorted(call, offsets)) {
    require_row_splits("offsets", offsets, count);
  }
  const int64_t bags = offset_count - (last_is_end ? 1 : 0);
  char* output = allocate_output(call, lookup, bags, {"offsets", offsets});
  optional_row("default_index", lookup.default_index, lookup.table);
  const int64_t padding_row = optional_row("padding_index", padding, lookup.table);
  if (bags == 0) return;  // however wide its rows

  const LookupReduction prepared(call, lookup, combiner, output);
  const SegmentReduction& work = prepared.reduction;
  const int64_t end = last_is_end ? offsets.integer(static_cast<size_t>(bags)) : count;
  const bool in_range =
      offsets.type == ORT_INT32
          ? reduce_bags(call, work, prepared.weight_bytes, offsets.as<int32_t>(), bags, end, padding_row, drop_negative)
          : reduce_bags(call, work, prepared.weight_bytes, offsets.as<int64_t>(), bags, end, padding_row,
                        drop_negative);
  if (!in_range)
    require_in_range("indices", lookup.indices, end, lookup.table.dims[0], {drop_negative ? &lookup.indices : nullptr});
}

void embedding_bag_offsets_sum(const Call& call) { embedding_bag_offsets(call, kSum, call.input(4), call.input(5)); }

void embedding_bag_offsets_mean(const Call& call) { embedding_bag_offsets(call, kMean, call.input(4), call.input(5)); }

void embedding_bag_offsets_sqrt_n(const Call& call) {
  embedding_bag_offsets(call, kSqrtN, call.input(4), call.input(5));
}

void embedding_bag_offsets_max(const Call& call) { embedding_bag_offsets(call, kMaximum, Tensor{}, call.input(4)); }

}  // namespace onnx_sparse
