// Numbers in text, as C's strtol and strtod read them, with whitespace at both ends, in any locale; and written by C.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace onnx_sparse {

// Reads a number and rounds it once to its type: false where the text is none, or an integer is beyond the range.
bool read_number(std::string_view text, float& number);
bool read_number(std::string_view text, double& number);
bool read_number(std::string_view text, int32_t& number);
bool read_number(std::string_view text, int64_t& number);

// The most digits of an integer that a double is.
constexpr size_t kIntegerDigits = std::numeric_limits<double>::max_exponent10 + 1;

// Writes all digits of an integer >= 0, and returns how many: into kIntegerDigits bytes and one more.
size_t write_integer(double number, char* text);

// Writes `.` in place of the locale's point in a number that C has printed, and returns the size of the text then.
size_t replace_point(char* text, size_t size);

}  // namespace onnx_sparse
