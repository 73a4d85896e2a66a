// What the semantics require of values; each error names the input, the position and the illegal value.

#pragma once

#include <string>
#include <string_view>

#include "abi/call.h"

namespace onnx_sparse {

// Which entries are left out: none, or those whose index is negative.
struct LeftOutWhereNegative {
  const Tensor* indices = nullptr;

  bool operator()(int64_t k) const { return indices != nullptr && indices->integer(static_cast<size_t>(k)) < 0; }
};

// Whether ids or offsets are sorted and not negative.
bool are_sorted(const Call& call, const Tensor& ids);

// Whether values are in [0, high).
bool are_in_range(const Call& call, const Tensor& values, int64_t high);

// Throws an InvalidArgument unless ids or offsets are sorted and not negative, those that are left out aside.
void require_sorted(const Call& call, std::string_view name, const Tensor& ids);
void require_sorted(std::string_view name, const Tensor& ids, const LeftOutWhereNegative& left_out);

// Throws an InvalidArgument unless offsets into `count` entries begin with 0, do not decrease and are at most `count`.
void require_offsets(const Call& call, std::string_view name, const Tensor& offsets, int64_t count);

// Throws an InvalidArgument unless the first `count` values, those that are left out aside, are in [0, high).
void require_in_range(std::string_view name, const Tensor& values, int64_t count, int64_t high,
                      const LeftOutWhereNegative& left_out = {});

// Throws an InvalidArgument unless row splits begin with 0, do not decrease and end with `size`.
void require_row_splits(std::string_view name, const Tensor& splits, int64_t size);

// "name[2,0]" for an element of a tensor.
std::string element_name(std::string_view name, const Tensor& tensor, int64_t position);

// "name[2,0] = 7 is out of range [0, 5)" for an element of a tensor.
InvalidArgument out_of_range(std::string_view name, const Tensor& tensor, int64_t position, int64_t value,
                             const std::string& low, int64_t high);

}  // namespace onnx_sparse
