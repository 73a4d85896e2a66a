// Element types as indices into the loops' tables, and rows of constants.

#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "loops/huge_pages.h"
#include "loops/loops.h"
#include "onnx_sparse/ort_abi.h"

namespace onnx_sparse {

Element element_of(OrtElementType type);

// A value; `lowest` and `highest` are finite. The infinities of an integer type are its limits.
enum class Constant { zero, one, lowest, highest, negative_infinity, positive_infinity };
constexpr size_t kConstantCount = 6;

// A row of one value. A short one is held without an allocation.
class ConstantRow {
 public:
  ConstantRow(OrtElementType type, Constant value, size_t width);
  ConstantRow(const ConstantRow&) = delete;
  ConstantRow& operator=(const ConstantRow&) = delete;

  char* data() { return many_ ? many_.get() : few_.data(); }
  const char* data() const { return many_ ? many_.get() : few_.data(); }

 private:
  void fill(OrtElementType type, Constant value, size_t width);
  template <class T>
  void fill_with(const T (&constants)[kConstantCount], Constant value, size_t width);
  template <class T>
  void fill_with_limits(Constant value, size_t width);

  alignas(std::max_align_t) std::array<char, 512> few_;
  std::unique_ptr<char[]> many_;
};

// Memory that is not filled with zeros first, as a vector's is.
template <class T>
std::unique_ptr<T[]> uninitialized(int64_t count) {
  std::unique_ptr<T[]> memory(new T[static_cast<size_t>(count)]);
  expect_writes(memory.get(), static_cast<size_t>(count) * sizeof(T));
  return memory;
}

}  // namespace onnx_sparse
