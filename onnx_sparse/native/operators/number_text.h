// Numbers in text, as C's strtol and strtod read them, with whitespace at both ends, in any locale.

#pragma once

#include <cstdint>
#include <string_view>

namespace onnx_sparse {

// Reads a number and rounds it once to its type: false where the text is none, or an integer is beyond the range.
bool read_number(std::string_view text, float& number);
bool read_number(std::string_view text, double& number);
bool read_number(std::string_view text, int32_t& number);
bool read_number(std::string_view text, int64_t& number);

}  // namespace onnx_sparse
