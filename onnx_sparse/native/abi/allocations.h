// Watching what the library allocates: a build for tests (ONNX_SPARSE_WATCH_ALLOCATIONS), whose operator new counts,
// and ends the process in a task. Tasks run on threads of ONNX Runtime that no exception may leave, so they must not
// allocate, but where they catch it.

#pragma once

namespace onnx_sparse {

#if defined(ONNX_SPARSE_WATCH_ALLOCATIONS)
// While one lives, its thread must not allocate.
class NoAllocation {
 public:
  NoAllocation();
  ~NoAllocation();
  NoAllocation(const NoAllocation&) = delete;
};
// While one lives, a task may: what it throws is caught.
class CaughtAllocation {
 public:
  CaughtAllocation();
  ~CaughtAllocation();
  CaughtAllocation(const CaughtAllocation&) = delete;

 private:
  int tasks_;
};
#else
struct NoAllocation {};
struct CaughtAllocation {};
#endif

}  // namespace onnx_sparse
