// What the laws require of values; each error names the input, the position and the illegal value.

#pragma once

#include <string>
#include <string_view>

#include "kernel.h"

namespace onnx_sparse {

// Throws a LawError unless ids are sorted and not negative.
void require_sorted(const Call& call, std::string_view name, const Tensor& ids);

// Throws a LawError unless the first `count` values are in [0, high).
void require_in_range(std::string_view name, const Tensor& values, int64_t count, int64_t high);

// "name[2,0] = 7 is out of range [0, 5)" for an element of a tensor.
LawError out_of_range(std::string_view name, const Tensor& tensor, int64_t position, int64_t value,
                      const std::string& low, int64_t high);

// "num_segments = 7"
std::string equation(std::string_view name, int64_t value);

}  // namespace onnx_sparse
