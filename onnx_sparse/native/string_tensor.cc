#include "string_tensor.h"

#include <cstring>

namespace onnx_sparse {

Strings::Strings(const Call& call, const Tensor& tensor) : offsets_(static_cast<size_t>(tensor.size())) {
  if (offsets_.empty()) return;
  size_t length = 0;
  call.check(call.api().GetStringTensorDataLength(tensor.value, &length));
  characters_.resize(length);
  char nothing = 0;  // the function wants an address even where there are no characters
  call.check(call.api().GetStringTensorContent(tensor.value, length ? characters_.data() : &nothing, length,
                                               offsets_.data(), offsets_.size()));
}

void put_string(const Call& call, OrtValue* output, size_t position, std::string_view text) {
  char* buffer = nullptr;
  call.check(call.api().GetResizedStringTensorElementBuffer(output, position, text.size(), &buffer));
  if (!text.empty()) std::memcpy(buffer, text.data(), text.size());
}

}  // namespace onnx_sparse
