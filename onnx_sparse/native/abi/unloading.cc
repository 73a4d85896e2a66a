#include "abi/unloading.h"

#if defined(_WIN32)
#define NOMINMAX
#include <windows.h>
#elif !defined(__linux__)
#include <dlfcn.h>
#endif

namespace onnx_sparse {

void prevent_unloading() {
#if defined(_WIN32)
  HMODULE pinned = nullptr;
  GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
                     reinterpret_cast<LPCWSTR>(&prevent_unloading), &pinned);
#elif !defined(__linux__)
  Dl_info found;
  if (dladdr(reinterpret_cast<const void*>(&prevent_unloading), &found) != 0) {
    dlopen(found.dli_fname, RTLD_LAZY | RTLD_NODELETE);
  }
#endif
}

}  // namespace onnx_sparse
