// ParseSequenceExample.

#include "abi/call.h"
#include "operators/example_features.h"
#include "operators/requirements.h"

namespace onnx_sparse {
namespace {

using namespace example_features;
using example_messages::List;
using example_messages::Reader;

// A feature of a message costs as much as moving this many bytes.
constexpr int64_t kFeatureBytes = 64;

constexpr size_t kInLists = 5;
// The first of the inputs with defaults.
constexpr size_t kDefaults = 6;

constexpr size_t kListSplits = 3;
constexpr size_t kLengths = 4;

// What a message has of a feature: the content of the feature or feature list.
struct Cell {
  const char* data;  // null where it has none
  size_t size;
};

class SequenceParser {
 public:
  explicit SequenceParser(const Call& call)
      : call_(call),
        messages_(call, call.input(0)),
        key_texts_(call, call.input(1)),
        in_lists_(call.input(kInLists).as<uint8_t>()),
        keys_(key_texts_, in_lists_),
        features_(read_features(call, key_texts_.size(), kDefaults, in_lists_)),
        values_(call, kDefaults) {
    parse();
  }

 private:
  size_t count() const { return features_.size(); }
  bool is_list(size_t feature) const { return in_lists_[feature] != 0; }
  Cell* cells_of(size_t message) { return cells_.get() + message * count(); }
  int64_t* splits_of(size_t feature) { return list_splits_ + feature * (messages_.size() + 1); }
  int64_t* value_splits_of(size_t feature) { return value_splits_.get() + feature * (messages_.size() + 1); }

  void parse() {
    const auto rows = static_cast<int64_t>(messages_.size());
    const auto columns = static_cast<int64_t>(count());
    const Cause cause = std::to_string(rows) + " messages";
    list_splits_ = static_cast<int64_t*>(call_.allocate(kListSplits, {columns, rows + 1}, sizeof(int64_t), cause));
    value_splits_.reset(new int64_t[count() * (messages_.size() + 1)]);
    cells_.reset(new Cell[messages_.size() * count()]);
    first_lists_.reset(new int64_t[count()]);
    const int64_t bytes = static_cast<int64_t>(messages_.length()) + rows * columns * kFeatureBytes;
    FirstRefused refused;
    call_.for_parts(rows, bytes, [&](int64_t first, int64_t end) {
      Refusal refusal;
      for (auto b = static_cast<size_t>(first); b < static_cast<size_t>(end); ++b) {
        if (!count_lists(b, refusal)) return refused.add(b);
      }
    });
    if (refused.message() != kNone) refuse(refused.message());
    place_values(cause);
    call_.for_parts(rows, bytes, [&](int64_t first, int64_t end) {
      for (auto b = static_cast<size_t>(first); b < static_cast<size_t>(end); ++b) write_values(b);
    });
    values_.finish();
  }

  // Finds the features of a message and counts their lists and values, whose numbers are in the splits until they are
  // added up.
  bool count_lists(size_t message, Refusal& refusal) {
    Cell* cells = cells_of(message);
    for (size_t f = 0; f < count(); ++f) cells[f] = {};
    const bool whole = example_messages::for_entries_of_sequence(
        messages_[message], [&](bool in_lists, std::string_view key, std::string_view content) {
          const size_t f = keys_.find(key, in_lists ? 1 : 0, kNone);
          if (f != kNone) cells[f] = {content.data(), content.size()};
        });
    if (!whole) return refusal = {Refusal::malformed}, false;
    for (size_t f = 0; f < count(); ++f) {
      int64_t lists = 0, values = 0;
      const auto add = [&](const List&, int64_t size) {
        ++lists;
        values += size;
      };
      if (!for_lists(f, cells[f], add, refusal)) return false;
      splits_of(f)[message + 1] = lists;
      value_splits_of(f)[message + 1] = values;
    }
    return true;
  }

  // Calls visit(list, size) for each list that a message has of a feature; for one of defaults the list is empty.
  template <class Visit>
  bool for_lists(size_t f, const Cell& cell, const Visit& visit, Refusal& refusal) const {
    const Feature& feature = features_[f];
    List list;
    if (cell.data == nullptr) {
      if (feature.required) return refusal = {Refusal::missing, f}, false;
      if (!is_list(f)) visit(list, feature.has_defaults ? feature.size : 0);
      return true;
    }
    Reader reader({cell.data, cell.size});
    if (!is_list(f)) {
      const int64_t size = cell.size == 0 ? 0 : read_list(reader, f, list, refusal);
      if (size < 0 || !fits(f, size, refusal)) return false;
      visit(list, size);
      return true;
    }
    for (size_t step = 0; !reader.at_end(); ++step) {
      const int64_t size = read_step(reader, f, list, refusal);
      if (size < 0 || !fits(f, size, refusal)) return refusal.step = step, false;
      visit(list, size);
    }
    return true;
  }

  bool fits(size_t f, int64_t size, Refusal& refusal) const {
    return features_[f].fits(size) || (refusal = {Refusal::count, f, 0, size}, false);
  }

  // The number of values in the next feature of a feature list; -1 where it is refused.
  int64_t read_step(Reader& reader, size_t f, List& list, Refusal& refusal) const {
    list = {};
    uint32_t size = 0;
    if (!reader.skip_tag(example_messages::kFirstField) || !reader.length(size) || size == 1) {
      return refusal = {Refusal::damaged, f}, -1;
    }
    if (size == 0) return 0;
    if (size == 2) {  // the tag and the length of an empty list
      if (!skip_list_tag(reader, f, refusal)) return -1;
      if (!reader.length(size) || size != 0) return refusal = {Refusal::damaged, f}, -1;
      return 0;
    }
    Reader feature = reader.part(size);
    const int64_t values = read_list(feature, f, list, refusal);
    reader.continue_from(feature);
    return values;
  }

  // The number of values in the next list; -1 where it is refused.
  int64_t read_list(Reader& reader, size_t f, List& list, Refusal& refusal) const {
    if (!skip_list_tag(reader, f, refusal)) return -1;
    const int64_t values = example_messages::read_list_of_sequence(reader, kListTags[features_[f].type], list);
    return values >= 0 ? values : (refusal = {Refusal::damaged, f}, -1);
  }

  bool skip_list_tag(Reader& reader, size_t f, Refusal& refusal) const {
    if (reader.skip_tag(kListTags[features_[f].type])) return true;
    const size_t type = reader.at_end() ? kTypes : type_of_list(reader.next());
    refusal = {type == kTypes ? Refusal::unknown_list : Refusal::another_list, f, type};
    return false;
  }

  [[noreturn]] void refuse(size_t message) {
    Refusal refusal;
    count_lists(message, refusal);
    if (refusal.reason == Refusal::malformed) {
      throw InvalidArgument{"serialized[" + std::to_string(message) + "] is not a tf.SequenceExample"};
    }
    const size_t f = refusal.feature;
    throw InvalidArgument{text_of(refusal, features_[f], keys_[f], message, is_list(f))};
  }

  // Adds up the splits and allocates the values.
  void place_values(const Cause& cause) {
    int64_t totals[kTypes] = {};
    int64_t lists = 0;
    for (size_t f = 0; f < count(); ++f) {
      int64_t& total = totals[features_[f].type];
      features_[f].first_value = total;
      first_lists_[f] = lists;
      lists = sum_of(lists, total_of(splits_of(f), cause), cause);
      total = sum_of(total, total_of(value_splits_of(f), cause), cause);
    }
    values_.allocate(totals, cause);
    lengths_ = static_cast<int64_t*>(call_.allocate(kLengths, {lists}, sizeof(int64_t), cause));
  }

  // Adds up splits; their last one.
  int64_t total_of(int64_t* splits, const Cause& cause) const {
    splits[0] = 0;
    for (size_t b = 1; b <= messages_.size(); ++b) splits[b] = sum_of(splits[b], splits[b - 1], cause);
    return splits[messages_.size()];
  }

  void write_values(size_t message) {
    for (size_t f = 0; f < count(); ++f) {
      const Feature& feature = features_[f];
      const Cell& cell = cells_of(message)[f];
      int64_t* length = lengths_ + first_lists_[f] + splits_of(f)[message];
      int64_t first = feature.first_value + value_splits_of(f)[message];
      const auto write = [&](const List& list, int64_t size) {
        *length++ = size;
        if (size > 0 && cell.data == nullptr) {
          values_.write_defaults(feature, first, static_cast<size_t>(size));
        } else if (size > 0) {
          values_.write(feature.type, list, first, static_cast<size_t>(size));
        }
        first += size;
      };
      Refusal none;
      for_lists(f, cell, write, none);
    }
  }

  const Call& call_;
  const Strings messages_;
  const Strings key_texts_;
  const uint8_t* in_lists_;
  const Keys keys_;
  std::vector<Feature> features_;
  Values values_;
  std::unique_ptr<Cell[]> cells_;            // of each message those of all features
  std::unique_ptr<int64_t[]> value_splits_;  // for each feature, where its values of each message begin
  std::unique_ptr<int64_t[]> first_lists_;   // of each feature, in the lengths
  int64_t* list_splits_ = nullptr;
  int64_t* lengths_ = nullptr;
};

}  // namespace

void parse_sequence_example(const Call& call) { SequenceParser{call}; }

}  // namespace onnx_sparse
