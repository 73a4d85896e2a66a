// What the parsers of tf.Example and tf.SequenceExample messages share: features, and their values in the outputs.

#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "abi/call.h"
#include "abi/string_tensor.h"
#include "operators/example_messages.h"
#include "operators/first_refused.h"

namespace onnx_sparse::example_features {

// The types of lists, in the order of the outputs and of the inputs with defaults.
constexpr size_t kTypes = 3;
constexpr OrtElementType kElementTypes[kTypes] = {ORT_FLOAT, ORT_INT64, ORT_STRING};
constexpr uint8_t kListTags[kTypes] = {example_messages::kFloatList, example_messages::kInt64List,
                                       example_messages::kBytesList};

constexpr size_t kNone = std::numeric_limits<size_t>::max();

// The type of the list with a tag; kTypes where there is none.
inline size_t type_of_list(uint8_t tag) {
  size_t type = 0;
  while (type < kTypes && kListTags[type] != tag) ++type;
  return type;
}

struct Feature {
  size_t type;  // its position in kElementTypes
  int64_t size;
  bool required;
  bool has_defaults = false;
  size_t first_default = 0;
  int64_t first_value = 0;  // in the output of its type

  // Whether a list may have so many values.
  bool fits(int64_t values) const {
    // As unsigned numbers, because the negative of the least size is no int64.
    return size >= 0 ? values == size : static_cast<uint64_t>(values) % (0 - static_cast<uint64_t>(size)) == 0;
  }
};

// Reads the features from the inputs with types, sizes, and whether they are required, which begin with number 2, and
// gives them their places in the inputs with defaults, of which `defaults` is the first. `never` has those without
// defaults; it may be null.
std::vector<Feature> read_features(const Call& call, size_t count, size_t defaults, const uint8_t* never);

// The numbers of features by key, in each of the maps of a message.
class Keys {
 public:
  // `maps` says which of two maps each key is in; null where there is one.
  Keys(const Strings& keys, const uint8_t* maps);

  // kNone where there is no such feature; `guess` is a feature that it may be.
  size_t find(std::string_view key, uint8_t map, size_t guess) const {
    return guess < keys_.size() && is(guess, key, map) ? guess : slots_[slot_of(key, map)];
  }

  std::string_view operator[](size_t f) const { return keys_[f]; }

 private:
  uint8_t map_of(size_t f) const { return maps_ == nullptr ? 0 : maps_[f]; }
  bool is(size_t f, std::string_view key, uint8_t map) const { return keys_[f] == key && map_of(f) == map; }

  // The slot that has the key, or would get it.
  size_t slot_of(std::string_view key, uint8_t map) const {
    const size_t mask = slots_.size() - 1;
    size_t slot = hash(key) & mask;
    while (slots_[slot] != kNone && !is(slots_[slot], key, map)) slot = (slot + 1) & mask;
    return slot;
  }

  static size_t hash(std::string_view key) {
    constexpr uint64_t kFactor = 0x9E3779B97F4A7C15u;
    uint64_t mixed = key.size();
    size_t at = 0;
    for (; at + 8 <= key.size(); at += 8) {
      mixed = (mixed ^ word64(key.data() + at)) * kFactor;
      mixed ^= mixed >> 32;
    }
    uint64_t rest = 0;
    if (at < key.size()) std::memcpy(&rest, key.data() + at, key.size() - at);
    mixed = (mixed ^ rest) * kFactor;
    return static_cast<size_t>(mixed ^ mixed >> 32);
  }

  const Strings& keys_;
  const uint8_t* maps_;
  std::vector<size_t> slots_;
};

// Why a message is refused.
struct Refusal {
  enum Reason { malformed, unknown_list, another_list, damaged, count, missing };

  Reason reason;
  size_t feature = 0;
  size_t list = 0;
  int64_t count_found = 0;
  size_t step = kNone;  // in a feature list
};

// The sentence about a message that is refused for something else than being malformed: "serialized[1], feature 'x' is
// missing; it is required".
std::string text_of(const Refusal& refusal, const Feature& feature, std::string_view key, size_t message, bool is_list);

// A total of two numbers of values.
int64_t sum_of(int64_t a, int64_t b, const Cause& cause);

// The values of all features, the first three outputs.
class Values {
 public:
  // `defaults` is the first input with defaults.
  Values(const Call& call, size_t defaults);

  void allocate(const int64_t (&totals)[kTypes], const Cause& cause);

  // Writes the values of a list that has been read, in a task.
  void write(size_t type, const example_messages::List& list, int64_t first, size_t count);

  void write_defaults(const Feature& feature, int64_t first, size_t count);

  // Throws where a string could not be written.
  void finish() { strings_->finish(); }

 private:
  const Call& call_;
  const size_t defaults_;
  const Strings string_defaults_;
  float* floats_ = nullptr;
  int64_t* integers_ = nullptr;
  std::optional<StringWriter> strings_;
};

}  // namespace onnx_sparse::example_features
