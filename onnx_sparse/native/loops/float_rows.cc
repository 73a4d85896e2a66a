// Reducing rows of floating-point numbers. A part of the inner loops.

#include "loops/reduction.h"

namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS {

#define ONNX_SPARSE_ROWS(T)                                                                     \
  {row_loops<RowReduction<T, Add, false>>(), row_loops<RowReduction<T, Add, true>>(),           \
   row_loops<RowReduction<T, Multiply, false>>(), row_loops<RowReduction<T, Maximum, false>>(), \
   row_loops<RowReduction<T, Minimum, false>>()}

// In the orders of Element and Reduction.
extern const RowLoops float_rows[4][kReductionCount];
const RowLoops float_rows[4][kReductionCount] = {
    ONNX_SPARSE_ROWS(Float16),
    ONNX_SPARSE_ROWS(BFloat16),
    ONNX_SPARSE_ROWS(float),
    ONNX_SPARSE_ROWS(double),
};

}  // namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS
