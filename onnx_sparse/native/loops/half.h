// float16 and bfloat16: two bytes, computed with as float32 and rounded once, to nearest even.
// A part of the inner loops.

#pragma once

#include <cstdint>
#include <cstring>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS {
namespace {

struct Float16 {
  uint16_t bits;
};

struct BFloat16 {
  uint16_t bits;
};

template <class To, class From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

inline float to_float(BFloat16 half) { return bits_as<float>(static_cast<uint32_t>(half.bits) << 16); }

inline float to_float(Float16 half) {
#if defined(__F16C__)
  return _cvtsh_ss(half.bits);
#else
  const uint32_t sign = static_cast<uint32_t>(half.bits & 0x8000u) << 16;
  const uint32_t magnitude = half.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return bits_as<float>(sign | 0x7f800000u | (magnitude << 13));  // infinity and NaN
  // The exponents' biases differ by 112; the product is exact, and normalizes subnormal numbers.
  const float scaled = bits_as<float>(magnitude << 13) * bits_as<float>(uint32_t{(127 + 112) << 23});
  return bits_as<float>(sign | bits_as<uint32_t>(scaled));
#endif
}

inline void from_float(float value, BFloat16* half) {
  const auto bits = bits_as<uint32_t>(value);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  half->bits = static_cast<uint16_t>(nan ? (bits >> 16) | 0x40u : rounded >> 16);
}

inline void from_float(float value, Float16* half) {
#if defined(__F16C__)
  half->bits = static_cast<uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT));
#else
  const auto bits = bits_as<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t result;
  if (magnitude > 0x7f800000u) {
    result = 0x7e00u | ((magnitude >> 13) & 0x3ffu);  // NaN
  } else if (magnitude >= 0x477ff000u) {
    result = 0x7c00u;  // 65520 and more
  } else if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 leaves exactly the bits that fit, and the addition rounds them.
    result = bits_as<uint32_t>(bits_as<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    result = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  half->bits = static_cast<uint16_t>(sign | result);
#endif
}

}  // namespace
}  // namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS
