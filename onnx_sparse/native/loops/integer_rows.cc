// Reducing rows of integers. A part of the inner loops.

#include "loops/reduction.h"

namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS {

// Sums and products wrap, so they are the same with a sign and without.
#define ONNX_SPARSE_ROWS(T, Unsigned)                                                                  \
  {row_loops<RowReduction<Unsigned, Add, false>>(), row_loops<RowReduction<Unsigned, Add, true>>(),    \
   row_loops<RowReduction<Unsigned, Multiply, false>>(), row_loops<RowReduction<T, Maximum, false>>(), \
   row_loops<RowReduction<T, Minimum, false>>()}

// In the orders of Element and Reduction.
extern const RowLoops integer_rows[8][kReductionCount];
const RowLoops integer_rows[8][kReductionCount] = {
    ONNX_SPARSE_ROWS(int8_t, uint8_t),    ONNX_SPARSE_ROWS(int16_t, uint16_t),  ONNX_SPARSE_ROWS(int32_t, uint32_t),
    ONNX_SPARSE_ROWS(int64_t, uint64_t),  ONNX_SPARSE_ROWS(uint8_t, uint8_t),   ONNX_SPARSE_ROWS(uint16_t, uint16_t),
    ONNX_SPARSE_ROWS(uint32_t, uint32_t), ONNX_SPARSE_ROWS(uint64_t, uint64_t),
};

}  // namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS
