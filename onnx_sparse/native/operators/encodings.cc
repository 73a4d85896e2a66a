// DecodeBase64, EncodeBase64, DecodeRaw.

#include <algorithm>
#include <array>
#include <cstring>

#include "abi/call.h"
#include "abi/string_tensor.h"
#include "operators/first_refused.h"
#include "operators/requirements.h"

namespace onnx_sparse {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr uint8_t kNone = 0xFF;

constexpr std::array<uint8_t, 256> values_of_characters() {
  std::array<uint8_t, 256> values{};
  for (auto& value : values) value = kNone;
  for (size_t k = 0; k < kAlphabet.size(); ++k) values[static_cast<uint8_t>(kAlphabet[k])] = static_cast<uint8_t>(k);
  return values;
}

constexpr std::array<uint8_t, 256> kValues = values_of_characters();

std::vector<int64_t> shape_of(const Tensor& tensor) { return {tensor.dims, tensor.dims + tensor.rank}; }

// A text without the padding that fills up its last four characters.
std::string_view without_padding(std::string_view text) {
  for (int k = 0; k < 2 && !text.empty() && (text.size() + static_cast<size_t>(k)) % 4 == 0 && text.back() == '=';
       ++k) {
    text.remove_suffix(1);
  }
  return text;
}

bool is_base64(std::string_view text) {
  return text.size() % 4 != 1 &&
         std::all_of(text.begin(), text.end(), [](char c) { return kValues[static_cast<uint8_t>(c)] != kNone; });
}

void write_decoded(std::string_view text, char* to) {
  uint32_t bits = 0;
  int count = 0;
  for (const char character : text) {
    bits = bits << 6 | kValues[static_cast<uint8_t>(character)];
    count += 6;
    if (count < 8) continue;
    count -= 8;
    *to++ = static_cast<char>(bits >> count & 0xFF);
  }
}

// Writes the characters, and padding up to the end.
void write_encoded(std::string_view text, char* to, const char* end) {
  uint32_t bits = 0;
  int count = 0;
  for (const char byte : text) {
    bits = bits << 8 | static_cast<uint8_t>(byte);
    for (count += 8; count >= 6; *to++ = kAlphabet[bits >> count & 0x3F]) count -= 6;
  }
  if (count > 0) *to++ = kAlphabet[bits << (6 - count) & 0x3F];
  while (to != end) *to++ = '=';
}

// Writes the bytes of numbers in the order of this machine. Without `swap` they are in that order already.
void write_numbers(std::string_view bytes, size_t length, size_t size, bool swap, char* to) {
  const size_t given = std::min(bytes.size(), length);
  if (given > 0) std::memcpy(to, bytes.data(), given);
  if (length > given) std::memset(to + given, 0, length - given);
  for (size_t at = 0; swap && at < length; at += size) std::reverse(to + at, to + at + size);
}

bool is_big_endian() {
  const uint16_t one = 1;
  uint8_t first = 0;
  std::memcpy(&first, &one, 1);
  return first == 0;
}

// The number of bytes that each string has.
size_t common_length(const Tensor& input, const Strings& texts, OrtElementType type) {
  const size_t size = size_of(type);
  const size_t length = texts.size() == 0 ? 0 : texts[0].size();
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() == length) continue;
    throw InvalidArgument{element_name("input", input, static_cast<int64_t>(i)) + " has " +
                          std::to_string(texts[i].size()) + " bytes but " + element_name("input", input, 0) + " has " +
                          std::to_string(length) + "; expected as many"};
  }
  if (length % size != 0) {
    throw InvalidArgument{element_name("input", input, 0) + " has " + std::to_string(length) +
                          " bytes; a multiple of " + std::to_string(size) + ", the size of " +
                          std::string(name_of(type)) + ", expected"};
  }
  return length;
}

}  // namespace

void decode_base64(const Call& call) {
  const Tensor& input = call.input(0);
  const Strings texts(call, input);
  StringWriter output(call, call.allocate_value(0, shape_of(input), size_of(ORT_STRING), {"input", input}));
  FirstRefused refused;
  call.for_parts(static_cast<int64_t>(texts.size()), texts.cost(), [&](int64_t first, int64_t end) {
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(end); ++i) {
      const std::string_view text = without_padding(texts[i]);
      if (!is_base64(text)) return refused.add(i);
      char* to = output.resize(i, text.size() * 3 / 4);
      if (to != nullptr) write_decoded(text, to);
    }
  });
  if (refused.any()) {
    const size_t i = refused.message();
    throw InvalidArgument{element_name("input", input, static_cast<int64_t>(i)) + " = " + shown(texts[i]) +
                          " is not web-safe base64"};
  }
  output.finish();
}

void encode_base64(const Call& call) {
  const Tensor& input = call.input(0);
  const Strings texts(call, input);
  const bool pads = call.choice(0) == 1;
  StringWriter output(call, call.allocate_value(0, shape_of(input), size_of(ORT_STRING), {"input", input}));
  call.for_parts(static_cast<int64_t>(texts.size()), texts.cost(), [&](int64_t first, int64_t end) {
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(end); ++i) {
      const size_t bytes = texts[i].size();
      const size_t size = pads ? (bytes + 2) / 3 * 4 : (bytes * 4 + 2) / 3;
      char* to = output.resize(i, size);
      if (to != nullptr) write_encoded(texts[i], to, to + size);
    }
  });
  output.finish();
}

void decode_raw(const Call& call) {
  const Tensor& input = call.input(0);
  const Strings texts(call, input);
  const OrtElementType type = call.input(2).type;
  const size_t size = size_of(type);
  const int64_t fixed = call.input(1).integer();
  if (fixed != -1 && (fixed <= 0 || static_cast<uint64_t>(fixed) % size != 0)) {
    throw InvalidArgument{"fixed_length = " + std::to_string(fixed) + " is not a positive multiple of " +
                          std::to_string(size) + ", the size of " + std::string(name_of(type)) + ", nor -1"};
  }
  const size_t length = fixed == -1 ? common_length(input, texts, type) : static_cast<size_t>(fixed);
  std::vector<int64_t> shape = shape_of(input);
  shape.push_back(static_cast<int64_t>(length / size));
  auto* output = static_cast<char*>(call.allocate(0, shape, size, Cause("fixed_length", static_cast<int64_t>(length))));
  const bool swap = (call.choice(0) == 1) != is_big_endian();
  const auto count = static_cast<int64_t>(texts.size());
  call.for_parts(count, texts.cost() + count * static_cast<int64_t>(length), [&](int64_t first, int64_t end) {
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(end); ++i) {
      char* to = output + i * length;
      write_numbers(texts[i], length, size, swap, to);
      for (size_t k = 0; type == ORT_BOOL && k < length; ++k) to[k] = static_cast<char>(to[k] != 0);
    }
  });
}

}  // namespace onnx_sparse
