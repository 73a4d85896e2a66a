#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace onnx_sparse {

struct Character {
  int32_t number;  // -1: the bytes are not UTF-8
  size_t size;
};

// The character that begins a text which is not empty, or the longest beginning of one, or else one byte.
inline Character first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xC2 || lead > 0xF4) return {-1, 1};
  const size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // Overlong encodings, surrogates and numbers above 10FFFF show in the second byte.
  unsigned char least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  int32_t number = lead & (0x7F >> size);
  for (size_t k = 1; k < size; ++k) {
    const auto byte = static_cast<unsigned char>(k < text.size() ? text[k] : 0);
    if (byte < least || byte > most) return {-1, k};
    number = number << 6 | (byte & 0x3F);
    least = 0x80;
    most = 0xBF;
  }
  return {number, size};
}

}  // namespace onnx_sparse
