// Written after Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012). Arithmetic is on unsigned 64-bit
// integers, and words are little-endian on every machine.

#include "operators/siphash.h"

#include <cstddef>

#include "operators/little_endian.h"

namespace onnx_sparse {
namespace {

uint64_t rotate(uint64_t value, int left) { return value << left | value >> (64 - left); }

struct State {
  uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v2 += v3;
    v1 = rotate(v1, 13) ^ v0;
    v3 = rotate(v3, 16) ^ v2;
    v0 = rotate(v0, 32) + v3;
    v2 += v1;
    v1 = rotate(v1, 17) ^ v2;
    v3 = rotate(v3, 21) ^ v0;
    v2 = rotate(v2, 32);
  }

  void absorb(uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};

}  // namespace

uint64_t siphash(std::string_view text, uint64_t k0, uint64_t k1) {
  // "somepseudorandomlygeneratedbytes"
  State state{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573};
  const size_t whole = text.size() / 8 * 8;
  for (size_t at = 0; at < whole; at += 8) state.absorb(word64(text.data() + at));
  // The last word is what is left over, and the length in its last byte.
  uint64_t last = static_cast<uint64_t>(text.size()) << 56;
  for (size_t at = whole; at < text.size(); ++at) {
    last |= static_cast<uint64_t>(static_cast<unsigned char>(text[at])) << 8 * (at - whole);
  }
  state.absorb(last);
  state.v2 ^= 0xff;
  for (int k = 0; k < 4; ++k) state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace onnx_sparse
