// Words of bytes, little-endian on every machine.

#pragma once

#include <cstdint>
#include <cstring>

namespace onnx_sparse {

inline uint64_t word32(const char* at) {
  uint32_t value;
  std::memcpy(&value, at, sizeof value);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  value = __builtin_bswap32(value);
#endif
  return value;
}

inline uint64_t word64(const char* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof value);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  value = __builtin_bswap64(value);
#endif
  return value;
}

inline void put_word32(char* at, uint32_t value) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  value = __builtin_bswap32(value);
#endif
  std::memcpy(at, &value, sizeof value);
}

inline void put_word64(char* at, uint64_t value) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  value = __builtin_bswap64(value);
#endif
  std::memcpy(at, &value, sizeof value);
}

}  // namespace onnx_sparse
