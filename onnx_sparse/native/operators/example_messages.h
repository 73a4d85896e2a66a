// Reading serialized tf.Example and tf.SequenceExample messages (tensorflow/core/example/*.proto) as TensorFlow does.
// It has a reader of its own for each of the two; the one of sequences is stricter in some places, and laxer in others.
// Nothing here allocates or throws: what cannot be read is a false.

#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "operators/little_endian.h"

namespace onnx_sparse::example_messages {

// The tag of a message's features, of their entries, an entry's key, and of whatever a list holds in one piece.
constexpr uint32_t kFirstField = 0x0A;
// The tag of an entry's feature.
constexpr uint32_t kSecondField = 0x12;
constexpr uint32_t kFixed32 = 0x0D;
constexpr uint32_t kVarint = 0x08;
// The tags of the lists in a feature.
constexpr uint8_t kBytesList = 0x0A;
constexpr uint8_t kFloatList = 0x12;
constexpr uint8_t kInt64List = 0x1A;

// A part of a message, read from its first byte to its last.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  // The next byte, where there is one.
  uint8_t next() const { return static_cast<uint8_t>(*at_); }

  size_t left() const { return static_cast<size_t>(end_ - at_); }
  bool at_end() const { return at_ == end_; }

  // Goes past a tag if it is the next byte.
  bool skip_tag(uint32_t tag) {
    const bool found = !at_end() && static_cast<uint8_t>(*at_) == tag;
    at_ += found;
    return found;
  }

  bool take(size_t count, std::string_view& bytes) {
    if (count > left()) return false;
    bytes = {at_, count};
    at_ += count;
    return true;
  }

  bool varint(uint64_t& value) {
    if (left() >= 4) {  // most are short
      const auto b0 = static_cast<uint8_t>(at_[0]), b1 = static_cast<uint8_t>(at_[1]),
                 b2 = static_cast<uint8_t>(at_[2]);
      if (b0 < 0x80) {
        value = b0;
        at_ += 1;
        return true;
      }
      if (b1 < 0x80) {
        value = (b0 & 0x7Fu) | static_cast<uint64_t>(b1) << 7;
        at_ += 2;
        return true;
      }
      if (b2 < 0x80) {
        value = (b0 & 0x7Fu) | (b1 & 0x7Fu) << 7 | static_cast<uint64_t>(b2) << 14;
        at_ += 3;
        return true;
      }
    }
    value = 0;
    for (int shift = 0; shift < 70 && !at_end(); shift += 7) {
      const auto byte = static_cast<uint8_t>(*at_++);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  // A tag or a length: the lower 32 bits of an integer.
  bool length(uint32_t& value) {
    uint64_t whole = 0;
    if (!varint(whole)) return false;
    value = static_cast<uint32_t>(whole);
    return true;
  }

  // Bytes with their length before them.
  bool string(std::string_view& bytes) {
    uint32_t count = 0;
    return length(count) && take(count, bytes);
  }

  // A part with its length before it; it ends with this one if it should be longer.
  bool nested(std::string_view& bytes) {
    uint32_t count = 0;
    return length(count) && take(count < left() ? count : left(), bytes);
  }

  // As much of a part of so many bytes as there is.
  Reader part(uint32_t count) {
    std::string_view bytes;
    take(count < left() ? count : left(), bytes);
    return Reader(bytes);
  }

  // Goes back to where the reading of a part has ended.
  void continue_from(const Reader& part) { at_ = part.at_; }

  // Goes past a field that is not known; one that should be longer than the rest ends with it.
  bool skip_field() {
    uint32_t tag = 0;
    if (!length(tag)) return false;
    uint64_t integer = 0;
    std::string_view bytes;
    uint32_t count = 0;
    switch (tag & 7) {
      case 0:
        return varint(integer);
      case 1:
        return take(8, bytes);
      case 2:
        if (!length(count)) return false;
        // TensorFlow skips nothing where the length is negative as an int.
        return count > INT32_MAX || take(count < left() ? count : left(), bytes);
      case 5:
        return take(4, bytes);
      default:
        return false;
    }
  }

 private:
  const char* at_;
  const char* end_;
};

// Calls visit(key, feature) for each entry of a message's map of features. Returns whether the message is a tf.Example.
template <class Visit>
bool for_entries(std::string_view message, const Visit& visit) {
  Reader reader(message);
  while (!reader.at_end()) {
    if (!reader.skip_tag(kFirstField)) {
      if (!reader.skip_field()) return false;
      continue;
    }
    std::string_view part;
    if (!reader.nested(part)) return false;
    Reader features(part);
    while (!features.at_end()) {
      if (!features.skip_tag(kFirstField) || !features.nested(part)) return false;
      Reader entry(part);
      std::string_view key, feature;
      for (int field = 0; field < 2; ++field) {  // in either order
        uint32_t tag = 0;
        if (!entry.length(tag) || (tag != kFirstField && tag != kSecondField)) return false;
        if (!entry.string(tag == kFirstField ? key : feature)) return false;
      }
      if (!entry.at_end()) return false;
      visit(key, feature);
    }
  }
  return true;
}

// The values of a list: packed in one piece, or each with its tag.
struct List {
  std::string_view bytes;
  bool packed = false;
};

// The number of varints in packed bytes; -1 where they are damaged.
inline int64_t count_varints(std::string_view bytes) {
  constexpr uint64_t kHighBits = 0x8080808080808080u;
  if (!bytes.empty() && static_cast<uint8_t>(bytes.back()) >= 0x80) return -1;
  int64_t count = 0;
  size_t at = 0;
  bool suspicious = false;  // more than ten bytes in one varint would fill an aligned half of a word
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    const uint64_t high = word & kHighBits;
    count += 8 - __builtin_popcountll(high);
    suspicious |= static_cast<uint32_t>(high) == static_cast<uint32_t>(kHighBits) || high >> 32 == kHighBits >> 32;
  }
  for (; at < bytes.size(); ++at) count += static_cast<uint8_t>(bytes[at]) < 0x80;
  if (suspicious) {
    int continued = 0;
    for (const char c : bytes) {
      continued = static_cast<uint8_t>(c) < 0x80 ? 0 : continued + 1;
      if (continued == 10) return -1;
    }
  }
  return count;
}

// The list of a feature, whose first byte, the list's tag, is gone. Returns the number of its values, -1 where it is
// damaged.
inline int64_t read_strings(std::string_view feature, List& list) {
  if (!Reader(feature).nested(list.bytes)) return -1;
  Reader values(list.bytes);
  int64_t count = 0;
  for (std::string_view value; !values.at_end(); ++count) {
    if (!values.skip_tag(kFirstField) || !values.string(value)) return -1;
  }
  return count;
}

inline int64_t read_floats(std::string_view feature, List& list) {
  if (!Reader(feature).nested(list.bytes)) return -1;
  Reader values(list.bytes);
  list.packed = values.skip_tag(kFirstField);
  if (list.packed) {
    uint32_t length = 0;
    if (!values.length(length) || !values.take(length / 4 * 4, list.bytes)) return -1;
    return length / 4;
  }
  int64_t count = 0;
  for (std::string_view value; !values.at_end(); ++count) {
    if (!values.skip_tag(kFixed32) || !values.take(4, value)) return -1;
  }
  return count;
}

inline int64_t read_integers(std::string_view feature, List& list) {
  if (!Reader(feature).nested(list.bytes)) return -1;
  Reader values(list.bytes);
  list.packed = values.skip_tag(kFirstField);
  if (list.packed) return values.nested(list.bytes) ? count_varints(list.bytes) : -1;
  int64_t count = 0;
  for (uint64_t value = 0; !values.at_end(); ++count) {
    if (!values.skip_tag(kVarint) || !values.varint(value)) return -1;
  }
  return count;
}

// Calls visit(is_list, key, content) for each entry of the two maps of a message: features of the context, and feature
// lists. Returns whether the message is a tf.SequenceExample.
template <class Visit>
bool for_entries_of_sequence(std::string_view message, const Visit& visit) {
  Reader reader(message);
  while (!reader.at_end()) {
    const bool is_context = reader.skip_tag(kFirstField);
    if (!is_context && !reader.skip_tag(kSecondField)) {
      if (!reader.skip_field()) return false;
      continue;
    }
    std::string_view part;
    if (!reader.nested(part)) return false;
    Reader entries(part);
    while (!entries.at_end()) {
      if (!entries.skip_tag(kFirstField) || !entries.nested(part)) return false;
      Reader entry(part);
      std::string_view key, content;
      if (!entry.skip_tag(kFirstField) || !entry.string(key)) return false;
      if (!entry.skip_tag(kSecondField) || !entry.string(content) || !entry.at_end()) return false;
      visit(!is_context, key, content);
    }
  }
  return true;
}

// Reads a list of a tf.SequenceExample's feature, whose tag is gone; goes to where the reading ends, which need not be
// the list's end. Returns the number of its values, -1 where it is damaged.
inline int64_t read_list_of_sequence(Reader& feature, uint8_t tag, List& list) {
  list.packed = false;
  if (!feature.nested(list.bytes)) return -1;
  Reader values(list.bytes);
  int64_t count = 0;
  if (tag == kBytesList) {
    for (std::string_view value; !values.at_end(); ++count) {
      if (!values.skip_tag(kFirstField) || !values.string(value)) return -1;
    }
  } else if (values.skip_tag(kFirstField)) {
    list.packed = true;
    if (!values.nested(list.bytes)) return -1;
    const auto size = static_cast<int64_t>(list.bytes.size());
    count = tag == kInt64List ? count_varints(list.bytes) : size % 4 == 0 ? size / 4 : -1;
  } else {
    std::string_view value;
    for (uint64_t integer = 0; !values.at_end(); ++count) {
      const bool read = tag == kInt64List ? values.skip_tag(kVarint) && values.varint(integer)
                                          : values.skip_tag(kFixed32) && values.take(4, value);
      if (!read) return -1;
    }
  }
  feature.continue_from(values);
  return count;
}

// Writes the values of a list that has been read.
inline void write_floats(const List& list, float* values) {
  const size_t tag = list.packed ? 0 : 1;
  for (size_t at = tag; at < list.bytes.size(); at += tag + 4) {
    const auto bits = static_cast<uint32_t>(word32(list.bytes.data() + at));
    std::memcpy(values++, &bits, sizeof bits);
  }
}

inline void write_integers(const List& list, int64_t* values) {
  Reader reader(list.bytes);
  for (uint64_t value = 0; !reader.at_end();) {
    if (!list.packed) reader.skip_tag(kVarint);
    if (!reader.varint(value)) return;
    *values++ = static_cast<int64_t>(value);
  }
}

}  // namespace onnx_sparse::example_messages
