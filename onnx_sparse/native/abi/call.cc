#include "abi/call.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "loops/huge_pages.h"

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

// Whether memory is where the compiler expects elements of this size to be.
bool is_aligned(const void* data, size_t element_size) { return reinterpret_cast<uintptr_t>(data) % element_size == 0; }

}  // namespace

Call::Call(const Runtime& runtime, OrtKernelContext* context, const Declaration& op, const Choices& choices,
           const void* prepared)
    : api_(runtime.api), context_(context), choices_(choices), prepared_(prepared) {
  check(api_.KernelContext_GetOutputCount(context_, &output_count_));
  size_t given_count = 0;
  check(api_.KernelContext_GetInputCount(context_, &given_count));
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (i < given_count) read_input(runtime, i, op.inputs[i]);
    if (!inputs_[i] && !op.inputs[i].optional()) {
      throw InvalidArgument{"input " + std::string(op.inputs[i].name) + " is required"};
    }
  }
  check_inputs(op, inputs_.data());
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (inputs_[i] && is_sentinel(op.inputs[i], inputs_[i])) inputs_[i] = Tensor();
  }
}

void Call::finish() const {
  for (const Substitute& output : substitutes_) {
    if (output.bytes > 0) std::memcpy(output.data, output.memory.get(), output.bytes);
  }
}

void Call::read_input(const Runtime& runtime, size_t index, const Input& declared) {
  const OrtValue* value = nullptr;
  check(api_.KernelContext_GetInput(context_, index, &value));
  if (value == nullptr) return;
  Tensor& tensor = inputs_[index];
  std::vector<int64_t> dims;
  try {
    tensor = tensor_of(runtime, value, &dims);
  } catch (const OrtFailure&) {  // a caller may feed a value without a tensor, as Python's None
    throw InvalidArgument{"input " + std::string(declared.name) + " has no value"};
  }
  if (!dims.empty()) dims_.push_back(std::move(dims));  // which are where they were
  // Kernels index integers as an array. What may have gigabytes, values and tables, is read wherever it is.
  const bool is_integer = tensor.type == ORT_INT32 || tensor.type == ORT_INT64;
  const bool is_array = is_integer && declared.type != "T" && !declared.sparsely_read;
  if (is_array && !is_aligned(tensor.data, size_of(tensor.type))) {
    const size_t bytes = static_cast<size_t>(tensor.size()) * size_of(tensor.type);
    aligned_inputs_.emplace_back(new char[bytes]);
    std::memcpy(aligned_inputs_.back().get(), tensor.data, bytes);
    tensor.data = aligned_inputs_.back().get();
  }
}

Tensor tensor_of(const Runtime& runtime, const OrtValue* value, std::vector<int64_t>* dims) {
  const OrtApi& api = runtime.api;
  Tensor tensor;
  tensor.value = value;
  if (runtime.has_shape_references) {
    check_status(api, api.GetTensorElementTypeAndShapeDataReference(value, &tensor.type, &tensor.dims, &tensor.rank));
  } else {
    OrtTensorTypeAndShapeInfo* info = nullptr;
    check_status(api, api.GetTensorTypeAndShape(value, &info));
    const std::unique_ptr<OrtTensorTypeAndShapeInfo, void(ORT_CALL*)(OrtTensorTypeAndShapeInfo*)> released(
        info, api.ReleaseTensorTypeAndShapeInfo);
    check_status(api, api.GetTensorElementType(info, &tensor.type));
    check_status(api, api.GetDimensionsCount(info, &tensor.rank));
    dims->resize(tensor.rank);
    check_status(api, api.GetDimensions(info, dims->data(), tensor.rank));
    tensor.dims = dims->data();
  }
  if (tensor.type != ORT_STRING) {
    void* data = nullptr;
    check_status(api, api.GetTensorMutableData(const_cast<OrtValue*>(value), &data));  // it is only read
    tensor.data = data;
  }
  return tensor;
}

std::string Cause::text() const {
  if (name_.empty()) return text_;
  const std::string name(name_);
  if (tensor_ != nullptr) return name + " of shape " + text_of(tensor_->dims, tensor_->rank);
  return name + (position_ < 0 ? "" : "[" + std::to_string(position_) + "]") + " = " + std::to_string(value_);
}

InvalidArgument cannot_be_allocated(const Shape& shape, const Cause& cause) {
  return {cause.text() + ": an output of shape " + text_of(shape.begin(), shape.rank()) + " cannot be allocated"};
}

OrtValue* Call::allocate_value(size_t index, const Shape& shape, size_t element_size, const Cause& cause) const {
  // As ONNX Runtime counts: after a dimension of 0 nothing can overflow, before it everything can.
  auto bytes = static_cast<int64_t>(element_size);
  const bool representable =
      std::all_of(shape.begin(), shape.end(), [&](int64_t dim) { return !__builtin_mul_overflow(bytes, dim, &bytes); });
  if (!representable || (bytes > kLargeBytes && !can_be_allocated(bytes))) throw cannot_be_allocated(shape, cause);
  OrtValue* value = nullptr;
  Status status(api_.KernelContext_GetOutput(context_, index, shape.begin(), shape.rank(), &value), {&api_});
  if (status == nullptr) return value;
  OrtFailure failure(std::move(status));
  failure.attempt = cause.text() + ": an output of shape " + text_of(shape.begin(), shape.rank()) + ": ";
  throw failure;
}

void* Call::allocate(size_t index, const Shape& shape, size_t element_size, const Cause& cause) const {
  OrtValue* value = allocate_value(index, shape, element_size, cause);
  void* data = nullptr;
  if (value != nullptr) check(api_.GetTensorMutableData(value, &data));
  size_t bytes = element_size;
  for (const int64_t dim : shape) bytes *= static_cast<size_t>(dim);
  if (value != nullptr && is_aligned(data, element_size)) {
    expect_writes(data, bytes);
    return data;
  }
  substitutes_.push_back({std::unique_ptr<char[]>(new char[bytes]), value == nullptr ? 0 : bytes, data});
  return substitutes_.back().memory.get();
}

void* Call::allocate_rows(size_t index, int64_t rows, const Tensor& like, size_t axis, const Cause& cause) const {
  return allocate(index, {rows, like.dims + axis, like.rank - axis}, size_of(like.type), cause);
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
