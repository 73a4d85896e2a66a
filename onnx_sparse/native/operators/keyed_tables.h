// What FindKeys and FindStrings make of their keys when a session starts.

#pragma once

#include <cstdint>
#include <memory>

#include "abi/tensor.h"

namespace onnx_sparse {

// An index that is no input.
struct BuiltIndex {
  std::unique_ptr<char[]> data;
  uint64_t bytes = 0;
};

// The index of keys that are constants, where the node has none; null where it has one, or where keys are computed.
// `constants` has the node's inputs, null where they are computed. Throws an InvalidArgument where a constant index is
// not one of the keys, or a key is there twice.
std::shared_ptr<const void> prepare_keys(const Tensor* constants, bool text);

}  // namespace onnx_sparse
