// The functions that compute the operators, each in the file of its family. An operator without one is a link error.

#pragma once

#include "kernel.h"

namespace onnx_sparse {

#define ONNX_SPARSE_DECLARE(op, kernel) void kernel(const Call& call);
ONNX_SPARSE_OPERATORS(ONNX_SPARSE_DECLARE)
#undef ONNX_SPARSE_DECLARE

}  // namespace onnx_sparse
