// FarmHash's Fingerprint64: the string hash that TensorFlow calls fast. It never changes, on any machine.

#pragma once

#include <cstdint>
#include <string_view>

namespace onnx_sparse {

uint64_t fingerprint64(std::string_view text);

}  // namespace onnx_sparse
