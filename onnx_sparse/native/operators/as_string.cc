// AsString.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "abi/call.h"
#include "abi/string_tensor.h"
#include "operators/number_text.h"
#include "operators/requirements.h"

#define ONNX_SPARSE_INSTRUCTIONS of_any_machine
#include "loops/half.h"

namespace onnx_sparse {
namespace {

using of_any_machine::BFloat16;
using of_any_machine::Float16;

constexpr int64_t kMostDigits = 4096;
// No number has more digits before the point, with its sign, the point, in any locale, and an exponent.
constexpr size_t kMostOther = 400;
// Writing a number costs as much as moving this many bytes.
constexpr int64_t kNumberBytes = 1024;

// How numbers are written.
class Format {
 public:
  Format(char conversion, char flag, int64_t precision, int64_t width)
      : conversion_(conversion), flag_(flag), precision_(static_cast<int>(precision)), width_(width) {}

  template <class T>
  void write(T number, StringWriter& output, size_t position) const {
    char text[kMostDigits + kMostOther];
    if constexpr (std::is_same_v<T, bool>) {
      output.put(position, number ? "true" : "false");
    } else if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
      write(static_cast<double>(to_float(number)), output, position);
    } else if constexpr (std::is_floating_point_v<T>) {
      const bool is_finite = std::isfinite(number);
      pad({text, is_finite ? digits(number, text) : word(number, text)}, is_finite, output, position);
    } else if constexpr (std::is_signed_v<T>) {
      const int size = flag_ == '+'   ? std::snprintf(text, sizeof text, "%+lld", static_cast<long long>(number))
                       : flag_ == ' ' ? std::snprintf(text, sizeof text, "% lld", static_cast<long long>(number))
                                      : std::snprintf(text, sizeof text, "%lld", static_cast<long long>(number));
      pad({text, static_cast<size_t>(size)}, true, output, position);
    } else {
      const int size = std::snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(number));
      pad({text, static_cast<size_t>(size)}, true, output, position);
    }
  }

 private:
  // Writes a finite number, and returns the size of the text.
  size_t digits(double number, char* text) const {
    const size_t size = conversion_ == 'g' && flag_ == '#' ? print_all_digits(number, text)
                                                           : print(conversion_, precision_, number, text);
    return replace_point(text, size);
  }

  // A negative precision counts as none.
  size_t print(char conversion, int precision, double number, char* text) const {
    char format[8] = "%";
    char* at = format + 1;
    if (flag_ == '+' || flag_ == ' ' || flag_ == '#') *at++ = flag_;
    std::memcpy(at, ".*", 2);
    at[2] = conversion;
    return static_cast<size_t>(std::snprintf(text, kMostDigits + kMostOther, format, precision, number));
  }

  // %#g, by its definition: some C libraries lose zeros where a number is rounded up to a power of ten.
  size_t print_all_digits(double number, char* text) const {
    const int digits = precision_ < 0 ? 6 : std::max(precision_, 1);
    const size_t size = print('e', digits - 1, number, text);
    const int exponent = std::atoi(std::find(text, text + size, 'e') + 1);
    return exponent < -4 || exponent >= digits ? size : print('f', digits - 1 - exponent, number, text);
  }

  // Writes infinity or NaN.
  size_t word(double number, char* text) const {
    const char sign = std::signbit(number) ? '-' : flag_;
    char* at = text;
    if (sign == '+' || sign == ' ' || std::signbit(number)) *at++ = sign;
    std::memcpy(at, std::isnan(number) ? "nan" : "inf", 3);
    return static_cast<size_t>(at + 3 - text);
  }

  void pad(std::string_view text, bool is_finite, StringWriter& output, size_t position) const {
    const size_t size = std::max(text.size(), static_cast<size_t>(std::max(width_, int64_t{0})));
    const size_t pads = size - text.size();
    char* at = output.resize(position, size);
    if (at == nullptr) return;
    const size_t sign = flag_ == '0' && is_finite && text[0] == '-' ? 1 : 0;
    const size_t before = flag_ == '-' ? text.size() : sign;  // of the text before the pads
    std::memcpy(at, text.data(), before);
    std::memset(at + before, flag_ == '0' && is_finite ? '0' : ' ', pads);
    std::memcpy(at + before + pads, text.data() + before, text.size() - before);
  }

  char conversion_;
  char flag_;  // 0: none
  int precision_;
  int64_t width_;
};

template <class T>
void write_all(const Call& call, const Format& format) {
  const Tensor& input = call.input(0);
  const std::vector<int64_t> shape(input.dims, input.dims + input.rank);
  StringWriter output(call, call.allocate_value(0, shape, size_of(ORT_STRING), {"input", input}));
  const char* numbers = input.as<char>();
  call.for_parts(input.size(), input.size() * kNumberBytes, [&](int64_t first, int64_t end) {
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(end); ++i) {
      T number;
      std::memcpy(&number, numbers + i * sizeof(T), sizeof(T));  // from any address
      format.write(number, output, i);
    }
  });
  output.finish();
}

}  // namespace

void as_string(const Call& call) {
  const auto number_of_digits = [&call](size_t index, const char* name) {
    const Tensor& tensor = call.input(index);
    const int64_t value = tensor.integer();
    if (value < -1 || value > kMostDigits) throw out_of_range(name, tensor, 0, value, "-1", kMostDigits + 1);
    return value;
  };
  const int64_t precision = number_of_digits(1, "precision");
  const int64_t width = number_of_digits(2, "width");
  const Format format("feg"[call.choice(0)], "\0 +-0#"[call.choice(1)], precision, width);
  switch (call.input(0).type) {
    case ORT_FLOAT16:
      return write_all<Float16>(call, format);
    case ORT_BFLOAT16:
      return write_all<BFloat16>(call, format);
    case ORT_FLOAT:
      return write_all<float>(call, format);
    case ORT_DOUBLE:
      return write_all<double>(call, format);
    case ORT_INT8:
      return write_all<int8_t>(call, format);
    case ORT_INT16:
      return write_all<int16_t>(call, format);
    case ORT_INT32:
      return write_all<int32_t>(call, format);
    case ORT_INT64:
      return write_all<int64_t>(call, format);
    case ORT_UINT8:
      return write_all<uint8_t>(call, format);
    case ORT_UINT16:
      return write_all<uint16_t>(call, format);
    case ORT_UINT32:
      return write_all<uint32_t>(call, format);
    case ORT_UINT64:
      return write_all<uint64_t>(call, format);
    default:
      return write_all<bool>(call, format);
  }
}

}  // namespace onnx_sparse
