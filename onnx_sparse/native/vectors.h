// Vectors of any number of lanes, by an extension of GCC and Clang: the compiler maps them to the machine's registers.
// A part of the inner loops.

#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "half.h"

namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS {
namespace {

#define ONNX_SPARSE_INLINE inline __attribute__((always_inline))
// Before a loop over a few vectors, which are to stay in registers.
#define ONNX_SPARSE_UNROLL _Pragma("GCC unroll 4")

// How many bytes a register holds.
#if defined(__AVX512F__)
constexpr size_t kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr size_t kVectorBytes = 32;
#else
constexpr size_t kVectorBytes = 16;
#endif

template <class T, size_t lanes>
struct VectorOf {
  typedef T type __attribute__((vector_size(sizeof(T) * lanes)));
};
template <class T>
struct VectorOf<T, 1> {
  using type = T;
};

// `lanes` numbers; one lane is the number itself.
template <class T, size_t lanes>
using Vector = typename VectorOf<T, lanes>::type;

template <class T, size_t lanes>
ONNX_SPARSE_INLINE Vector<T, lanes> all_lanes(T value) {
  if constexpr (lanes == 1) {
    return value;
  } else {
    return value - Vector<T, lanes>{};  // a sum would lose the sign of a negative zero
  }
}

// Reads `lanes` elements in the compute type, from any address.
template <class Compute, size_t lanes, class T>
ONNX_SPARSE_INLINE Vector<Compute, lanes> load(const T* from) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    if constexpr (lanes == 1) {
      T half;
      std::memcpy(&half, from, sizeof half);
      return to_float(half);
    } else if constexpr (std::is_same_v<T, BFloat16>) {
      Vector<uint16_t, lanes> halves;
      std::memcpy(&halves, from, sizeof halves);
      return bits_as<Vector<float, lanes>>(__builtin_convertvector(halves, Vector<uint32_t, lanes>) << 16);
    } else {
#if defined(__AVX512F__)
      if constexpr (lanes == 16) {
        return reinterpret_cast<Vector<float, lanes>>(
            _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
      }
#endif
#if defined(__F16C__)
      if constexpr (lanes == 8) {
        return reinterpret_cast<Vector<float, lanes>>(
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
      }
#endif
      Vector<float, lanes> floats{};
      for (size_t i = 0; i < lanes; ++i) floats[i] = load<Compute, 1>(from + i);
      return floats;
    }
  } else {
    static_assert(sizeof(T) == sizeof(Compute), "only half floats are widened");
    Vector<Compute, lanes> vector;
    std::memcpy(&vector, from, sizeof vector);
    return vector;
  }
}

// Rounds to half floats.
template <class Half>
ONNX_SPARSE_INLINE void store_halves(const float* from, size_t count, Half* to) {
  size_t i = 0;
#if defined(__F16C__)
  if constexpr (std::is_same_v<Half, Float16>) {
    for (; i + 8 <= count; i += 8) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                       _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    }
  }
#endif
  for (; i < count; ++i) from_float(from[i], to + i);
}

// How two values are reduced to one. Small integers would be promoted to int, whose overflow is undefined; unsigned's
// is not.
template <class T>
using Wide = std::conditional_t<(std::is_integral_v<T> && sizeof(T) < sizeof(unsigned)), unsigned, T>;

template <class V>
ONNX_SPARSE_INLINE V product(V a, V b) {
  if constexpr (std::is_arithmetic_v<V>) {
    return static_cast<V>(static_cast<Wide<V>>(a) * static_cast<Wide<V>>(b));
  } else {
    return a * b;
  }
}

struct Add {
  template <class V>
  static ONNX_SPARSE_INLINE V join(V a, V b) {
    if constexpr (std::is_arithmetic_v<V>) {
      return static_cast<V>(static_cast<Wide<V>>(a) + static_cast<Wide<V>>(b));
    } else {
      return a + b;
    }
  }
};

struct Multiply {
  template <class V>
  static ONNX_SPARSE_INLINE V join(V a, V b) {
    return product(a, b);
  }
};

// A comparison with NaN is false, so a NaN in b is taken; the second choice keeps a NaN in a. Integers always equal
// themselves.
struct Maximum {
  template <class V>
  static ONNX_SPARSE_INLINE V join(V a, V b) {
    const V greater = a > b ? a : b;
    return a == a ? greater : a;
  }
};

struct Minimum {
  template <class V>
  static ONNX_SPARSE_INLINE V join(V a, V b) {
    const V less = a < b ? a : b;
    return a == a ? less : a;
  }
};

}  // namespace
}  // namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS
