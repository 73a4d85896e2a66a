// DecodeCSV.

#include <algorithm>
#include <cstring>
#include <optional>

#include "abi/call.h"
#include "abi/string_tensor.h"
#include "operators/first_refused.h"
#include "operators/number_text.h"
#include "operators/requirements.h"

namespace onnx_sparse {
namespace {

// The element types of fields, in the order of the outputs and of the inputs with defaults.
constexpr size_t kTypes = 5;
constexpr OrtElementType kElementTypes[kTypes] = {ORT_FLOAT, ORT_INT32, ORT_INT64, ORT_STRING, ORT_DOUBLE};

constexpr size_t kFirstDefaults = 3;
constexpr size_t kDelimiter = 8;
constexpr size_t kNaValue = 9;
constexpr size_t kColumns = 10;

// A field of a record costs as much as moving this many bytes.
constexpr int64_t kFieldBytes = 32;

// A column of a record.
struct Column {
  std::string_view text;   // without the quotes around it
  bool has_pairs = false;  // of quotes, each of which stands for one quote

  // Calls visit(byte) for each byte that the column stands for.
  template <class Visit>
  void for_bytes(const Visit& visit) const {
    for (size_t at = 0; at < text.size(); ++at) {
      visit(text[at]);
      if (has_pairs && text[at] == '"') ++at;
    }
  }

  size_t size() const {
    size_t size = 0;
    for_bytes([&](char) { ++size; });
    return size;
  }

  bool equals(std::string_view other) const {
    if (!has_pairs) return text == other;
    size_t at = 0;
    bool same = true;
    for_bytes([&](char byte) { same = same && at < other.size() && other[at++] == byte; });
    return same && at == other.size();
  }

  template <class Number>
  bool read(Number& number) const {
    return !has_pairs && read_number(text, number);
  }
};

// Why columns cannot be told apart.
enum class Damage { none, not_quoted, not_doubled, not_ended };

constexpr std::string_view kDamages[] = {
    "",
    "has a quote or a line break, and is not quoted",
    "has a quote that is not doubled",
    "begins with a quote and does not end with one",
};

struct Format {
  char delimiter;
  bool quotes;
};

// Reads a quoted column from behind its first quote on; `at` becomes the position of the next column.
Damage read_quoted(std::string_view record, char delimiter, size_t& at, Column& column) {
  const size_t first = at;
  column.has_pairs = false;
  while (at + 1 < record.size() && (record[at] != '"' || record[at + 1] != delimiter)) {
    if (record[at] == '"') {
      if (record[at + 1] != '"') return Damage::not_doubled;
      column.has_pairs = true;
      ++at;
    }
    ++at;
  }
  if (at >= record.size() || record[at] != '"') return Damage::not_ended;
  column.text = record.substr(first, at - first);
  at += 2;
  return Damage::none;
}

// Calls visit(column), which returns whether to go on, for the columns of a record.
template <class Visit>
Damage for_columns(std::string_view record, const Format& format, const Visit& visit) {
  size_t at = 0;
  Column column;
  while (at < record.size()) {
    if (record[at] == '\n' || record[at] == '\r') {
      ++at;
      continue;
    }
    if (format.quotes && record[at] == '"') {
      const Damage damage = read_quoted(record, format.delimiter, ++at, column);
      if (damage != Damage::none) return damage;
    } else {
      const size_t end = std::min(record.find(format.delimiter, at), record.size());
      column = {record.substr(at, end - at)};
      if (column.text.find_first_of(format.quotes ? "\"\n\r" : "\n\r") != std::string_view::npos) {
        return Damage::not_quoted;
      }
      at = end + 1;
    }
    if (!visit(column)) return Damage::none;
  }
  if (!record.empty() && record.back() == format.delimiter) visit(Column{});
  return Damage::none;
}

struct Field {
  size_t type;   // its position in kElementTypes
  size_t place;  // among the fields of its type
  bool required;
  size_t default_place = 0;
};

// Why a record is refused.
struct Refusal {
  enum Reason { none, damaged, count, empty, not_a_number };

  Reason reason = none;
  int64_t column = 0;  // or how many there are
  Damage damage = Damage::none;
  size_t field = 0;
  Column text{};
};

class Decoder {
 public:
  explicit Decoder(const Call& call)
      : call_(call), records_(call, call.input(0)), na_values_(call, call.input(kNaValue)) {
    read_format();
    read_fields();
    read_columns();
    decode();
  }

 private:
  void read_format() {
    const Strings delimiters(call_, call_.input(kDelimiter));
    if (delimiters[0].size() != 1) {
      throw InvalidArgument{"delimiter has " + std::to_string(delimiters[0].size()) + " bytes; 1 expected"};
    }
    format_ = {delimiters[0][0], call_.choice(0) == 0};
  }

  void read_fields() {
    const Tensor& types = call_.input(1);
    const auto* required = call_.input(2).as<uint8_t>();
    size_t defaults[kTypes] = {};
    for (size_t f = 0; f < static_cast<size_t>(types.size()); ++f) {
      size_t type = 0;
      while (type < kTypes && kElementTypes[type] != types.integer(f)) ++type;
      if (type == kTypes) {
        throw InvalidArgument{"types[" + std::to_string(f) + "] = " + std::to_string(types.integer(f)) +
                              " is neither 1 (float), 6 (int32), 7 (int64), 8 (string) nor 11 (double)"};
      }
      Field field{type, static_cast<size_t>(counts_[type]++), required[f] != 0};
      if (!field.required) field.default_place = defaults[type]++;
      fields_.push_back(field);
    }
    for (size_t type = 0; type < kTypes; ++type) {
      const auto given = static_cast<size_t>(call_.input(kFirstDefaults + type).size());
      if (given != defaults[type]) {
        throw InvalidArgument{std::string(name_of(kElementTypes[type])) + "_defaults has " + std::to_string(given) +
                              " elements; expected " + std::to_string(defaults[type])};
      }
    }
    string_defaults_.emplace(call_, call_.input(kFirstDefaults + 3));
  }

  void read_columns() {
    const Tensor& columns = call_.input(kColumns);
    chooses_ = static_cast<bool>(columns);
    for (size_t f = 0; f < fields_.size(); ++f) {
      const int64_t column = chooses_ ? columns.integer(f) : static_cast<int64_t>(f);
      const std::string text = "columns[" + std::to_string(f) + "] = " + std::to_string(column);
      if (column < 0) throw InvalidArgument{text + " must be >= 0"};
      if (f > 0 && column <= columns_[f - 1]) {
        throw InvalidArgument{text + " must be greater than columns[" + std::to_string(f - 1) +
                              "] = " + std::to_string(columns_[f - 1])};
      }
      columns_.push_back(column);
    }
  }

  void decode() {
    const Tensor& records = call_.input(0);
    const Cause cause("records", records);
    for (size_t type = 0; type < kTypes; ++type) {
      const Shape shape(counts_[type], records.dims, records.rank);
      if (kElementTypes[type] == ORT_STRING) {
        strings_.emplace(call_, call_.allocate_value(type, shape, size_of(ORT_STRING), cause));
      } else {
        outputs_[type] = call_.allocate(type, shape, size_of(kElementTypes[type]), cause);
      }
    }
    const auto count = static_cast<int64_t>(records_.size());
    const int64_t bytes = records_.cost() + count * static_cast<int64_t>(fields_.size()) * kFieldBytes;
    FirstRefused refused;
    call_.for_parts(count, bytes, [&](int64_t first, int64_t end) {
      for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(end); ++i) {
        if (decode_record(i).reason != Refusal::none) return refused.add(i);
      }
    });
    if (refused.any()) refuse(refused.message());
    strings_->finish();
  }

  // Writes the fields of a record. What is wrong with its columns comes before what is wrong with a field.
  Refusal decode_record(size_t i) {
    Refusal refusal;
    int64_t column = 0;
    size_t f = 0;
    const Damage damage = for_columns(records_[i], format_, [&](const Column& text) {
      if (f < fields_.size() && columns_[f] == column) {
        const Refusal::Reason reason = write(f, i, text);
        if (reason != Refusal::none && refusal.reason == Refusal::none) refusal = {reason, column, {}, f, text};
        ++f;
      }
      ++column;
      return !chooses_ || f < fields_.size();
    });
    if (damage != Damage::none) return {Refusal::damaged, column, damage};
    if (f < fields_.size() || (!chooses_ && column > static_cast<int64_t>(f))) return {Refusal::count, column};
    return refusal;
  }

  Refusal::Reason write(size_t f, size_t i, const Column& text) {
    const Field& field = fields_[f];
    const size_t position = field.place * records_.size() + i;
    if (text.text.empty() || text.equals(na_values_[0])) {
      if (field.required) return Refusal::empty;
      write_default(field, position);
      return Refusal::none;
    }
    switch (kElementTypes[field.type]) {
      case ORT_FLOAT:
        return read<float>(field, text, position);
      case ORT_INT32:
        return read<int32_t>(field, text, position);
      case ORT_INT64:
        return read<int64_t>(field, text, position);
      case ORT_DOUBLE:
        return read<double>(field, text, position);
      default:
        char* to = strings_->resize(position, text.size());
        if (to != nullptr) text.for_bytes([&](char byte) { *to++ = byte; });
        return Refusal::none;
    }
  }

  template <class Number>
  Refusal::Reason read(const Field& field, const Column& text, size_t position) {
    return text.read(static_cast<Number*>(outputs_[field.type])[position]) ? Refusal::none : Refusal::not_a_number;
  }

  void write_default(const Field& field, size_t position) {
    if (kElementTypes[field.type] == ORT_STRING) {
      strings_->put(position, (*string_defaults_)[field.default_place]);
      return;
    }
    const size_t size = size_of(kElementTypes[field.type]);
    const char* defaults = call_.input(kFirstDefaults + field.type).as<char>();
    std::memcpy(static_cast<char*>(outputs_[field.type]) + position * size, defaults + field.default_place * size,
                size);
  }

  [[noreturn]] void refuse(size_t i) {
    const Refusal refusal = decode_record(i);
    const std::string where = element_name("records", call_.input(0), static_cast<int64_t>(i));
    if (refusal.reason == Refusal::count) {
      const std::string wanted = chooses_ ? "at least " + std::to_string(static_cast<uint64_t>(columns_.back()) + 1)
                                          : std::to_string(fields_.size());
      throw InvalidArgument{where + " has " + std::to_string(refusal.column) + " columns; " + wanted + " expected"};
    }
    const std::string column = where + ": column " + std::to_string(refusal.column);
    if (refusal.reason == Refusal::damaged) {
      throw InvalidArgument{column + " " + std::string(kDamages[static_cast<size_t>(refusal.damage)])};
    }
    if (refusal.reason == Refusal::empty) throw InvalidArgument{column + " is empty; it is required"};
    std::string text;
    refusal.text.for_bytes([&](char byte) { text += byte; });
    throw InvalidArgument{column + " = " + shown(text) + " is not of type " +
                          std::string(name_of(kElementTypes[fields_[refusal.field].type]))};
  }

  const Call& call_;
  const Strings records_;
  const Strings na_values_;
  std::optional<Strings> string_defaults_;
  Format format_{};
  std::vector<Field> fields_;
  int64_t counts_[kTypes] = {};   // of the fields of each type
  std::vector<int64_t> columns_;  // of the fields
  bool chooses_ = false;          // whether there are others
  void* outputs_[kTypes] = {};
  std::optional<StringWriter> strings_;
};

}  // namespace

void decode_csv(const Call& call) { Decoder{call}; }

}  // namespace onnx_sparse
