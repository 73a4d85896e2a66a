// What a declaration states by itself is checked here: attributes, element types, ranks, dimensions and sizes.
// The messages are those of schemas/validation.py.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "abi/declaration.h"
#include "abi/tensor.h"

namespace onnx_sparse {

// An illegal input. The message lacks the operator's name, which the guard at the ABI puts in front.
struct InvalidArgument {
  std::string message;
};

// The product of dimensions, or of those that are not 0 where a zero counts as one. Null where it exceeds int64.
std::optional<int64_t> product_of(const int64_t* dims, size_t count, bool zero_counts_as_one = false);

// "[2, 3]"
std::string text_of(const int64_t* values, size_t count);

// "float16", "int64"
std::string_view name_of(OrtElementType type);

// The index of the choice that an attribute has; a null value means that the attribute is not given.
int check_attribute(const Attribute& declared, const std::string* value);

// Throws an InvalidArgument if the inputs' types, shapes or sizes break the declaration. An omitted input is null.
void check_inputs(const Declaration& op, const Tensor* inputs);

// Whether an input that is given means "not given".
bool is_sentinel(const Input& declared, const Tensor& input);

}  // namespace onnx_sparse
