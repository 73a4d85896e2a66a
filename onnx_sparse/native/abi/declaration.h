// The part of an operator's declaration that a kernel needs to refuse illegal inputs. The declarations themselves are
// generated from schemas/, the one place where they are written.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "onnx_sparse/ort_abi.h"

namespace onnx_sparse {

// A view of a constant array.
template <class T>
class List {
 public:
  constexpr List() = default;
  template <size_t n>
  constexpr List(const T (&array)[n]) : data_(array), size_(n) {}

  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }
  constexpr size_t size() const { return size_; }
  constexpr const T& operator[](size_t i) const { return data_[i]; }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};

// The value that means "not given" in canonical form.
enum class Sentinel { none, minus_one, empty };

// A part of a shape: one dimension, or any number of them.
struct ShapeItem {
  std::string_view text;
  size_t number;  // among the operator's; the same text has the same
  bool is_group;
};

struct Input {
  std::string_view name;
  std::string_view type;      // a type variable, or an element type's name
  OrtElementType fixed_type;  // that element type; ORT_UNDEFINED for a variable
  size_t type_variable;       // the number of that variable
  std::string_view shape;     // as messages write it
  List<ShapeItem> items;
  size_t groups;  // among the items
  Sentinel sentinel;
  bool broadcasts;
  bool is_size;
  int64_t low;  // the least legal value of a size
  bool sparsely_read;

  constexpr bool optional() const { return sentinel != Sentinel::none; }
};

struct Output {
  std::string_view name;
  std::string_view type;
  OrtElementType fixed_type;
  bool optional;
};

// A string attribute with a closed set of values.
struct Attribute {
  std::string_view name;
  List<std::string_view> choices;
  int default_choice;  // -1: the attribute is required
  std::string_view choices_text;
};

struct TypeVariable {
  std::string_view name;
  List<OrtElementType> types;
  bool in_outputs;
};

struct Declaration {
  std::string_view name;
  List<Input> inputs;
  List<Output> outputs;
  List<Attribute> attributes;
  List<TypeVariable> types;
};

namespace declarations {
#include "abi/limits.inc"
}  // namespace declarations

}  // namespace onnx_sparse
