// Only part of the build that watches allocations. What it exports is for tests, by ctypes.

#include "allocations.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

std::atomic<int64_t> total_bytes{0};
std::atomic<int64_t> blocks{0};          // that are not freed yet
std::atomic<int64_t> until_failure{-1};  // how many allocations succeed before one fails; -1: all do
thread_local int tasks = 0;

void* allocate(size_t bytes) {
  if (tasks > 0) {
    std::fprintf(stderr, "onnx_sparse: a task allocates %zu bytes\n", bytes);
    std::abort();
  }
  if (until_failure >= 0 && until_failure.fetch_sub(1) == 0) return nullptr;
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
EXPORT int64_t onnx_sparse_allocations_total() { return total_bytes; }

// How many blocks are allocated now.
EXPORT int64_t onnx_sparse_allocations_blocks() { return blocks; }

// Lets `count` more allocations succeed and the next one fail; -1 lets all succeed. Returns what was left of the last
// count: -1 or less where an allocation has failed.
EXPORT int64_t onnx_sparse_allocations_fail_after(int64_t count) { return until_failure.exchange(count); }
