"""Mistakes with a parameter of any operation: another axis, a flag turned, another number or type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from onnx_sparse.converters.ascend.atb.mistakes.operands import noun
from onnx_sparse.converters.ascend.atb.mistakes.trial import Trial, Variants
from onnx_sparse.converters.ascend.atb.parameters import Parameters

#: The parameter of each operation that says along which axis, or which axes, it computes.
_AXES = {
    "Activation": "dim",
    "Concat": "concatDim",
    "Cumsum": "axes",
    "Gather": "axis",
    "IndexAdd": "axis",
    "LayerNorm": "normParam.beginNormAxis",
    "Onehot": "axis",
    "Reduce": "axis",
    "ScatterElementsV2": "axis",
    "Softmax": "axes",
    "Split": "splitDim",
}
#: The flags of each operation, and what it computes with and without them.
_FLAGS: dict[str, dict[str, tuple[str, str]]] = {
    "Cumsum": {"exclusive": ("the sums without the element itself", "the sums with the element itself")},
    "FusedAddTopkDiv": {"isNorm": ("weights that are normalized", "weights that are not normalized")},
}
#: Epsilons that models have.
_EPSILONS = (0.0, 1e-5, 1e-6, 1e-8, 1e-12, 1e-3, 1e-2, 1e-1, 1e-7)


@dataclass(frozen=True)
class _Number:
    """A number among an operation's parameters.

    Attributes:
        without: The words if it is 1, as if there were none.
        twice: The words if it is applied twice.
    """

    without: str
    twice: str


_SCALE = _Number("attention without the scale", "attention with the scale applied twice")
_FIRST_SCALE = _Number("attention without qScale", "attention with qScale applied twice")
_NUMBERS: dict[str, dict[str, _Number]] = {
    "SelfAttention": {"qkScale": _SCALE, "qScale": _FIRST_SCALE},
    "PagedAttention": {"qkScale": _SCALE},
    "MultiLatentAttention": {"qkScale": _SCALE},
    "Elewise": {
        "mulsParam.varAttr": _Number("MULS without the factor", "MULS with the factor twice"),
        "quantParam.inputScale": _Number("the quantization without the scale", "the quantization with its scale twice"),
    },
    "Activation": {"scale": _Number("the activation without the scale", "the activation with the scale twice")},
    "FusedAddTopkDiv": {"scale": _Number("weights without the scale", "weights with the scale twice")},
    "LayerNorm": {
        f"{group}.zoomScaleValue": _Number(
            "the norm without the residual's scale", "the norm with the residual scaled twice"
        )
        for group in ("preNormParam", "postNormParam")
    },
}


@dataclass(frozen=True)
class _Choice:
    """An enumeration among an operation's parameters.

    Attributes:
        names: Its numbers by name.
        words: What the operation computes with another number.
        default: The number if the dump does not say it.
        among: Only these are mistaken for each other.
    """

    names: Mapping[str, int]
    words: Mapping[int, str]
    default: int = 0
    among: tuple[frozenset[int], ...] = field(default=())

    def others(self, own: int) -> Iterator[int]:
        """What may stand in place of one."""
        groups = self.among or (frozenset({own, *self.words}),)
        yield from (number for number in self.words if any({own, number} <= group for group in groups) if number != own)


_ELEWISE = {
    "CAST": 1,
    "MULS": 2,
    "COS": 3,
    "SIN": 4,
    "NEG": 5,
    "LOGICAL_NOT": 7,
    "ADD": 8,
    "MUL": 9,
    "REALDIV": 10,
    "LOGICAL_AND": 11,
    "LOGICAL_OR": 12,
    "LESS": 13,
    "GREATER": 14,
    "SUB": 15,
    "EQUAL": 16,
    "TANH": 20,
}
_ACTIVATIONS = {
    "RELU": 1,
    "GELU": 2,
    "FAST_GELU": 3,
    "SWISH": 4,
    "LOG": 5,
    "SWIGLU_FORWARD": 6,
    "SWIGLU_BACKWARD": 7,
    "SIGMOID": 8,
    "FASTER_GELU_FORWARD": 9,
}
_CHOICES: dict[str, dict[str, _Choice]] = {
    "Elewise": {
        "elewiseType": _Choice(
            _ELEWISE,
            {number: name for name, number in _ELEWISE.items()},
            among=(frozenset({3, 4, 5, 20}), frozenset({8, 9, 10, 15}), frozenset({11, 12}), frozenset({13, 14, 16})),
        )
    },
    "Activation": {
        "activationType": _Choice(
            _ACTIVATIONS,
            {1: "Relu", 2: "Gelu", 3: "FastGelu", 4: "Swish", 8: "Sigmoid"},
            among=(frozenset({1, 2, 3, 4, 5, 8, 9}),),
        ),
        "geluMode": _Choice(
            {"TANH_MODE": 0, "NONE_MODE": 1},
            {0: "Gelu with the other formula, tanh", 1: "Gelu with the other formula, erf"},
        ),
    },
    "Reduce": {
        "reduceType": _Choice({"MAX": 1, "MIN": 2, "SUM": 3}, {1: "the maximum", 2: "the minimum", 3: "the sum"})
    },
    "RmsNorm": {
        "normParam.modelType": _Choice(
            {"LLAMA_MODEL": 0, "GEMMA_MODEL": 1},
            {0: "the norm with gamma alone, as Llama's", 1: "the norm with 1 + gamma, as Gemma's"},
        ),
    },
    "ScatterElementsV2": {
        "reduction": _Choice(
            {"NONE": 0, "ADD": 1},
            {0: "the updates put in place of the old values", 1: "the updates added to the old values"},
        )
    },
    "Gating": {
        "topkExpertNum": _Choice({}, {1: "tokens of one expert each", 2: "tokens of 2 experts each"}, default=1)
    },
    "FusedAddTopkDiv": {"groupNum": _Choice({}, {1: "experts that are chosen among all groups"}, default=1)},
    "GroupTopk": {
        "groupMultiFlag": _Choice({}, {0: "groups by their best expert", 1: "groups by their n best experts"})
    },
}


def setting_mistakes(kind: str, trial: Trial) -> Variants:
    """The operation with each of its parameters mistaken."""
    yield from _other_choices(kind, trial)
    yield from _other_numbers(kind, trial)
    yield from _other_epsilons(kind, trial)
    for key, words in _FLAGS.get(kind, {}).items():
        other = not trial.settings.flag(key, key == "isNorm")
        yield words[not other], trial.with_param(**{key: other})
    if kind in _AXES and trial.inputs:
        yield from _other_axes(kind, trial, _AXES[kind])


def _setting(trial: Trial, path: str) -> tuple[Parameters, str]:
    """The structure in which a parameter is, and its key there."""
    group, _, key = path.rpartition(".")
    return trial.settings.group(group) if group else trial.settings, key


def _other_choices(kind: str, trial: Trial) -> Variants:
    for path, choice in _CHOICES.get(kind, {}).items():
        params, key = _setting(trial, path)
        if key == "geluMode" and trial.settings.enum("activationType", _ACTIVATIONS, 0) != _ACTIVATIONS["GELU"]:
            continue
        for number in choice.others(params.enum(key, choice.names, choice.default)):
            yield choice.words[number], trial.with_setting(path, number)


def _other_numbers(kind: str, trial: Trial) -> Variants:
    for path, words in _NUMBERS.get(kind, {}).items():
        params, key = _setting(trial, path)
        number = params.number(key, 1.0)
        if number not in (0.0, 1.0):
            yield words.without, trial.with_setting(path, 1.0)
            yield words.twice, trial.with_setting(path, number * number)
            yield f"{noun(kind)} with 1 / {key}", trial.with_setting(path, 1 / number)
            yield f"{noun(kind)} with the sign of {key} turned", trial.with_setting(path, -number)


def _other_epsilons(kind: str, trial: Trial) -> Variants:
    own = trial.settings
    groups = [key for key in ("normParam", "preNormParam", "postNormParam") if "epsilon" in own.group(key)]
    for path in (*(f"{group}.epsilon" for group in groups), *["epsilon"] * ("epsilon" in own)):
        params, key = _setting(trial, path)
        for epsilon in _EPSILONS:
            if params.number(key, 0.0) != epsilon:
                words = f"an epsilon of {epsilon:g}" if epsilon else "no epsilon"
                yield f"{noun(kind)} with {words}", trial.with_setting(path, epsilon)


def _other_axes(kind: str, trial: Trial, path: str) -> Variants:
    params, key = _setting(trial, path)
    rank = max(array.ndim for array in trial.inputs)
    given = [int(axis) for axis in params.numbers(key) if axis is not None] or [{"Softmax": -1}.get(kind, 0)]
    own = {axis % rank for axis in given}
    is_list = kind in ("Cumsum", "Reduce", "Softmax")
    for axis in range(rank):
        if {axis} != own:
            changed = trial.with_setting(path, [axis] if is_list else axis)
            if kind == "Split":  # whose sizes are those of another axis
                changed = changed.with_param(splitSizes=[])
            yield f"{noun(kind)} along axis {axis}", changed
