// The part of the law that a declaration states by itself: attributes, element types, ranks, dimensions and sizes.
// It gives the messages of schemas/law.py.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "declaration.h"
#include "tensor.h"

namespace onnx_sparse {

// An input breaks an operator's law. The message lacks the operator's name, which the guard at the ABI puts in front.
struct LawError {
  std::string message;
};

// "[2, 3]"
std::string text_of(const int64_t* values, size_t count);

// "float16", "int64"
std::string_view name_of(OrtElementType type);

// The choice that an attribute's value is; null stands for an attribute that is not there.
int check_attribute(const Attribute& declared, const std::string* value);

// Throws a LawError where the inputs' types, shapes or sizes are not the declared ones. One that is left off is null.
void check_inputs(const Declaration& op, const Tensor* inputs);

// Whether an input that is there says that it is not.
bool is_sentinel(const Input& declared, const Tensor& input);

}  // namespace onnx_sparse
