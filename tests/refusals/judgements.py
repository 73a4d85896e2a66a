"""What was judged of each reason, from the most special to the most general."""

from __future__ import annotations

from refusals.reasons import OURS, RARE, TRUE, Judgement

_ALGEBRA = "decompositions of matrices, which no operator of ONNX computes and no model of these families has"
_BY_SIZE = "the sample gives weights as inputs of open sizes; kernels, pads and axes of ONNX's operators are attributes"
_MEMORY = "the program shows memory that nobody has written, or writes into memory by its layout"
_STATISTICS = "functions of statistics and physics, which no operator of ONNX computes"

JUDGEMENTS: tuple[Judgement, ...] = (
    # torch
    Judgement(
        "torch", r"(cholesky|linalg|lu_unpack|ormqr|triangular_solve|matrix_exp)\w*[.]\w+: (No|neither)", RARE, _ALGEBRA
    ),
    Judgement("torch", r"conv\w*[.]default: (torch's own translation|Unsupported attribute)", TRUE, _BY_SIZE),
    Judgement("torch", "torch's own translation takes a constant number", RARE, _BY_SIZE),
    Judgement("torch", "not SymbolicTensor|not '…'$", RARE, _BY_SIZE),
    Judgement("torch", "empty_permuted|aten[.]resize|as_strided_scatter|aot_autograd expected", TRUE, _MEMORY),
    Judgement(
        "torch", "of the converted model is not torch's on the example", RARE, "the census' list of findings says why"
    ),
    Judgement("torch", "the converted model fails on the example", RARE, "the census' list of findings says why"),
    Judgement("torch", "ONNX Runtime does not load", RARE, "numbers that are not floats, of which there is no kernel"),
    Judgement("torch", "complex32", TRUE, "neither ONNX nor numpy has complex numbers of halves"),
    Judgement("torch", "prims[.](fmax|fmin|digamma|erf_inv|ndtri)", RARE, "converted since the census was taken"),
    Judgement("torch", "(bessel|special_|zeta|igamma|polygamma|lgamma)", RARE, _STATISTICS),
    Judgement(
        "torch", "prims[.](uniform|nextafter|frexp|gcd)|multinomial|rrelu", RARE, "random numbers, and bits of numbers"
    ),
    Judgement("torch", "decompositions take .* for a constant", TRUE, "torch's own program holds for that size alone"),
    Judgement(
        "torch", "divisor_override with ceil_mode", RARE, "AveragePool divides the last windows by their own sizes"
    ),
    Judgement("torch", "its type is int64 where it sums", TRUE, "torch's type depends on a size"),
    Judgement(
        "torch", "nonzero_static|hash_tensor|_pdist|_linear_cross_entropy_batch", RARE, "not seen in a model yet"
    ),
    # ONNX files
    Judgement(
        "onnx",
        "is string; ONNX Runtime's kernels take",
        TRUE,
        "ONNX allows strings; ONNX Runtime has no kernel for them",
    ),
    Judgement("onnx", r"ONNX Runtime's kernels( of \w+)* take the ranks", RARE, "a reshape in the file is the way out"),
    Judgement("onnx", "ONNX Runtime's kernels take", RARE, "wider types would lose digits of what is only moved"),
    Judgement("onnx", "a rank is not known", TRUE, "ONNX Runtime refuses such a Scan, too"),
)
_ = OURS
