"""Exports calls of an operator, many in one program, and compares each with torch on many batches.

What does not agree in company is examined alone, as a user's program: converted, run by default, and verified.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from support.torch_exports import read_torchlib_once

from census.cases import Case
from onnx_sparse import InferenceSession, session_options
from onnx_sparse.converters.errors import ConversionError, first_line
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.torch import convert
from onnx_sparse.converters.torch.examples import Example
from onnx_sparse.converters.torch.reference import TorchReference
from onnx_sparse.converters.torch.source import Source, to_numpy, to_torch
from onnx_sparse.converters.torch.tracing import trace
from onnx_sparse.converters.torch.trial import is_refusal, require_run
from onnx_sparse.converters.verification.comparison import Verdict, compare, half_floats
from onnx_sparse.converters.verification.isolation import Isolated
from onnx_sparse.converters.verification.verify import verify

#: The outcomes, the best first. `not ours` is what torch.export or its decompositions refuse, `caught` a conversion
#: that is refused because the model was run and failed or differed.
EQUAL, RANDOM, NOT_OURS, REFUSED, CAUGHT, FAILS, WRONG, DIES = OUTCOMES = (
    "equal",
    "random",
    "torch refuses",
    "refused",
    "caught",
    "fails",
    "wrong",
    "dies",
)

#: How many calls are in one program.
_TOGETHER = 16

#: How many sizes of a call vary.
_SIZES = 6

#: Special values: not finite, and at the ends of the type.
_ENDS: tuple[Callable[[Any], Sequence[float]], ...] = (
    lambda info: (np.nan, np.inf, -np.inf, 0.0, -0.0),
    lambda info: (info.max, info.min, info.tiny, 1.0, -1.0, 0.0),
)

#: The special values of operators whose answer in torch is another for another order of the same elements: the mean of
#: infinite ones is updated, slices with NaN are sorted though none is less, a transform's NaN depend on its algorithm,
#: and sums of products and of windows overflow, or cancel the largest numbers, on their way.
_ORDERS: tuple[tuple[str, Sequence[Callable[[Any], Sequence[float]]]], ...] = (
    ("(var|std)_mean.*", ()),
    ("unique|stft|istft|fft_.*", _ENDS[1:]),
    ("addbmm|nn_functional_(adaptive_)?avg_pool[23]d|native_group_norm|nn_functional_group_norm", _ENDS[:1]),
)

Batch = list[Array]

#: Makes batches of a call from the names of its inputs and its example, which is the first of them.
Batches = Callable[[Sequence[str], Example], Iterator[Batch]]


@dataclass(frozen=True)
class Found:
    """What became of a call.

    Attributes:
        case: The call.
        outcome: One of `OUTCOMES`.
        reason: Why.
    """

    case: Case
    outcome: str
    reason: str = ""


def walk(cases: Sequence[Case], tell: Callable[[str], None] = lambda name: None) -> Iterator[Found]:
    """Examine calls; `tell` is given the name of those that may end the process, before they do."""
    import torch

    read_torchlib_once()
    torch.set_num_threads(1)
    for first in range(0, len(cases), _TOGETHER):
        yield from _together([case for case in cases[first : first + _TOGETHER] if _runs(case, tell)], tell)


def examine_alone(case: Case, others: Batches | None = None) -> Found:
    """Examine a call as a user's program, which is run by default; `others` makes other batches than the usual."""
    if not _runs(case, lambda name: None):
        return Found(case, NOT_OURS, "torch itself refuses the call")
    return _alone(case, others or (lambda names, example: batches(case, names, example)))


def _runs(case: Case, tell: Callable[[str], None]) -> bool:
    """Whether torch itself makes the call, and it has a result; its samples include calls that are errors."""
    tell(case.name)
    try:
        return bool(_eager(case, [to_numpy(t) for t in case.tensors]))
    except Exception:
        return False


def _eager(case: Case, batch: Batch) -> list[Array]:
    import torch

    torch.manual_seed(0)
    with torch.no_grad():
        return [to_numpy(result) for result in case.call(*map(to_torch, batch))]


def _together(cases: Sequence[Case], tell: Callable[[str], None]) -> Iterator[Found]:
    """Examine calls in one program, or in halves where that is refused."""
    if not cases:
        return
    tell(cases[0].name)
    if len(cases) == 1:
        yield examine_alone(cases[0])
        return
    try:
        source = _traced(cases)
        suspects = _suspects(cases, source, convert(source, run=False), tell)
    except Exception:  # of one of them
        half = len(cases) // 2
        yield from _together(cases[:half], tell)
        yield from _together(cases[half:], tell)
        return
    for case in cases:
        tell(case.name)
        yield examine_alone(case) if case.name in suspects else Found(case, EQUAL)


def _traced(cases: Sequence[Case]) -> Source:
    import torch

    class Calls(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            left = iter(given)
            return tuple(r for case in cases for r in case.call(*itertools.islice(left, len(case.tensors))))

    given = tuple(tensor for case in cases for tensor in case.tensors)
    shapes = tuple(dict.fromkeys(range(t.dim()), torch.export.Dim.AUTO) for t in given)
    return trace(Calls(), given, dynamic_shapes=(shapes,) if given else None)


def _suspects(cases: Sequence[Case], source: Source, model: Any, tell: Callable[[str], None]) -> set[str]:
    """The calls whose results are not torch's on one of the batches."""
    names = iter(source.inputs)
    inputs = {case.name: list(itertools.islice(names, len(case.tensors))) for case in cases}
    example, found = Example(source), set()
    computed = half_floats(model)
    counts = {case.name: len(case.call(*case.tensors)) for case in cases}
    drawn = {case.name: list(batches(case, inputs[case.name], example)) for case in cases}
    with Isolated(lambda: _runner(model)) as run:
        for k in range(max(map(len, drawn.values()))):
            wanted, feeds = {}, dict(example.feeds)
            for case in cases:
                batch = drawn[case.name][k] if k < len(drawn[case.name]) else drawn[case.name][0]
                tell(case.name)
                try:
                    wanted[case.name] = _eager(case, batch)
                except Exception:  # torch refuses it
                    batch = drawn[case.name][0]
                    wanted[case.name] = _eager(case, batch)
                feeds.update(zip(inputs[case.name], batch, strict=True))
            tell(cases[0].name)
            try:
                results = iter(run(feeds))
            except Exception:  # one of them fails
                if k == 0:
                    return {case.name for case in cases}
                found |= {case.name for case in cases if _fails(run, example.feeds, feeds, inputs[case.name])}
                continue
            for case in cases:
                got = list(itertools.islice(results, counts[case.name]))
                if not _agree(wanted[case.name], got, computed):
                    found.add(case.name)
    return found


def _fails(run: Callable[..., Any], example: Mapping[str, Array], batch: Mapping[str, Array], names: list[str]) -> bool:
    """Whether the program fails on the example with some inputs of a batch."""
    try:
        run({**example, **{name: batch[name] for name in names}})
    except Exception:  # whatever ONNX Runtime raises
        return True
    return False


def _agree(wanted: Sequence[Array], got: Sequence[Array], computed: Any) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return len(wanted) == len(got) and all(
            compare("", w, g, "", "", computed).ok for w, g in zip(wanted, got, strict=True)
        )


def _runner(model: Any) -> Callable[[Mapping[str, Array]], list[Array]]:
    options = session_options()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = InferenceSession(model, options)
    return lambda feeds: [np.asarray(each) for each in session.run(None, dict(feeds))]


def batches(case: Case, names: Sequence[str], example: Example) -> Iterator[Batch]:
    """The example of a call, with other sizes, and with special values."""
    yield [example.feeds[name] for name in names]
    own = [symbol for symbol, (name, _) in example.places.items() if name in names]
    for symbol in own[:_SIZES]:
        for size in (0, 1, 2 * example.sizes[symbol]):
            resized = example.resized({symbol: size})
            yield [resized[name] for name in names]
    rng = np.random.default_rng(len(names))
    for kind in next((kinds for pattern, kinds in _ORDERS if re.fullmatch(pattern, case.operator)), _ENDS):
        yield [_special(example.feeds[name], kind, rng) for name in names]


def _special(array: Array, kind: Callable[[Any], Sequence[float]], rng: np.random.Generator) -> Array:
    """An array of floats of which a third are special; others stay, as ids must, and so do orders, as of bounds."""
    if array.dtype.kind in "biu":
        return array
    ends = np.array(kind(ml_dtypes.finfo(array.dtype))).astype(array.dtype)
    made = np.where(rng.random(array.shape) < 1 / 3, rng.choice(ends, array.shape), array)
    is_ordered = array.ndim > 0 and array.shape[-1] > 1 and bool(np.all(array[..., 1:] >= array[..., :-1]))
    return np.sort(made, -1) if is_ordered else made


def _alone(case: Case, others: Batches) -> Found:
    """Examine a call as a program of its own."""
    try:
        source = _traced([case])
    except ConversionError as error:
        return Found(case, NOT_OURS, first_line(error))
    try:
        model = convert(source, run=False)
    except ConversionError as error:
        try:
            source.program.run_decompositions()
        except Exception as cause:  # whatever torch raises
            return Found(case, NOT_OURS, first_line(cause))
        reasons = [f"{node.op_type}: {node.reason}" for node in error.unsupported] or [first_line(error)]
        return Found(case, REFUSED, "; ".join(dict.fromkeys(reasons)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            require_run(source, model, {})
    except ConversionError as error:
        return Found(case, CAUGHT, first_line(error))
    return _verified(case, source, model, others)


def _verified(case: Case, source: Source, model: Any, others: Batches) -> Found:
    example = Example(source)
    is_random = False
    computed = half_floats(model)
    with Isolated(lambda: _runner(model)) as run, source.isolated() as program:
        for k, batch in enumerate(others(source.inputs, example)):
            feeds = dict(zip(source.inputs, batch, strict=True))
            try:
                wanted = _eager(case, batch)
            except Exception:  # torch refuses it
                continue
            try:
                got = run(feeds)
            except Exception as error:
                if not (k and is_refusal(error)) and not program.guard(feeds):
                    return Found(case, FAILS, f"{first_line(error)} {_shapes(batch)}")
                continue
            if _agree(wanted, got, computed) or program.guard_of_answer(feeds):
                continue
            if len(wanted) != len(got):
                return Found(case, WRONG, f"{len(got)} results for {len(wanted)}: {_shapes(batch)}")
            records = verify(TorchReference(program, model), model, feeds=feeds)
            is_random |= any(record.verdict is Verdict.RANDOM for record in records)
            # The program of torch.export may take another way than torch, and says which of equal elements is first.
            if wrong := [record for record in records if record.verdict is Verdict.DIFFERENT]:
                if _overflows(case, batch, wanted, got, computed):
                    continue
                if _agree(other_answer(lambda batch=batch: _eager(case, batch), wanted, got), got, computed):
                    continue  # torch contradicts itself
                shapes = [each.shape for each in got]
                if k and shapes != [each.shape for each in wanted] and shapes == _inferred_shapes(case, batch):
                    continue  # torch contradicts itself: its results have not the shapes that it infers
                return Found(case, WRONG, f"{wrong[0].output}: {wrong[0].note} {_shown(batch, wanted, got)}")
    return Found(case, RANDOM if is_random else EQUAL)


def other_answer(run: Callable[[], Sequence[Array]], wanted: Sequence[Array], got: Sequence[Array]) -> list[Any]:
    """What torch answers, with `got` where that is torch's answer, too, by other kernels, and one is not finite.

    `run` asks torch again. Its vectorized remainder is NaN where the quotient overflows, and that of single elements is
    exact. Its product of small matrices rounds, and overflows, before it adds, and that of large ones after it. Its
    attention scales before it multiplies, and that of heads after it.
    """
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    aten = torch.ops.aten
    of_elements = {aten.fmod, aten.remainder, aten.floor_divide, aten.div}

    class OtherKernels(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func.overloadpacket in of_elements:  # memory that is not contiguous is read one by one
                args = [torch.stack([x, x], -1)[..., 0] if isinstance(x, torch.Tensor) else x for x in args]
            if func.overloadpacket not in (aten.mm, aten.bmm):
                return func(*args, **(kwargs or {}))
            left, right = args
            before = [1] * (left.dim() - 2)
            return func(left.repeat(*before, 64, 1), right.repeat(*before, 1, 64))[
                ..., : left.shape[-2], : right.shape[-1]
            ]

    class ByHeads(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is not torch.nn.functional.scaled_dot_product_attention or args[0].dim() != 3:
                return func(*args, **(kwargs or {}))
            return func(*(x[None] if isinstance(x, torch.Tensor) else x for x in args), **(kwargs or {}))[0]

    with OtherKernels(), ByHeads():
        others = run()
    found = []
    for want, have, other in zip(wanted, got, others, strict=True):
        if want.dtype.kind in "biu" or want.shape != have.shape:
            found.append(want)
            continue
        with np.errstate(all="ignore"):
            same = np.isclose(have.astype(float), other.astype(float), 1e-4, 1e-6, equal_nan=True)
        are_finite = np.isfinite(want.astype(float)) & np.isfinite(have.astype(float))
        found.append(np.where(same & ~are_finite, have, want))
    return found


def _inferred_shapes(case: Case, batch: Batch) -> list[tuple[int, ...]]:
    """The shapes that torch infers for results; none where they depend on values."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    try:
        with FakeTensorMode() as mode, torch.no_grad():
            return [tuple(made.shape) for made in case.call(*(mode.from_tensor(to_torch(each)) for each in batch))]
    except Exception:  # whatever torch raises for these sizes
        return []


def _overflows(case: Case, batch: Batch, wanted: Sequence[Array], got: Sequence[Array], computed: Any) -> bool:
    """Whether results differ only where torch itself is not near to what it computes of doubles."""
    wide = [array.astype(np.float64) if array.dtype.kind not in "biu" else array for array in batch]
    try:
        exact = _eager(case, wide)
    except Exception:  # whatever torch raises for doubles
        return False
    judged = []
    for want, have, true in zip(wanted, got, exact, strict=True):
        if want.shape != have.shape or want.shape != true.shape or want.dtype.kind in "biu":
            judged.append(have)
            continue
        with np.errstate(all="ignore"):
            near = np.isclose(want.astype(float), true.astype(want.dtype).astype(float), 1e-2, 1e-5, equal_nan=True)
        judged.append(np.where(near, have, want))
    return _agree(wanted, judged, computed)


def _shapes(batch: Batch) -> str:
    return " ".join(f"{array.dtype}{list(array.shape)}" for array in batch)


def _shown(batch: Batch, wanted: Sequence[Array], got: Sequence[Array]) -> str:
    for want, have in zip(wanted, got, strict=True):
        if want.shape != have.shape or want.dtype != have.dtype:
            return f"{_shapes(batch)}: {have.dtype}{list(have.shape)} for {want.dtype}{list(want.shape)}"
        with np.errstate(all="ignore"):
            same = (want == have) | ((want != want) & (have != have))
            if want.dtype.kind not in "biu":
                same |= np.isclose(want.astype(float), have.astype(float), rtol=1e-4, atol=1e-6)
        if not np.all(same):
            at = tuple(np.argwhere(~np.asarray(same))[0])
            return f"{_shapes(batch)}: {have[at]!r} for {want[at]!r}"
    return _shapes(batch)
