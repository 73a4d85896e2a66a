// String tensors, which can be read and written only through functions of ONNX Runtime.

#pragma once

#include <memory>
#include <string_view>

#include "kernel.h"

namespace onnx_sparse {

// The strings of a tensor, copied.
class Strings {
 public:
  Strings(const Call& call, const Tensor& tensor);

  std::string_view operator[](size_t i) const {
    const size_t end = i + 1 < size_ ? offsets_[i + 1] : length_;
    return {characters_.get() + offsets_[i], end - offsets_[i]};
  }
  size_t size() const { return size_; }

  // The number of bytes of all strings together.
  size_t length() const { return length_; }

 private:
  size_t size_;
  size_t length_ = 0;
  // Arrays, because vectors would first be filled with zeros.
  std::unique_ptr<char[]> characters_;
  std::unique_ptr<size_t[]> offsets_;
};

// Writes one element of a string output.
void put_string(const Call& call, OrtValue* output, size_t position, std::string_view text);

}  // namespace onnx_sparse
