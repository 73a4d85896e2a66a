// ValidateSparseIndices and ValidateRowSplits.

#include <algorithm>
#include <atomic>
#include <vector>

#include "abi/call.h"
#include "operators/requirements.h"

namespace onnx_sparse {
namespace {

template <class Id>
std::string text_of(const Id* entry, int64_t rank) {
  std::string text = "[";
  for (int64_t c = 0; c < rank; ++c) text += (c == 0 ? "" : ", ") + std::to_string(entry[c]);
  return text + "]";
}

// Reports the first entry that is illegal; of one that is both, that it is out of range.
template <class Id>
[[noreturn]] void report(const Tensor& indices, const Id* sizes, int64_t rank) {
  const Id* entries = indices.as<Id>();
  const int64_t count = indices.dims[0];
  for (int64_t c = 0; c < rank; ++c) {
    for (int64_t k = 0; k < count; ++k) {
      const int64_t at = k * rank + c;
      if (entries[at] < 0 || entries[at] >= sizes[c]) {
        throw out_of_range("indices", indices, at, entries[at], "0", sizes[c]);
      }
    }
  }
  for (int64_t k = 1; k < count; ++k) {
    const Id* entry = entries + k * rank;
    if (std::lexicographical_compare(entry - rank, entry, entry, entry + rank)) continue;
    const auto place = [&](int64_t j) {
      return "indices[" + std::to_string(j) + "] = " + text_of(entries + j * rank, rank);
    };
    throw InvalidArgument{place(k) + " is not after " + place(k - 1) +
                          "; entries must be in row-major order, none of them twice"};
  }
  throw InvalidArgument{"indices has illegal entries"};
}

template <class Id>
void validate(const Call& call, Id* output) {
  const Tensor& indices = call.input(0);
  const bool in_order = call.choice(0) == 1;
  const int64_t count = indices.dims[0];
  const int64_t rank = indices.dims[1];
  const Id* entries = indices.as<Id>();
  const std::vector<Id> sizes(call.input(1).as<Id>(), call.input(1).as<Id>() + rank);
  std::atomic<bool> is_legal{true};
  call.for_parts(count, 2 * count * rank * static_cast<int64_t>(sizeof(Id)), [&](int64_t first, int64_t end) {
    bool legal = true;
    for (int64_t k = first; k < end; ++k) {
      const Id* entry = entries + k * rank;
      for (int64_t c = 0; c < rank; ++c) {
        legal &= entry[c] >= 0 && entry[c] < sizes[static_cast<size_t>(c)];
        output[k * rank + c] = entry[c];
      }
      if (in_order && k > 0) legal &= std::lexicographical_compare(entry - rank, entry, entry, entry + rank);
    }
    if (!legal) is_legal.store(false, std::memory_order_relaxed);
  });
  if (!is_legal.load()) report(indices, sizes.data(), rank);
}

}  // namespace

void validate_sparse_indices(const Call& call) {
  const Tensor& indices = call.input(0);
  void* output = call.allocate(0, {indices.dims[0], indices.dims[1]}, size_of(indices.type), {"indices", indices});
  indices.type == ORT_INT32 ? validate(call, static_cast<int32_t*>(output))
                            : validate(call, static_cast<int64_t*>(output));
}

void validate_row_splits(const Call& call) {
  const Tensor& splits = call.input(0);
  require_row_splits("row_splits", splits, call.input(1).integer());
  const int64_t count = splits.dims[0];
  void* output = call.allocate(0, {count}, size_of(splits.type), {"row_splits", splits});
  std::copy_n(splits.as<char>(), static_cast<size_t>(count) * size_of(splits.type), static_cast<char*>(output));
}

}  // namespace onnx_sparse
