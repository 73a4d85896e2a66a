#include "loops/elements.h"

#include <cstring>
#include <limits>

namespace onnx_sparse {
Element element_of(OrtElementType type) {
  switch (type) {
    case ORT_FLOAT16:
      return Element::float16;
    case ORT_BFLOAT16:
      return Element::bfloat16;
    case ORT_FLOAT:
      return Element::float32;
    case ORT_DOUBLE:
      return Element::float64;
    case ORT_INT8:
      return Element::int8;
    case ORT_INT16:
      return Element::int16;
    case ORT_INT32:
      return Element::int32;
    case ORT_INT64:
      return Element::int64;
    case ORT_UINT8:
      return Element::uint8;
    case ORT_UINT16:
      return Element::uint16;
    case ORT_UINT32:
      return Element::uint32;
    default:
      return Element::uint64;
  }
}

// Fills the row with one of `constants`, which are in the order of Constant.
template <class T>
void ConstantRow::fill_with(const T (&constants)[kConstantCount], Constant value, size_t width) {
  const size_t bytes = width * sizeof(T);
  if (bytes > few_.size()) many_.reset(new char[bytes]);
  const T element = constants[static_cast<size_t>(value)];
  char* to = data();
  for (size_t i = 0; i < width; ++i) std::memcpy(to + i * sizeof(T), &element, sizeof(T));
}

template <class T>
void ConstantRow::fill_with_limits(Constant value, size_t width) {
  using Limits = std::numeric_limits<T>;
  if constexpr (Limits::has_infinity) {
    fill_with<T>({0, 1, Limits::lowest(), Limits::max(), -Limits::infinity(), Limits::infinity()}, value, width);
  } else {
    fill_with<T>({0, 1, Limits::lowest(), Limits::max(), Limits::lowest(), Limits::max()}, value, width);
  }
}

ConstantRow::ConstantRow(OrtElementType type, Constant value, size_t width) { fill(type, value, width); }

void ConstantRow::fill(OrtElementType type, Constant value, size_t width) {
  switch (element_of(type)) {
    case Element::float16:
      return fill_with<uint16_t>({0, 0x3c00, 0xfbff, 0x7bff, 0xfc00, 0x7c00}, value, width);
    case Element::bfloat16:
      return fill_with<uint16_t>({0, 0x3f80, 0xff7f, 0x7f7f, 0xff80, 0x7f80}, value, width);
    case Element::float32:
      return fill_with_limits<float>(value, width);
    case Element::float64:
      return fill_with_limits<double>(value, width);
    case Element::int8:
      return fill_with_limits<int8_t>(value, width);
    case Element::int16:
      return fill_with_limits<int16_t>(value, width);
    case Element::int32:
      return fill_with_limits<int32_t>(value, width);
    case Element::int64:
      return fill_with_limits<int64_t>(value, width);
    case Element::uint8:
      return fill_with_limits<uint8_t>(value, width);
    case Element::uint16:
      return fill_with_limits<uint16_t>(value, width);
    case Element::uint32:
      return fill_with_limits<uint32_t>(value, width);
    default:
      return fill_with_limits<uint64_t>(value, width);
  }
}

}  // namespace onnx_sparse
