"""Every form of torch's operators that look up, reduce, select or repeat by ids: its state, and the proof of it.

A form in EQUAL gives torch's answers. One in REFUSED does not convert, for a reason that is torch's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.torch import export  # noqa: E402

F = torch.nn.functional
DYNAMIC = torch.export.Dim.DYNAMIC
INF = math.inf
TABLE = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
MODES = ("sum", "mean", "max")
SCATTERED = ("sum", "prod", "mean", "amax", "amin")
SEGMENTS = ("sum", "prod", "mean", "max", "min", "amax", "amin")


class Given(NamedTuple):
    """The inputs of a batch.

    Attributes:
        x: Rows to reduce into, or to select from [rows, 3].
        ids: Ids below the number of rows [entries].
        src: Rows to reduce [entries, 3].
        lengths: Lengths of segments of the entries [segments].
        mask: Which elements of x are meant [rows, 3].
    """

    x: Any
    ids: Any
    src: Any
    lengths: Any
    mask: Any


Form = Callable[[Given], Any]


def offsets(g: Given, end: bool = False) -> Any:
    ends = g.lengths.cumsum(0)
    return F.pad(ends, (1, 0)) if end else ends - g.lengths


def column(g: Given) -> Any:
    return g.ids.view(-1, 1).expand_as(g.src)


def elements(g: Given) -> Any:
    """Indices that differ within a row."""
    return g.ids.view(-1, 1) * torch.tensor([1, 0, 1])


def bag(mode: str, table: Any = TABLE, **options: Any) -> Form:
    return lambda g: F.embedding_bag(g.ids, table, offsets(g), mode=mode, **options)


def scatter_reduce(kind: str, include_self: bool, index: Callable[[Given], Any]) -> Form:
    return lambda g: g.x.scatter_reduce(0, index(g), g.src, kind, include_self=include_self)


def index_reduce(kind: str, include_self: bool) -> Form:
    return lambda g: g.x.index_reduce(0, g.ids, g.src, kind, include_self=include_self)


def bags() -> Iterator[tuple[str, Form]]:
    yield "weighted", lambda g: F.embedding_bag(g.ids, TABLE, offsets(g), mode="sum", per_sample_weights=g.src[:, 0])
    yield (
        "weighted and padded",
        lambda g: F.embedding_bag(
            g.ids,
            TABLE,
            offsets(g),
            mode="sum",
            per_sample_weights=g.src[:, 0],
            padding_idx=1,
            include_last_offset=False,
        ),
    )
    for mode in MODES:
        yield mode, bag(mode)
        yield f"{mode}, padded", bag(mode, padding_idx=1)
        yield f"{mode}, padded from the end", bag(mode, padding_idx=-5)
        yield (
            f"{mode}, with the last offset",
            lambda g, mode=mode: F.embedding_bag(g.ids, TABLE, offsets(g, True), mode=mode, include_last_offset=True),
        )
        yield (
            f"{mode}, a matrix",
            lambda g, mode=mode: F.embedding_bag(g.mask.to(torch.int64) + 1, TABLE, mode=mode, padding_idx=2),
        )
        yield (
            f"{mode}, int32 and int64",
            lambda g, mode=mode: F.embedding_bag(g.ids.int(), TABLE, offsets(g), mode=mode),
        )
        for dtype in (torch.float16, torch.float64):
            yield f"{mode}, {dtype}", bag(mode, TABLE.to(dtype))
    yield "of infinities", bag("sum", torch.full((6, 2), INF))
    yield "mean of NaN", bag("mean", torch.full((6, 2), math.nan))
    yield "max of -inf", bag("max", torch.full((6, 2), -INF))


def scattered() -> Iterator[tuple[str, Form]]:
    for kind in SCATTERED:
        for own in (True, False):
            with_self = f"{kind} {'with' if own else 'without'} self"
            yield f"scatter_reduce {with_self}", scatter_reduce(kind, own, column)
            yield f"scatter_reduce {with_self}, elements", scatter_reduce(kind, own, elements)
            yield (
                f"scatter_reduce {with_self}, dim 1",
                lambda g, kind=kind, own=own: g.x.scatter_reduce(1, g.mask.long(), g.x * 2, kind, include_self=own),
            )
            if kind != "sum":
                yield f"index_reduce {with_self}", index_reduce(kind, own)
    yield "scatter_add", lambda g: g.x.scatter_add(0, column(g), g.src)
    yield "scatter_add, elements", lambda g: g.x.scatter_add(0, elements(g), g.src)
    yield "scatter_add, index smaller than src", lambda g: g.x.scatter_add(0, elements(g)[:, :2], g.src)
    yield "scatter_add, in place", lambda g: torch.zeros_like(g.x).scatter_add_(0, column(g), g.src)
    yield (
        "scatter_reduce amax, index smaller than src",
        lambda g: g.x.scatter_reduce(0, elements(g)[:, 1:], g.src, "amax", include_self=False),
    )
    yield "scatter with add", lambda g: g.x.scatter(0, elements(g), g.src, reduce="add")
    yield "scatter with multiply", lambda g: g.x.scatter(0, elements(g), g.src, reduce="multiply")
    yield "scatter of a number with add", lambda g: g.x.scatter(0, elements(g), 2.0, reduce="add")
    yield "scatter, index smaller than src", lambda g: g.x.scatter(1, torch.arange(2).expand(g.x.shape[0], 2), g.x + 1)
    yield "index_add", lambda g: g.x.index_add(0, g.ids, g.src)
    yield "index_add with alpha", lambda g: g.x.index_add(0, g.ids, g.src, alpha=-2)
    yield "index_add, dim 1", lambda g: g.x.T.index_add(1, g.ids, g.src.T)
    yield "index_put that accumulates", lambda g: g.x.index_put((g.ids,), g.src, accumulate=True)


def segments() -> Iterator[tuple[str, Form]]:
    for kind in SEGMENTS:
        yield f"{kind} by lengths", lambda g, kind=kind: torch.segment_reduce(g.src, kind, lengths=g.lengths)
        yield f"{kind} by offsets", lambda g, kind=kind: torch.segment_reduce(g.src, kind, offsets=offsets(g, True))
        yield (
            f"{kind} with initial",
            lambda g, kind=kind: torch.segment_reduce(g.src, kind, lengths=g.lengths, initial=-1.5),
        )
        yield (
            f"{kind} along axis 1",
            lambda g, kind=kind: torch.segment_reduce(
                g.x, kind, lengths=torch.tensor([[1, 0, 2]]).repeat(g.x.shape[0], 1), axis=1
            ),
        )


def others() -> Iterator[tuple[str, Form]]:
    yield "bincount", lambda g: torch.bincount(g.ids)
    yield "bincount with minlength", lambda g: torch.bincount(g.ids, minlength=9)
    # Without ids, torch forgets the type of the weights.
    yield "bincount of weights", lambda g: torch.bincount(g.ids, g.src[:, 1], minlength=2).float()
    yield "masked_fill", lambda g: g.x.masked_fill(g.mask, -INF)
    yield "masked_fill of a vector", lambda g: g.x.masked_fill(g.mask[:, :1], 2)
    yield "masked_select", lambda g: g.x.masked_select(g.mask)
    yield "masked_select, broadcast", lambda g: g.x[:, :1].masked_select(g.mask)
    yield "masked_select of rows", lambda g: g.x.masked_select(g.mask[:, :1])
    yield "indexed by a mask", lambda g: g.x[g.mask]
    yield "masked_scatter", lambda g: g.x.masked_scatter(g.mask, g.x * 2)
    yield "repeat_interleave", lambda g: torch.repeat_interleave(g.lengths)
    yield (
        "repeat_interleave of rows",
        lambda g: torch.repeat_interleave(g.x, g.mask.sum(1), dim=0),
    )
    yield (
        "repeat_interleave to a size",
        lambda g: torch.repeat_interleave(g.lengths, g.lengths, output_size=g.ids.shape[0]),
    )


FORMS = {"bags": bags, "scattered": scattered, "segments": segments, "others": others}
EQUAL = {kind: dict(forms()) for kind, forms in FORMS.items()}

#: Forms that torch refuses, with what torch says.
REFUSED: dict[str, tuple[Form, str]] = {
    "weights of a mean": (
        lambda g: F.embedding_bag(g.ids, TABLE, offsets(g), mode="mean", per_sample_weights=g.src[:, 0]),
        "per_sample_weights",
    ),
    "a bag of integers": (lambda g: F.embedding_bag(g.ids, g.x.long(), offsets(g)), "dtype|Long|type"),
    "segments by indices": (lambda g: torch.segment_reduce(g.src, "sum", indices=g.ids), "indices"),
}


def given(rows: int, ids: list[int], lengths: list[int], values: list[float] | None = None) -> Given:
    random = torch.Generator().manual_seed(rows)
    src = torch.randn((len(ids), 3), generator=random)
    if values is not None:
        src[:, 1] = torch.tensor(values)
        src[:, 2] = -src[:, 1]
    mask = torch.randint(0, 2, (rows, 3), generator=random).bool()
    return Given(
        torch.randn((rows, 3), generator=random), torch.tensor(ids, dtype=torch.int64), src, torch.tensor(lengths), mask
    )


#: Ids that occur twice and not at all, segments that are empty; special values; no entries, and no segments with them.
BATCHES = [
    given(5, [1, 0, 1, 4], [2, 0, 2]),
    given(4, [2, 0, 0, 2, 1], [1, 4], [INF, 1.0, math.nan, -INF, -INF]),
    given(4, [3, 3, 3], [0, 3, 0], [-INF, -INF, -INF]),
    given(3, [], [0, 0]),
    given(3, [0], [1]),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMS)
def test_equal(agree, kind: str) -> None:
    calls = {name: lambda _, *batch, form=form: form(Given(*batch)) for name, form in EQUAL[kind].items()}
    agree(calls, BATCHES, dynamic=[{0: DYNAMIC}] * len(Given._fields))


INTEGERS = [torch.uint8, torch.int64]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_equal_in_integers(agree, dtype: Any) -> None:
    calls = {
        name: lambda _, *batch, form=form: form(Given(*batch))
        for name, form in EQUAL["scattered"].items()
        if "number" not in name
    }
    whole = [g for g in BATCHES if bool(g.src.isfinite().all())]
    batches = [g._replace(x=(4 * g.x).to(dtype), src=(4 * g.src).to(dtype)) for g in whole]
    agree(calls, batches, dynamic=[{0: DYNAMIC}] * len(Given._fields))


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    form, reason = REFUSED[name]

    class Module(torch.nn.Module):
        def forward(self, *batch: Any) -> Any:
            return form(Given(*batch))

    with pytest.raises((RuntimeError, ValueError, NotImplementedError), match=reason):
        Module()(*BATCHES[0])
    with pytest.raises(ConversionError):
        export(Module(), tuple(BATCHES[0]))
