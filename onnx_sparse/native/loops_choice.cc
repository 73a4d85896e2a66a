// Chooses among the instruction sets that loops.cc was compiled for, by what this machine has.

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

}  // namespace

const Loops& loops() {
  static const Loops& chosen = choose();
  return chosen;
}

}  // namespace onnx_sparse
