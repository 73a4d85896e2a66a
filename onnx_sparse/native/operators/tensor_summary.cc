// SummarizeTensor.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>

#include "abi/call.h"
#include "abi/string_tensor.h"
#include "operators/number_text.h"

#define ONNX_SPARSE_INSTRUCTIONS of_any_machine
#include "loops/half.h"

namespace onnx_sparse {
namespace {

using of_any_machine::BFloat16;
using of_any_machine::Float16;

void append_escaped(std::string_view text, std::string& output) {
  constexpr std::string_view kEscaped = "\n\r\t\"'\\";
  output += '"';
  for (const char character : text) {
    const auto byte = static_cast<uint8_t>(character);
    const size_t letter = kEscaped.find(character);
    if (letter != std::string_view::npos) {
      output += '\\';
      output += "nrt\"'\\"[letter];
    } else if (byte < 32 || byte == 127) {
      const char octal[] = {'\\', static_cast<char>('0' + (byte >> 6)), static_cast<char>('0' + (byte >> 3 & 7)),
                            static_cast<char>('0' + (byte & 7))};
      output.append(octal, sizeof octal);
    } else {
      output += character;
    }
  }
  output += '"';
}

// The number in 6 digits (double: 15) if these are the number, otherwise in 9 (17).
template <class Float>
void append_float(Float number, std::string& output) {
  constexpr int kShort = std::numeric_limits<Float>::digits10;
  if (std::signbit(number)) output += '-';
  number = std::abs(number);
  if (std::isnan(number) || std::isinf(number)) {
    output += std::isnan(number) ? "nan" : "inf";
    return;
  }
  if (number < std::numeric_limits<Float>::min()) {  // subnormal numbers count as 0
    output += '0';
    return;
  }
  char text[64];
  const auto print = [&](int digits) {
    const int size = std::snprintf(text, sizeof text, "%.*g", digits, static_cast<double>(number));
    return std::string_view(text, replace_point(text, static_cast<size_t>(size)));
  };
  std::string_view printed = print(kShort);
  Float read{};
  if (!read_number(printed, read) || read != number) printed = print(std::numeric_limits<Float>::max_digits10);
  output += printed;
}

template <class T>
void append_number(T number, std::string& output) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    append_float(to_float(number), output);
  } else if constexpr (std::is_floating_point_v<T>) {
    append_float(number, output);
  } else {
    output += std::to_string(number);
  }
}

// Writes a tensor, whose elements append(position, text) writes.
template <class Append>
class Summary {
 public:
  Summary(const Tensor& tensor, int64_t at_ends, const Append& append)
      : tensor_(tensor), at_ends_(at_ends), append_(append) {}

  std::string text() {
    if (tensor_.type == ORT_BOOL && at_ends_ == 0) return "";  // as TensorFlow, whose function for booleans begins so
    if (tensor_.rank == 0 && at_ends_ == 0) return "...";
    write(0, 0);
    return std::move(text_);
  }

 private:
  // Writes the part of the tensor that begins with an element.
  void write(size_t axis, int64_t first) {
    if (axis == tensor_.rank) return append_(static_cast<size_t>(first), text_);
    const int64_t count = tensor_.dims[axis];
    const int64_t step = at_ends_ == 0 ? 0 : tensor_.size_from(axis + 1);
    text_ += '[';
    for (int64_t k = 0; k < std::min(at_ends_, count); ++k) {
      if (k > 0) space(axis);
      write(axis + 1, first + k * step);
    }
    if (count - at_ends_ > at_ends_) {
      space(axis);
      text_ += "...";
    }
    for (int64_t k = std::max(at_ends_, count - at_ends_); k < count; ++k) {
      space(axis);
      write(axis + 1, first + k * step);
    }
    text_ += ']';
  }

  // What is between two parts of a dimension.
  void space(size_t axis) {
    const size_t inner = tensor_.rank - axis - 1;
    text_.append(inner, '\n').append(inner == 0 ? 1 : axis + 1, ' ');
  }

  const Tensor& tensor_;
  int64_t at_ends_;
  const Append& append_;
  std::string text_;
};

template <class Append>
void write_summary(const Call& call, const Append& append) {
  const Tensor& input = call.input(0);
  const int64_t given = call.input(1).integer();
  const int64_t count = input.size();
  const int64_t at_ends = given < 0 ? count : std::min(given, count);
  const std::string text = Summary<Append>(input, at_ends, append).text();
  put_string(call, call.allocate_value(0, {}, size_of(ORT_STRING), {"input", input}), 0, text);
}

template <class T>
void write_numbers(const Call& call) {
  const char* numbers = call.input(0).as<char>();
  write_summary(call, [numbers](size_t i, std::string& text) {
    T number;
    std::memcpy(&number, numbers + i * sizeof(T), sizeof(T));  // from any address
    append_number(number, text);
  });
}

}  // namespace

void summarize_tensor(const Call& call) {
  switch (call.input(0).type) {
    case ORT_STRING: {
      const Strings texts(call, call.input(0));
      return write_summary(call, [&](size_t i, std::string& text) { append_escaped(texts[i], text); });
    }
    case ORT_FLOAT16:
      return write_numbers<Float16>(call);
    case ORT_BFLOAT16:
      return write_numbers<BFloat16>(call);
    case ORT_FLOAT:
      return write_numbers<float>(call);
    case ORT_DOUBLE:
      return write_numbers<double>(call);
    case ORT_INT8:
      return write_numbers<int8_t>(call);
    case ORT_INT16:
      return write_numbers<int16_t>(call);
    case ORT_INT32:
      return write_numbers<int32_t>(call);
    case ORT_INT64:
      return write_numbers<int64_t>(call);
    case ORT_UINT8:
      return write_numbers<uint8_t>(call);
    case ORT_UINT16:
      return write_numbers<uint16_t>(call);
    case ORT_UINT32:
      return write_numbers<uint32_t>(call);
    case ORT_UINT64:
      return write_numbers<uint64_t>(call);
    default:
      return write_numbers<bool>(call);
  }
}

}  // namespace onnx_sparse
