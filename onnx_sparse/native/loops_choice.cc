// Chooses among the instruction sets that loops.cc was compiled for, by what this machine has.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "loops.h"

namespace onnx_sparse {

namespace baseline {
extern const Loops table;
}
#if defined(ONNX_SPARSE_X86)
namespace avx2 {
extern const Loops table;
}
namespace avx512 {
extern const Loops table;
}
#endif

namespace {

const Loops& choose() {
  // For tests: all instruction sets must compute the same.
  const char* wanted = std::getenv("ONNX_SPARSE_INSTRUCTIONS");
  const auto allowed = [&](std::string_view name) { return wanted == nullptr || name == wanted; };
#if defined(ONNX_SPARSE_X86)
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2");  // implies F16C, which Clang cannot ask for
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (has_avx512 && allowed(avx512::table.name)) return avx512::table;
  if (has_avx2 && allowed(avx2::table.name)) return avx2::table;
#endif
  static_cast<void>(allowed);
  return baseline::table;
}

// In EmbeddingSegmentsSum of rows of 256 bytes, an Intel Xeon (Sapphire Rapids) takes 1.22 of torch's time at 8 KB and
// 1.06 at 16 KB; on AMD EPYC more than 8 KB gain nothing.
int64_t choose_prefetch_bytes() {
  if (const char* wanted = std::getenv("ONNX_SPARSE_PREFETCH_BYTES")) return std::strtoll(wanted, nullptr, 10);
#if defined(ONNX_SPARSE_X86)
  __builtin_cpu_init();
  if (__builtin_cpu_is("intel")) return 16384;
#endif
  return 8192;
}

}  // namespace

int64_t prefetch_bytes() {
  static const int64_t chosen = choose_prefetch_bytes();
  return chosen;
}

const Loops& loops() {
  static const Loops& chosen = choose();
  return chosen;
}

}  // namespace onnx_sparse
