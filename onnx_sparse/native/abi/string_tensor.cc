#include "abi/string_tensor.h"

#include <algorithm>
#include <cstring>

#include "loops/elements.h"

namespace onnx_sparse {

Strings::Strings(const Call& call, const Tensor& tensor) : size_(static_cast<size_t>(tensor.size())) {
  if (size_ == 0) return;
  call.check(call.api().GetStringTensorDataLength(tensor.value, &length_));
  // At least one, because ONNX Runtime refuses a null address.
  characters_ = uninitialized<char>(std::max(static_cast<int64_t>(length_), int64_t{1}));
  offsets_ = uninitialized<size_t>(tensor.size());
  call.check(call.api().GetStringTensorContent(tensor.value, characters_.get(), length_, offsets_.get(), size_));
}

std::string shown(std::string_view text) {
  constexpr size_t kMost = 64;
  std::string printable(text.substr(0, kMost));
  std::replace_if(printable.begin(), printable.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return "'" + printable + (text.size() > kMost ? "...'" : "'");
}

void put_string(const Call& call, OrtValue* output, size_t position, std::string_view text) {
  char* buffer = nullptr;
  call.check(call.api().GetResizedStringTensorElementBuffer(output, position, text.size(), &buffer));
  if (!text.empty()) std::memcpy(buffer, text.data(), text.size());
}

char* StringWriter::resize(size_t position, size_t size) {
  if (output_ == nullptr) return nullptr;
  char* buffer = nullptr;
  const OrtApi& api = call_.api();
  if (OrtStatus* status = api.GetResizedStringTensorElementBuffer(output_, position, size, &buffer)) {
    OrtStatus* none = nullptr;
    if (!failed_.compare_exchange_strong(none, status)) api.ReleaseStatus(status);
    return nullptr;
  }
  return buffer;
}

void StringWriter::put(size_t position, std::string_view text) {
  char* buffer = resize(position, text.size());
  if (buffer != nullptr && !text.empty()) std::memcpy(buffer, text.data(), text.size());
}

void StringWriter::finish() {
  if (OrtStatus* status = failed_.exchange(nullptr)) call_.check(status);
}

}  // namespace onnx_sparse
