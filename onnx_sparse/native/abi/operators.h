// Every operator's declaration, and the function that computes it. Only the registration reads this, so that a new
// operator compiles its own file and that one. An operator without a function is a link error.

#pragma once

#include "abi/call.h"

namespace onnx_sparse {

namespace declarations {
#include "abi/declarations.inc"
}  // namespace declarations

#define ONNX_SPARSE_DECLARE(op, kernel) void kernel(const Call& call);
ONNX_SPARSE_OPERATORS(ONNX_SPARSE_DECLARE)
#undef ONNX_SPARSE_DECLARE

}  // namespace onnx_sparse
