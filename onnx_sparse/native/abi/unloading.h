// Sessions point into what the library makes when it is first registered, so that is never freed. If the library were
// unloaded with the last session and loaded again with the next, it would be made each time.

#pragma once

namespace onnx_sparse {

// Keeps the library in memory until the process ends. On Linux the linker has seen to that (-z nodelete).
void prevent_unloading();

}  // namespace onnx_sparse
