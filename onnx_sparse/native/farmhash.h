// FarmHash's Fingerprint64: the hash of strings that TensorFlow calls fast, the same on every machine and for ever.

#pragma once

#include <cstdint>
#include <string_view>

namespace onnx_sparse {

uint64_t fingerprint64(std::string_view text);

}  // namespace onnx_sparse
