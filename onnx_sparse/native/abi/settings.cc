// The library's version, and what it has chosen for this machine, for a report. All of that can be overridden by the
// environment.

#include <string>

#include "abi/exported.h"
#include "loops/huge_pages.h"
#include "loops/loops.h"

namespace onnx_sparse {
namespace {

std::string describe() {
  std::string ahead;
  for (const int64_t row_bytes : {32, 64, 256, 1024}) {
    ahead +=
        (ahead.empty() ? "\"" : ", \"") + std::to_string(row_bytes) + "\": " + std::to_string(rows_ahead(row_bytes));
  }
  return std::string("{\"instructions\": \"") + loops().name + "\", \"rows_prefetched_ahead\": {" + ahead +
         "}, \"huge_pages\": " + (are_huge_pages_wanted() ? "true" : "false") + "}";
}

}  // namespace
}  // namespace onnx_sparse

ONNX_SPARSE_EXPORT const char* onnx_sparse_version() noexcept { return ONNX_SPARSE_VERSION; }

ONNX_SPARSE_EXPORT const char* OnnxSparseSettings() noexcept {
  try {
    static const std::string settings = onnx_sparse::describe();
    return settings.c_str();
  } catch (...) {
    return nullptr;
  }
}
