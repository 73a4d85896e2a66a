// Summing rows of integers with scales. A part of the inner loops.

#include "loops/reduction.h"

namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS {

// In the order of Element.
extern const RowLoops quantized_rows[4];
const RowLoops quantized_rows[4] = {
    quantized_row_loops<QuantizedInt8>(),
    quantized_row_loops<QuantizedUint8>(),
    quantized_row_loops<QuantizedInt4>(),
    quantized_row_loops<QuantizedUint4>(),
};

}  // namespace onnx_sparse::ONNX_SPARSE_INSTRUCTIONS
