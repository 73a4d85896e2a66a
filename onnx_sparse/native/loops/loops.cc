// The inner loops, compiled once for each instruction set: ONNX_SPARSE_INSTRUCTIONS names that of this object. Those
// over rows are in float_rows.cc, integer_rows.cc and quantized_rows.cc, which a compiler works at for longer than at
// all else.
//
// Everything is in a namespace of that name, and no inline function of a library is called: the linker keeps only one
// copy of such a function, which could have instructions that the machine lacks.

#include "loops/loops.h"

#include "loops/vectors.h"

namespace onnx_sparse::ONNX_SPARSE_INTEGER_INSTRUCTIONS {
extern const RowLoops integer_rows[8][kReductionCount];
}

namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS {

using ONNX_SPARSE_INTEGER_INSTRUCTIONS::integer_rows;
namespace {

template <class T>
bool is_sorted(const T* ids, size_t count, T before) {
  bool falls = count > 0 && ids[0] < before;
  for (size_t k = 1; k < count; ++k) falls |= ids[k] < ids[k - 1];
  return !falls;
}

// A number that is out of range, or its distance from the last one in range, is negative: no comparison is needed, for
// which not every machine has vector instructions.
template <class T>
bool is_in_range(const T* values, size_t count, int64_t high) {
  using Unsigned = std::make_unsigned_t<T>;
  constexpr auto most = static_cast<int64_t>(static_cast<Unsigned>(-1) / 2);
  const auto last = static_cast<Unsigned>(high > most ? most : high - 1);
  Unsigned signs = 0;
  for (size_t k = 0; k < count; ++k) {
    const auto value = static_cast<Unsigned>(values[k]);
    signs |= value | (last - value);
  }
  return static_cast<T>(signs) >= 0;
}

// There are no branches, because the lengths of rows would be mispredicted, and no comparisons: see is_in_range.
template <class Index, size_t rank>
void scan_entries(const Index* entries, const Index* before, size_t count, int64_t rows, int64_t columns,
                  EntryScan* seen) {
  using Unsigned = std::make_unsigned_t<Index>;
  constexpr auto most = static_cast<int64_t>(static_cast<Unsigned>(-1) / 2);
  const auto last_row = static_cast<Unsigned>(rows > most ? most : rows - 1);
  const auto last_column = static_cast<Unsigned>(columns > most ? most : columns - 1);
  const auto checked = static_cast<Unsigned>(columns < 0 ? 0 : -1);  // the bits of columns that are compared
  Unsigned outside = 0;
  Unsigned falls = 0;
  Unsigned new_rows = 0;
  Unsigned all_columns = 0;
  for (size_t k = 0; k < count; ++k) {
    const auto row = static_cast<Unsigned>(entries[k * rank]);
    const Unsigned up = row - static_cast<Unsigned>(before[k * rank]);
    const Unsigned is_new = up | (Unsigned{0} - up);  // in its highest bit
    outside |= row | (last_row - row);
    falls |= up;
    new_rows += is_new >> (8 * sizeof(Index) - 1);
    if constexpr (rank == 2) {
      const auto column = static_cast<Unsigned>(entries[k * rank + 1]);
      outside |= (column | (last_column - column)) & checked;
      falls |= (column - static_cast<Unsigned>(before[k * rank + 1])) & ~is_new & checked;
      all_columns |= column;
    }
  }
  seen->outside |= static_cast<Index>(outside) < 0;
  seen->falls |= static_cast<Index>(falls) < 0;
  seen->new_rows += static_cast<int64_t>(new_rows);
  seen->columns |= all_columns;
}

constexpr size_t kWordLanes = kVectorBytes / sizeof(int64_t);
using Words = Vector<int64_t, kWordLanes>;

// At most a vector of words, of which there are `count`.
ONNX_SPARSE_INLINE Words load_words(const int64_t* from, size_t count) {
#if defined(__AVX512F__)
  return bits_as<Words>(_mm512_maskz_loadu_epi64(static_cast<__mmask8>(count < 8 ? (1u << count) - 1 : 255u), from));
#elif defined(__AVX2__)
  constexpr int64_t masks[] = {-1, -1, -1, -1, 0, 0, 0, 0};
  const __m256i mask = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(masks + (count < 4 ? 4 - count : 0)));
  return bits_as<Words>(_mm256_maskload_epi64(reinterpret_cast<const long long*>(from), mask));
#else
  Words words{};
  for (size_t i = 0; i < kWordLanes && i < count; ++i) words[i] = from[i];
  return words;
#endif
}

// Counts how many of the others are less than each: a branch would be mispredicted for about each word.
void sort_few(uint64_t* first, uint64_t* last) {
  constexpr size_t vectors = kFewWords / kWordLanes;
  const auto* words = reinterpret_cast<const int64_t*>(first);
  const auto count = static_cast<size_t>(last - first);
  Words unsorted[vectors];
  Words ranks[vectors];
  for (size_t v = 0; v * kWordLanes < count; ++v) {
    unsorted[v] = load_words(words + v * kWordLanes, count - v * kWordLanes);
    ranks[v] = Words{};
    for (size_t i = 0; i < count; ++i) ranks[v] -= all_lanes<int64_t, kWordLanes>(words[i]) < unsorted[v];
  }
  for (size_t i = 0; i < count; ++i) {
    first[ranks[i / kWordLanes][i % kWordLanes]] = static_cast<uint64_t>(unsorted[i / kWordLanes][i % kWordLanes]);
  }
}

bool are_flags(const uint8_t* bytes, size_t count) {
  uint8_t seen = 0;
  for (size_t k = 0; k < count; ++k) seen = static_cast<uint8_t>(seen | bytes[k]);
  return seen < 2;
}

template <class T>
void fill_all(const void* value, size_t count, void* output) {
  const T element = load<T, 1>(static_cast<const T*>(value));
  T* to = static_cast<T*>(output);
  for (size_t i = 0; i < count; ++i) to[i] = element;
}

template <class T>
void select_all(const void* x, const uint8_t* mask, const void* value, size_t count, void* output) {
  const T element = load<T, 1>(static_cast<const T*>(value));
  const T* __restrict from = static_cast<const T*>(x);
  T* __restrict to = static_cast<T*>(output);
  for (size_t i = 0; i < count; ++i) to[i] = mask[i] ? element : load<T, 1>(from + i);
}

template <class T>
void take_floats(const void* from, size_t stride, const int64_t* indices, size_t count, size_t numbers, float* to) {
  const T* values = static_cast<const T*>(from);
  for (size_t k = 0; k < count; ++k) {
    const T* at = values + static_cast<size_t>(indices[k]) * stride;
    for (size_t i = 0; i < numbers; ++i) *to++ = load<float, 1>(at + i);
  }
}

template <class T>
void widen_floats(const void* from, size_t count, float* to) {
  const T* values = static_cast<const T*>(from);
  for (size_t k = 0; k < count; ++k) to[k] = load<float, 1>(values + k);
}

#define ONNX_SPARSE_TEXT_OF(name) #name
#define ONNX_SPARSE_TEXT(name) ONNX_SPARSE_TEXT_OF(name)

}  // namespace

extern const RowLoops float_rows[4][kReductionCount];
extern const RowLoops quantized_rows[4];

extern const Loops table;
const Loops table = {
    ONNX_SPARSE_TEXT(ONNX_SPARSE_INSTRUCTIONS),
    {float_rows[0], float_rows[1], float_rows[2], float_rows[3], integer_rows[0], integer_rows[1], integer_rows[2],
     integer_rows[3], integer_rows[4], integer_rows[5], integer_rows[6], integer_rows[7], &quantized_rows[0],
     &quantized_rows[1], &quantized_rows[2], &quantized_rows[3]},
    is_sorted<int32_t>,
    is_sorted<int64_t>,
    is_in_range<int32_t>,
    is_in_range<int64_t>,
    {scan_entries<int32_t, 1>, scan_entries<int32_t, 2>},
    {scan_entries<int64_t, 1>, scan_entries<int64_t, 2>},
    sort_few,
    are_flags,
    {take_floats<Float16>, take_floats<BFloat16>},
    {widen_floats<Float16>, widen_floats<BFloat16>},
    {fill_all<uint8_t>, fill_all<uint16_t>, fill_all<uint32_t>, fill_all<uint64_t>},
    {select_all<uint8_t>, select_all<uint16_t>, select_all<uint32_t>, select_all<uint64_t>},
};

}  // namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS
