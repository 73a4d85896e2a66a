#include "kernel.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace onnx_sparse {
namespace {

// Work below this is done before another thread has woken up.
constexpr int64_t kSequentialBytes = 256 << 10;
constexpr int64_t kTaskBytes = 128 << 10;
constexpr int64_t kMostTasks = 256;

// Outputs larger than this are requested from the system first, then from ONNX Runtime.
constexpr int64_t kLargeBytes = 256 << 20;

// Whether the system can allocate this much memory. ONNX Runtime's arena remembers the size of a request that failed,
// and then fails requests of any size: one hostile input would make a session unusable.
bool can_be_allocated(int64_t bytes) {
  void* volatile memory = std::malloc(static_cast<size_t>(bytes));  // volatile, or the compiler removes the call
  std::free(memory);
  return memory != nullptr;
}

}  // namespace

Call::Call(const OrtApi& api, OrtKernelContext* context, const Declaration& op, const Choices& choices)
    : api_(api), context_(context), choices_(choices) {
  check(api_.KernelContext_GetOutputCount(context_, &output_count_));
  size_t given_count = 0;
  check(api_.KernelContext_GetInputCount(context_, &given_count));
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (i < given_count) read_input(i);
    if (!inputs_[i] && !op.inputs[i].optional()) {
      throw InvalidArgument{"input " + std::string(op.inputs[i].name) + " is required"};
    }
  }
  check_inputs(op, inputs_.data());
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (inputs_[i] && is_sentinel(op.inputs[i], inputs_[i])) inputs_[i] = Tensor();
  }
}

void Call::read_input(size_t index) {
  const OrtValue* value = nullptr;
  check(api_.KernelContext_GetInput(context_, index, &value));
  if (value == nullptr) return;
  Tensor& tensor = inputs_[index];
  tensor.value = value;
  OrtTensorTypeAndShapeInfo* info = nullptr;
  check(api_.GetTensorTypeAndShape(value, &info));
  OrtStatus* failed = api_.GetTensorElementType(info, &tensor.type);
  if (failed == nullptr) failed = api_.GetDimensionsCount(info, &tensor.rank);
  if (failed == nullptr) {
    dims_[index].resize(tensor.rank);
    failed = api_.GetDimensions(info, dims_[index].data(), tensor.rank);
  }
  api_.ReleaseTensorTypeAndShapeInfo(info);
  check(failed);
  tensor.dims = dims_[index].data();
  if (tensor.type != ORT_STRING) {
    void* data = nullptr;
    check(api_.GetTensorMutableData(const_cast<OrtValue*>(value), &data));  // it is only read
    tensor.data = data;
  }
}

OrtValue* Call::allocate_value(size_t index, const std::vector<int64_t>& dims, size_t element_size,
                               const std::string& cause) const {
  auto room = std::numeric_limits<int64_t>::max() / static_cast<int64_t>(element_size);
  auto bytes = static_cast<int64_t>(element_size);
  for (const int64_t dim : dims) {
    room /= std::max(dim, int64_t{1});
    if (room > 0) bytes *= dim;
  }
  OrtValue* value = nullptr;
  if (room > 0 && (bytes <= kLargeBytes || can_be_allocated(bytes))) {
    OrtStatus* failed = api_.KernelContext_GetOutput(context_, index, dims.data(), dims.size(), &value);
    if (failed == nullptr) return value;
    api_.ReleaseStatus(failed);
  }
  throw InvalidArgument{cause + ": an output of shape " + text_of(dims.data(), dims.size()) + " cannot be allocated"};
}

void* Call::allocate(size_t index, const std::vector<int64_t>& dims, size_t element_size,
                     const std::string& cause) const {
  OrtValue* value = allocate_value(index, dims, element_size, cause);
  if (value == nullptr) {
    size_t bytes = element_size;
    for (const int64_t dim : dims) bytes *= static_cast<size_t>(dim);
    unwanted_.emplace_back(new char[bytes]);
    return unwanted_.back().get();
  }
  void* data = nullptr;
  check(api_.GetTensorMutableData(value, &data));
  return data;
}

size_t size_of(OrtElementType type) {
  switch (type) {
    case ORT_UINT8:
    case ORT_INT8:
    case ORT_BOOL:
      return 1;
    case ORT_FLOAT16:
    case ORT_BFLOAT16:
    case ORT_INT16:
    case ORT_UINT16:
      return 2;
    case ORT_FLOAT:
    case ORT_INT32:
    case ORT_UINT32:
      return 4;
    case ORT_STRING:
      return 32;  // ONNX Runtime keeps std::string
    default:
      return 8;
  }
}

size_t task_count(int64_t bytes) {
  if (bytes <= kSequentialBytes) return 1;
  return static_cast<size_t>(std::min(bytes / kTaskBytes, kMostTasks));
}

}  // namespace onnx_sparse
