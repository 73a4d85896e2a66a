// Fill and MaskedFill.

#include <algorithm>

#include "abi/call.h"
#include "abi/string_tensor.h"
#include "loops/loops.h"
#include "operators/requirements.h"

namespace onnx_sparse {
namespace {

size_t log2_of(size_t element_size) {
  return element_size == 1 ? 0 : element_size == 2 ? 1 : element_size == 4 ? 2 : 3;
}

// One dimension of x, and the distance in the mask between neighbors along it: 0 where the mask is broadcast.
struct Dimension {
  int64_t size;
  int64_t mask_stride;
};

// The dimensions of x, with neighboring dimensions merged wherever the mask allows it.
std::vector<Dimension> merged_dimensions(const Tensor& x, const Tensor& mask) {
  std::vector<Dimension> merged;
  int64_t stride = 1;
  for (size_t back = 1; back <= x.rank; ++back) {
    const int64_t size = x.dims[x.rank - back];
    const int64_t mask_size = back <= mask.rank ? mask.dims[mask.rank - back] : 1;
    const Dimension dimension{size, mask_size == 1 ? 0 : stride};
    stride *= mask_size;
    if (size == 1) continue;
    if (merged.empty()) {
      merged.push_back(dimension);
      continue;
    }
    Dimension& inner = merged.back();
    if (dimension.mask_stride == inner.mask_stride * inner.size) {
      inner.size *= size;
    } else {
      merged.push_back(dimension);
    }
  }
  std::reverse(merged.begin(), merged.end());
  return merged;
}

// Fills one part of the output: a walk over the runs of the innermost dimension.
class MaskedRuns {
 public:
  MaskedRuns(const Tensor& x, const Tensor& mask, const Tensor& value, void* output)
      : x_(x.as<char>()),
        mask_(mask.as<uint8_t>()),
        value_(value.data),
        output_(static_cast<char*>(output)),
        size_(size_of(x.type)),
        fill_(loops().fill[log2_of(size_)]),
        select_(loops().select[log2_of(size_)]),
        dimensions_(merged_dimensions(x, mask)) {
    if (dimensions_.empty()) dimensions_.push_back({1, 0});
  }

  void run(int64_t first, int64_t end) const {
    const Dimension& inner = dimensions_.back();
    while (first < end) {
      // The position in the mask of element `first`.
      int64_t rest = first / inner.size;
      const int64_t column = first % inner.size;
      int64_t at = column * inner.mask_stride;
      for (size_t axis = dimensions_.size() - 1; axis > 0; --axis) {
        at += rest % dimensions_[axis - 1].size * dimensions_[axis - 1].mask_stride;
        rest /= dimensions_[axis - 1].size;
      }
      const auto count = static_cast<size_t>(std::min(inner.size - column, end - first));
      const size_t offset = static_cast<size_t>(first) * size_;
      if (inner.mask_stride != 0) {
        select_(x_ + offset, mask_ + at, value_, count, output_ + offset);
      } else if (mask_[at]) {
        fill_(value_, count, output_ + offset);
      } else {
        std::copy_n(x_ + offset, count * size_, output_ + offset);
      }
      first += static_cast<int64_t>(count);
    }
  }

 private:
  const char* x_;
  const uint8_t* mask_;
  const void* value_;
  char* output_;
  size_t size_;
  void (*fill_)(const void*, size_t, void*);
  void (*select_)(const void*, const uint8_t*, const void*, size_t, void*);
  std::vector<Dimension> dimensions_;
};

}  // namespace

void fill(const Call& call) {
  const Tensor& dims = call.input(0);
  const Tensor& value = call.input(1);
  const size_t element_size = size_of(value.type);
  std::vector<int64_t> shape;
  for (int64_t i = 0; i < dims.size(); ++i) shape.push_back(dims.integer(static_cast<size_t>(i)));
  const Cause cause = "dims = " + text_of(shape.data(), shape.size());
  std::vector<int64_t> sizes = shape;
  sizes.push_back(static_cast<int64_t>(element_size));
  // numpy has no such array even where a dimension is 0.
  if (!product_of(sizes.data(), sizes.size(), true)) throw cannot_be_allocated(shape, cause);
  const int64_t size = *product_of(shape.data(), shape.size());
  if (value.type == ORT_STRING) {
    OrtValue* output = call.allocate_value(0, shape, element_size, cause);
    const Strings texts(call, value);
    for (int64_t i = 0; i < size; ++i) put_string(call, output, static_cast<size_t>(i), texts[0]);
    return;
  }
  void* data = call.allocate(0, shape, element_size, cause);
  call.for_parts(size, size * static_cast<int64_t>(element_size), [&](int64_t first, int64_t end) {
    loops().fill[log2_of(element_size)](value.data, static_cast<size_t>(end - first),
                                        static_cast<char*>(data) + static_cast<size_t>(first) * element_size);
  });
}

void masked_fill(const Call& call) {
  const Tensor& x = call.input(0);
  const Tensor& mask = call.input(1);
  const Tensor& value = call.input(2);
  const int64_t mask_size = mask.size();
  if (mask.type == ORT_INT8 && !loops().all_flags(mask.as<uint8_t>(), static_cast<size_t>(mask_size))) {
    const int8_t* flags = mask.as<int8_t>();
    const int8_t* wrong = std::find_if(flags, flags + mask_size, [](int8_t flag) { return flag < 0 || flag > 1; });
    throw out_of_range("mask", mask, wrong - flags, *wrong, "0", 2);
  }
  const size_t element_size = size_of(x.type);
  const std::vector<int64_t> shape(x.dims, x.dims + x.rank);
  void* output = call.allocate(0, shape, element_size, {"x", x});
  const int64_t size = x.size();
  if (size == 0) return;
  const MaskedRuns runs(x, mask, value, output);
  call.for_parts(size, 2 * size * static_cast<int64_t>(element_size),
                 [&](int64_t first, int64_t end) { runs.run(first, end); });
}

}  // namespace onnx_sparse
