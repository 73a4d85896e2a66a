// SipHash-2-4: the keyed string hash that TensorFlow calls strong. It never changes, on any machine.

#pragma once

#include <cstdint>
#include <string_view>

namespace onnx_sparse {

uint64_t siphash(std::string_view text, uint64_t k0, uint64_t k1);

}  // namespace onnx_sparse
