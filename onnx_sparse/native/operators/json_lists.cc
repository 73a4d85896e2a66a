// Long lists of numbers and of texts in JSON, for servers: what no operator reads. Python calls these functions without
// its lock, so other threads run meanwhile.

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

#include "abi/exported.h"
#include "operators/number_text.h"
#include "operators/utf8.h"

namespace onnx_sparse {
namespace {

// How deep lists may be within each other.
constexpr int64_t kDeepest = 8;
// How numbers are read.
enum Kind : int32_t { kFloats, kSigned, kUnsigned };

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool ends_number(char c) { return c == ',' || c == ']' || is_blank(c); }

// Whether a character can be part of a number, `NaN` or `Infinity`.
struct Characters {
  constexpr Characters() {
    for (const char c : std::string_view("0123456789+-.eENaInfity")) known[static_cast<unsigned char>(c)] = true;
  }
  bool known[256] = {};
};
constexpr Characters kCharacters;

bool is_part(char c) { return kCharacters.known[static_cast<unsigned char>(c)]; }

const char* after_digits(const char* at, const char* end) {
  while (at != end && is_digit(*at)) ++at;
  return at;
}

// A number of JSON's grammar: where it ends, and whether it is an integer; no end where there is none.
struct Number {
  Number(const char* begin, const char* end) {
    const char* at = begin;
    if (at != end && *at == '-') ++at;
    const char* first = at;
    at = after_digits(at, end);
    if (at == first || (*first == '0' && at - first > 1)) return;
    is_integer = at == end || ends_number(*at);
    if (at != end && *at == '.') {
      first = ++at;
      if ((at = after_digits(at, end)) == first) return;
    }
    if (at != end && (*at == 'e' || *at == 'E')) {
      if (++at != end && (*at == '+' || *at == '-')) ++at;
      first = at;
      if ((at = after_digits(at, end)) == first) return;
    }
    if (at == end || ends_number(*at)) last = at;
  }
  const char* last = nullptr;
  bool is_integer = false;
};

// The digits of an integer as a number: false where 64 bits do not hold it.
bool read_digits(const char* begin, const char* end, uint64_t& value) {
  value = 0;
  if (end - begin > 18) {
    const auto [last, error] = std::from_chars(begin, end, value);
    return error == std::errc() && last == end;
  }
  for (const char* at = begin; at != end; ++at) value = value * 10 + static_cast<uint64_t>(*at - '0');
  return true;
}

// Whether an integer keeps its value in a floating type with that many bits.
bool is_exact(uint64_t value, int32_t bits) {
  if (value >> bits == 0) return true;
  while ((value & 1) == 0) value >>= 1;
  return value >> bits == 0;
}

// Reads an integer of more than 64 bits, without a sign: false where a floating type with that many bits changes it.
bool read_wide(std::string_view digits, int32_t bits, double& to) {
  if (digits.size() > kIntegerDigits || !read_number(digits, to) || !std::isfinite(to)) return false;
  int exponent = 0;
  const double mantissa = std::ldexp(std::frexp(to, &exponent), bits);
  char exact[kIntegerDigits + 1];
  return mantissa == std::floor(mantissa) && digits == std::string_view(exact, write_integer(to, exact));
}

// Reads the number between two addresses: false where it is none, or not one that is read here.
bool read(const char* begin, const char* end, int32_t bits, double& to) {
  const Number number(begin, end);
  if (number.last != end) {
    const std::string_view text(begin, static_cast<size_t>(end - begin));
    to = std::numeric_limits<double>::infinity();
    if (text == "NaN") to = std::numeric_limits<double>::quiet_NaN();
    if (text == "-Infinity") to = -to;
    return text == "NaN" || text == "Infinity" || text == "-Infinity";
  }
  if (!number.is_integer) return read_number({begin, static_cast<size_t>(end - begin)}, to) && std::isfinite(to);
  const bool is_negative = *begin == '-';
  uint64_t value = 0;
  if (read_digits(begin + is_negative, end, value)) {
    if (!is_exact(value, bits)) return false;
    to = static_cast<double>(value);
  } else if (!read_wide({begin + is_negative, static_cast<size_t>(end - begin - is_negative)}, bits, to)) {
    return false;
  }
  if (is_negative && to != 0) to = -to;  // as an integer, -0 is 0
  return true;
}

bool read(const char* begin, const char* end, int32_t, int64_t& to) {
  const Number number(begin, end);
  const bool is_negative = *begin == '-';
  uint64_t value = 0;
  if (number.last != end || !number.is_integer || !read_digits(begin + is_negative, end, value)) return false;
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) + is_negative) return false;
  to = static_cast<int64_t>(is_negative ? 0 - value : value);
  return true;
}

bool read(const char* begin, const char* end, int32_t, uint64_t& to) {
  const Number number(begin, end);
  return number.last == end && number.is_integer && *begin != '-' && read_digits(begin, end, to);
}

template <class T>
int64_t read_all(const char* text, int64_t size, int64_t& position, int32_t bits, T* to, int64_t most) {
  const char* at = text + position;
  const char* const end = text + size;
  int64_t count = 0;
  for (; count < most; ++count) {
    while (at != end && !is_part(*at)) ++at;
    const char* last = at;
    while (last != end && is_part(*last)) ++last;
    if (at == end || !read(at, last, bits, to[count])) break;
    at = last;
  }
  position = at - text;
  return count;
}

const char* after_blanks(const char* at, const char* end) {
  while (at != end && is_blank(*at)) ++at;
  return at;
}

// The four hexadecimal digits of an escape as a number; -1 where they are none.
int32_t read_escaped(const char* at, const char* end) {
  if (end - at < 4) return -1;
  int32_t number = 0;
  const auto [last, error] = std::from_chars(at, at + 4, number, 16);
  return error == std::errc() && last == at + 4 && *at != '-' ? number : -1;
}

// Where a text ends, after its quotes; null where it does not, is no JSON, no UTF-8 or has half of a surrogate pair.
const char* after_text(const char* at, const char* end) {
  for (++at; at != end;) {
    const auto c = static_cast<unsigned char>(*at);
    if (c == '"') return at + 1;
    if (c < 0x20) return nullptr;
    if (c >= 0x80) {
      const Character character = first_character({at, static_cast<size_t>(end - at)});
      if (character.number < 0) return nullptr;
      at += character.size;
    } else if (c != '\\') {
      ++at;
    } else if (++at == end) {
      return nullptr;
    } else if (*at != 'u') {
      if (std::string_view("\"\\/bfnrt").find(*at) == std::string_view::npos) return nullptr;
      ++at;
    } else {
      int32_t number = read_escaped(++at, end);
      if (number < 0) return nullptr;
      at += 4;
      if (number < 0xD800 || number > 0xDFFF) continue;
      if (number > 0xDBFF || end - at < 6 || at[0] != '\\' || at[1] != 'u') return nullptr;
      number = read_escaped(at + 2, end);
      if (number < 0xDC00 || number > 0xDFFF) return nullptr;
      at += 6;
    }
  }
  return nullptr;
}

// What the deepest lists have: where an element begins, and where it ends, null where it cannot be read.
struct Numbers {
  static bool begins(char c) { return is_part(c); }
  static const char* after(const char* at, const char* end) {
    while (at != end && is_part(*at)) ++at;
    return at;
  }
};
struct Texts {
  static bool begins(char c) { return c == '"'; }
  static const char* after(const char* at, const char* end) { return after_text(at, end); }
};

// Where a list ends whose elements are equally deep; see OnnxSparseFindNumbers.
template <class Values>
int64_t find(const char* text, int64_t size, int64_t* counts, int64_t* const* lengths) {
  enum class Elements { kUnknown, kValues, kLists };
  Elements elements[kDeepest] = {};
  int64_t lists[kDeepest] = {}, inside[kDeepest] = {};
  for (int64_t i = 0; i < kDeepest; ++i) counts[i] = -1;
  int64_t depth = -1;
  bool is_value_next = true;  // or else a comma, or the end of a list
  for (int64_t at = 0; at < size; ++at) {
    const char c = text[at];
    if (Values::begins(c) || c == '[') {
      if (!is_value_next) return 0;
      if (depth >= 0) {
        const Elements found = c == '[' ? Elements::kLists : Elements::kValues;
        if (elements[depth] != Elements::kUnknown && elements[depth] != found) return 0;
        elements[depth] = found;
        ++counts[depth];
        ++inside[depth];
      }
      if (c == '[') {
        if (++depth == kDeepest) return 0;
        if (counts[depth] < 0) counts[depth] = 0;
        inside[depth] = 0;
      } else {
        if (depth < 0) return 0;
        const char* const after = Values::after(text + at, text + size);
        if (after == nullptr) return 0;
        at = after - text - 1;
        is_value_next = false;
      }
    } else if (c == ',') {
      if (is_value_next) return 0;
      is_value_next = true;
    } else if (c == ']') {
      if (depth < 0 || (is_value_next && inside[depth] > 0)) return 0;
      if (lengths != nullptr && depth > 0) lengths[depth - 1][lists[depth]++] = inside[depth];
      is_value_next = false;
      if (--depth < 0) return at + 1;
    } else if (!is_blank(c)) {
      return 0;
    }
  }
  return 0;
}

// Where a string ends that need not be JSON, after its quotes; `end` where it does not.
const char* after_quotes(const char* at, const char* end) {
  for (++at; at != end; ++at) {
    if (*at == '"') return at + 1;
    if (*at == '\\' && ++at == end) break;
  }
  return end;
}

}  // namespace
}  // namespace onnx_sparse

// Where a list of numbers ends, all in lists equally deep.
//
// text: begins with the list's bracket, and has `size` bytes.
// counts: [8], the elements of the lists of each depth, -1 where there is none; the deepest lists have the numbers.
// lengths: Null, or for each depth from the second one on where the length of each of its lists is written.
// Returns the bytes of the list; 0 where it is not closed, has anything else, or is no JSON but for its numbers.
ONNX_SPARSE_EXPORT int64_t OnnxSparseFindNumbers(const char* text, int64_t size, int64_t* counts,
                                                 int64_t* const* lengths) noexcept {
  using namespace onnx_sparse;
  return find<Numbers>(text, size, counts, lengths);
}

// Where a list of texts ends, all in lists equally deep; see OnnxSparseFindNumbers.
ONNX_SPARSE_EXPORT int64_t OnnxSparseFindTexts(const char* text, int64_t size, int64_t* counts,
                                               int64_t* const* lengths) noexcept {
  return onnx_sparse::find<onnx_sparse::Texts>(text, size, counts, lengths);
}

// Finds the next long list of numbers or of texts that is the value of a key.
//
// position: Where in the text to begin, not within a string; then where the list begins, or the end.
// keys: The keys in their quotes, one after another.
// least: How many bytes a list has that is long.
// counts: As for OnnxSparseFindNumbers.
// are_texts: Whether the list is one of texts.
// Returns the bytes of the list; 0 where there is none left.
ONNX_SPARSE_EXPORT int64_t OnnxSparseFindLongList(const char* text, int64_t size, int64_t* position, const char* keys,
                                                  int64_t keys_size, int64_t least, int64_t* counts,
                                                  int32_t* are_texts) noexcept {
  using namespace onnx_sparse;
  const std::string_view known(keys, static_cast<size_t>(keys_size));
  const char* const end = text + size;
  const char* at = text + *position;
  // A list that is none of numbers or texts ends before the next key, so no byte is looked at by more than one of them.
  while (at != end && (at = static_cast<const char*>(std::memchr(at, '"', static_cast<size_t>(end - at)))) != nullptr) {
    const char* const key = at;
    at = after_quotes(at, end);
    const std::string_view word(key, static_cast<size_t>(at - key));
    const char* list = after_blanks(at, end);
    if (list == end || *list != ':') continue;
    list = after_blanks(list + 1, end);
    if (list == end || *list != '[') continue;
    *are_texts = 0;
    int64_t found = find<Numbers>(list, end - list, counts, nullptr);
    if (found == 0 && (found = find<Texts>(list, end - list, counts, nullptr)) != 0) *are_texts = 1;
    if (found >= least && counts[0] > 0 && word.size() > 2 && known.find(word) != std::string_view::npos) {
      *position = list - text;
      return found;
    }
    at = list + found;
  }
  *position = size;
  return 0;
}

// Reads texts of a list that OnnxSparseFindTexts has found, as JSON.
//
// position: Where in the text to begin; then the comma or bracket after the last text that is read.
// to: Null, or where the texts are copied, each with its quotes, with commas between them.
// copied: How many bytes these are.
// Returns how many texts are read, at most `most`: less at the end.
ONNX_SPARSE_EXPORT int64_t OnnxSparseReadTexts(const char* text, int64_t size, int64_t* position, char* to,
                                               int64_t* copied, int64_t most) noexcept {
  using namespace onnx_sparse;
  const char* const end = text + size;
  const char* at = text + *position;
  char* last = to;
  int64_t count = 0;
  for (; count < most; ++count) {
    const char* begin = at;
    while (begin != end && *begin != '"') ++begin;
    const char* const after = begin == end ? nullptr : after_text(begin, end);
    if (after == nullptr) break;
    if (to != nullptr) {
      if (count > 0) *last++ = ',';
      std::memcpy(last, begin, static_cast<size_t>(after - begin));
      last += after - begin;
    }
    at = after_blanks(after, end);
  }
  *position = at - text;
  *copied = to == nullptr ? 0 : last - to;
  return count;
}

// Reads numbers of a list that OnnxSparseFindNumbers has found.
//
// position: Where in the text to begin; then the first number that is not read, or the end.
// kind: How they are read: 0 as doubles, of which integers have at most `bits` bits between their first and last one, 1
//   as int64, 2 as uint64.
// to: Where they are written, at most `most`.
// Returns how many are read: less than `most` at the end, and before a number that does not fit or is none.
ONNX_SPARSE_EXPORT int64_t OnnxSparseReadNumbers(const char* text, int64_t size, int64_t* position, int32_t kind,
                                                 int32_t bits, void* to, int64_t most) noexcept {
  using namespace onnx_sparse;
  if (kind == kFloats) return read_all(text, size, *position, bits, static_cast<double*>(to), most);
  if (kind == kSigned) return read_all(text, size, *position, bits, static_cast<int64_t*>(to), most);
  return read_all(text, size, *position, bits, static_cast<uint64_t*>(to), most);
}
