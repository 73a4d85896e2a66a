// Chooses among the instruction sets that loops.cc was compiled for, by what this machine has.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "loops/loops.h"

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

bool is_intel() {
#if defined(ONNX_SPARSE_X86)
  __builtin_cpu_init();
  return __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

int64_t choose_rows_ahead(int64_t row_bytes) {
  // Rows of a cache line and more, on AMD EPYC (Genoa): from 48 rows on, it takes 1.1 to 1.4 times as long as at 32 to
  // 40. An Intel Xeon (Sapphire Rapids), with rows of 256 bytes in memory, takes 0.87 of the time at 64 rows. Wider
  // rows are read in pieces of at most 512 bytes.
  static const bool takes_more = is_intel();
  return row_bytes < 64 || (takes_more && row_bytes <= 256) ? kMostPrefetched : 36;
}

}  // namespace

int64_t rows_ahead(int64_t row_bytes) {
  static const char* const wanted = std::getenv("ONNX_SPARSE_PREFETCH_ROWS");
  if (wanted == nullptr) return choose_rows_ahead(row_bytes);
  static const int64_t chosen = std::clamp(int64_t{std::strtoll(wanted, nullptr, 10)}, int64_t{0}, kMostPrefetched);
  return chosen;
}

const Loops& loops() {
  static const Loops& chosen = choose();
  return chosen;
}

}  // namespace onnx_sparse
