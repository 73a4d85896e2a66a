#include "abi/validation.h"

#include <algorithm>
#include <array>

namespace onnx_sparse {
namespace {

[[noreturn]] void fail(std::string message) { throw InvalidArgument{std::move(message)}; }

std::string operator+(std::string text, std::string_view more) { return text.append(more.data(), more.size()); }

void check_types(const Declaration& op, const Tensor* inputs) {
  std::array<const Tensor*, declarations::kMostTypeVariables> first_of{};  // the first input of each variable
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!inputs[i]) continue;
    const Input& declared = op.inputs[i];
    const OrtElementType type = inputs[i].type;
    const bool fixed = declared.fixed_type != ORT_UNDEFINED;
    const Tensor* first = fixed ? nullptr : first_of[declared.type_variable];
    if (first != nullptr && first->type == type) continue;
    const OrtElementType* first_legal = fixed ? &declared.fixed_type : op.types[declared.type_variable].types.begin();
    const OrtElementType* end_of_legal = fixed ? first_legal + 1 : op.types[declared.type_variable].types.end();
    if (std::find(first_legal, end_of_legal, type) == end_of_legal) {
      std::string expected;
      for (const OrtElementType* legal = first_legal; legal != end_of_legal; ++legal) {
        expected = std::move(expected) + (expected.empty() ? "" : ", ") + name_of(*legal);
      }
      fail("input " + std::string(declared.name) + " is " + name_of(type) + "; expected one of: " + expected);
    }
    if (first != nullptr) {
      fail("input " + std::string(declared.name) + " is " + name_of(type) + " but " + op.inputs[first - inputs].name +
           " is " + name_of(first->type) + "; both must have the same type");
    }
    if (!fixed) first_of[declared.type_variable] = &inputs[i];
  }
}

// What each letter and group of a declaration stands for.
class Dimensions {
 public:
  void unify(const Input& declared, const Tensor& input) {
    const List<ShapeItem>& items = declared.items;
    const size_t fixed = items.size() - declared.groups;
    if (input.rank < fixed || (input.rank > fixed && declared.groups == 0)) {
      fail("input " + std::string(declared.name) + " has rank " + std::to_string(input.rank) + "; expected " +
           (items.size() == 0 ? "a scalar"
                              : std::string("rank ") + (declared.groups > 0 ? ">= " : "") + std::to_string(fixed)) +
           " [" + declared.shape + "]");
    }
    size_t spare = input.rank - fixed;
    size_t axis = 0;
    size_t groups_left = declared.groups;
    for (const ShapeItem& item : items) {
      if (!item.is_group) {
        bind_size(item, input.dims + axis, declared.name, axis);
        ++axis;
        continue;
      }
      size_t length = spare;
      if (--groups_left > 0) {
        const Known& known = known_[item.number];
        if (known.owner.empty()) return;
        length = known.rank;
        if (length > spare) {
          fail("input " + std::string(declared.name) + " has rank " + std::to_string(input.rank) +
               ", less than the rank " + std::to_string(length) + " of " + known.owner);
        }
      }
      bind_group(item, input.dims + axis, length, declared.name);
      spare -= length;
      axis += length;
    }
  }

  void check_broadcast(const Input& declared, const Tensor& input) const {
    const Known& target = known_[declared.items[0].number];
    if (target.owner.empty()) return;
    bool fits = input.rank <= target.rank;
    for (size_t back = 1; fits && back <= input.rank; ++back) {
      const int64_t size = input.dims[input.rank - back];
      fits = size == 1 || size == target.dims[target.rank - back];
    }
    if (!fits) {
      fail(std::string(declared.name) + " of shape " + text_of(input.dims, input.rank) + " does not broadcast to " +
           text_of(target.dims, target.rank) + ", the shape of " + target.owner);
    }
  }

 private:
  struct Known {
    const int64_t* dims;
    size_t rank;             // of a group
    std::string_view owner;  // empty where nothing is known
  };

  void bind_size(const ShapeItem& item, const int64_t* size, std::string_view owner, size_t axis) {
    Known& known = known_[item.number];
    if (known.owner.empty()) {
      known = {size, 1, owner};
    } else if (*known.dims != *size) {
      fail("dimension " + std::to_string(axis) + " of " + owner + " is " + std::to_string(*size) + " but " +
           known.owner + " has " + std::to_string(*known.dims) + " for the same dimension " + item.text);
    }
  }

  void bind_group(const ShapeItem& item, const int64_t* dims, size_t rank, std::string_view owner) {
    Known& known = known_[item.number];
    if (known.owner.empty()) {
      known = {dims, rank, owner};
    } else if (known.rank != rank || !std::equal(dims, dims + rank, known.dims)) {
      fail(std::string(owner) + " has dimensions " + text_of(dims, rank) + " where " + known.owner + " has " +
           text_of(known.dims, known.rank) + " for the same " + item.text);
    }
  }

  std::array<Known, declarations::kMostShapeItems> known_{};
};

void check_sizes(const Input& declared, const Tensor& input) {
  size_t least_at = 0;
  int64_t least = declared.low;
  for (size_t i = 0, count = static_cast<size_t>(input.size()); i < count; ++i) {
    const int64_t value = input.integer(i);
    if (value < least) {
      least = value;
      least_at = i;
    }
  }
  if (least < declared.low) {
    const std::string element = input.rank == 0 ? "" : "[" + std::to_string(least_at) + "]";
    fail(std::string(declared.name) + element + " = " + std::to_string(least) +
         " must be >= " + std::to_string(declared.low));
  }
}

// An input with one group fixes its length for an input with two ("*S" before "*S, ..."); broadcast inputs come last.
int turn_of(const Input& declared) {
  if (declared.broadcasts) return 2;
  return declared.groups > 1 ? 1 : 0;
}

}  // namespace

std::optional<int64_t> product_of(const int64_t* dims, size_t count, bool zero_counts_as_one) {
  if (!zero_counts_as_one && std::find(dims, dims + count, 0) != dims + count) return 0;
  int64_t product = 1;
  for (size_t i = 0; i < count; ++i) {
    if (__builtin_mul_overflow(product, std::max(dims[i], int64_t{1}), &product)) return std::nullopt;
  }
  return product;
}

int64_t Tensor::size_from(size_t axis) const {
  const std::optional<int64_t> size = product_of(dims + axis, rank - axis);
  if (!size) fail("a tensor of shape " + text_of(dims, rank) + " has rows of more than 2^63 - 1 elements");
  return *size;
}

std::string text_of(const int64_t* values, size_t count) {
  std::string text = "[";
  for (size_t i = 0; i < count; ++i) text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

std::string_view name_of(OrtElementType type) {
  static constexpr std::string_view names[] = {"undefined", "float",  "uint8",     "int8",       "uint16",  "int16",
                                               "int32",     "int64",  "string",    "bool",       "float16", "double",
                                               "uint32",    "uint64", "complex64", "complex128", "bfloat16"};
  const auto number = static_cast<size_t>(type);
  return number < sizeof names / sizeof *names ? names[number] : "an element type that no operator takes";
}

int check_attribute(const Attribute& declared, const std::string* value) {
  if (value == nullptr) {
    if (declared.default_choice < 0) {
      fail("attribute " + std::string(declared.name) + " is required: one of " + declared.choices_text);
    }
    return declared.default_choice;
  }
  for (size_t i = 0; i < declared.choices.size(); ++i) {
    if (declared.choices[i] == *value) return static_cast<int>(i);
  }
  std::string shown = *value;  // no choice has other characters, and a message must be text
  std::replace_if(shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  fail("attribute " + std::string(declared.name) + " = '" + shown + "' is not one of " + declared.choices_text);
}

void check_inputs(const Declaration& op, const Tensor* inputs) {
  check_types(op, inputs);
  Dimensions dimensions;
  int last_turn = 0;
  for (int turn = 0; turn <= last_turn; ++turn) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Input& declared = op.inputs[i];
      const Tensor& input = inputs[i];
      last_turn = std::max(last_turn, turn_of(declared));
      if (!input || turn_of(declared) != turn) continue;
      if (declared.broadcasts) {
        dimensions.check_broadcast(declared, input);
      } else if (!(declared.sentinel == Sentinel::empty && is_sentinel(declared, input))) {
        dimensions.unify(declared, input);
      }
      if (declared.is_size) check_sizes(declared, input);
    }
  }
}

bool is_sentinel(const Input& declared, const Tensor& input) {
  switch (declared.sentinel) {
    case Sentinel::none:
      return false;
    case Sentinel::minus_one:
      return input.rank == 0 && input.integer() == -1;
    case Sentinel::empty:
      return input.rank == 1 && input.dims[0] == 0;
  }
  return false;
}

}  // namespace onnx_sparse
