// The first of several inputs that are refused.

#pragma once

#include <atomic>
#include <cstddef>
#include <limits>

namespace onnx_sparse {

// The first of the messages that are refused, found by several tasks.
class FirstRefused {
 public:
  void add(size_t message) {
    size_t known = first_.load();
    while (message < known && !first_.compare_exchange_weak(known, message)) {
    }
  }
  bool any() const { return message() != std::numeric_limits<size_t>::max(); }
  size_t message() const { return first_.load(); }  // the largest number where there is none

 private:
  std::atomic<size_t> first_{std::numeric_limits<size_t>::max()};
};

}  // namespace onnx_sparse
