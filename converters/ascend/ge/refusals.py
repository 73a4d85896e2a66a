"""Why some of GE's operators that might be expected to be converted are not."""

from __future__ import annotations

from fnmatch import fnmatchcase

_GRADIENTS = "it computes losses or gradients, which a model that only infers does not have"
_LISTS = "it updates lists of tensors in place, as optimizers do"
_RANKS = "it exchanges tensors with other ranks, and a graph is that of one"
_RANDOM = "it draws random numbers, and the NPU's generator is not public"
_ATTENTION = "its caches and layouts are the kernel's own; export the model with attention in plain operators"
_EXPERTS = "it is fused for experts in the kernel's own order of tokens; export the model with plain operators"
_FORMATS = "its numbers are in formats of blocks with scales of their own, which ONNX does not have"
_COMPLEX = "ONNX Runtime has no complex tensors"
_IMAGES = "convolutions, pooling and resizing are converted from the framework's own file, not from GE's graph"
_STATE = "it changes a tensor that other nodes read before or after it, and the graph does not say in which order"
_RESOURCES = "its table, queue or list is a resource, whose contents the graph does not hold"
_RECURRENT = "its weights are in the kernel's own order; export the model from its framework"
_LINEAR_ALGEBRA = "ONNX has no operator for decompositions of matrices"
_SCHEDULES = "it schedules or places work on the NPU, and has no result that a model could compute"

#: The operators, by names or patterns of names, and the reason; the first that fits is given.
REFUSALS: dict[str, tuple[str, ...]] = {
    _GRADIENTS: (
        *("*Grad", "*Grad[DV]*", "*Backprop*", "*Backward*", "SyncBatchNorm*", "BNTraining*", "BN3DTraining*"),
        *("Apply*", "NLLLoss", "MseLoss", "*CrossEntropy*"),
    ),
    _LISTS: ("Foreach*",),
    _RANKS: (
        *("Hcom*", "*AllReduce*", "*AllGather*", "*ReduceScatter*", "*AllToAll*", "*Alltoall*", "*AlltoAll*"),
        *("MoeDistribute*", "DistributeBarrier", "AttentionToFFN", "FFNToAttention", "Attention*Combine", "*Worker*"),
    ),
    _RANDOM: ("*Random*", "Multinomial*", "*Bernoulli", "DropOut*", "StatelessDropOut*", "*Shuffle*", "*Randperm"),
    _ATTENTION: (
        *("*FlashAttention*", "*InferAttention*", "Mla*", "*RopeCache*", "*KvCache*", "*Kvcache*"),
        *("RotaryPositionEmbedding", "AttentionUpdate", "RecurrentGatedDeltaRule", "InterleaveRope", "*CausalConv1d"),
        "MaskedSoftmaxWithRelPosBias",
    ),
    _EXPERTS: ("Moe*", "Grouped*", "QuantGrouped*", "FFN", "AddLora"),
    _FORMATS: (
        *("*Mx*", "*BlockQuant*", "QuantBatchMatmulV4", "QuantMatmul*", "Quant*", "*Quant", "*QuantV2", "RotateQuant"),
        *("AscendQuantV2", "AscendAntiQuantV2", "WeightQuantBatchMatmulV2", "Dequant*", "TransposeQuant*", "FlatQuant"),
        *("Quantize", "GroupQuant", "QuantMax", "AddRmsNormDynamicQuant", "GeluQuant"),
    ),
    _COMPLEX: ("Complex", "Real", "Imag", "FFT*", "IFFT*", "RFFT*", "IRFFT*", "ComplexAbs", "Conj", "Angle"),
    _IMAGES: (
        *("Conv*", "DepthwiseConv*", "Deformable*", "MaxPool*", "AvgPool*", "AdaptiveAvgPool*", "AdaptiveMaxPool*"),
        *("Resize*", "GridSampler*", "Upsample*", "Im2col", "Col2im", "CropAndResize*", "NonMaxSuppression*"),
        *("ROIAlign*", "DecodeJpeg", "DecodePng"),
    ),
    _STATE: (
        *("Assign*", "ViewCopy", "InplaceUpdate", "InplaceAdd", "InplaceSub", "Variable*", "VarHandleOp"),
        *("*VariableOp", "Scatter", "ScatterList"),
    ),
    _RESOURCES: ("LookupTable*", "HashTable*", "*Queue*", "TensorArray*", "TensorList*", "Stack*", "Barrier*", "Map*"),
    _RECURRENT: ("*LSTM*", "*Lstm*", "DynamicRNN*", "*GRU*", "BasicRNN*"),
    _LINEAR_ALGEBRA: (
        *("Svd", "Qr", "Cholesky*", "SelfAdjointEig*", "LinalgSvd", "Lu", "MatrixDeterminant", "LogMatrixDeterminant"),
    ),
    _SCHEDULES: ("Cmo", "ConstPlaceHolder", "TransData*", "Send", "Recv", "StreamActive", "LabelSet", "MemSet"),
}  # fmt: skip


def reason(op_type: str) -> str:
    """Why an operator without a handler is not converted; empty if nothing more is known."""
    found = (why for why, names in REFUSALS.items() if any(fnmatchcase(op_type, name) for name in names))
    return next(found, "")
