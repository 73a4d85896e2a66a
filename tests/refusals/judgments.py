"""What was judged of each reason, from the most special to the most general."""

from __future__ import annotations

from refusals.reasons import OURS, RARE, TRUE, Judgment

_ALGEBRA = "decompositions of matrices, which no operator of ONNX computes and no model of these families has"
_BY_SIZE = "weights are inputs of open sizes; kernels, pads and axes of ONNX's operators are attributes"
_MEMORY = "the program shows memory that nobody has written, or writes into memory by its layout"
_STATISTICS = "functions of statistics and physics, which no operator of ONNX computes"

_OPEN_SIZES = "pads depend on sizes, and are attributes of ONNX's operators; the message says which sizes to give"
_RESIZED = "a way of resizing that no exporter of OpenVINO writes, and ONNX does not have"
_DOUBLES = "ONNX Runtime has no kernel of the type, and in a narrower one digits would be lost"
_IN_FLOAT = "cast to float before the operator, if its digits suffice"
_GIVE_SHAPES = "give the shapes of the inputs: `--inputs 'x[-1,3]'`"

JUDGMENTS: tuple[Judgment, ...] = (
    # torch
    Judgment(
        "torch", r"(cholesky|linalg|lu_unpack|ormqr|triangular_solve|matrix_exp)\w*[.]\w+: (No|neither)", RARE, _ALGEBRA
    ),
    Judgment("torch", r"conv\w*[.]default: (torch's own translation|Unsupported attribute)", TRUE, _BY_SIZE),
    Judgment("torch", "torch's own translation takes a constant number", RARE, _BY_SIZE),
    Judgment("torch", "not SymbolicTensor|not '…'$", RARE, _BY_SIZE),
    Judgment("torch", "empty_permuted|aten[.]resize|as_strided_scatter|aot_autograd expected", TRUE, _MEMORY),
    Judgment(
        "torch",
        "of the converted model is not torch's on the example",
        RARE,
        "[Torch operators](torch_operators.md) lists each of them, and why",
    ),
    Judgment(
        "torch",
        "the converted model fails on the example",
        RARE,
        "[Torch operators](torch_operators.md) lists each of them, and why",
    ),
    Judgment("torch", "ONNX Runtime does not load", RARE, "numbers that are not floats, and have no kernel"),
    Judgment("torch", "complex32", TRUE, "neither ONNX nor numpy has complex numbers of halves"),
    Judgment("torch", "prims[.](fmax|fmin|digamma|erf_inv|ndtri)", RARE, "converted since these were counted"),
    Judgment("torch", "(bessel|special_|zeta|igamma|polygamma|lgamma)", RARE, _STATISTICS),
    Judgment(
        "torch", "prims[.](uniform|nextafter|frexp|gcd)|multinomial|rrelu", RARE, "random numbers, and bits of numbers"
    ),
    Judgment("torch", "decompositions take .* for a constant", TRUE, "torch's own program holds for that size alone"),
    Judgment(
        "torch", "divisor_override with ceil_mode", RARE, "AveragePool divides the last windows by their own sizes"
    ),
    Judgment("torch", "its type is int64 where it sums", TRUE, "torch's type depends on a size"),
    Judgment("torch", "nonzero_static|hash_tensor|_pdist|_linear_cross_entropy_batch", RARE, "not seen in a model yet"),
    # TensorFlow
    Judgment(
        "tensorflow",
        "ONNX Runtime (has|convolves|finds) no|ONNX Runtime convolves floats only|determinants of float only",
        RARE,
        _DOUBLES,
        _IN_FLOAT,
    ),
    Judgment("tensorflow", "only matrices of float|only float, float16 and bfloat16", RARE, _DOUBLES, _IN_FLOAT),
    Judgment(
        "tensorflow",
        "is not a constant$",
        TRUE,
        "sizes and axes that ONNX's operators have as attributes are fed",
        "make it a constant of the graph",
    ),
    Judgment(
        "tensorflow",
        "the whole shape of .* must be known|rank .*unknown|needs the rank|the rank of .* is not known",
        TRUE,
        "the nodes of ONNX depend on the rank or the sizes",
        _GIVE_SHAPES,
    ),
    Judgment(
        "tensorflow",
        "ONNX Runtime's strings are UTF|errors must be replace|only the case of ASCII",
        TRUE,
        "strings of ONNX are UTF-8",
        "recode the texts to UTF-8 before the model, and handle errors there",
    ),
    Judgment("tensorflow", "TensorFlow's kernel does not keep integers", TRUE, "tf.round has no node for them"),
    Judgment(
        "tensorflow",
        "only numbers and booleans can be added up",
        TRUE,
        "TensorFlow joins strings there, which no operator of ONNX does",
    ),
    Judgment("tensorflow", "its attribute align_corners = True|Truncate = True", RARE, "no version of Keras writes it"),
    Judgment("tensorflow", "written out for known sizes up to", RARE, _ALGEBRA, "give the sizes of matrices up to 16"),
    # OpenVINO
    Judgment("openvino", "ONNX has no matrix inverse", TRUE, "neither standard ONNX nor the domain has one"),
    Judgment("openvino", "is not a constant$|axes; one is converted", TRUE, "axes are attributes of ONNX's operators"),
    Judgment(
        "openvino",
        "sizes that are not known|the whole shape of .* must be known",
        RARE,
        _OPEN_SIZES,
        "give the input a static shape in OpenVINO (`model.reshape`) and save it again",
    ),
    Judgment("openvino", "unlike in ONNX$", RARE, "old files of Caffe; OpenVINO's windows begin in the padding there"),
    Judgment(
        "openvino", "coordinate_transformation_mode|OpenVINO rounds otherwise|antialias of the mode", RARE, _RESIZED
    ),
    Judgment("openvino", "adjoint matrices", RARE, "no exporter of OpenVINO writes it"),
    Judgment("openvino", "soft_nms_sigma", RARE, "ONNX's NonMaxSuppression does not lower scores"),
    Judgment("openvino", "only float, float16 and bfloat16", RARE, _DOUBLES, _IN_FLOAT),
    # ONNX files
    Judgment(
        "onnx",
        "is string; ONNX Runtime's kernels take",
        TRUE,
        "ONNX allows strings; ONNX Runtime has no kernel for them",
    ),
    Judgment(
        "onnx",
        r"ONNX Runtime's kernels( of \w+)* take the ranks",
        RARE,
        "ONNX allows more ranks than ONNX Runtime has kernels for",
        "add a Reshape before the node",
    ),
    Judgment(
        "onnx",
        "ONNX Runtime's kernels take",
        RARE,
        "wider types would lose digits of what is only moved",
        "add a Cast before the node, if the digits suffice",
    ),
    Judgment("onnx", "a rank is not known", TRUE, "ONNX Runtime refuses such a Scan, too"),
)
_ = OURS
