#include "elements.h"

#include <cstring>
#include <limits>

namespace onnx_sparse {
namespace {

// A row of one of `constants`, which are in the order of Constant.
template <class T>
std::vector<char> row(const T (&constants)[kConstantCount], Constant value, size_t width) {
  const T element = constants[static_cast<size_t>(value)];
  std::vector<char> made(width * sizeof(T));
  for (size_t i = 0; i < width; ++i) std::memcpy(made.data() + i * sizeof(T), &element, sizeof(T));
  return made;
}

template <class T>
std::vector<char> row_of(Constant value, size_t width) {
  using Limits = std::numeric_limits<T>;
  if constexpr (Limits::has_infinity) {
    return row<T>({0, 1, Limits::lowest(), Limits::max(), -Limits::infinity(), Limits::infinity()}, value, width);
  } else {
    return row<T>({0, 1, Limits::lowest(), Limits::max(), Limits::lowest(), Limits::max()}, value, width);
  }
}

}  // namespace

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

std::vector<char> constant_row(OrtElementType type, Constant value, size_t width) {
  switch (element_of(type)) {
    case Element::float16:
      return row<uint16_t>({0, 0x3c00, 0xfbff, 0x7bff, 0xfc00, 0x7c00}, value, width);
    case Element::bfloat16:
      return row<uint16_t>({0, 0x3f80, 0xff7f, 0x7f7f, 0xff80, 0x7f80}, value, width);
    case Element::float32:
      return row_of<float>(value, width);
    case Element::float64:
      return row_of<double>(value, width);
    case Element::int8:
      return row_of<int8_t>(value, width);
    case Element::int16:
      return row_of<int16_t>(value, width);
    case Element::int32:
      return row_of<int32_t>(value, width);
    case Element::int64:
      return row_of<int64_t>(value, width);
    case Element::uint8:
      return row_of<uint8_t>(value, width);
    case Element::uint16:
      return row_of<uint16_t>(value, width);
    case Element::uint32:
      return row_of<uint32_t>(value, width);
    default:
      return row_of<uint64_t>(value, width);
  }
}

}  // namespace onnx_sparse
