// StringToHashBucketFast.

#include <algorithm>

#include "farmhash.h"
#include "kernels.h"
#include "string_tensor.h"

namespace onnx_sparse {
namespace {

// A string of no characters costs as much as moving so many bytes.
constexpr size_t kStringBytes = 64;

}  // namespace

void string_to_hash_bucket_fast(const Call& call) {
  const Tensor& input = call.input(0);
  const auto buckets = static_cast<uint64_t>(call.input(1).integer());
  const std::vector<int64_t> shape(input.dims, input.dims + input.rank);
  auto* output = static_cast<int64_t*>(
      call.allocate(0, shape, sizeof(int64_t), "input of shape " + text_of(input.dims, input.rank)));
  const Strings texts(call, input);
  if (texts.size() == 0) return;
  const size_t tasks = task_count(static_cast<int64_t>(texts.size() * kStringBytes + texts.length()));
  const size_t part = (texts.size() + tasks - 1) / tasks;
  call.parallel_for(tasks, [&](size_t task) {
    const size_t end = std::min(texts.size(), (task + 1) * part);
    for (size_t i = task * part; i < end; ++i) {
      output[i] = static_cast<int64_t>(fingerprint64(texts[i]) % buckets);
    }
  });
}

}  // namespace onnx_sparse
