// ParseTensor.

#include <algorithm>
#include <cstring>

#include "abi/call.h"
#include "abi/string_tensor.h"
#include "operators/example_messages.h"
#include "operators/little_endian.h"

namespace onnx_sparse {
namespace {

using example_messages::Reader;

// The wire types of fields.
enum class Wire : uint32_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

// How a TensorProto holds an element type: TensorFlow's number of it, the field with its values, and their wire type.
struct Held {
  OrtElementType type;
  uint32_t number;
  uint32_t field;
  Wire wire;
};

constexpr Held kHeld[] = {
    {ORT_FLOAT, 1, 5, Wire::fixed32},     {ORT_DOUBLE, 2, 6, Wire::fixed64},  {ORT_INT32, 3, 7, Wire::varint},
    {ORT_UINT8, 4, 7, Wire::varint},      {ORT_INT16, 5, 7, Wire::varint},    {ORT_INT8, 6, 7, Wire::varint},
    {ORT_STRING, 7, 8, Wire::bytes},      {ORT_INT64, 9, 10, Wire::varint},   {ORT_BOOL, 10, 11, Wire::varint},
    {ORT_BFLOAT16, 14, 13, Wire::varint}, {ORT_UINT16, 17, 7, Wire::varint},  {ORT_FLOAT16, 19, 13, Wire::varint},
    {ORT_UINT32, 22, 16, Wire::varint},   {ORT_UINT64, 23, 17, Wire::varint},
};

constexpr uint32_t kDtype = 1;
constexpr uint32_t kShape = 2;
constexpr uint32_t kContent = 4;

struct Field {
  uint32_t number;
  Wire wire;
  uint64_t value;  // of a field that is no bytes
  std::string_view bytes;

  bool is(uint32_t a_number, Wire a_wire) const { return number == a_number && wire == a_wire; }
};

bool read_value(Reader& reader, Wire wire, uint64_t& value, std::string_view& bytes) {
  switch (wire) {
    case Wire::varint:
      return reader.varint(value);
    case Wire::fixed32:
      if (!reader.take(4, bytes)) return false;
      value = word32(bytes.data());
      return true;
    case Wire::fixed64:
      if (!reader.take(8, bytes)) return false;
      value = word64(bytes.data());
      return true;
    case Wire::bytes:
      return reader.varint(value) && reader.take(static_cast<size_t>(value), bytes);
    default:
      return false;
  }
}

// Calls visit(field), which returns whether the field is whole, for the fields of a message.
template <class Visit>
bool for_fields(std::string_view message, const Visit& visit) {
  for (Reader reader(message); !reader.at_end();) {
    uint64_t tag = 0;
    if (!reader.varint(tag) || tag >> 3 == 0 || tag >> 32 != 0) return false;
    Field field{static_cast<uint32_t>(tag >> 3), static_cast<Wire>(tag & 7), 0, {}};
    if (!read_value(reader, field.wire, field.value, field.bytes) || !visit(field)) return false;
  }
  return true;
}

struct Message {
  uint32_t dtype = 0;
  std::vector<int64_t> dims;
  std::string_view content;
  std::vector<uint64_t> numbers;
  std::vector<std::string_view> strings;
};

bool read_dimension(std::string_view text, Message& message) {
  int64_t size = 0;
  const bool whole = for_fields(text, [&](const Field& field) {
    if (field.is(1, Wire::varint)) size = static_cast<int64_t>(field.value);
    return true;
  });
  message.dims.push_back(size);
  return whole;
}

bool read_packed(std::string_view text, Wire wire, Message& message) {
  const size_t least = wire == Wire::varint ? 1 : wire == Wire::fixed32 ? 4 : 8;  // bytes of a value
  message.numbers.reserve(message.numbers.size() + text.size() / least);
  for (Reader reader(text); !reader.at_end();) {
    uint64_t value = 0;
    std::string_view bytes;
    if (!read_value(reader, wire, value, bytes)) return false;
    message.numbers.push_back(value);
  }
  return true;
}

bool read_message(std::string_view text, const Held& held, Message& message) {
  return for_fields(text, [&](const Field& field) {
    if (field.is(kDtype, Wire::varint)) {
      message.dtype = static_cast<uint32_t>(field.value);
    } else if (field.is(kShape, Wire::bytes)) {
      return for_fields(field.bytes, [&](const Field& inner) {
        return !inner.is(2, Wire::bytes) || read_dimension(inner.bytes, message);
      });
    } else if (field.is(kContent, Wire::bytes)) {
      message.content = field.bytes;
    } else if (field.is(held.field, held.wire)) {
      if (held.wire == Wire::bytes) {
        message.strings.push_back(field.bytes);
      } else {
        message.numbers.push_back(field.value);
      }
    } else if (field.is(held.field, Wire::bytes)) {
      return read_packed(field.bytes, held.wire, message);
    }
    return true;
  });
}

const Held& held_as(OrtElementType type) {
  return *std::find_if(std::begin(kHeld), std::end(kHeld), [type](const Held& held) { return held.type == type; });
}

std::string name_of_number(uint32_t number) {
  for (const Held& held : kHeld) {
    if (held.number == number) return std::string(name_of(held.type));
  }
  return "number " + std::to_string(number);
}

// Writes a number of so many bytes, the lower ones of a word.
void write_number(uint64_t value, OrtElementType type, size_t size, char* to) {
  if (type == ORT_BOOL) value = value != 0;
  const auto write = [&](auto narrow) { std::memcpy(to, &narrow, sizeof narrow); };
  switch (size) {
    case 1:
      return write(static_cast<uint8_t>(value));
    case 2:
      return write(static_cast<uint16_t>(value));
    case 4:
      return write(static_cast<uint32_t>(value));
    default:
      return write(value);
  }
}

// The numbers of the content, which is little-endian.
void write_content(std::string_view content, OrtElementType type, size_t size, char* to) {
  for (size_t at = 0; at < content.size(); at += size) {
    uint64_t value = 0;
    for (size_t k = size; k > 0; --k) value = value << 8 | static_cast<uint8_t>(content[at + k - 1]);
    write_number(value, type, size, to + at);
  }
}

void write_strings(const Call& call, const Message& message, OrtValue* value, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const size_t given = message.strings.size();
    put_string(call, value, i, given == 0 ? std::string_view() : message.strings[std::min(i, given - 1)]);
  }
}

}  // namespace

void parse_tensor(const Call& call) {
  const Strings texts(call, call.input(0));
  const OrtElementType type = call.input(1).type;
  const Held& held = held_as(type);
  Message message;
  if (!read_message(texts[0], held, message)) throw InvalidArgument{"serialized is not a TensorProto"};
  if (message.dtype != held.number) {
    throw InvalidArgument{"serialized has the element type " + name_of_number(message.dtype) + "; " +
                          std::string(name_of(type)) + " expected"};
  }
  if (std::any_of(message.dims.begin(), message.dims.end(), [](int64_t size) { return size < 0; })) {
    throw InvalidArgument{"serialized has the shape " + text_of(message.dims.data(), message.dims.size()) +
                          "; a dimension is negative"};
  }
  const size_t size = size_of(type);
  OrtValue* value = nullptr;
  char* output = nullptr;
  const Cause cause(std::string("serialized"));
  if (type == ORT_STRING) {
    value = call.allocate_value(0, message.dims, size, cause);
  } else {
    output = static_cast<char*>(call.allocate(0, message.dims, size, cause));
  }
  const auto count = static_cast<size_t>(*product_of(message.dims.data(), message.dims.size()));
  if (count == 0) return;
  if (!message.content.empty()) {
    const size_t bytes = type == ORT_STRING ? 0 : count * size;
    const bool is_bool = type != ORT_BOOL || std::all_of(message.content.begin(), message.content.end(),
                                                         [](char byte) { return (byte & ~1) == 0; });
    if (message.content.size() != bytes || !is_bool) {
      throw InvalidArgument{"serialized has " + std::to_string(message.content.size()) + " bytes of tensor_content; " +
                            std::to_string(bytes) + " expected"};
    }
    return write_content(message.content, type, size, output);
  }
  if (type == ORT_STRING) {
    if (value != nullptr) write_strings(call, message, value, count);
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    const size_t given = message.numbers.size();
    write_number(given == 0 ? 0 : message.numbers[std::min(i, given - 1)], type, size, output + i * size);
  }
}

}  // namespace onnx_sparse
