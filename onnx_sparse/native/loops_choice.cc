// Chooses among the instruction sets that loops.cc was compiled for, by what this machine has.

#include <algorithm>
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

// The rows of a table of so many bytes stay in the last cache.
constexpr int64_t kLastCacheBytes = 32 << 20;

bool is_intel() {
#if defined(ONNX_SPARSE_X86)
  __builtin_cpu_init();
  return __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

int64_t choose_rows_ahead(int64_t row_bytes, int64_t rows) {
  // On AMD EPYC (Genoa), 48 to 64 rows take 0.8 of the time of 32 where they have 64 bytes and are in memory, but 1.2
  // to 1.6 where they are in the last cache. An Intel Xeon (Sapphire Rapids), with a table of rows of 256 bytes in
  // memory, takes 0.87 of the time at 64 rows. Wider rows are read in pieces of at most 512 bytes.
  static const bool ahead_in_cache = is_intel();
  if (!ahead_in_cache && rows <= kLastCacheBytes / std::max(row_bytes, int64_t{1})) return 36;
  return row_bytes <= 256 ? kMostPrefetched : kMostPrefetched / 2;
}

}  // namespace

int64_t rows_ahead(int64_t row_bytes, int64_t rows) {
  static const char* const wanted = std::getenv("ONNX_SPARSE_PREFETCH_ROWS");
  if (wanted == nullptr) return choose_rows_ahead(row_bytes, rows);
  static const int64_t chosen = std::clamp(int64_t{std::strtoll(wanted, nullptr, 10)}, int64_t{0}, kMostPrefetched);
  return chosen;
}

const Loops& loops() {
  static const Loops& chosen = choose();
  return chosen;
}

}  // namespace onnx_sparse
