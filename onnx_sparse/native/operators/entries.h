// The entries of a lookup without those that are left out: padding, or negative indices.

#pragma once

#include <cstring>
#include <memory>

#include "abi/call.h"
#include "loops/elements.h"

namespace onnx_sparse {

// Which entries are left out: those of one index, or none where it is negative, and perhaps negative ones.
template <class Id>
struct LeftOut {
  Id padding;
  bool negative;

  bool operator()(Id index) const { return ((index == padding) & (padding >= 0)) | (negative & (index < 0)); }
};

// Whether an index is negative; it takes a fraction of the time in which the rows are read.
template <class Id>
bool any_negative(const Id* indices, int64_t count) {
  Id all = 0;
  for (int64_t k = 0; k < count; ++k)
    all |= indices[k];  // of which the sign is that of a negative one, if there is one
  return all < 0;
}

// The values, of so many bytes each and at any address, of the entries that are not left out.
template <size_t bytes, class Id>
std::unique_ptr<char[]> kept_values(const void* values, const Id* indices, int64_t count, LeftOut<Id> left_out) {
  auto kept = uninitialized<char>(count * static_cast<int64_t>(bytes));
  const auto* from = static_cast<const char*>(values);
  char* to = kept.get();
  for (int64_t k = 0; k < count; ++k, from += bytes) {
    std::memcpy(to, from, bytes);  // no branch: it would be mispredicted
    to += left_out(indices[k]) ? 0 : bytes;
  }
  return kept;
}

// The weights, of so many bytes each, of the entries that are not left out; null without weights.
template <class Id>
std::unique_ptr<char[]> kept_weights_of(const void* weights, size_t weight_bytes, const Id* indices, int64_t count,
                                        LeftOut<Id> left_out) {
  if (weights == nullptr) return nullptr;
  switch (weight_bytes) {
    case 1:
      return kept_values<1>(weights, indices, count, left_out);
    case 2:
      return kept_values<2>(weights, indices, count, left_out);
    case 4:
      return kept_values<4>(weights, indices, count, left_out);
    default:
      return kept_values<8>(weights, indices, count, left_out);
  }
}

}  // namespace onnx_sparse
