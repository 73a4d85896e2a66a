// Element types as indices into the loops' tables, and rows of constants.

#pragma once

#include <memory>
#include <vector>

#include "huge_pages.h"
#include "loops.h"
#include "ort_abi.h"

namespace onnx_sparse {

Element element_of(OrtElementType type);

// A row of one value; `lowest` and `highest` are finite. The infinities of an integer type are its limits.
enum class Constant { zero, one, lowest, highest, negative_infinity, positive_infinity };
constexpr size_t kConstantCount = 6;
std::vector<char> constant_row(OrtElementType type, Constant value, size_t width);

// Memory that is not filled with zeros first, as a vector's is.
template <class T>
std::unique_ptr<T[]> uninitialized(int64_t count) {
  std::unique_ptr<T[]> memory(new T[static_cast<size_t>(count)]);
  expect_writes(memory.get(), static_cast<size_t>(count) * sizeof(T));
  return memory;
}

}  // namespace onnx_sparse
