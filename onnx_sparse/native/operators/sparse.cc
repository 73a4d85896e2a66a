// SparseFillEmptyRows, RaggedFillEmptyRows, SparseReshape.

#include <algorithm>
#include <limits>

#include "abi/call.h"
#include "abi/string_tensor.h"
#include "operators/filled_rows.h"
#include "operators/requirements.h"

namespace onnx_sparse {
namespace {

template <class Index>
constexpr int64_t kMost = std::numeric_limits<Index>::max();

// The inputs that both operators have; their outputs are the same.
struct Arguments {
  std::string_view indices_name;
  const Tensor& indices;
  const Tensor& values;
  const Tensor& default_value;
  Cause cause;  // what asks for the outputs' size
};

template <class Index>
void require_coordinates(const Arguments& arguments, const Entries<Index>& entries) {
  for (size_t column = 0; column < entries.sizes.size(); ++column) {
    for (int64_t k = 0; k < entries.count; ++k) {
      const size_t position = static_cast<size_t>(k) * entries.rank + column;
      const int64_t coordinate = entries.indices[position];
      if (coordinate < 0 || coordinate >= entries.sizes[column]) {
        throw out_of_range(arguments.indices_name, arguments.indices, static_cast<int64_t>(position), coordinate, "0",
                           entries.sizes[column]);
      }
    }
  }
}

template <class Index>
void put_strings(const Call& call, const Arguments& arguments, const Index* positions, int64_t size, OrtValue* output) {
  const Strings texts(call, arguments.values);
  const Strings defaults(call, arguments.default_value);
  std::vector<bool> taken(static_cast<size_t>(size), false);
  for (size_t k = 0; k < texts.size(); ++k) {
    const auto position = static_cast<size_t>(positions[k]);
    taken[position] = true;
    put_string(call, output, position, texts[k]);
  }
  for (size_t position = 0; position < taken.size(); ++position) {
    if (!taken[position]) put_string(call, output, position, defaults[0]);
  }
}

template <class Index>
void fill_empty_rows(const Call& call, const Arguments& arguments, std::vector<int64_t> sizes, bool by_row_only) {
  const Tensor& indices = arguments.indices;
  const size_t rank = indices.rank == 1 ? 1 : static_cast<size_t>(indices.dims[1]);
  const int64_t rows = sizes[0];
  const bool has_values = arguments.values.type != ORT_STRING;
  const size_t value_size = size_of(arguments.values.type);
  const Entries<Index> entries{indices.as<Index>(),        indices.dims[0],        rank,
                               std::move(sizes),           by_row_only ? 1 : rank, arguments.values.as<char>(),
                               has_values ? value_size : 0};
  RowFiller<Index> filler(call, entries);
  if (!filler.scan()) require_coordinates(arguments, entries);

  FilledRows<Index> out{};
  out.empty = static_cast<bool*>(call.allocate(2, {rows}, 1, arguments.cause));
  const int64_t size = entries.count > kMost<Index> ? entries.count : filler.output_size();
  if (size > kMost<Index>) {
    throw InvalidArgument{arguments.cause.text() + ": the positions of more than " + std::to_string(kMost<Index>) +
                          " output entries do not fit into " + std::string(name_of(indices.type))};
  }
  std::vector<int64_t> shape(indices.dims, indices.dims + indices.rank);
  shape[0] = size;
  out.indices = static_cast<Index*>(call.allocate(0, shape, sizeof(Index), arguments.cause));
  if (call.wants_output(3)) {
    out.positions = static_cast<Index*>(call.allocate(3, {entries.count}, sizeof(Index), arguments.cause));
  }
  if (has_values) {
    out.values = static_cast<char*>(call.allocate(1, {size}, value_size, arguments.cause));
    filler.write(out, arguments.default_value.data);
    return;
  }
  OrtValue* output = call.allocate_value(1, {size}, value_size, arguments.cause);
  std::unique_ptr<Index[]> own_positions;
  if (out.positions == nullptr) {
    own_positions = uninitialized<Index>(entries.count);
    out.positions = own_positions.get();
  }
  filler.write(out, nullptr);
  if (output != nullptr) put_strings(call, arguments, out.positions, size, output);
}

// The product of dimensions; a zero counts as one. Throws an InvalidArgument where it exceeds int64.
int64_t size_of_shape(std::string_view name, const std::vector<int64_t>& shape) {
  const std::optional<int64_t> size = product_of(shape.data(), shape.size(), true);
  if (!size) {
    throw InvalidArgument{std::string(name) + " = " + text_of(shape.data(), shape.size()) +
                          " has more than 2^63 - 1 elements"};
  }
  return *size;
}

// The requested shape with its -1 replaced.
std::vector<int64_t> inferred_shape(const std::vector<int64_t>& before, std::vector<int64_t> requested) {
  const auto requested_text = [&] { return "new_shape = " + text_of(requested.data(), requested.size()); };
  const auto before_text = [&] { return "input_shape = " + text_of(before.data(), before.size()); };
  std::vector<int64_t> known;
  size_t unknown = requested.size();
  for (size_t axis = 0; axis < requested.size(); ++axis) {
    if (requested[axis] < -1) {
      throw InvalidArgument{"new_shape[" + std::to_string(axis) + "] = " + std::to_string(requested[axis]) +
                            " must be >= -1"};
    }
  }
  for (size_t axis = 0; axis < requested.size(); ++axis) {
    if (requested[axis] >= 0) {
      known.push_back(requested[axis]);
    } else if (unknown == requested.size()) {
      unknown = axis;
    } else {
      throw InvalidArgument{"new_shape[" + std::to_string(unknown) + "] and new_shape[" + std::to_string(axis) +
                            "] are both -1; only one may be"};
    }
  }
  const auto size = [](std::string_view name, const std::vector<int64_t>& shape) {
    const int64_t nonzero = size_of_shape(name, shape);
    return std::find(shape.begin(), shape.end(), 0) == shape.end() ? nonzero : 0;
  };
  const int64_t total = size("input_shape", before);
  const int64_t product = size("new_shape", known);
  if (unknown == requested.size()) {
    if (product != total) {
      throw InvalidArgument{requested_text() + " has " + std::to_string(product) + " elements but " + before_text() +
                            " has " + std::to_string(total)};
    }
    return requested;
  }
  if (product == 0) throw InvalidArgument{requested_text() + " has a -1 next to a zero, so the -1 cannot be inferred"};
  if (total % product != 0) {
    throw InvalidArgument{requested_text() + " does not divide the " + std::to_string(total) + " elements of " +
                          before_text()};
  }
  requested[unknown] = total / product;
  return requested;
}

// How far apart neighbors along each dimension are in row-major order.
std::vector<int64_t> strides_of(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis > 1; --axis) strides[axis - 2] = strides[axis - 1] * shape[axis - 1];
  return strides;
}

std::vector<int64_t> integers(const Tensor& tensor) {
  return std::vector<int64_t>(tensor.as<int64_t>(), tensor.as<int64_t>() + tensor.size());
}

}  // namespace

void sparse_fill_empty_rows(const Call& call) {
  const Tensor& dense_shape = call.input(1);
  if (dense_shape.dims[0] == 0) throw InvalidArgument{"dense_shape has 0 elements; at least 1 expected"};
  const bool by_row_only = call.choice(0) == 1;
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < (by_row_only ? 1 : dense_shape.dims[0]); ++i) {
    sizes.push_back(dense_shape.integer(static_cast<size_t>(i)));
  }
  const Arguments arguments{"indices", call.input(2), call.input(0), call.input(3), {"dense_shape", sizes[0], 0}};
  if (dense_shape.type == ORT_INT32) {
    fill_empty_rows<int32_t>(call, arguments, std::move(sizes), by_row_only);
  } else {
    fill_empty_rows<int64_t>(call, arguments, std::move(sizes), by_row_only);
  }
}

void ragged_fill_empty_rows(const Call& call) {
  const int64_t rows = call.input(2).integer();
  const Arguments arguments{"value_rowids", call.input(0), call.input(1), call.input(3), {"nrows", rows}};
  fill_empty_rows<int64_t>(call, arguments, {rows}, true);
}

void sparse_reshape(const Call& call) {
  const Tensor& indices = call.input(0);
  const std::vector<int64_t> before = integers(call.input(1));
  const std::vector<int64_t> after = inferred_shape(before, integers(call.input(2)));
  const int64_t count = indices.dims[0];
  const auto rank = static_cast<int64_t>(after.size());
  const Cause cause("input_indices", indices);
  auto* shape = static_cast<int64_t*>(call.allocate(1, {rank}, sizeof(int64_t), cause));
  std::copy(after.begin(), after.end(), shape);
  auto* output = static_cast<int64_t*>(call.allocate(0, {count, rank}, sizeof(int64_t), cause));
  const int64_t* input = indices.as<int64_t>();
  if (before == after) {
    std::copy_n(input, count * rank, output);
    return;
  }
  if (count == 0) return;
  if (std::find(before.begin(), before.end(), 0) != before.end()) {
    throw InvalidArgument{"input_indices has " + std::to_string(count) + " entries but input_shape " +
                          text_of(before.data(), before.size()) + " is empty"};
  }
  const std::vector<int64_t> from = strides_of(before);
  const std::vector<int64_t> to = strides_of(after);
  const int64_t bytes = count * static_cast<int64_t>(from.size() + 4 * to.size()) * 8;
  call.for_parts(count, bytes, [&](int64_t first, int64_t end) {
    for (int64_t k = first; k < end; ++k) {
      const int64_t* coordinates = input + k * static_cast<int64_t>(from.size());
      // Coordinates are not validated, and products may overflow: unsigned, because signed overflow is undefined.
      uint64_t wrapped = 0;
      for (size_t c = 0; c < from.size(); ++c) {
        wrapped += static_cast<uint64_t>(coordinates[c]) * static_cast<uint64_t>(from[c]);
      }
      auto linear = static_cast<int64_t>(wrapped);
      for (size_t c = 0; c < to.size(); ++c) {
        output[k * rank + static_cast<int64_t>(c)] = linear / to[c];
        linear %= to[c];
      }
    }
  });
}

}  // namespace onnx_sparse
