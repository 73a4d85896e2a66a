"""Why some operators that might be expected to be converted are not."""

from __future__ import annotations

_OTHERS_ARE_CONVERTED = "tf.strings.to_hash_bucket_fast and _strong (Keras: Hashing) are converted"

_NOT_PARSED = (
    "of serialized messages, only tf.Example and tf.SequenceExample are parsed in ONNX; convert a signature whose "
    "inputs are the features: pass them, or for a frozen graph the tensors after the parser, as inputs"
)
_TOKENIZER = (
    "this kernel of tensorflow_text is not converted; convert the graph from the tensors of ids on, by the inputs that "
    "are given, and run the tokenizer before the model (onnxruntime-extensions has kernels of BERT's and "
    "SentencePiece's)"
)
_JSON = "JSON is not parsed in ONNX; convert a signature that takes serialized tf.Example messages"
_PICTURE = "pictures are not decoded in ONNX; convert the graph from the pixels on, by the inputs that are given"
_NOT_COMPLEX = "ONNX Runtime has no complex tensors"

_IN_PYTHON = (
    "the code of a Python function is not in the file; write it with TensorFlow's operators and save the model again, "
    "or pass what it returns as an input"
)
_COMPILED = (
    "its code is StableHLO of JAX, not TensorFlow's operators; convert with jax2tf and native_serialization=False, and "
    "save the model again"
)
_FORESTS = "the trees of TensorFlow Decision Forests are not in the graph; export the model with ydf (to_onnx)"
_ON_DEVICE = "the model was rewritten for a device; convert the model that was saved before {}"
_ELSEWHERE = (
    "its table is in a service or library that the file does not hold; export it as a TensorFlow variable first"
)
_IN_GROUPS = "it looks up several variables at once; save the model with embedding_lookup_sparse for each"
_TRUNCATED = (
    "ONNX has no operator with these random numbers; if they are the first rows of keys, which absent keys give, save "
    "the model with a constant initializer"
)
_IN_REDIS = (
    "its keys and rows are in a Redis server; save them with save_to_file_system, load them into a variable of "
    "CuckooHashTableCreator, and save the model with that"
)

#: The reasons by operator.
REFUSALS: dict[str, str] = {
    "DecodeProtoV2": _NOT_PARSED,
    "DecodeJSONExample": _JSON,
    **dict.fromkeys(
        ("DecodeJpeg", "DecodePng", "DecodeGif", "DecodeBmp", "DecodeImage", "DecodeAndCropJpeg"), _PICTURE
    ),
    **dict.fromkeys(
        (
            *("WhitespaceTokenizeWithOffsets", "WordpieceTokenizeWithOffsets"),
            "TFText>FastWordpieceTokenizeWithOffsets",
            *("TFText>FastBertNormalize", "FastWordpieceTokenizeWithOffsets", "SentencepieceOp"),
            *("SentencepieceTokenizeOp", "SentencepieceTokenizeWithOffsetsOp", "SentencepieceDetokenizeOp"),
            *("CaseFoldUTF8", "NormalizeUTF8", "UnicodeScriptTokenizeWithOffsets"),
        ),
        _TOKENIZER,
    ),
    **dict.fromkeys(("Angle", "FFT3D", "IFFT3D", "RFFT3D", "IRFFT3D"), _NOT_COMPLEX),
    **dict.fromkeys(("PyFunc", "PyFuncStateless", "EagerPyFunc"), _IN_PYTHON),
    **dict.fromkeys(("XlaCallModule", "XlaLaunch"), _COMPILED),
    **dict.fromkeys(
        ("SimpleMLInferenceOp", "SimpleMLInferenceOpWithHandle", "SimpleMLLoadModelFromPathWithHandle"), _FORESTS
    ),
    "TRTEngineOp": _ON_DEVICE.format("TF-TRT converted it"),
    **dict.fromkeys(
        ("TPUPartitionedCall", "TPUOrdinalSelector", "TPUReplicate", "TPUExecute", "TPUCompilationResult"),
        _ON_DEVICE.format("it was exported for TPUs"),
    ),
    "MonolithHashTableLookup": _ELSEWHERE,
    **dict.fromkeys(("GroupEmbeddingVarLookup", "GroupEmbeddingVarLookupDense"), _IN_GROUPS),
    **dict.fromkeys(("TruncatedNormal", "ParameterizedTruncatedNormal"), _TRUNCATED),
    **dict.fromkeys((f"TFRA>RedisTable{what}" for what in ("Find", "FindWithExists", "OfTensors")), _IN_REDIS),
    "StringToHashBucket": f"TensorFlow may change its hash from version to version; {_OTHERS_ARE_CONVERTED}",
}
