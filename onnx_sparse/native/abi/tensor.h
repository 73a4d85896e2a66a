// A tensor that ONNX Runtime holds, in the form that validation and the kernels use.

#pragma once

#include <cstddef>
#include <cstdint>

#include "onnx_sparse/ort_abi.h"

namespace onnx_sparse {

// An input: a view of memory that ONNX Runtime holds. A string tensor has no data; see string_tensor.h.
struct Tensor {
  const OrtValue* value = nullptr;
  OrtElementType type = ORT_UNDEFINED;
  const int64_t* dims = nullptr;
  size_t rank = 0;
  const void* data = nullptr;

  explicit operator bool() const { return value != nullptr; }

  template <class T>
  const T* as() const {
    return static_cast<const T*>(data);
  }

  // The number of elements of the dimensions from one axis on. Throws an InvalidArgument where it exceeds int64, as it
  // may behind a dimension of 0.
  int64_t size_from(size_t axis) const;
  int64_t size() const { return size_from(0); }

  // An element of an int32 or int64 tensor.
  int64_t integer(size_t position = 0) const {
    return type == ORT_INT32 ? as<int32_t>()[position] : as<int64_t>()[position];
  }
};

}  // namespace onnx_sparse
