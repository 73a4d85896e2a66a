// String tensors, which can be read and written only through functions of ONNX Runtime.

#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "abi/call.h"

namespace onnx_sparse {

// A string costs as much as moving this many bytes, and its own.
constexpr size_t kStringBytes = 64;

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

  // What reading all strings costs, as the number of bytes that could be moved instead.
  int64_t cost() const { return static_cast<int64_t>(size_ * kStringBytes + length_); }

 private:
  size_t size_;
  size_t length_ = 0;
  std::unique_ptr<char[]> characters_;
  std::unique_ptr<size_t[]> offsets_;
};

// A text as messages write it: in quotes, at most 64 bytes of it, `?` for what is not printable ASCII.
std::string shown(std::string_view text);

// Writes one element of a string output.
void put_string(const Call& call, OrtValue* output, size_t position, std::string_view text);

// Writes the elements of a string output in tasks, which must not throw. The first failure is kept.
class StringWriter {
 public:
  // A null output is not written.
  StringWriter(const Call& call, OrtValue* output) : call_(call), output_(output) {}
  ~StringWriter() {
    if (OrtStatus* status = failed_.load()) call_.api().ReleaseStatus(status);
  }
  StringWriter(const StringWriter&) = delete;
  StringWriter& operator=(const StringWriter&) = delete;

  // Memory for a string of that many bytes; null where it is not written.
  char* resize(size_t position, size_t size);
  void put(size_t position, std::string_view text);

  // Throws the first failure.
  void finish();

 private:
  const Call& call_;
  OrtValue* output_;
  std::atomic<OrtStatus*> failed_{nullptr};
};

}  // namespace onnx_sparse
