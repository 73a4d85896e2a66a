// StringToHashBucketFast, StringToHashBucketStrong.

#include "abi/call.h"
#include "abi/string_tensor.h"
#include "operators/farmhash.h"
#include "operators/siphash.h"

namespace onnx_sparse {
namespace {

// The hash of each string, modulo the number of buckets.
template <typename Hash>
void put_in_buckets(const Call& call, Hash hash) {
  const Tensor& input = call.input(0);
  const auto buckets = static_cast<uint64_t>(call.input(1).integer());
  const std::vector<int64_t> shape(input.dims, input.dims + input.rank);
  auto* output = static_cast<int64_t*>(call.allocate(0, shape, sizeof(int64_t), {"input", input}));
  const Strings texts(call, input);
  call.for_parts(static_cast<int64_t>(texts.size()), texts.cost(), [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) {
      output[i] = static_cast<int64_t>(hash(texts[static_cast<size_t>(i)]) % buckets);
    }
  });
}

}  // namespace

void string_to_hash_bucket_fast(const Call& call) { put_in_buckets(call, fingerprint64); }

void string_to_hash_bucket_strong(const Call& call) {
  const auto k0 = static_cast<uint64_t>(call.input(2).integer());
  const auto k1 = static_cast<uint64_t>(call.input(3).integer());
  put_in_buckets(call, [k0, k1](std::string_view text) { return siphash(text, k0, k1); });
}

}  // namespace onnx_sparse
