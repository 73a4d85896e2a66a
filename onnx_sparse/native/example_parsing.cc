// ParseExample.

#include <atomic>
#include <limits>
#include <optional>

#include "example_messages.h"
#include "kernels.h"
#include "requirements.h"
#include "string_tensor.h"

namespace onnx_sparse {
namespace {

using example_messages::List;

// A feature of a message costs as much as moving this many bytes.
constexpr int64_t kFeatureBytes = 64;

// The types of lists, in the order of the outputs and of the inputs with defaults.
constexpr size_t kTypes = 3;
constexpr OrtElementType kElementTypes[kTypes] = {ORT_FLOAT, ORT_INT64, ORT_STRING};
constexpr std::string_view kListNames[kTypes] = {"a FloatList", "an Int64List", "a BytesList"};
constexpr uint8_t kListTags[kTypes] = {0x12, 0x1A, 0x0A};

// The first of the inputs with defaults.
constexpr size_t kDefaults = 7;
constexpr size_t kRowSplits = 3;
constexpr size_t kCoordinates = 4;

constexpr size_t kNone = std::numeric_limits<size_t>::max();

std::string shown(std::string_view key) {
  std::string text(key);
  std::replace_if(text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return "'" + text + "'";
}

struct Feature {
  size_t type;  // its position in kElementTypes
  int64_t size;
  bool required;
  bool unset_is_empty;
  bool sparse;
  size_t first_default = 0;
  int64_t first_value = 0;  // in the output of its type
  int64_t first_place = 0;  // in the coordinates

  bool has_defaults() const { return !required && size >= 0; }
};

// The numbers of features by key.
class Keys {
 public:
  explicit Keys(const Strings& keys) : keys_(keys) {
    size_t slots = 4;
    while (slots < 2 * keys.size()) slots *= 2;
    slots_.assign(slots, kNone);
    for (size_t f = 0; f < keys.size(); ++f) {
      size_t& slot = slots_[slot_of(keys[f])];
      if (slot != kNone) {
        throw InvalidArgument{"keys[" + std::to_string(f) + "] = " + shown(keys[f]) + " is also keys[" +
                              std::to_string(slot) + "]"};
      }
      slot = f;
    }
  }

  // kNone where there is no such feature; `guess` is a feature that it may be.
  size_t find(std::string_view key, size_t guess) const {
    if (guess < keys_.size() && keys_[guess] == key) return guess;
    return slots_[slot_of(key)];
  }

  std::string_view operator[](size_t f) const { return keys_[f]; }

 private:
  // The slot that has the key, or would get it.
  size_t slot_of(std::string_view key) const {
    const size_t mask = slots_.size() - 1;
    size_t slot = hash(key) & mask;
    while (slots_[slot] != kNone && keys_[slots_[slot]] != key) slot = (slot + 1) & mask;
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
  std::vector<size_t> slots_;
};

// What a message has of a feature, before its values are read.
struct Cell {
  const char* data;  // behind the list's tag; null where there is no list
  uint32_t size;
  bool found;
  uint8_t type;  // the list's
};

// Why a message is refused.
struct Refusal {
  enum Reason { not_an_example, unknown_list, another_list, damaged, count, missing };

  Reason reason;
  size_t feature = 0;
  size_t list = 0;
  int64_t count_found = 0;
};

class Parser {
 public:
  explicit Parser(const Call& call)
      : call_(call),
        messages_(call, call.input(0)),
        key_texts_(call, call.input(1)),
        string_defaults_(call, call.input(kDefaults + 2)),
        keys_(key_texts_) {
    read_features();
    parse();
  }

 private:
  size_t count() const { return features_.size(); }
  Cell* cells_of(size_t message) { return cells_.get() + message * count(); }
  int64_t* splits_of(size_t feature) { return row_splits_ + feature * (messages_.size() + 1); }

  void read_features() {
    features_.resize(key_texts_.size());
    size_t defaults[kTypes] = {};
    for (size_t f = 0; f < count(); ++f) {
      const int64_t element_type = call_.input(2).integer(f);
      size_t type = 0;
      while (type < kTypes && kElementTypes[type] != element_type) ++type;
      if (type == kTypes) {
        throw InvalidArgument{"types[" + std::to_string(f) + "] = " + std::to_string(element_type) +
                              " is neither 1 (float), 7 (int64) nor 8 (string)"};
      }
      Feature& feature = features_[f] = {type, call_.input(3).integer(f), call_.input(4).as<uint8_t>()[f] != 0,
                                         call_.input(5).as<uint8_t>()[f] != 0, call_.input(6).as<uint8_t>()[f] != 0};
      if (!feature.has_defaults()) continue;
      feature.first_default = defaults[type];
      // More than all the inputs' elements would be too many, whatever comes after.
      if (__builtin_add_overflow(defaults[type], static_cast<size_t>(feature.size), &defaults[type])) {
        defaults[type] = kNone;
      }
    }
    for (size_t type = 0; type < kTypes; ++type) {
      const auto given = static_cast<size_t>(call_.input(kDefaults + type).size());
      if (given != defaults[type]) {
        throw InvalidArgument{std::string(name_of(kElementTypes[type])) + "_defaults has " + std::to_string(given) +
                              " elements; expected " + std::to_string(defaults[type])};
      }
    }
  }

  void parse() {
    const auto rows = static_cast<int64_t>(messages_.size());
    const auto columns = static_cast<int64_t>(count());
    const std::string cause = std::to_string(rows) + " messages";
    row_splits_ = static_cast<int64_t*>(call_.allocate(kRowSplits, {columns, rows + 1}, sizeof(int64_t), cause));
    cells_.reset(new Cell[messages_.size() * count()]);
    followers_.reset(new std::atomic<size_t>[count() + 1]);
    for (size_t f = 0; f <= count(); ++f) followers_[f].store(kNone, std::memory_order_relaxed);
    const int64_t bytes = static_cast<int64_t>(messages_.length()) + rows * columns * kFeatureBytes;
    std::atomic<size_t> refused{kNone};  // the first message that is
    call_.for_parts(rows, bytes, [&](int64_t first, int64_t end) {
      Refusal refusal;
      for (auto b = static_cast<size_t>(first); b < static_cast<size_t>(end); ++b) {
        if (find_lists(b, refusal)) continue;
        size_t known = refused.load();
        while (b < known && !refused.compare_exchange_weak(known, b)) {
        }
        return;
      }
    });
    if (refused.load() != kNone) refuse(refused.load());
    place_values(cause);
    call_.for_parts(rows, bytes, [&](int64_t first, int64_t end) {
      for (auto b = static_cast<size_t>(first); b < static_cast<size_t>(end); ++b) write_values(b);
    });
    strings_->finish();
  }

  // Finds the lists of a message and the number of their values, which row_splits holds until they are added up.
  bool find_lists(size_t message, Refusal& refusal) {
    Cell* cells = cells_of(message);
    for (size_t f = 0; f < count(); ++f) cells[f].found = false;
    size_t unknown = kNone;
    size_t before = count();  // the feature before, if there is one
    const bool whole =
        example_messages::for_entries(messages_[message], [&](std::string_view key, std::string_view feature) {
          const size_t guess = followers_[before].load(std::memory_order_relaxed);
          const size_t f = keys_.find(key, guess);
          if (f == kNone) return;
          if (f != guess) followers_[before].store(f, std::memory_order_relaxed);
          before = f;
          if (feature.empty()) {
            if (features_[f].unset_is_empty) cells[f] = {nullptr, 0, true, 0};
            return;
          }
          uint8_t type = 0;
          while (type < kTypes && kListTags[type] != static_cast<uint8_t>(feature.front())) ++type;
          if (type == kTypes) unknown = std::min(unknown, f);
          cells[f] = {feature.data() + 1, static_cast<uint32_t>(feature.size() - 1), true, type};
        });
    if (!whole) return refusal = {Refusal::not_an_example}, false;
    if (unknown != kNone) return refusal = {Refusal::unknown_list, unknown}, false;
    for (size_t f = 0; f < count(); ++f) {
      const int64_t values = count_values(f, cells[f], refusal);
      if (values < 0) return false;
      splits_of(f)[message + 1] = values;
    }
    return true;
  }

  // The number of values that a message has of a feature; -1 where it is refused.
  int64_t count_values(size_t f, const Cell& cell, Refusal& refusal) const {
    const Feature& feature = features_[f];
    if (!cell.found) {
      if (feature.required) return refusal = {Refusal::missing, f}, -1;
      return std::max(feature.size, int64_t{0});
    }
    int64_t values = 0;
    if (cell.data != nullptr) {
      if (cell.type != feature.type) return refusal = {Refusal::another_list, f, cell.type}, -1;
      List list;
      values = read(cell, list);
      if (values < 0) return refusal = {Refusal::damaged, f, cell.type}, -1;
    }
    // As unsigned numbers, because the negative of the least size is no int64.
    const bool fits = feature.size >= 0
                          ? values == feature.size
                          : static_cast<uint64_t>(values) % (0 - static_cast<uint64_t>(feature.size)) == 0;
    return fits ? values : (refusal = {Refusal::count, f, 0, values}, -1);
  }

  static int64_t read(const Cell& cell, List& list) {
    const std::string_view feature(cell.data, cell.size);
    switch (kElementTypes[cell.type]) {
      case ORT_FLOAT:
        return example_messages::read_floats(feature, list);
      case ORT_INT64:
        return example_messages::read_integers(feature, list);
      default:
        return example_messages::read_strings(feature, list);
    }
  }

  [[noreturn]] void refuse(size_t message) {
    Refusal refusal;
    find_lists(message, refusal);
    const std::string place = "serialized[" + std::to_string(message) + "]";
    if (refusal.reason == Refusal::not_an_example) throw InvalidArgument{place + " is not a tf.Example"};
    const Feature& feature = features_[refusal.feature];
    const auto text = [&]() -> std::string {
      switch (refusal.reason) {
        case Refusal::unknown_list:
          return "has a list of no known type";
        case Refusal::another_list:
          return "has " + std::string(kListNames[refusal.list]) + "; " + std::string(kListNames[feature.type]) +
                 " expected";
        case Refusal::damaged:
          return "has " + std::string(kListNames[refusal.list]) + " that is damaged";
        case Refusal::count:
          return "has " + std::to_string(refusal.count_found) + " values; " +
                 (feature.size >= 0 ? "" : "a multiple of ") +
                 std::to_string(feature.size >= 0 ? static_cast<uint64_t>(feature.size)
                                                  : 0 - static_cast<uint64_t>(feature.size)) +
                 " expected";
        default:
          return "is missing; it is required";
      }
    };
    throw InvalidArgument{place + ", feature " + shown(keys_[refusal.feature]) + " " + text()};
  }

  // Adds up the row splits and allocates the values.
  void place_values(const std::string& cause) {
    int64_t totals[kTypes] = {};
    int64_t places = 0;
    for (size_t f = 0; f < count(); ++f) {
      int64_t* splits = splits_of(f);
      int64_t& total = totals[features_[f].type];
      features_[f].first_value = total;
      splits[0] = 0;
      for (size_t b = 1; b <= messages_.size(); ++b) {
        if (__builtin_add_overflow(splits[b], splits[b - 1], &splits[b])) too_many(cause);
      }
      const int64_t values = splits[messages_.size()];
      if (__builtin_add_overflow(total, values, &total)) too_many(cause);
      if (!features_[f].sparse) continue;
      features_[f].first_place = places;
      if (__builtin_add_overflow(places, values, &places)) too_many(cause);
    }
    floats_ = static_cast<float*>(call_.allocate(0, {totals[0]}, sizeof(float), cause));
    integers_ = static_cast<int64_t*>(call_.allocate(1, {totals[1]}, sizeof(int64_t), cause));
    coordinates_ = static_cast<int64_t*>(call_.allocate(kCoordinates, {places, 2}, sizeof(int64_t), cause));
    strings_.emplace(call_, call_.allocate_value(2, {totals[2]}, size_of(ORT_STRING), cause));
  }

  [[noreturn]] static void too_many(const std::string& cause) {
    throw InvalidArgument{cause + ": an output of more than 2^63 - 1 values cannot be allocated"};
  }

  void write_values(size_t message) {
    for (size_t f = 0; f < count(); ++f) {
      const Feature& feature = features_[f];
      const int64_t* splits = splits_of(f) + message;
      const auto count_of_values = static_cast<size_t>(splits[1] - splits[0]);
      if (count_of_values == 0) continue;
      if (feature.sparse) {
        int64_t* place = coordinates_ + 2 * (feature.first_place + splits[0]);
        for (size_t k = 0; k < count_of_values; ++k, place += 2) {
          place[0] = static_cast<int64_t>(message);
          place[1] = static_cast<int64_t>(k);
        }
      }
      const int64_t first = feature.first_value + splits[0];
      const Cell& cell = cells_of(message)[f];
      if (!cell.found) {
        write_defaults(feature, first, count_of_values);
        continue;
      }
      List list;
      read(cell, list);
      switch (kElementTypes[feature.type]) {
        case ORT_FLOAT:
          example_messages::write_floats(list, floats_ + first);
          break;
        case ORT_INT64:
          example_messages::write_integers(list, integers_ + first);
          break;
        default:
          example_messages::Reader values(list.bytes);
          std::string_view value;
          for (size_t k = 0; k < count_of_values && values.skip_tag(example_messages::kFirstField); ++k) {
            if (values.string(value)) strings_->put(static_cast<size_t>(first) + k, value);
          }
      }
    }
  }

  void write_defaults(const Feature& feature, int64_t first, size_t size) {
    const Tensor& defaults = call_.input(kDefaults + feature.type);
    switch (kElementTypes[feature.type]) {
      case ORT_FLOAT:
        std::memcpy(floats_ + first, static_cast<const char*>(defaults.data) + feature.first_default * sizeof(float),
                    size * sizeof(float));
        break;
      case ORT_INT64:
        std::memcpy(integers_ + first, defaults.as<int64_t>() + feature.first_default, size * sizeof(int64_t));
        break;
      default:
        for (size_t k = 0; k < size; ++k) {
          strings_->put(static_cast<size_t>(first) + k, string_defaults_[feature.first_default + k]);
        }
    }
  }

  const Call& call_;
  const Strings messages_;
  const Strings key_texts_;
  const Strings string_defaults_;
  const Keys keys_;
  std::vector<Feature> features_;
  std::unique_ptr<Cell[]> cells_;  // of each message those of all features
  // The feature that came after each feature in the message before, and the one that came first: most messages have
  // their features in the same order.
  std::unique_ptr<std::atomic<size_t>[]> followers_;
  int64_t* row_splits_ = nullptr;
  float* floats_ = nullptr;
  int64_t* integers_ = nullptr;
  int64_t* coordinates_ = nullptr;
  std::optional<StringWriter> strings_;
};

}  // namespace

void parse_example(const Call& call) { Parser{call}; }

}  // namespace onnx_sparse
