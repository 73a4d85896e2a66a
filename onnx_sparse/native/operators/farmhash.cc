// Written after the definition of farmhashna::Hash64, which Fingerprint64 is, in Google's FarmHash (MIT license,
// https://github.com/google/farmhash). The length of a string alone decides which of four mixtures it takes. Arithmetic
// is on unsigned 64-bit integers, and words are little-endian on every machine.

#include "operators/farmhash.h"

#include <cstddef>
#include <utility>

#include "operators/little_endian.h"

namespace onnx_sparse {
namespace {

constexpr uint64_t k0 = 0xc3a5c85c97cb3127;
constexpr uint64_t k1 = 0xb492b66fbe98f273;
constexpr uint64_t k2 = 0x9ae16a3b2f90404f;

uint64_t byte(const char* at) { return static_cast<unsigned char>(*at); }

uint64_t rotate(uint64_t value, int right) { return value >> right | value << (64 - right); }

uint64_t shift_mix(uint64_t value) { return value ^ value >> 47; }

uint64_t hash_pair(uint64_t u, uint64_t v, uint64_t multiplier) {
  const uint64_t a = shift_mix((u ^ v) * multiplier);
  return shift_mix((v ^ a) * multiplier) * multiplier;
}

uint64_t hash_0_to_16(const char* s, size_t length) {
  const uint64_t multiplier = k2 + length * 2;
  if (length >= 8) {
    const uint64_t a = word64(s) + k2;
    const uint64_t b = word64(s + length - 8);
    return hash_pair(rotate(b, 37) * multiplier + a, (rotate(a, 25) + b) * multiplier, multiplier);
  }
  if (length >= 4) return hash_pair(length + (word32(s) << 3), word32(s + length - 4), multiplier);
  if (length == 0) return k2;
  const uint64_t y = byte(s) + (byte(s + (length >> 1)) << 8);
  const uint64_t z = length + (byte(s + length - 1) << 2);
  return shift_mix(y * k2 ^ z * k0) * k2;
}

// The common part of the two mixtures for middle lengths: `a`, and the two words that are mixed into one.
struct Ends {
  uint64_t a;
  uint64_t u;
  uint64_t v;
};

Ends mix_ends(const char* s, size_t length, uint64_t first_multiplier, uint64_t multiplier) {
  const uint64_t a = word64(s) * first_multiplier;
  const uint64_t b = word64(s + 8);
  const uint64_t c = word64(s + length - 8) * multiplier;
  const uint64_t d = word64(s + length - 16) * k2;
  return {a, rotate(a + b, 43) + rotate(c, 30) + d, a + rotate(b + k2, 18) + c};
}

uint64_t hash_17_to_32(const char* s, size_t length) {
  const uint64_t multiplier = k2 + length * 2;
  const Ends ends = mix_ends(s, length, k1, multiplier);
  return hash_pair(ends.u, ends.v, multiplier);
}

uint64_t hash_33_to_64(const char* s, size_t length) {
  const uint64_t multiplier = k2 + length * 2;
  const Ends ends = mix_ends(s, length, k2, multiplier);
  const uint64_t z = hash_pair(ends.u, ends.v, multiplier);
  const uint64_t e = word64(s + 16) * multiplier;
  const uint64_t f = word64(s + 24);
  const uint64_t g = (ends.u + word64(s + length - 32)) * multiplier;
  const uint64_t h = (z + word64(s + length - 24)) * multiplier;
  return hash_pair(rotate(e + f, 43) + rotate(g, 30) + h, e + rotate(f + ends.a, 18) + g, multiplier);
}

// The state of a long string: seven words, into which blocks of 64 bytes are mixed.
class State {
 public:
  explicit State(const char* s) : x_(81 * k2 + word64(s)) {}

  void mix(const char* s, uint64_t multiplier, uint64_t weight) {
    x_ = rotate(x_ + y_ + v_.first + word64(s + 8), 37) * multiplier ^ w_.second * weight;
    y_ = rotate(y_ + v_.second + word64(s + 48), 42) * multiplier + v_.first * weight + word64(s + 40);
    z_ = rotate(z_ + w_.first, 33) * multiplier;
    v_ = weak_pair(s, v_.second * multiplier, x_ + w_.first);
    w_ = weak_pair(s + 32, z_ + w_.second, y_ + word64(s + 16));
    std::swap(x_, z_);
  }

  uint64_t finalize(const char* last64, size_t length) {
    const uint64_t multiplier = k1 + ((z_ & 0xff) << 1);
    w_.first += (length - 1) & 63;
    v_.first += w_.first;
    w_.first += v_.first;
    mix(last64, multiplier, 9);
    return hash_pair(hash_pair(v_.first, w_.first, multiplier) + shift_mix(y_) * k0 + z_,
                     hash_pair(v_.second, w_.second, multiplier) + x_, multiplier);
  }

 private:
  using Pair = std::pair<uint64_t, uint64_t>;

  static Pair weak_pair(const char* s, uint64_t a, uint64_t b) {
    a += word64(s);
    const uint64_t sum = a + word64(s + 8) + word64(s + 16);
    return {sum + word64(s + 24), rotate(b + a + word64(s + 24), 21) + rotate(sum, 44) + a};
  }

  uint64_t x_;
  uint64_t y_ = 81 * k1 + 113;
  uint64_t z_ = shift_mix((81 * k1 + 113) * k2 + 113) * k2;
  Pair v_{0, 0};
  Pair w_{0, 0};
};

uint64_t hash_long(const char* s, size_t length) {
  State state(s);
  // Whole blocks first, without the last 1 to 64 bytes; the last 64 bytes are then mixed, overlapping these blocks.
  for (size_t at = 0; at < (length - 1) / 64 * 64; at += 64) state.mix(s + at, k1, 1);
  return state.finalize(s + length - 64, length);
}

}  // namespace

uint64_t fingerprint64(std::string_view text) {
  const char* s = text.data();
  const size_t length = text.size();
  if (length <= 16) return hash_0_to_16(s, length);
  if (length <= 32) return hash_17_to_32(s, length);
  if (length <= 64) return hash_33_to_64(s, length);
  return hash_long(s, length);
}

}  // namespace onnx_sparse
