#include "operators/number_text.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <version>

#ifndef __cpp_lib_to_chars  // floating-point numbers in <charconv>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#include <string>
#endif

namespace onnx_sparse {
namespace {

bool is_space(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

std::string_view stripped(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// Takes a sign off a text, and returns whether it is a minus. A second sign stays, which makes the text no number.
bool take_sign(std::string_view& text) {
  if (text.empty() || (text.front() != '-' && text.front() != '+')) return false;
  const bool is_negative = text.front() == '-';
  text.remove_prefix(1);
  return is_negative;
}

template <class Integer>
bool read_integer(std::string_view text, Integer& number) {
  text = stripped(text);
  if (!text.empty() && text.front() == '+') {
    text.remove_prefix(1);
    if (!text.empty() && text.front() == '-') return false;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

#ifdef __cpp_lib_to_chars

// Whether a number without sign that is out of range is too large, not too small: by where its first digit other than 0
// stands, and its exponent.
bool is_large(std::string_view text, bool hexadecimal) {
  const size_t end = std::min(text.find_first_of(hexadecimal ? "pP" : "eE"), text.size());
  const std::string_view digits = text.substr(0, end);
  const auto point = static_cast<int64_t>(std::min(digits.find('.'), digits.size()));
  const auto first = static_cast<int64_t>(digits.find_first_not_of("0."));
  const int64_t places = (point > first ? point - first : point - first + 1) * (hexadecimal ? 4 : 1);
  int64_t exponent = 0;
  std::string_view written = text.substr(std::min(end + 1, text.size()));
  const bool is_negative = take_sign(written);
  const auto [last, error] = std::from_chars(written.data(), written.data() + written.size(), exponent);
  if (error == std::errc::result_out_of_range) return !is_negative;
  return (is_negative ? -exponent : exponent) > -places;
}

template <class Float>
bool read_unsigned(std::string_view text, bool hexadecimal, Float& number) {
  if (text.empty() || text.front() == '-') return false;
  if (hexadecimal && text.find_first_not_of("0123456789abcdefABCDEF.pP+-") != std::string_view::npos) return false;
  const auto format = hexadecimal ? std::chars_format::hex : std::chars_format::general;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, format);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) return false;
  if (error == std::errc::result_out_of_range) {
    number = is_large(text, hexadecimal) ? std::numeric_limits<Float>::infinity() : Float{0};
  }
  return true;
}

#else

// Numbers of the C locale, whatever the process's is.
locale_t c_locale() {
  static const locale_t locale = newlocale(LC_ALL_MASK, "C", nullptr);
  return locale;
}

float read(const char* text, char** end, float) { return strtof_l(text, end, c_locale()); }
double read(const char* text, char** end, double) { return strtod_l(text, end, c_locale()); }

template <class Float>
bool read_unsigned(std::string_view text, bool hexadecimal, Float& number) {
  if (text.empty() || text.front() == '-' || text.front() == '+' || is_space(text.front())) return false;
  const std::string ended = (hexadecimal ? "0x" : "") + std::string(text);
  char* end = nullptr;
  number = read(ended.c_str(), &end, Float{});
  return end == ended.c_str() + ended.size();
}

#endif

template <class Float>
bool read_float(std::string_view text, Float& number) {
  text = stripped(text);
  const bool is_negative = take_sign(text);
  const bool hexadecimal = text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  if (hexadecimal) text.remove_prefix(2);
  if (!read_unsigned(text, hexadecimal, number)) return false;
  if (is_negative) number = -number;
  return true;
}

}  // namespace

bool read_number(std::string_view text, float& number) { return read_float(text, number); }
bool read_number(std::string_view text, double& number) { return read_float(text, number); }
bool read_number(std::string_view text, int32_t& number) { return read_integer(text, number); }
bool read_number(std::string_view text, int64_t& number) { return read_integer(text, number); }

size_t write_integer(double number, char* text) {
#ifdef __cpp_lib_to_chars
  return static_cast<size_t>(std::to_chars(text, text + kIntegerDigits, number, std::chars_format::fixed).ptr - text);
#else
  return static_cast<size_t>(snprintf(text, kIntegerDigits + 1, "%.0f", number));
#endif
}

size_t replace_point(char* text, size_t size) {
  // The point is what is neither digit nor sign nor exponent.
  char* const end = text + size;
  const auto is_of_number = [](char byte) { return std::strchr("0123456789+- e", byte) != nullptr; };
  char* const point = std::find_if_not(text, end, is_of_number);
  if (point == end) return size;
  char* const rest = std::find_if(point, end, is_of_number);
  *point = '.';
  return static_cast<size_t>(std::copy(rest, end, point + 1) - text);
}

}  // namespace onnx_sparse
