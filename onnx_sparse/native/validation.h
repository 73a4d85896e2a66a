// What a declaration states by itself is checked here: attributes, element types, ranks, dimensions and sizes.
// The messages are those of schemas/validation.py.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "declaration.h"
#include "tensor.h"

namespace onnx_sparse {

// An illegal input. The message lacks the operator's name, which the guard at the ABI puts in front.
struct InvalidArgument {
  std::string message;
};

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
