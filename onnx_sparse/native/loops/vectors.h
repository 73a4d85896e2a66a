// Vectors of any number of lanes, by an extension of GCC and Clang: the compiler maps them to the machine's registers.
// A part of the inner loops.

#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "loops/half.h"

namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS {
namespace {

#define ONNX_SPARSE_INLINE inline __attribute__((always_inline))
// Before a loop over a few vectors, which are to stay in registers.
#define ONNX_SPARSE_UNROLL _Pragma("GCC unroll 8")

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

// The integers of quantized rows, at `kBits` each.
struct QuantizedInt8 {
  static constexpr size_t kBits = 8;
  using Lane = int8_t;
};
struct QuantizedUint8 {
  static constexpr size_t kBits = 8;
  using Lane = uint8_t;
};
struct QuantizedInt4 {
  static constexpr size_t kBits = 4;
  using Lane = int8_t;
};
struct QuantizedUint4 {
  static constexpr size_t kBits = 4;
  using Lane = uint8_t;
};

// Bytes as float. Compilers convert them one by one where it is left to them.
template <class Lane, size_t lanes>
ONNX_SPARSE_INLINE Vector<float, lanes> bytes_to_floats(Vector<Lane, lanes> bytes) {
#if defined(__AVX512F__)
  if constexpr (lanes == 16) {
    const auto packed = bits_as<__m128i>(bytes);
    const __m512i wide = std::is_signed_v<Lane> ? _mm512_maskz_cvtepi8_epi32(0xffff, packed)
                                                : _mm512_maskz_cvtepu8_epi32(0xffff, packed);
    return bits_as<Vector<float, lanes>>(_mm512_maskz_cvtepi32_ps(0xffff, wide));
  }
#endif
#if defined(__AVX2__)
  if constexpr (lanes == 8) {
    const __m128i packed = _mm_cvtsi64_si128(bits_as<int64_t>(bytes));
    const __m256i wide = std::is_signed_v<Lane> ? _mm256_cvtepi8_epi32(packed) : _mm256_cvtepu8_epi32(packed);
    return bits_as<Vector<float, lanes>>(_mm256_cvtepi32_ps(wide));
  }
#endif
  return __builtin_convertvector(__builtin_convertvector(bytes, Vector<int32_t, lanes>), Vector<float, lanes>);
}

// Each byte as two: its lower half, and its upper half in the upper byte.
template <size_t lanes>
ONNX_SPARSE_INLINE Vector<uint8_t, 2 * lanes> halves_of(Vector<uint8_t, lanes> bytes) {
  using Wide = Vector<uint16_t, lanes>;
#if defined(__AVX2__)
  if constexpr (lanes == 8) {
    const auto wide = bits_as<Wide>(_mm_cvtepu8_epi16(_mm_cvtsi64_si128(bits_as<int64_t>(bytes))));
    return bits_as<Vector<uint8_t, 2 * lanes>>((wide | wide << 4) & 0x0f0f);
  }
#endif
  const Wide wide = __builtin_convertvector(bytes, Wide);
  return bits_as<Vector<uint8_t, 2 * lanes>>((wide | wide << 4) & 0x0f0f);
}

// Reads `lanes` integers from a column on, which is even where a byte has two.
template <class Q, size_t lanes>
ONNX_SPARSE_INLINE Vector<float, lanes> load_integers(const uint8_t* row, size_t column) {
  using Lane = typename Q::Lane;
  constexpr bool is_signed = std::is_signed_v<Lane>;
  if constexpr (Q::kBits == 8) {
    Vector<Lane, lanes> bytes;
    std::memcpy(&bytes, row + column, sizeof bytes);
    if constexpr (lanes == 1) {
      return static_cast<float>(bytes);
    } else {
      return bytes_to_floats<Lane, lanes>(bytes);
    }
  } else if constexpr (lanes <= 2) {
    Vector<float, lanes> floats{};
    for (size_t i = 0; i < lanes; ++i) {
      const unsigned half = (row[(column + i) / 2] >> (column + i) % 2 * 4) & 15u;
      const int value = static_cast<int>(half) - (is_signed && half > 7 ? 16 : 0);
      if constexpr (lanes == 1) {
        floats = static_cast<float>(value);
      } else {
        floats[i] = static_cast<float>(value);
      }
    }
    return floats;
  } else {
    Vector<uint8_t, lanes / 2> bytes;
    std::memcpy(&bytes, row + column / 2, sizeof bytes);
    const auto halves = halves_of<lanes / 2>(bytes);
    if constexpr (is_signed) {
      // The highest bit counts -8: flipped, 8 too many.
      return bytes_to_floats<int8_t, lanes>(bits_as<Vector<int8_t, lanes>>(halves ^ 8) - 8);
    } else {
      return bytes_to_floats<uint8_t, lanes>(halves);
    }
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
