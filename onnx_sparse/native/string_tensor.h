// String tensors, which ONNX Runtime hands out and takes in through functions only.

#pragma once

#include <string_view>
#include <vector>

#include "kernel.h"

namespace onnx_sparse {

// The strings of a tensor, copied.
class Strings {
 public:
  Strings(const Call& call, const Tensor& tensor);

  std::string_view operator[](size_t i) const {
    const size_t end = i + 1 < offsets_.size() ? offsets_[i + 1] : characters_.size();
    return {characters_.data() + offsets_[i], end - offsets_[i]};
  }
  size_t size() const { return offsets_.size(); }

  // The bytes of all strings together.
  int64_t length() const { return static_cast<int64_t>(characters_.size()); }

 private:
  std::vector<char> characters_;
  std::vector<size_t> offsets_;
};

// Writes one element of a string output.
void put_string(const Call& call, OrtValue* output, size_t position, std::string_view text);

}  // namespace onnx_sparse
