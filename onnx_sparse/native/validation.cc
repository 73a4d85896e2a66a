#include "validation.h"

#include <algorithm>
#include <array>

namespace onnx_sparse {
namespace {

[[noreturn]] void fail(std::string message) { throw InvalidArgument{std::move(message)}; }

std::string operator+(std::string text, std::string_view more) { return text.append(more.data(), more.size()); }

void check_types(const Declaration& op, const Tensor* inputs) {
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!inputs[i]) continue;
    const Input& declared = op.inputs[i];
    const auto variable =
        std::find_if(op.types.begin(), op.types.end(), [&](const TypeVariable& v) { return v.name == declared.type; });
    const bool fixed = variable == op.types.end();
    const OrtElementType* first_legal = fixed ? &declared.fixed_type : variable->types.begin();
    const OrtElementType* end_of_legal = fixed ? first_legal + 1 : variable->types.end();
    if (std::find(first_legal, end_of_legal, inputs[i].type) == end_of_legal) {
      std::string expected;
      for (const OrtElementType* type = first_legal; type != end_of_legal; ++type) {
        expected = std::move(expected) + (expected.empty() ? "" : ", ") + name_of(*type);
      }
      fail("input " + std::string(declared.name) + " is " + name_of(inputs[i].type) + "; expected one of: " + expected);
    }
    for (size_t first = 0; first < i; ++first) {
      if (inputs[first] && op.inputs[first].type == declared.type && inputs[first].type != inputs[i].type) {
        fail("input " + std::string(declared.name) + " is " + name_of(inputs[i].type) + " but " +
             op.inputs[first].name + " is " + name_of(inputs[first].type) + "; both must have the same type");
      }
    }
  }
}

// What each letter and group of a declaration stands for.
class Dimensions {
 public:
  void unify(const Input& declared, const Tensor& input) {
    const List<std::string_view>& items = declared.items;
    const auto fixed = static_cast<size_t>(
        std::count_if(items.begin(), items.end(), [](std::string_view item) { return !is_group(item); }));
    const bool has_group = fixed < items.size();
    if (input.rank < fixed || (input.rank > fixed && !has_group)) {
      fail("input " + std::string(declared.name) + " has rank " + std::to_string(input.rank) + "; expected " +
           (items.size() == 0 ? "a scalar" : std::string("rank ") + (has_group ? ">= " : "") + std::to_string(fixed)) +
           " [" + declared.shape + "]");
    }
    size_t spare = input.rank - fixed;
    size_t axis = 0;
    for (size_t position = 0; position < items.size(); ++position) {
      const std::string_view item = items[position];
      if (!is_group(item)) {
        bind_size(item, input.dims[axis], declared.name, axis);
        ++axis;
        continue;
      }
      const bool last_group = std::none_of(items.begin() + position + 1, items.end(), is_group);
      size_t length = spare;
      if (!last_group) {
        const Group* known = groups_.find(item);
        if (known == nullptr) return;
        length = known->rank;
        if (length > spare) {
          fail("input " + std::string(declared.name) + " has rank " + std::to_string(input.rank) +
               ", less than the rank " + std::to_string(length) + " of " + known->owner);
        }
      }
      bind_group(item, input.dims + axis, length, declared.name);
      spare -= length;
      axis += length;
    }
  }

  void check_broadcast(const Input& declared, const Tensor& input) const {
    const Group* target = groups_.find(declared.shape);
    if (target == nullptr) return;
    bool fits = input.rank <= target->rank;
    for (size_t back = 1; fits && back <= input.rank; ++back) {
      const int64_t size = input.dims[input.rank - back];
      fits = size == 1 || size == target->dims[target->rank - back];
    }
    if (!fits) {
      fail(std::string(declared.name) + " of shape " + text_of(input.dims, input.rank) + " does not broadcast to " +
           text_of(target->dims, target->rank) + ", the shape of " + target->owner);
    }
  }

 private:
  struct Size {
    std::string_view name;
    int64_t size;
    std::string_view owner;
  };

  struct Group {
    std::string_view name;
    const int64_t* dims;
    size_t rank;
    std::string_view owner;
  };

  // What is known of so many items; none is allocated.
  template <class Known>
  class Items {
   public:
    const Known* find(std::string_view name) const {
      const auto* found = std::find_if(items_.data(), end(), [&](const Known& item) { return item.name == name; });
      return found == end() ? nullptr : found;
    }
    void add(const Known& item) { items_.at(count_++) = item; }

   private:
    const Known* end() const { return items_.data() + count_; }

    std::array<Known, declarations::kMostShapeItems> items_{};
    size_t count_ = 0;
  };

  void bind_size(std::string_view letter, int64_t size, std::string_view owner, size_t axis) {
    const Size* known = sizes_.find(letter);
    if (known == nullptr) {
      sizes_.add({letter, size, owner});
    } else if (known->size != size) {
      fail("dimension " + std::to_string(axis) + " of " + owner + " is " + std::to_string(size) + " but " +
           known->owner + " has " + std::to_string(known->size) + " for the same dimension " + letter);
    }
  }

  void bind_group(std::string_view item, const int64_t* dims, size_t rank, std::string_view owner) {
    const Group* known = groups_.find(item);
    if (known == nullptr) {
      groups_.add({item, dims, rank, owner});
    } else if (known->rank != rank || !std::equal(dims, dims + rank, known->dims)) {
      fail(std::string(owner) + " has dimensions " + text_of(dims, rank) + " where " + known->owner + " has " +
           text_of(known->dims, known->rank) + " for the same " + item);
    }
  }

  Items<Size> sizes_;
  Items<Group> groups_;
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
  return std::count_if(declared.items.begin(), declared.items.end(), is_group) > 1 ? 1 : 0;
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
  for (int turn = 0; turn < 3; ++turn) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Input& declared = op.inputs[i];
      const Tensor& input = inputs[i];
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
