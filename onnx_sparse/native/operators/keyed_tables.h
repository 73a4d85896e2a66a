// What FindKeys and FindStrings make of their keys when a session starts.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "abi/tensor.h"

namespace onnx_sparse {

// An index that is no input.
struct BuiltIndex {
  std::unique_ptr<char[]> data;
  uint64_t bytes = 0;
};

// The index of keys that are constants, where the node has none; null where it has one, or where keys are computed.
// `constants` has the node's inputs, null where they are computed. Throws an InvalidArgument where a constant index is
// not one of so many keys, or a key is there twice. If the environment has ONNX_SPARSE_CHECK_INDEX=1, all keys and
// slots are read and compared with the index's checksums, too; `index_name` is its name in messages.
std::shared_ptr<const void> prepare_keys(const Tensor* constants, bool text, const std::string& index_name);

}  // namespace onnx_sparse
