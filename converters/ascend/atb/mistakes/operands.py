"""Mistakes with an input of any operation: lost, exchanged with another, off by one.

Inputs are known by their place in the operation's declaration. Shapes do not tell them apart: with one key head, keys
have the shape of cosines.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from onnx_sparse.converters.ascend.atb.mistakes.trial import Array, Trial, Variants, is_float
from onnx_sparse.converters.ascend.atb.parameters import Parameters

#: What the result of an operation is called.
_NOUNS = {
    **dict.fromkeys(("SelfAttention", "PagedAttention", "MultiLatentAttention"), "attention"),
    **dict.fromkeys(("RmsNorm", "LayerNorm", "CohereLayerNorm", "GatherPreRmsNorm"), "the norm"),
    **dict.fromkeys(("Linear", "LinearParallel"), "the product"),
    **dict.fromkeys(("Rope", "RopeQConcat", "NormRopeReshape"), "the rotation"),
    "Fill": "the fill",
    "Onehot": "the marks",
    "Split": "the parts",
    "Cumsum": "the sums",
    "Softmax": "Softmax",
}


def noun(kind: str) -> str:
    """What the result of an operation is called."""
    return _NOUNS.get(kind, "the result")


# --- declarations ------------------------------------------------------------------------------------------------


def _linear(trial: Trial) -> str:
    bias = "bias" if trial.settings.flag("hasBias", True) else ""
    quantized = trial.settings.integer("outDataType", -1) != -1
    return f"x weight {bias} {'deqScale perTokenScale' if quantized else 'accum'}"


def _linear_parallel(trial: Trial) -> str:
    return f"x weight {'residual' if trial.settings.flag('hasResidual', False) else ''}"


def _self_attention(trial: Trial) -> str:
    count = len(trial.inputs)
    mask = "mask" if count in (5, 7, 9) else ""
    if count >= 8:
        return f"q k v kCache vCache {mask} offsets lengths layer"
    if count >= 6:
        return f"q kCache vCache {mask} keyLengths lengths layer"
    if trial.settings.integer("mlaVHeadSize", 0):  # the values are in the keys
        return f"q k {'mask' if count == 4 else ''} lengths"
    return f"q k v {mask} lengths"


def _paged_attention(trial: Trial) -> str:
    params = trial.settings
    in_keys = params.integer("mlaVHeadSize", 0) > 0 and not is_float(trial.inputs[2])
    parts = ["q", "kCache", "" if in_keys else "vCache", "tables", "lengths"]
    parts += ["mask"] * bool(_is_set(params, "maskType"))
    parts += ["status"] * params.flag("batchRunStatusEnable", False)
    parts += ["queryLengths"] * (params.integer("calcType", 0) == 1)
    offsets = params.flag("hasQuantOffset", False)
    if _is_set(params, "quantType"):
        parts += ["kScale", *["kOffset"] * offsets, "vScale", *["vOffset"] * offsets]
    return " ".join(parts)


def _multi_latent_attention(trial: Trial) -> str:
    mask = "mask" if _is_set(trial.settings, "maskType") else ""
    lengths = "queryLengths" if _is_set(trial.settings, "calcType") else ""
    return f"qNope qRope ctKV kRope tables lengths {mask} {lengths}"


def _is_set(params: Parameters, key: str) -> bool:
    """Whether an enumeration is not its first member, as number or name."""
    text = params.text(key)
    return not text.endswith(("UNDEFINED", "UNQUANT")) if text else params.integer(key, 0) != 0


def _norm(trial: Trial) -> str:
    params = trial.settings
    kinds = {name: number for number, name in enumerate(("UNDEFINED", "NORM", "PRENORM", "POSTNORM"))}
    kind = params.enum("layerType", kinds, 1)
    if kind == kinds["NORM"]:
        return "x gamma beta scale offset"
    group = params.group("preNormParam" if kind == kinds["PRENORM"] else "postNormParam")
    bias = "bias" if group.flag("hasBias", False) and not _is_set(group, "quantType") else ""
    beta = "" if kind == kinds["POSTNORM"] and _is_set(group, "quantType") else "beta"
    return f"x residual {bias} gamma {beta} scale offset"


def _layer_norm(trial: Trial) -> str:
    kinds = {name: number for number, name in enumerate(("UNDEFINED", "NORM", "PRENORM", "POSTNORM"))}
    residual = "" if trial.settings.enum("layerType", kinds, 1) == kinds["NORM"] else "residual"
    return f"x {residual} gamma beta scale offset"


def _elewise(trial: Trial) -> str:
    kinds = {"QUANT_PER_CHANNEL": 17, "DEQUANT_PER_CHANNEL": 18}
    own = trial.settings.text("elewiseType") or trial.settings.integer("elewiseType", 0)
    return "x scale offset" if own in kinds.values() or str(own).endswith(tuple(kinds)) else "x y"


def _cache_writes(trial: Trial) -> str:
    return "k kCache slots" if len(trial.inputs) == 3 else "k v kCache vCache slots"


#: The inputs of each operation, in the order of its declaration; those at the end may be missing.
DECLARED: dict[str, str | Callable[[Trial], str]] = {
    "Activation": lambda trial: "grad x" if len(trial.inputs) == 2 else "x",
    **dict.fromkeys(("AllGather", "AllReduce", "AllToAll", "Broadcast", "ReduceScatter"), "x"),
    "AsStrided": "x",
    "BlockCopy": "kCache vCache source target ends",
    "CohereLayerNorm": "x gamma",
    "Concat": "x y",
    "Cumsum": "x",
    "DynamicNTK": "positions frequencies lengths",
    "Elewise": _elewise,
    "FaUpdate": "lse parts",
    "Fill": "x mask",
    "FusedAddTopkDiv": "x bias counts table",
    "Gather": "x indices",
    "GatherPreRmsNorm": "x residual indices gamma",
    "Gating": "experts index",
    "GroupTopk": "x index",
    "IndexAdd": "var indices updates alpha",
    "KvCache": "new layer cache offsets lengths",
    "LayerNorm": _layer_norm,
    "Linear": _linear,
    "LinearParallel": _linear_parallel,
    "MultiLatentAttention": _multi_latent_attention,
    "Nonzero": "x",
    "NormRopeReshape": "x gamma key cos sin slots cache",
    "Onehot": "indices one zero",
    "Pad": "x ids lengths positions",
    "PagedAttention": _paged_attention,
    "PagedCacheLoad": "kCache vCache tables lengths key value starts",
    "Reduce": "x",
    "Repeat": "x",
    "ReshapeAndCache": _cache_writes,
    "RmsNorm": _norm,
    "Rope": "q k cos sin lengths",
    "RopeQConcat": "q cos sin other",
    "ScatterElementsV2": "x indices updates",
    "SelfAttention": _self_attention,
    "SetValue": "dst src",
    "Slice": "x",
    "Softmax": "x",
    "Sort": "x",
    "Split": "x",
    "SwigluQuant": "x",
    "Transdata": "x",
    "Transpose": "x",
    "Unpad": "ids offsets total lengths",
    "Where": "condition x y",
}


def declared(kind: str, trial: Trial) -> tuple[str, ...]:
    """The names of the inputs of an operation, as many as it has; none for inputs beyond its declaration."""
    form = DECLARED.get(kind, "")
    names = (form if isinstance(form, str) else form(trial)).split()
    return tuple(names[: len(trial.inputs)])


# --- mistakes ----------------------------------------------------------------------------------------------------

#: What may be done to an input by mistake, and in which words; `{name}` is the input's.
_OF_FLOATS: tuple[tuple[str, str, Callable[[Array], Array]], ...] = (
    ("zeros", "with zeros as {name}", np.zeros_like),
    ("ones", "with ones as {name}", np.ones_like),
    ("plus", "with 1 + {name}", lambda a: a + np.ones_like(a)),
    ("negative", "with the sign of {name} turned", lambda a: -a),
    ("twice", "with twice {name}", lambda a: a + a),
    ("first", "with the first row of {name} for all", lambda a: np.broadcast_to(a[:1], a.shape).copy()),
    ("next", "with the next row of {name}", lambda a: np.roll(a, -1, 0)),
    ("previous", "with the row of {name} before", lambda a: np.roll(a, 1, 0)),
    ("inverse", "with 1 / {name}", lambda a: np.ones_like(a) / a),
)
_OF_INTEGERS: tuple[tuple[str, str, Callable[[Array], Array]], ...] = (
    ("after", "with {name} one place after", lambda a: moved(a, 1)),
    ("before", "with {name} one place before", lambda a: moved(a, -1)),
    ("next", "with the next one of {name}", lambda a: np.roll(a.reshape(-1), -1).reshape(a.shape)),
    ("previous", "with the one of {name} before", lambda a: np.roll(a.reshape(-1), 1).reshape(a.shape)),
    ("zeros", "with zeros as {name}", np.zeros_like),
    ("first", "with the first one of {name} for all", lambda a: np.full_like(a, a.flat[0])),
    ("opposite", "with the sign of {name} turned", lambda a: (-a.astype(np.int64)).clip(-128, 127).astype(a.dtype)),
)
_OF_LENGTHS = {
    "before": "with {name} that are one short",
    "after": "with {name} that are one too long",
    "next": "with the {name} of other sequences",
    "previous": "with the {name} of other sequences",
}
_OF_FLAGS: tuple[tuple[str, str, Callable[[Array], Array]], ...] = (
    ("inverted", "with {name} inverted", lambda a: (a == 0).astype(a.dtype)),
    ("ones", "with a {name} of ones", np.ones_like),
    ("zeros", "with a {name} of zeros", np.zeros_like),
)
#: Larger inputs have only the mistakes with words of their own: each runs the whole operation again.
_MOST_VARIED = 2**18
#: Inputs that an operation has by the model, not by what it computes: that all of them are 0 or 1 is another mistake.
_MAIN = {"x", "q", "k", "v", "key", "new", "dst", "cache", "kCache", "vCache", "var", "ids", "kRope", "ctKV", "qNope"}

_ROWS_MOVED = {"after indices": "the rows one place after", "before indices": "the rows one place before"}
_SLOTS_MOVED = {
    "after slots": "rows written into the slots after",
    "before slots": "rows written into the slots before",
}
_ROTATION = {
    "exchanged cos sin": "the rotation with cos and sin exchanged",
    "negative sin": "the rotation in the other direction",
    "zeros sin": "the product with cos alone",
    "zeros cos": "the product with sin alone",
}
_WITHOUT_RESIDUAL = {"zeros residual": "the norm with zeros as residual"}
#: The words of mistakes that have a name in the field.
_WORDS: dict[str, dict[str, str]] = {
    "Linear": {"zeros bias": "the product without the bias", "twice bias": "the product with the bias twice"},
    "LinearParallel": {"zeros residual": "the product without the residual"},
    **dict.fromkeys(("RmsNorm", "LayerNorm", "GatherPreRmsNorm"), _WITHOUT_RESIDUAL),
    "Fill": {"inverted mask": "the fill where the mask is 0", "ones mask": "the fill of all elements"},
    "Where": {"exchanged x y": "the result with its branches exchanged"},
    "Concat": {"exchanged x y": "the parts in the other order"},
    "Rope": _ROTATION,
    "RopeQConcat": _ROTATION,
    "NormRopeReshape": _ROTATION | _SLOTS_MOVED,
    "SelfAttention": {
        "exchanged k v": "attention with keys and values exchanged",
        "exchanged kCache vCache": "attention with keys and values exchanged",
    },
    "PagedAttention": {"exchanged kCache vCache": "attention with keys and values exchanged"},
    "ReshapeAndCache": _SLOTS_MOVED
    | {
        "exchanged k v": "keys and values written into each other's cache",
        "exchanged kCache vCache": "keys and values written into each other's cache",
    },
    "Onehot": {
        "exchanged one zero": "the marks with their values exchanged",
        "after indices": "the marks one place after",
        "before indices": "the marks one place before",
    },
    **dict.fromkeys(("Gather", "IndexAdd", "ScatterElementsV2"), _ROWS_MOVED),
    "Elewise": {
        "zeros offset": "the quantization without the offset",
        "ones scale": "the quantization without the scale",
    },
    "FaUpdate": {"zeros lse": "the mean without weights", "next lse": "the weights of the next part"},
    "FusedAddTopkDiv": {"zeros bias": "experts that are chosen without the bias"},
}


def moved(array: Array, by: int) -> Array:
    """Integers a place further, not below 0 unless they were."""
    wide = array.astype(np.int64)
    return np.where(wide < 0, wide, (wide + by).clip(0)).astype(array.dtype)


def operand_mistakes(kind: str, trial: Trial) -> Variants:
    """The operation with each of its inputs exchanged, lost or moved."""
    known = _WORDS.get(kind, {})
    for first, second in itertools.combinations(range(len(trial.names)), 2):
        one, other = trial.inputs[first], trial.inputs[second]
        key = f"exchanged {trial.names[first]} {trial.names[second]}"
        is_alike = one.dtype == other.dtype and (one.ndim == other.ndim or kind == "Elewise")
        if is_alike and (key in known or max(one.size, other.size) <= _MOST_VARIED):
            words = f"{noun(kind)} with {trial.names[first]} and {trial.names[second]} exchanged"
            yield known.get(key, words), trial.swapped(first, second)
    for place, (name, array) in enumerate(zip(trial.names, trial.inputs, strict=False)):
        is_flag = name in ("mask", "condition") and not is_float(array)
        ways = _OF_FLAGS if is_flag else _OF_FLOATS if is_float(array) else _OF_INTEGERS
        for way, template, change in ways:
            key = f"{way} {name}"
            if (
                (name in _MAIN and way in ("ones", "plus", "inverse", "twice"))
                or (way in ("first", "next", "previous") and (not array.ndim or array.size < 2))
                or (way == "opposite" and name != "offset")
                or (array.size > _MOST_VARIED and key not in known)
            ):
                continue
            template = _OF_LENGTHS.get(way, template) if name.lower().endswith("lengths") else template
            words = known.get(key, f"{noun(kind)} {template.format(name=name)}")
            with np.errstate(all="ignore"):
                yield words, trial.with_input(place, change(array))
