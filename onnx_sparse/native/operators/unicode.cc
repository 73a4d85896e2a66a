// UnicodeDecode, UnicodeEncode.

#include "abi/call.h"
#include "abi/string_tensor.h"
#include "operators/requirements.h"
#include "operators/utf8.h"

namespace onnx_sparse {
namespace {

enum Errors { kReplace, kIgnore };

constexpr int32_t kReplacement = 0xFFFD;

bool is_character(int32_t number) {
  return (number >= 0 && number < 0xD800) || (number >= 0xE000 && number <= 0x10FFFF);
}

size_t size_of_character(int32_t number) { return number < 0x80 ? 1 : number < 0x800 ? 2 : number < 0x10000 ? 3 : 4; }

char* append_character(char* to, int32_t number) {
  const size_t size = size_of_character(number);
  if (size == 1) {
    *to = static_cast<char>(number);
    return to + 1;
  }
  for (size_t k = size - 1; k > 0; --k) {
    to[k] = static_cast<char>(0x80 | (number & 0x3F));
    number >>= 6;
  }
  *to = static_cast<char>((0xF00 >> size) | number);
  return to + size;
}

// Calls visit(number, start) for the characters of a text; errors are -1, and left out where they are ignored.
template <class Visit>
void for_characters(std::string_view text, int errors, const Visit& visit) {
  for (size_t at = 0; at < text.size();) {
    const Character found = first_character(text.substr(at));
    if (found.number >= 0 || errors != kIgnore) visit(found.number, at);
    at += found.size;
  }
}

}  // namespace

void unicode_decode(const Call& call) {
  const Tensor& input = call.input(0);
  const auto replacement = static_cast<int32_t>(call.input(1).integer());
  const int errors = call.choice(0);
  const Strings texts(call, input);
  const auto rows = static_cast<int64_t>(texts.size());
  const Cause cause("input", input);
  auto* splits = static_cast<int64_t*>(call.allocate(0, {rows + 1}, sizeof(int64_t), cause));
  call.for_parts(rows, texts.cost(), [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) {
      int64_t count = 0;
      for_characters(texts[static_cast<size_t>(i)], errors, [&](int32_t, size_t) { ++count; });
      splits[i + 1] = count;
    }
  });
  splits[0] = 0;
  for (int64_t i = 0; i < rows; ++i) splits[i + 1] += splits[i];
  auto* values = static_cast<int32_t*>(call.allocate(1, {splits[rows]}, sizeof(int32_t), cause));
  auto* starts = static_cast<int64_t*>(call.allocate(2, {splits[rows]}, sizeof(int64_t), cause));
  call.for_parts(rows, texts.cost(), [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) {
      int64_t position = splits[i];
      for_characters(texts[static_cast<size_t>(i)], errors, [&](int32_t number, size_t start) {
        values[position] = number < 0 ? replacement : number;
        starts[position++] = static_cast<int64_t>(start);
      });
    }
  });
}

void unicode_encode(const Call& call) {
  const auto* values = call.input(0).as<int32_t>();
  const int64_t size = call.input(0).size();
  const Tensor& input_splits = call.input(1);
  const auto given = static_cast<int32_t>(call.input(2).integer());
  const int32_t replacement = is_character(given) ? given : kReplacement;
  const int errors = call.choice(0);
  require_row_splits("input_splits", input_splits, size);
  const int64_t rows = input_splits.size() - 1;
  const auto* splits = input_splits.as<int64_t>();
  const Cause cause("input_splits", input_splits);
  StringWriter output(call, call.allocate_value(0, {rows}, size_of(ORT_STRING), cause));
  const int64_t bytes = rows * static_cast<int64_t>(kStringBytes) + size * static_cast<int64_t>(sizeof(int32_t));
  call.for_parts(rows, bytes, [&](int64_t first, int64_t end) {
    for (int64_t row = first; row < end; ++row) {
      const auto for_written = [&](const auto& visit) {
        for (int64_t k = splits[row]; k < splits[row + 1]; ++k) {
          if (is_character(values[k])) {
            visit(values[k]);
          } else if (errors != kIgnore) {
            visit(replacement);
          }
        }
      };
      size_t length = 0;
      for_written([&](int32_t number) { length += size_of_character(number); });
      char* at = output.resize(static_cast<size_t>(row), length);
      if (at != nullptr) for_written([&](int32_t number) { at = append_character(at, number); });
    }
  });
  output.finish();
}

}  // namespace onnx_sparse
