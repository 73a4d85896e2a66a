// Reducing rows by segment. A part of the inner loops.

#pragma once

#include <cmath>

#include "loops/batch_rows.h"
#include "loops/loops.h"
#include "loops/narrow_rows.h"
#include "loops/vectors.h"

namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS {
namespace {

template <class T>
constexpr bool is_half_float = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

// How the rows of an element type are reduced. Integers are unsigned where they are summed or multiplied: these wrap.
template <class T, class JoinRows, bool is_weighted>
struct RowReduction {
  using Element = T;
  using Join = JoinRows;
  using Finish = RowReduction<T, Join, false>;  // finalizes rows in the same way
  static constexpr bool is_half = is_half_float<T>;
  static constexpr bool is_sum = std::is_same_v<Join, Add>;
  static constexpr bool weighted = is_weighted;
  // What most models reduce: sums of floating-point numbers, but of double only without weights, and the greatest and
  // the least floats.
  static constexpr bool is_usual = std::is_same_v<T, float>    ? !std::is_same_v<Join, Multiply>
                                   : std::is_same_v<T, double> ? is_sum && !is_weighted
                                                               : is_sum && is_half;

  static constexpr bool is_quantized = false;

  using Compute = std::conditional_t<is_half, float, T>;
  using Weight = T;

  // How many bytes so many columns take.
  static constexpr size_t bytes_of(size_t columns) { return columns * sizeof(T); }

  // Columns of a row in the compute type.
  template <size_t lanes>
  static ONNX_SPARSE_INLINE Vector<Compute, lanes> columns_of(uintptr_t row, size_t column) {
    return load<Compute, lanes>(reinterpret_cast<const T*>(row) + column);
  }
};

// How rows of integers with scales are summed; Q is one of the integers in vectors.h. Most often they are `plain`: one
// scale and one bias for a row, and no weights. Asking that for every row would take as long as the row.
template <class Q, bool plain>
struct QuantizedRowReduction {
  using Element = Q;
  using Join = Add;
  using Finish = QuantizedRowReduction<QuantizedInt8, false>;
  static constexpr bool is_half = false;
  static constexpr bool is_sum = true;
  static constexpr bool weighted = true;
  static constexpr bool is_quantized = true;
  static constexpr bool is_plain = plain;
  static constexpr bool is_usual = plain || Q::kBits == 8;

  using Compute = float;
  using Weight = float;

  static constexpr size_t bytes_of(size_t columns) { return columns * Q::kBits / 8; }

  template <size_t lanes>
  static ONNX_SPARSE_INLINE Vector<float, lanes> columns_of(uintptr_t row, size_t column) {
    return load_integers<Q, lanes>(reinterpret_cast<const uint8_t*>(row), column);
  }
};

// How far the scales and biases of two rows are apart where rows have one of each.
constexpr size_t kPlainScaleStride = 2 * sizeof(float);

// The address of the scale at a position.
template <class R>
ONNX_SPARSE_INLINE uintptr_t scale_of(const SegmentBatch& batch, int64_t position) {
  const size_t stride = R::is_plain ? kPlainScaleStride : batch.scale_stride;
  return reinterpret_cast<uintptr_t>(batch.scales) + static_cast<uintptr_t>(position) * stride;
}

// How many vectors of columns are reduced at a time, at most. The reduced rows of more than four are kept in the
// output beside the sum of eight: there are sixteen registers.
constexpr size_t kMostVectors = 8;

// Reduces `vectors` vectors of columns, from `column` on, of the rows of entries `begin` to `end`. The vectors are
// consecutive if that is exact; else the last is that of a row's `width` columns and may overlap the one before, as
// columns are reduced independently.
template <class R, size_t lanes, size_t vectors, bool exact>
ONNX_SPARSE_INLINE void reduce_columns(const SegmentBatch& batch, int64_t begin, int64_t end, size_t column,
                                       size_t width, typename R::Compute* output) {
  using C = typename R::Compute;
  using V = Vector<C, lanes>;
  static_assert(exact || vectors <= kMostVectors / 2, "what overlaps must not be joined with the output twice");
  constexpr size_t row_bytes = R::bytes_of(vectors * lanes);
  const bool prefetch = batch.prefetch_distance > 0;
  const size_t last = exact ? column + (vectors - 1) * lanes : width - lanes;
  const bool in_two_lines = is_in_two_lines<row_bytes>(batch);
  const auto column_of = [&](size_t v)
                             __attribute__((always_inline)) { return v + 1 < vectors ? column + v * lanes : last; };
  const auto read = [&](int64_t k, V* into) __attribute__((always_inline)) {
    if (prefetch) {
      const uintptr_t far = address_of(batch, k + batch.prefetch_distance);
      fetch(far + R::bytes_of(column));
      if constexpr (R::is_quantized) {
        if (R::is_plain || !batch.scales_of_entries) {
          fetch(scale_of<R>(batch, batch.indices[k + batch.prefetch_distance]));
        }
      }
      if (in_two_lines) fetch(far + R::bytes_of(last + lanes) - 1);
      if constexpr (row_bytes > 64) {
        // The lines between, where the machine has AVX-512, when the page of the first has been looked up: there they
        // would all wait for it.
        constexpr int64_t share = kVectorBytes == 64 ? 2 : 1;
        const uintptr_t between = address_of(batch, k + batch.prefetch_distance / share);
        ONNX_SPARSE_UNROLL for (size_t v = 1; v < vectors; ++v) {
          if (R::bytes_of(v * lanes) % 64 == 0) fetch(between + R::bytes_of(column_of(v)));
        }
      }
    }
    const uintptr_t row = address_of(batch, k);
    ONNX_SPARSE_UNROLL for (size_t v = 0; v < vectors; ++v) into[v] = R::template columns_of<lanes>(row, column_of(v));
    if constexpr (R::is_quantized) {
      const bool has_own_scales = !R::is_plain && batch.scales_of_entries;
      const auto* scale_bias =
          reinterpret_cast<const float*>(scale_of<R>(batch, has_own_scales ? k : batch.indices[k]));
      const V scale = all_lanes<C, lanes>(load<float, 1>(scale_bias));
      ONNX_SPARSE_UNROLL for (size_t v = 0; v < vectors; ++v) into[v] = into[v] * scale;
      if (R::is_plain || batch.has_biases) {
        const V bias = all_lanes<C, lanes>(load<float, 1>(scale_bias + 1));
        ONNX_SPARSE_UNROLL for (size_t v = 0; v < vectors; ++v) into[v] = into[v] + bias;
      }
      if (R::is_plain || batch.weights == nullptr) return;
    }
    if constexpr (R::weighted) {
      const V weight = all_lanes<C, lanes>(load<C, 1>(static_cast<const typename R::Weight*>(batch.weights) + k));
      ONNX_SPARSE_UNROLL for (size_t v = 0; v < vectors; ++v) into[v] = product(into[v], weight);
    }
  };
  const auto store = [&](const V* from) __attribute__((always_inline)) {
    ONNX_SPARSE_UNROLL for (size_t v = 0; v < vectors; ++v) { std::memcpy(output + column_of(v), &from[v], sizeof(V)); }
  };
  V result[vectors];
  V row[vectors];
  read(begin, result);
  const int64_t head_end = begin + head_of(end - begin);
  for (int64_t k = begin + 1; k < head_end; ++k) {
    read(k, row);
    ONNX_SPARSE_UNROLL for (size_t v = 0; v < vectors; ++v) result[v] = R::Join::join(result[v], row[v]);
  }
  constexpr bool in_output = vectors > kMostVectors / 2;
  if (in_output) store(result);
  for (int64_t block = head_end; block < end; block += 8) {
    V sum[vectors];
    read(block, sum);
    for (int64_t k = block + 1; k < block + 8; ++k) {
      read(k, row);
      ONNX_SPARSE_UNROLL for (size_t v = 0; v < vectors; ++v) sum[v] = R::Join::join(sum[v], row[v]);
    }
    if (in_output) {
      ONNX_SPARSE_UNROLL for (size_t v = 0; v < vectors; ++v) {
        std::memcpy(&result[v], output + column_of(v), sizeof(V));
      }
    }
    ONNX_SPARSE_UNROLL for (size_t v = 0; v < vectors; ++v) result[v] = R::Join::join(result[v], sum[v]);
    if (in_output) store(result);
  }
  if (!in_output) store(result);
}

// The sum of the (squared) weights, in the order in which rows are summed.
template <class R, bool squared>
ONNX_SPARSE_INLINE typename R::Compute sum_weights(const SegmentBatch& batch, int64_t begin, int64_t end) {
  using C = typename R::Compute;
  const auto read = [&](int64_t k) __attribute__((always_inline)) {
    const C weight = load<C, 1>(static_cast<const typename R::Weight*>(batch.weights) + k);
    return squared ? weight * weight : weight;
  };
  C sum = read(begin);
  const int64_t head_end = begin + head_of(end - begin);
  for (int64_t k = begin + 1; k < head_end; ++k) sum += read(k);
  for (int64_t block = head_end; block < end; block += 8) {
    C eight = read(block);
    for (int64_t k = block + 1; k < block + 8; ++k) eight += read(k);
    sum += eight;
  }
  return sum;
}

template <class C>
ONNX_SPARSE_INLINE C root(C value) {
  if constexpr (std::is_same_v<C, float>) {
    return __builtin_sqrtf(value);
  } else {
    return __builtin_sqrt(value);
  }
}

template <class C>
ONNX_SPARSE_INLINE void divide(C* row, size_t width, C divisor) {
  for (size_t i = 0; i < width; ++i) row[i] /= divisor;
}

// TensorFlow multiplies a short segment by the rounded reciprocal and divides a long one.
template <class C>
ONNX_SPARSE_INLINE void divide_as_tensorflow(C* row, size_t width, int64_t count, C divisor) {
  if (count >= 10) {
    divide(row, width, divisor);
  } else {
    const C factor = C{1} / divisor;
    for (size_t i = 0; i < width; ++i) row[i] *= factor;
  }
}

template <class C>
ONNX_SPARSE_INLINE void divide_unless_zero(C* row, size_t width, C divisor) {
  if (divisor == 0) {
    std::memset(row, 0, width * sizeof(C));
  } else {
    divide(row, width, divisor);
  }
}

// Integers: the sum wraps in T, the division truncates toward zero.
template <class T, class C>
ONNX_SPARSE_INLINE void divide_integers(C* row, size_t width, int64_t count) {
  using Wider = std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t, int64_t>;
  if (count == 1) return;
  for (size_t i = 0; i < width; ++i) {
    row[i] = static_cast<C>(static_cast<Wider>(static_cast<T>(row[i])) / static_cast<Wider>(count));
  }
}

// Finalizes a segment's reduced row; half floats are rounded into the output, others stay in place. It is called from
// many places, most often by none of them: inlined, it would be most of the code.
template <class R>
__attribute__((noinline)) void finish_row(const SegmentBatch& batch, typename R::Compute* row, int64_t begin,
                                          int64_t end, char* output) {
  using T = typename R::Element;
  using C = typename R::Compute;
  if (batch.finalize == Finalize::keep) return;
  const int64_t count = end - begin;
  if constexpr (!R::is_quantized) {
    if (batch.finalize == Finalize::combine_initial || batch.finalize == Finalize::initial_mean) {
      const T* empty = reinterpret_cast<const T*>(batch.empty_row);
      for (size_t i = 0; i < batch.width; ++i) row[i] = R::Join::join(row[i], load<C, 1>(empty + i));
    }
  }
  if constexpr (std::is_floating_point_v<C>) {
    const auto size = static_cast<C>(count);
    switch (batch.finalize) {
      case Finalize::mean:
      case Finalize::initial_mean:
        divide(row, batch.width, size);
        break;
      case Finalize::tf_mean:
        divide_as_tensorflow(row, batch.width, count, size);
        break;
      case Finalize::tf_sqrt_n:
        divide_as_tensorflow(row, batch.width, count, static_cast<C>(__builtin_sqrt(static_cast<double>(count))));
        break;
      case Finalize::weighted_mean:
        divide_unless_zero(row, batch.width, sum_weights<R, false>(batch, begin, end));
        break;
      case Finalize::weighted_sqrt_n:
        divide_unless_zero(row, batch.width, root(sum_weights<R, true>(batch, begin, end)));
        break;
      default:
        break;
    }
  } else if constexpr (R::is_sum) {
    if (batch.finalize == Finalize::mean || batch.finalize == Finalize::initial_mean) {
      if (batch.is_signed) {
        divide_integers<std::make_signed_t<T>>(row, batch.width, count);
      } else {
        divide_integers<T>(row, batch.width, count);
      }
    }
  }
  if constexpr (R::is_half) store_halves(row, batch.width, reinterpret_cast<T*>(output));
  if constexpr (R::is_quantized) {
    if (batch.rounded == Element::float16) store_halves(row, batch.width, reinterpret_cast<Float16*>(output));
    if (batch.rounded == Element::bfloat16) store_halves(row, batch.width, reinterpret_cast<BFloat16*>(output));
  }
}

// Whether the output has half floats, which rows are rounded to.
template <class R>
ONNX_SPARSE_INLINE bool has_half_output(const SegmentBatch& batch) {
  return R::is_quantized ? batch.rounded != Element::float32 : R::is_half;
}

// How many bytes a row of the output has.
template <class R>
ONNX_SPARSE_INLINE size_t output_bytes(const SegmentBatch& batch) {
  return batch.width * (has_half_output<R>(batch) ? sizeof(Float16) : sizeof(typename R::Compute));
}

// Reduces segments; reduce_row(begin, end, row) reduces the rows of one.
template <class R, class ReduceRow>
ONNX_SPARSE_INLINE void reduce_segments(const SegmentBatch& batch, const ReduceRow& reduce_row) {
  using C = typename R::Compute;
  C half_floats_row[R::is_half || R::is_quantized ? kMostColumns : 1];
  const bool in_place = !has_half_output<R>(batch) || batch.finalize == Finalize::keep;
  const bool finished = in_place && (batch.finalize == Finalize::keep || batch.finalize == Finalize::round);
  char* output = batch.output;
  int64_t begin = batch.starts[0];
  for (size_t s = 0; s < batch.segments; ++s, output += batch.output_stride) {
    const int64_t end = batch.starts[s + 1];
    if (begin == end) {
      std::memcpy(output, batch.empty_row, output_bytes<R>(batch));
      continue;
    }
    C* row = in_place ? reinterpret_cast<C*>(output) : half_floats_row;
    reduce_row(begin, end, row);
    if (!finished) finish_row<typename R::Finish>(batch, row, begin, end, output);
    begin = end;
  }
}

// Whether to have fewer loops, and so be compiled in a fraction of the time: for what few models reduce, and fewest on
// a machine that few have. The results are the same, because columns are reduced independently.
#if defined(ONNX_SPARSE_FEW_LOOPS)
constexpr bool kFewestLoops = true;
#else
constexpr bool kFewestLoops = false;
#endif
template <class R>
constexpr bool has_few_loops = kFewestLoops || !R::is_usual;

// Sums of floating-point numbers, which most lookups are, take eight vectors at a time where they can: a fifth of the
// time in cache. A compiler would take as long again for the others.
template <class R>
constexpr bool is_common = !has_few_loops<R> && R::is_sum && std::is_floating_point_v<typename R::Compute>;

// Reduces segments of rows of so many vectors, the last of which may overlap unless that is exact. Not inlined: a
// compiler takes longer for one large function.
template <class R, size_t lanes, size_t vectors, bool exact>
__attribute__((noinline)) void reduce_narrow(const SegmentBatch& batch) {
  const size_t width = batch.width;
  reduce_segments<R>(batch, [&](int64_t begin, int64_t end, typename R::Compute* row) __attribute__((always_inline)) {
    reduce_columns<R, lanes, vectors, exact>(batch, begin, end, 0, width, row);
  });
}

// Reduces the columns from one on, of rows that are not narrower than a vector: two vectors at a time, or only one
// where there are the fewest loops. The last may overlap.
template <class R, size_t lanes>
ONNX_SPARSE_INLINE void reduce_rest(const SegmentBatch& batch, int64_t begin, int64_t end, size_t column, size_t width,
                                    typename R::Compute* row) {
  if constexpr (kFewestLoops) {
    for (; column < width; column += lanes) {
      const size_t next = column + lanes;
      reduce_columns<R, lanes, 1, false>(batch, begin, end, column, next < width ? next : width, row);
    }
  } else {
    for (; width - column > lanes; column += 2 * lanes) {
      const size_t next = column + 2 * lanes;
      reduce_columns<R, lanes, 2, false>(batch, begin, end, column, next < width ? next : width, row);
      if (next >= width) return;
    }
    if (column < width) reduce_columns<R, lanes, 1, false>(batch, begin, end, column, width, row);
  }
}

// Reduces segments of rows of any width that is not less than a vector, and of few vectors.
template <class R, size_t lanes>
__attribute__((noinline)) void reduce_few(const SegmentBatch& batch) {
  const size_t width = batch.width;
  reduce_segments<R>(batch, [&](int64_t begin, int64_t end, typename R::Compute* row) __attribute__((always_inline)) {
    reduce_rest<R, lanes>(batch, begin, end, 0, width, row);
  });
}

// The same for rows of any number of vectors: four at a time, and the rest.
template <class R, size_t lanes>
__attribute__((noinline)) void reduce_any(const SegmentBatch& batch) {
  const size_t width = batch.width;
  reduce_segments<R>(batch, [&](int64_t begin, int64_t end, typename R::Compute* row) __attribute__((always_inline)) {
    size_t column = 0;
    for (; width - column >= 4 * lanes; column += 4 * lanes) {
      reduce_columns<R, lanes, 4, true>(batch, begin, end, column, width, row);
    }
    reduce_rest<R, lanes>(batch, begin, end, column, width, row);
  });
}

// Reduces segments of rows that take more than four vectors: eight or four at a time, and the rest.
template <class R, size_t lanes>
__attribute__((noinline)) void reduce_wide(const SegmentBatch& batch) {
  const size_t width = batch.width;
  reduce_segments<R>(batch, [&](int64_t begin, int64_t end, typename R::Compute* row) __attribute__((always_inline)) {
    size_t column = 0;
    if constexpr (is_common<R>) {
      for (; width - column >= 8 * lanes; column += 8 * lanes) {
        reduce_columns<R, lanes, 8, true>(batch, begin, end, column, width, row);
      }
    }
    for (; width - column > 3 * lanes; column += 4 * lanes) {
      if (width - column < 4 * lanes) column = width - 4 * lanes;  // some again: a loop that overlaps would be one more
      reduce_columns<R, lanes, 4, true>(batch, begin, end, column, width, row);
    }
    switch ((width - column + lanes - 1) / lanes) {
      case 3:
        return reduce_columns<R, lanes, 3, false>(batch, begin, end, column, width, row);
      case 2:
        return reduce_columns<R, lanes, 2, false>(batch, begin, end, column, width, row);
      case 1:
        return reduce_columns<R, lanes, 1, false>(batch, begin, end, column, width, row);
      default:
        return;
    }
  });
}

// Reduces segments in vectors of `lanes` where the rows are not narrower. What follows from the width is decided here,
// once for all of them: of short segments with narrow rows, that would take longer than the rows. There are no loops
// for rows that are summed as narrow ones.
template <class R, size_t lanes>
ONNX_SPARSE_INLINE void reduce_in_vectors(const SegmentBatch& batch) {
  const size_t width = batch.width;
  if (width < lanes) {
    if constexpr (lanes > 1) reduce_in_vectors<R, lanes / 2>(batch);
    return;
  }
  if constexpr (lanes * sizeof(typename R::Compute) == kVectorBytes) {
    if constexpr (is_common<R>) {
      if (width == 8 * lanes) return reduce_narrow<R, lanes, 8, true>(batch);
    }
    if (width > 4 * lanes) return reduce_wide<R, lanes>(batch);
    if (width > 3 * lanes) return reduce_narrow<R, lanes, 4, false>(batch);
    if (width > 2 * lanes) return reduce_narrow<R, lanes, 3, false>(batch);
  }
  if constexpr (lanes > 2 || (lanes == 2 && !is_narrow<R>(3))) {
    if (width > lanes) return reduce_narrow<R, lanes, 2, false>(batch);
  }
  if constexpr (!is_narrow<R>(lanes)) reduce_narrow<R, lanes, 1, true>(batch);
}

// Sums segments of narrow rows.
template <class R, size_t width>
__attribute__((noinline)) void sum_cached(const SegmentBatch& batch) {
  const int64_t all = batch.starts[batch.segments];
  reduce_segments<R>(batch, [&](int64_t begin, int64_t end, typename R::Compute* row) __attribute__((always_inline)) {
    sum_of_cached<R, width>(batch, begin, end, all - begin).write(row);
  });
}

// The same where rows are prefetched.
template <class R, size_t width>
__attribute__((noinline)) void sum_prefetched(const SegmentBatch& batch) {
  const bool finished = batch.finalize == Finalize::keep || batch.finalize == Finalize::round;
  char* output = batch.output;
  for (size_t s = 0; s < batch.segments; ++s, output += batch.output_stride) {
    const int64_t begin = batch.starts[s];
    const int64_t end = batch.starts[s + 1];
    auto* row = reinterpret_cast<typename R::Compute*>(output);
    sum_of_prefetched<R, width>(batch, begin, end).write(row);
    if (!finished && begin < end) finish_row<typename R::Finish>(batch, row, begin, end, output);
  }
}

// Sums segments of narrow rows if they have so many columns. Returns whether they do.
template <class R, size_t width>
ONNX_SPARSE_INLINE bool sums_narrow(const SegmentBatch& batch) {
  if constexpr (!has_few_loops<R> && is_narrow<R>(width)) {
    if (batch.width != width) return false;
    batch.prefetch_distance > 0 ? sum_prefetched<R, width>(batch) : sum_cached<R, width>(batch);
    return true;
  }
  return false;
}

template <class R>
void reduce_batch(const SegmentBatch& batch) {
  if (sums_narrow<R, 1>(batch) || sums_narrow<R, 2>(batch) || sums_narrow<R, 3>(batch) || sums_narrow<R, 4>(batch) ||
      sums_narrow<R, 8>(batch) || sums_narrow<R, 16>(batch)) {
    return;
  }
  constexpr size_t lanes = kVectorBytes / sizeof(typename R::Compute);
  if constexpr (has_few_loops<R>) {
    if (batch.width >= lanes) return reduce_any<R, lanes>(batch);
    if constexpr (!kFewestLoops) {
      if (batch.width >= lanes / 2) return reduce_narrow<R, lanes / 2, 2, false>(batch);
    }
    if constexpr (kFewestLoops || sizeof(typename R::Compute) < 4) {
      reduce_any<R, 1>(batch);
    } else {
      if constexpr (lanes == 16) {
        if (batch.width >= 4) return reduce_few<R, 4>(batch);
      }
      reduce_few<R, 1>(batch);
    }
  } else {
    reduce_in_vectors<R, lanes>(batch);
  }
}

// Adds rows to a sum, from one column on: so many columns at a time, which stay in registers, then the rest.
template <class C, class Join, size_t columns>
ONNX_SPARSE_INLINE void accumulate_columns(C* sum, const C* rows, size_t count, size_t width, size_t column) {
  for (; width - column >= columns; column += columns) {
    C some[columns];
    std::memcpy(some, sum + column, sizeof some);
    const C* row = rows + column;
    for (size_t k = 0; k < count; ++k, row += width) {
      ONNX_SPARSE_UNROLL for (size_t i = 0; i < columns; ++i) some[i] = Join::join(some[i], row[i]);
    }
    std::memcpy(sum + column, some, sizeof some);
  }
  if constexpr (columns > 1) accumulate_columns<C, Join, columns / 2>(sum, rows, count, width, column);
}

template <class C, class Join>
void accumulate(void* accumulator, const void* rows, size_t count, size_t width) {
  accumulate_columns<C, Join, 4 * kVectorBytes / sizeof(C)>(static_cast<C*>(accumulator), static_cast<const C*>(rows),
                                                            count, width, 0);
}

template <class R>
void finalize(const SegmentBatch& batch, void* row) {
  finish_row<R>(batch, static_cast<typename R::Compute*>(row), batch.starts[0], batch.starts[1], batch.output);
  if (!has_half_output<R>(batch)) std::memcpy(batch.output, row, output_bytes<R>(batch));
}

template <class Q>
void reduce_quantized_batch(const SegmentBatch& batch) {
  const bool is_plain = batch.has_biases && batch.scale_stride == kPlainScaleStride && !batch.scales_of_entries &&
                        batch.weights == nullptr;
  return is_plain ? reduce_batch<QuantizedRowReduction<Q, true>>(batch)
                  : reduce_batch<QuantizedRowReduction<Q, false>>(batch);
}

template <class R>
constexpr RowLoops row_loops() {
  return {reduce_batch<R>, accumulate<typename R::Compute, typename R::Join>, finalize<typename R::Finish>};
}

template <class Q>
constexpr RowLoops quantized_row_loops() {
  return {reduce_quantized_batch<Q>, accumulate<float, Add>, finalize<QuantizedRowReduction<QuantizedInt8, false>>};
}

}  // namespace
}  // namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS
