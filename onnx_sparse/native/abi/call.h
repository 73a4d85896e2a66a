// A kernel's interface to ONNX Runtime: its inputs as views, its attributes, outputs to allocate, the thread pool.

#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "abi/allocations.h"
#include "abi/declaration.h"
#include "abi/tensor.h"
#include "abi/validation.h"

namespace onnx_sparse {

struct StatusReleaser {
  const OrtApi* api;
  void operator()(OrtStatus* status) const { api->ReleaseStatus(status); }
};
using Status = std::unique_ptr<OrtStatus, StatusReleaser>;

// A call of ONNX Runtime's API failed.
struct OrtFailure {
  explicit OrtFailure(Status failed) : status(std::move(failed)) {}

  Status status;
  std::string attempt;  // what was asked for, ending in ": "; empty where the status says it
};

// Throws an OrtFailure unless the call of ONNX Runtime's API succeeded.
inline void check_status(const OrtApi& api, OrtStatus* status) {
  if (status != nullptr) throw OrtFailure(Status(status, {&api}));
}

// A point at which one thread hands over to others. ONNX Runtime orders the memory accesses before, in and after tasks;
// ThreadSanitizer cannot see that, so it is told here.
struct Handover {
#if defined(__SANITIZE_THREAD__)
  void release() { count.fetch_add(1, std::memory_order_release); }
  void acquire() const { static_cast<void>(count.load(std::memory_order_acquire)); }
  std::atomic<size_t> count{0};
#else
  void release() {}
  void acquire() const {}
#endif
};
inline Handover begin_of_tasks;
inline Handover end_of_tasks;

// An ONNX Runtime that has loaded the library.
struct Runtime {
  const OrtApi& api;
  bool has_shape_references;  // whether it is of kShapeReferenceVersion or later
};

// The dimensions of an output. Few are held without an allocation.
class Shape {
 public:
  Shape(std::initializer_list<int64_t> dims) : Shape(dims.begin(), dims.size()) {}
  Shape(const std::vector<int64_t>& dims) : Shape(dims.data(), dims.size()) {}
  Shape(int64_t first, const int64_t* others, size_t count) : rank_(1 + count) {
    if (rank_ > few_.size()) many_.resize(rank_);
    int64_t* dims = many_.empty() ? few_.data() : many_.data();
    dims[0] = first;
    std::copy_n(others, count, dims + 1);
  }

  size_t rank() const { return rank_; }
  const int64_t* begin() const { return many_.empty() ? few_.data() : many_.data(); }
  const int64_t* end() const { return begin() + rank_; }

 private:
  Shape(const int64_t* dims, size_t rank) : rank_(rank) {
    if (rank > few_.size()) many_.resize(rank);
    std::copy_n(dims, rank, many_.empty() ? few_.data() : many_.data());
  }

  size_t rank_;
  std::array<int64_t, 8> few_;
  std::vector<int64_t> many_;
};

// A view of a value. Its dimensions are written to `dims` unless ONNX Runtime lends them.
Tensor tensor_of(const Runtime& runtime, const OrtValue* value, std::vector<int64_t>* dims);

// What asks for the size of an output. Its text is made only where an error needs it.
class Cause {
 public:
  Cause(std::string text) : text_(std::move(text)) {}
  // "num_segments = 7"; with a position, "segment_ids[3] = 7".
  Cause(std::string_view name, int64_t value, int64_t position = -1)
      : name_(name), value_(value), position_(position) {}
  // "offsets of shape [7]", of a tensor that is there as long as this.
  Cause(std::string_view name, const Tensor& tensor) : name_(name), tensor_(&tensor) {}

  std::string text() const;

 private:
  std::string text_;
  std::string_view name_;
  int64_t value_ = 0;
  int64_t position_ = -1;
  const Tensor* tensor_ = nullptr;
};

// Into how many tasks to divide work: each moves enough bytes to be worth another thread. The number depends on the
// work alone, never on the number of threads.
size_t task_count(int64_t bytes);

// The consecutive parts of `size` items that are tasks of their own; `bytes` is what the work on all of them moves.
class Parts {
 public:
  Parts(int64_t size, int64_t bytes, int64_t most = std::numeric_limits<int64_t>::max())
      : size_(size), count_(std::min({static_cast<int64_t>(task_count(bytes)), size, most})) {}

  size_t count() const { return static_cast<size_t>(count_); }
  // For the part behind the last, where that ends.
  int64_t begin_of(size_t part) const { return part == count() ? size_ : size_ / count_ * static_cast<int64_t>(part); }

 private:
  int64_t size_;
  int64_t count_;
};

// The index of the declared choice that each attribute of a node has.
using Choices = std::array<int, declarations::kMostAttributes>;

// One run of a kernel.
class Call {
 public:
  // Throws an InvalidArgument if the inputs break the declaration.
  Call(const Runtime& runtime, OrtKernelContext* context, const Declaration& op, const Choices& choices,
       const void* prepared);

  // An optional input that is omitted, or is its sentinel, is a null tensor.
  const Tensor& input(size_t index) const { return inputs_[index]; }

  // The index of the declared choice that an attribute has.
  int choice(size_t index) const { return choices_[index]; }

  // What was made of constants when the session started; null where nothing was.
  const void* prepared() const { return prepared_; }

  // Whether the node has an optional output.
  bool wants_output(size_t index) const { return index < output_count_; }

  // Allocate an output. The value is null where the node does not name the output; the memory is never null. `cause`
  // is what asks for its size. Throws an InvalidArgument where it cannot be allocated, an OrtFailure where ONNX Runtime
  // has another output in its place.
  OrtValue* allocate_value(size_t index, const Shape& shape, size_t element_size, const Cause& cause) const;
  void* allocate(size_t index, const Shape& shape, size_t element_size, const Cause& cause) const;

  // Allocates an output of so many rows, each of the type of a tensor and of its dimensions from an axis on.
  void* allocate_rows(size_t index, int64_t rows, const Tensor& like, size_t axis, const Cause& cause) const;

  // Ends a run that has succeeded.
  void finish() const;

  // Calls task(0) ... task(count - 1), on ONNX Runtime's threads where there is more than one. Tasks must not throw,
  // and so not allocate.
  template <class Task>
  void parallel_for(size_t count, const Task& task) const {
    if (count == 1) {
      [[maybe_unused]] const NoAllocation here{};
      task(size_t{0});
    } else if (count > 1) {
      begin_of_tasks.release();
      const auto call_task = [](void* data, size_t i) noexcept {
        begin_of_tasks.acquire();
        [[maybe_unused]] const NoAllocation here{};
        (*static_cast<const Task*>(data))(i);
        end_of_tasks.release();
      };
      void* data = const_cast<std::remove_const_t<Task>*>(&task);
      check(api_.KernelContext_ParallelFor(context_, call_task, count, 0, data));
      end_of_tasks.acquire();
    }
  }

  // Calls work(first, end) for consecutive parts of `size` items; `bytes` is what the work on all of them moves.
  template <class Work>
  void for_parts(int64_t size, int64_t bytes, const Work& work) const {
    const Parts parts(size, bytes);
    parallel_for(parts.count(), [&](size_t part) { work(parts.begin_of(part), parts.begin_of(part + 1)); });
  }

  void check(OrtStatus* status) const { check_status(api_, status); }

  const OrtApi& api() const { return api_; }

 private:
  // Memory in place of an output's that the node does not name, or that is not aligned.
  struct Substitute {
    std::unique_ptr<char[]> memory;
    size_t bytes;  // to copy to the output in the end
    void* data;
  };

  void read_input(const Runtime& runtime, size_t index, const Input& declared);

  const OrtApi& api_;
  OrtKernelContext* context_;
  const Choices& choices_;
  const void* prepared_;
  size_t output_count_ = 0;
  std::array<Tensor, declarations::kMostInputs> inputs_{};
  std::vector<std::vector<int64_t>> dims_;  // of inputs, unless ONNX Runtime lends them
  std::vector<std::unique_ptr<char[]>> aligned_inputs_;
  mutable std::vector<Substitute> substitutes_;
};

// The error about an output of such a shape; `cause` is what asks for it.
InvalidArgument cannot_be_allocated(const Shape& shape, const Cause& cause);

using Compute = void (*)(const Call& call);

// The size of an element in an output.
size_t size_of(OrtElementType type);

}  // namespace onnx_sparse
