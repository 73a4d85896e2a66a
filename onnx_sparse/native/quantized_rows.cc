// Summing rows of integers with scales. A part of the inner loops.

#include "reduction.h"

namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS {

// In the order of Element.
extern const RowLoops quantized_rows[4];
const RowLoops quantized_rows[4] = {
    row_loops<QuantizedRowReduction<QuantizedInt8>>(),
    row_loops<QuantizedRowReduction<QuantizedUint8>>(),
    row_loops<QuantizedRowReduction<QuantizedInt4>>(),
    row_loops<QuantizedRowReduction<QuantizedUint4>>(),
};

}  // namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS
