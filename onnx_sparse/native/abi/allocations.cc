// Only part of the build that watches allocations and work. What it exports is for tests, by ctypes.

#include "abi/allocations.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

#include "abi/exported.h"

namespace {

std::atomic<int64_t> total_bytes{0};
std::atomic<int64_t> blocks{0};  // that are not freed yet
std::atomic<int64_t> work{0};

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
std::atomic<int64_t> until_failure{kNever};  // how many allocations succeed before one fails
std::atomic<bool> lasting{false};            // whether all after that one fail, too
thread_local int tasks = 0;

void* allocate(size_t bytes) {
  if (tasks > 0) {
    std::fprintf(stderr, "onnx_sparse: a task allocates %zu bytes\n", bytes);
    std::abort();
  }
  const int64_t left = until_failure.fetch_sub(1);
  if (left == 0 || (left < 0 && lasting)) return nullptr;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory != nullptr) {
    total_bytes += static_cast<int64_t>(bytes);
    ++blocks;
  }
  return memory;
}

void* allocate_or_throw(size_t bytes) {
  void* memory = allocate(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void release(void* memory) {
  if (memory != nullptr) --blocks;
  std::free(memory);
}

}  // namespace

namespace onnx_sparse {

NoAllocation::NoAllocation() { ++tasks; }
NoAllocation::~NoAllocation() { --tasks; }

CaughtAllocation::CaughtAllocation() : tasks_(std::exchange(tasks, 0)) {}
CaughtAllocation::~CaughtAllocation() { tasks = tasks_; }

}  // namespace onnx_sparse

void* operator new(size_t bytes) { return allocate_or_throw(bytes); }
void* operator new[](size_t bytes) { return allocate_or_throw(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, size_t) noexcept { release(memory); }
void operator delete[](void* memory, size_t) noexcept { release(memory); }

// How many bytes have been allocated since the process began, freed or not.
ONNX_SPARSE_EXPORT int64_t onnx_sparse_allocations_total() { return total_bytes; }

// How many blocks are allocated now.
ONNX_SPARSE_EXPORT int64_t onnx_sparse_allocations_blocks() { return blocks; }

// Lets `count` more allocations succeed and the next one fail, and all after it where `for_good` is not 0; a negative
// count lets all succeed. Returns whether an allocation has failed since the last call.
ONNX_SPARSE_EXPORT int onnx_sparse_allocations_fail_after(int64_t count, int for_good) {
  lasting = for_good != 0;
  return until_failure.exchange(count < 0 ? kNever : count) < 0 ? 1 : 0;
}

// How many steps the library has made since the process began, but for the last thousand of each thread.
ONNX_SPARSE_EXPORT int64_t onnx_sparse_work() { return work; }

// The compiler puts a call before each basic block.
extern "C" void __sanitizer_cov_trace_pc() {
  constexpr int64_t kCountedAtOnce = 1024;
  thread_local int64_t steps = 0;
  if (++steps % kCountedAtOnce == 0) work.fetch_add(kCountedAtOnce, std::memory_order_relaxed);
}
