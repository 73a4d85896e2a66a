#include "operators/example_features.h"

#include <algorithm>
#include <cstring>

#include "operators/requirements.h"

namespace onnx_sparse::example_features {
namespace {

constexpr std::string_view kListNames[kTypes] = {"a FloatList", "an Int64List", "a BytesList"};

}  // namespace

std::vector<Feature> read_features(const Call& call, size_t count, size_t defaults, const uint8_t* never) {
  std::vector<Feature> features(count);
  size_t expected[kTypes] = {};
  for (size_t f = 0; f < count; ++f) {
    const int64_t element_type = call.input(2).integer(f);
    size_t type = 0;
    while (type < kTypes && kElementTypes[type] != element_type) ++type;
    if (type == kTypes) {
      throw InvalidArgument{"types[" + std::to_string(f) + "] = " + std::to_string(element_type) +
                            " is neither 1 (float), 7 (int64) nor 8 (string)"};
    }
    Feature& feature = features[f] = {type, call.input(3).integer(f), call.input(4).as<uint8_t>()[f] != 0};
    feature.has_defaults = !feature.required && feature.size >= 0 && (never == nullptr || never[f] == 0);
    if (!feature.has_defaults) continue;
    feature.first_default = expected[type];
    // More than all the inputs' elements would be too many, whatever comes after.
    if (__builtin_add_overflow(expected[type], static_cast<size_t>(feature.size), &expected[type])) {
      expected[type] = kNone;
    }
  }
  for (size_t type = 0; type < kTypes; ++type) {
    const auto given = static_cast<size_t>(call.input(defaults + type).size());
    if (given != expected[type]) {
      throw InvalidArgument{std::string(name_of(kElementTypes[type])) + "_defaults has " + std::to_string(given) +
                            " elements; expected " + std::to_string(expected[type])};
    }
  }
  return features;
}

Keys::Keys(const Strings& keys, const uint8_t* maps) : keys_(keys), maps_(maps) {
  size_t slots = 4;
  while (slots < 2 * keys.size()) slots *= 2;
  slots_.assign(slots, kNone);
  for (size_t f = 0; f < keys.size(); ++f) {
    size_t& slot = slots_[slot_of(keys[f], map_of(f))];
    if (slot != kNone) {
      throw InvalidArgument{"keys[" + std::to_string(f) + "] = " + shown(keys[f]) + " is also keys[" +
                            std::to_string(slot) + "]"};
    }
    slot = f;
  }
}

std::string text_of(const Refusal& refusal, const Feature& feature, std::string_view key, size_t message,
                    bool is_list) {
  std::string place = "serialized[" + std::to_string(message) + "], feature " + (is_list ? "list " : "") + shown(key);
  if (refusal.step != kNone) place += ", step " + std::to_string(refusal.step) + ",";
  const auto reason = [&]() -> std::string {
    switch (refusal.reason) {
      case Refusal::unknown_list:
        return "has a list of no known type";
      case Refusal::another_list:
        return "has " + std::string(kListNames[refusal.list]) + "; " + std::string(kListNames[feature.type]) +
               " expected";
      case Refusal::damaged:
        return "has " + std::string(kListNames[feature.type]) + " that is damaged";
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
  return place + " " + reason();
}

int64_t sum_of(int64_t a, int64_t b, const Cause& cause) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    throw InvalidArgument{cause.text() + ": an output of more than 2^63 - 1 values cannot be allocated"};
  }
  return sum;
}

Values::Values(const Call& call, size_t defaults)
    : call_(call), defaults_(defaults), string_defaults_(call, call.input(defaults + 2)) {}

void Values::allocate(const int64_t (&totals)[kTypes], const Cause& cause) {
  floats_ = static_cast<float*>(call_.allocate(0, {totals[0]}, sizeof(float), cause));
  integers_ = static_cast<int64_t*>(call_.allocate(1, {totals[1]}, sizeof(int64_t), cause));
  strings_.emplace(call_, call_.allocate_value(2, {totals[2]}, size_of(ORT_STRING), cause));
}

void Values::write(size_t type, const example_messages::List& list, int64_t first, size_t count) {
  switch (kElementTypes[type]) {
    case ORT_FLOAT:
      example_messages::write_floats(list, floats_ + first);
      break;
    case ORT_INT64:
      example_messages::write_integers(list, integers_ + first);
      break;
    default:
      example_messages::Reader values(list.bytes);
      std::string_view value;
      for (size_t k = 0; k < count && values.skip_tag(example_messages::kFirstField); ++k) {
        if (values.string(value)) strings_->put(static_cast<size_t>(first) + k, value);
      }
  }
}

void Values::write_defaults(const Feature& feature, int64_t first, size_t count) {
  const Tensor& defaults = call_.input(defaults_ + feature.type);
  switch (kElementTypes[feature.type]) {
    case ORT_FLOAT:
      std::memcpy(floats_ + first, static_cast<const char*>(defaults.data) + feature.first_default * sizeof(float),
                  count * sizeof(float));
      break;
    case ORT_INT64:
      std::memcpy(integers_ + first, defaults.as<int64_t>() + feature.first_default, count * sizeof(int64_t));
      break;
    default:
      for (size_t k = 0; k < count; ++k) {
        strings_->put(static_cast<size_t>(first) + k, string_defaults_[feature.first_default + k]);
      }
  }
}

}  // namespace onnx_sparse::example_features
