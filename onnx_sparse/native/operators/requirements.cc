#include "operators/requirements.h"

#include <atomic>
#include <cstring>

#include "loops/loops.h"

namespace onnx_sparse {
namespace {

// Whether `holds(first, count)` for all parts of `size` values, which are checked in parallel.
template <class Holds>
bool holds_for_all(const Call& call, int64_t size, size_t value_bytes, const Holds& holds) {
  std::atomic<bool> all{true};
  call.for_parts(size, size * static_cast<int64_t>(value_bytes), [&](int64_t first, int64_t end) {
    if (!holds(first, static_cast<size_t>(end - first))) all.store(false, std::memory_order_relaxed);
  });
  return all.load();
}

std::string element(std::string_view name, int64_t position) {
  return std::string(name) + "[" + std::to_string(position) + "]";
}

template <class Id>
bool all_sorted(const Call& call, const Id* ids, int64_t size, bool (*is_sorted)(const Id*, size_t, Id)) {
  return holds_for_all(call, size, sizeof(Id), [&](int64_t first, size_t count) {
    return is_sorted(ids + first, count, first == 0 ? Id{0} : ids[first - 1]);
  });
}

template <class Value>
bool all_in_range(const Call& call, const Tensor& values, int64_t high,
                  bool (*is_in_range)(const Value*, size_t, int64_t)) {
  return holds_for_all(call, values.size(), sizeof(Value), [&](int64_t first, size_t count) {
    return is_in_range(values.as<Value>() + first, count, high);
  });
}

// Row splits at any address.
template <class Id>
void require_splits(std::string_view name, const Tensor& splits, int64_t count, int64_t size) {
  const auto at = [data = splits.as<char>()](int64_t k) {
    Id split;
    std::memcpy(&split, data + k * static_cast<int64_t>(sizeof split), sizeof split);
    return split;
  };
  const auto shown = [&](int64_t k) { return element(name, k) + " = " + std::to_string(at(k)); };
  if (at(0) != 0) throw InvalidArgument{shown(0) + " must be 0"};
  for (int64_t k = 1; k < count; ++k) {
    if (at(k) < at(k - 1)) throw InvalidArgument{shown(k) + " is less than " + shown(k - 1)};
  }
  if (at(count - 1) != size) {
    throw InvalidArgument{shown(count - 1) + " must be " + std::to_string(size) + ", the number of values"};
  }
}

}  // namespace

bool are_sorted(const Call& call, const Tensor& ids) {
  return ids.type == ORT_INT32 ? all_sorted(call, ids.as<int32_t>(), ids.size(), loops().sorted32)
                               : all_sorted(call, ids.as<int64_t>(), ids.size(), loops().sorted64);
}

bool are_in_range(const Call& call, const Tensor& values, int64_t high) {
  return values.type == ORT_INT32 ? all_in_range(call, values, high, loops().in_range32)
                                  : all_in_range(call, values, high, loops().in_range64);
}

void require_sorted(const Call& call, std::string_view name, const Tensor& ids) {
  if (!are_sorted(call, ids)) require_sorted(name, ids, {});
}

void require_sorted(std::string_view name, const Tensor& ids, const LeftOutWhereNegative& left_out) {
  const int64_t size = ids.size();
  int64_t before = 0;
  int64_t position_before = 0;
  for (int64_t k = 0; k < size; ++k) {
    if (left_out(k)) continue;
    const int64_t id = ids.integer(static_cast<size_t>(k));
    if (id < 0) throw InvalidArgument{element(name, k) + " = " + std::to_string(id) + " must be >= 0"};
    if (id < before) {
      throw InvalidArgument{element(name, k) + " = " + std::to_string(id) + " is less than " +
                            element(name, position_before) + " = " + std::to_string(before) + "; " +
                            std::string(name.substr(name.rfind('_') + 1)) + " must be sorted"};
    }
    before = id;
    position_before = k;
  }
}

void require_offsets(const Call& call, std::string_view name, const Tensor& offsets, int64_t count) {
  require_sorted(call, name, offsets);
  const int64_t size = offsets.size();
  if (size == 0) return;
  if (offsets.integer() != 0) {
    throw InvalidArgument{element(name, 0) + " = " + std::to_string(offsets.integer()) + " must be 0"};
  }
  if (offsets.integer(static_cast<size_t>(size - 1)) > count) require_in_range(name, offsets, size, count + 1);
}

void require_in_range(std::string_view name, const Tensor& values, int64_t count, int64_t high,
                      const LeftOutWhereNegative& left_out) {
  for (int64_t k = 0; k < count; ++k) {
    const int64_t value = values.integer(static_cast<size_t>(k));
    if ((value < 0 || value >= high) && !left_out(k)) throw out_of_range(name, values, k, value, "0", high);
  }
}

void require_row_splits(std::string_view name, const Tensor& splits, int64_t size) {
  const int64_t count = splits.size();
  if (count == 0) throw InvalidArgument{std::string(name) + " has 0 elements; at least 1 expected"};
  splits.type == ORT_INT32 ? require_splits<int32_t>(name, splits, count, size)
                           : require_splits<int64_t>(name, splits, count, size);
}

std::string element_name(std::string_view name, const Tensor& tensor, int64_t position) {
  std::vector<int64_t> coordinates(tensor.rank);
  for (size_t axis = tensor.rank; axis > 0; --axis) {
    coordinates[axis - 1] = position % tensor.dims[axis - 1];
    position /= tensor.dims[axis - 1];
  }
  std::string text;
  for (const int64_t coordinate : coordinates) text += (text.empty() ? "[" : ",") + std::to_string(coordinate);
  return std::string(name) + text + (text.empty() ? "" : "]");
}

InvalidArgument out_of_range(std::string_view name, const Tensor& tensor, int64_t position, int64_t value,
                             const std::string& low, int64_t high) {
  return InvalidArgument{element_name(name, tensor, position) + " = " + std::to_string(value) + " is out of range [" +
                         low + ", " + std::to_string(high) + ")"};
}

}  // namespace onnx_sparse
