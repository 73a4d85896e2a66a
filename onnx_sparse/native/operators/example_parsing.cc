// ParseExample.

#include "abi/call.h"
#include "operators/example_features.h"
#include "operators/requirements.h"

namespace onnx_sparse {
namespace {

using namespace example_features;
using example_messages::List;

// A feature of a message costs as much as moving this many bytes.
constexpr int64_t kFeatureBytes = 64;

constexpr size_t kUnsetIsEmpty = 5;
constexpr size_t kSparse = 6;
// The first of the inputs with defaults.
constexpr size_t kDefaults = 7;

constexpr size_t kRowSplits = 3;
constexpr size_t kCoordinates = 4;

// What a message has of a feature, before its values are read.
struct Cell {
  const char* data;  // behind the list's tag; null where there is no list
  uint32_t size;
  bool found;
  bool unknown;  // whether any entry, counted or not, has a list of no known type
  uint8_t type;  // the list's
};

class Parser {
 public:
  explicit Parser(const Call& call)
      : call_(call),
        messages_(call, call.input(0)),
        key_texts_(call, call.input(1)),
        keys_(key_texts_, nullptr),
        features_(read_features(call, key_texts_.size(), kDefaults, nullptr)),
        unset_is_empty_(call.input(kUnsetIsEmpty).as<uint8_t>()),
        sparse_(call.input(kSparse).as<uint8_t>()),
        values_(call, kDefaults) {
    parse();
  }

 private:
  size_t count() const { return features_.size(); }
  Cell* cells_of(size_t message) { return cells_.get() + message * count(); }
  int64_t* splits_of(size_t feature) { return row_splits_ + feature * (messages_.size() + 1); }

  void parse() {
    const auto rows = static_cast<int64_t>(messages_.size());
    const auto columns = static_cast<int64_t>(count());
    const Cause cause = std::to_string(rows) + " messages";
    row_splits_ = static_cast<int64_t*>(call_.allocate(kRowSplits, {columns, rows + 1}, sizeof(int64_t), cause));
    cells_.reset(new Cell[messages_.size() * count()]);
    first_places_.reset(new int64_t[count()]);
    followers_.reset(new std::atomic<size_t>[count() + 1]);
    for (size_t f = 0; f <= count(); ++f) followers_[f].store(kNone, std::memory_order_relaxed);
    const int64_t bytes = static_cast<int64_t>(messages_.length()) + rows * columns * kFeatureBytes;
    FirstRefused refused;
    call_.for_parts(rows, bytes, [&](int64_t first, int64_t end) {
      Refusal refusal;
      for (auto b = static_cast<size_t>(first); b < static_cast<size_t>(end); ++b) {
        if (!find_lists(b, refusal)) return refused.add(b);
      }
    });
    if (refused.message() != kNone) refuse(refused.message());
    place_values(cause);
    call_.for_parts(rows, bytes, [&](int64_t first, int64_t end) {
      for (auto b = static_cast<size_t>(first); b < static_cast<size_t>(end); ++b) write_values(b);
    });
    values_.finish();
  }

  // Finds the lists of a message and the number of their values, which row_splits holds until they are added up.
  bool find_lists(size_t message, Refusal& refusal) {
    Cell* cells = cells_of(message);
    for (size_t f = 0; f < count(); ++f) cells[f] = {};
    size_t before = count();  // the feature before, if there is one
    const bool whole =
        example_messages::for_entries(messages_[message], [&](std::string_view key, std::string_view feature) {
          const size_t guess = followers_[before].load(std::memory_order_relaxed);
          const size_t f = keys_.find(key, 0, guess);
          if (f == kNone) return;
          if (f != guess) followers_[before].store(f, std::memory_order_relaxed);
          before = f;
          if (feature.empty()) {
            if (unset_is_empty_[f] != 0) cells[f] = {nullptr, 0, true, cells[f].unknown, 0};
            return;
          }
          const auto type = static_cast<uint8_t>(type_of_list(static_cast<uint8_t>(feature.front())));
          const bool unknown = cells[f].unknown || type == kTypes;
          cells[f] = {feature.data() + 1, static_cast<uint32_t>(feature.size() - 1), true, unknown, type};
        });
    if (!whole) return refusal = {Refusal::malformed}, false;
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
    if (cell.unknown) return refusal = {Refusal::unknown_list, f}, -1;
    if (!cell.found) {
      if (feature.required) return refusal = {Refusal::missing, f}, -1;
      return std::max(feature.size, int64_t{0});
    }
    int64_t values = 0;
    if (cell.data != nullptr) {
      if (cell.type != feature.type) return refusal = {Refusal::another_list, f, cell.type}, -1;
      List list;
      values = read(cell, list);
      if (values < 0) return refusal = {Refusal::damaged, f}, -1;
    }
    return feature.fits(values) ? values : (refusal = {Refusal::count, f, 0, values}, -1);
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
    if (refusal.reason == Refusal::malformed) {
      throw InvalidArgument{"serialized[" + std::to_string(message) + "] is not a tf.Example"};
    }
    const size_t f = refusal.feature;
    throw InvalidArgument{text_of(refusal, features_[f], keys_[f], message, false)};
  }

  // Adds up the row splits and allocates the values.
  void place_values(const Cause& cause) {
    int64_t totals[kTypes] = {};
    int64_t places = 0;
    for (size_t f = 0; f < count(); ++f) {
      int64_t* splits = splits_of(f);
      int64_t& total = totals[features_[f].type];
      features_[f].first_value = total;
      first_places_[f] = places;
      splits[0] = 0;
      for (size_t b = 1; b <= messages_.size(); ++b) splits[b] = sum_of(splits[b], splits[b - 1], cause);
      const int64_t values = splits[messages_.size()];
      total = sum_of(total, values, cause);
      if (sparse_[f] != 0) places = sum_of(places, values, cause);
    }
    values_.allocate(totals, cause);
    coordinates_ = static_cast<int64_t*>(call_.allocate(kCoordinates, {places, 2}, sizeof(int64_t), cause));
  }

  void write_values(size_t message) {
    for (size_t f = 0; f < count(); ++f) {
      const Feature& feature = features_[f];
      const int64_t* splits = splits_of(f) + message;
      const auto count_of_values = static_cast<size_t>(splits[1] - splits[0]);
      if (count_of_values == 0) continue;
      if (sparse_[f] != 0) {
        int64_t* place = coordinates_ + 2 * (first_places_[f] + splits[0]);
        for (size_t k = 0; k < count_of_values; ++k, place += 2) {
          place[0] = static_cast<int64_t>(message);
          place[1] = static_cast<int64_t>(k);
        }
      }
      const int64_t first = feature.first_value + splits[0];
      const Cell& cell = cells_of(message)[f];
      if (!cell.found) {
        values_.write_defaults(feature, first, count_of_values);
        continue;
      }
      List list;
      read(cell, list);
      values_.write(feature.type, list, first, count_of_values);
    }
  }

  const Call& call_;
  const Strings messages_;
  const Strings key_texts_;
  const Keys keys_;
  std::vector<Feature> features_;
  const uint8_t* unset_is_empty_;
  const uint8_t* sparse_;
  Values values_;
  std::unique_ptr<Cell[]> cells_;            // of each message those of all features
  std::unique_ptr<int64_t[]> first_places_;  // of each feature, in the coordinates
  // The feature that came after each feature in the message before, and the one that came first: most messages have
  // their features in the same order.
  std::unique_ptr<std::atomic<size_t>[]> followers_;
  int64_t* row_splits_ = nullptr;
  int64_t* coordinates_ = nullptr;
};

}  // namespace

void parse_example(const Call& call) { Parser{call}; }

}  // namespace onnx_sparse
