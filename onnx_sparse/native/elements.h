// Element types as numbers of the loops' tables, and constants in them.

#pragma once

#include <memory>
#include <vector>

#include "loops.h"
#include "ort_abi.h"

namespace onnx_sparse {

Element element_of(OrtElementType type);

// A row of one value; the lowest and the highest are the finite ones.
enum class Constant { zero, one, lowest, highest };
std::vector<char> constant_row(OrtElementType type, Constant value, size_t width);

// Memory without the zeros that a vector begins with.
template <class T>
std::unique_ptr<T[]> uninitialized(int64_t count) {
  return std::unique_ptr<T[]>(new T[static_cast<size_t>(count)]);
}

}  // namespace onnx_sparse
