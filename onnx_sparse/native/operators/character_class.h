// A class of characters, found in UTF-8.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace onnx_sparse {

// Whether a byte continues a character of UTF-8.
inline bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// The characters that are matched.
class CharacterClass {
 public:
  // `bounds` has the first and the last character of each range.
  CharacterClass(const int64_t* bounds, int64_t count) {
    for (int64_t c = 0; c < count; ++c) {
      const int64_t first = bounds[2 * c];
      const int64_t last = bounds[2 * c + 1];
      for (int64_t byte = std::max(first, int64_t{0}); byte <= std::min(last, kLastByte); ++byte) {
        ascii_[static_cast<size_t>(byte)] = 1;
      }
      if (first <= last && last > kLastByte) ranges_.push_back({first, last});
      has_all_ |= first <= kLastByte + 1 && last >= kLastCharacter;
    }
    // Of the ranges that end at or behind a number, the first in order then begins where any of them begins first.
    std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.last < b.last; });
    for (size_t c = ranges_.size(); c > 1; --c) {
      ranges_[c - 2].first = std::min(ranges_[c - 2].first, ranges_[c - 1].first);
    }
  }

  // How many bytes the character of the class has that begins a text which is not empty; 0 where none does.
  size_t match(const char* text, size_t size) const {
    const auto lead = static_cast<unsigned char>(text[0]);
    if (lead <= kLastByte) return ascii_[lead];
    if (ranges_.empty() || lead < 0xC2 || lead > 0xF4) return 0;
    const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (size < length) return 0;
    int64_t number = lead & (0x7F >> length);
    for (size_t k = 1; k < length; ++k) {
      if (!is_continuation(text[k])) return 0;
      number = number << 6 | (text[k] & 0x3F);
    }
    if (has_all_) return length;
    if (number < kLeast[length] || number > kLastCharacter) return 0;
    return contains(number) ? length : 0;
  }

  // Marks the bytes with which the characters begin.
  void mark_leads(std::array<bool, 256>& leads) const {
    for (size_t byte = 0; byte < ascii_.size(); ++byte) leads[byte] = leads[byte] || ascii_[byte] != 0;
    if (!ranges_.empty()) std::fill(leads.begin() + 0xC2, leads.begin() + 0xF5, true);
  }

 private:
  struct Range {
    int64_t first;
    int64_t last;
  };
  static constexpr int64_t kLastByte = 0x7F;
  static constexpr int64_t kLastCharacter = 0x10FFFF;
  // The least character that takes so many bytes.
  static constexpr int64_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};

  bool contains(int64_t number) const {
    const auto found = std::lower_bound(ranges_.begin(), ranges_.end(), number,
                                        [](const Range& range, int64_t value) { return range.last < value; });
    return found != ranges_.end() && found->first <= number;
  }

  std::array<uint8_t, 128> ascii_{};
  std::vector<Range> ranges_;  // with characters of several bytes
  bool has_all_ = false;       // of those
};

}  // namespace onnx_sparse
