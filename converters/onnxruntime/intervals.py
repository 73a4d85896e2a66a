"""Intervals of integers, and what arithmetic makes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from operator import mul

from onnx import TensorProto

from onnx_sparse.schemas.declaration import DType

#: The largest number of elements that memory is taken to hold along an axis, and in a tensor that is reduced.
COUNT = 2**31 - 1

#: The largest position: one that a few are added to is one still.
POSITION = COUNT - 2**16

#: What counts elements so many times at most still has 32 bits; a constant up to `_FEW` may be added to such a number.
_TIMES, _FEW = 16, 1 << 16


@dataclass(frozen=True)
class Interval:
    """The integers from a lowest to a highest one.

    Attributes:
        low, high: The lowest and the highest integer.
        counted: How often what is computed counts the elements of tensors: once if it is a size, `c` times if it is c
            times a size; 0 if it is not known to count any. Sums and products of sizes count elements, too. As memory
            holds the elements, the numbers have 32 bits, whatever arithmetic alone would say.
    """

    low: int
    high: int
    counted: int = 0

    @property
    def magnitude(self) -> int:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))

    def __or__(self, other: Interval) -> Interval:
        times = max(self.counted, other.counted) if self._times and other._times else 0
        return Interval(min(self.low, other.low), max(self.high, other.high), times)

    @property
    def _times(self) -> int:
        """How often it counts elements, where a small number is as good as a size."""
        return self.counted or int(self.magnitude <= _FEW)

    def _counts_with(self, other: Interval) -> bool:
        """Whether what is made of both counts elements."""
        return bool(self.counted or other.counted) and bool(self._times and other._times)

    def counting(self, times: int) -> Interval:
        """The interval, of numbers that count elements so many times, if these are few times."""
        if not 0 < times <= _TIMES:
            return self
        return Interval(max(self.low, -COUNT), min(self.high, COUNT), times)

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low, self.counted)

    def __add__(self, other: Interval) -> Interval:
        whole = Interval(self.low + other.low, self.high + other.high)
        return whole.counting(self._times + other._times if self._counts_with(other) else 0)

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        corners = [a * b for a, b in product((self.low, self.high), (other.low, other.high))]
        times = (self.counted or self.magnitude) * (other.counted or other.magnitude)
        return Interval(min(corners), max(corners)).counting(times if self._counts_with(other) else 0)

    def absolute(self) -> Interval:
        """The absolute values."""
        return Interval(
            0 if self.low < 0 < self.high else min(abs(self.low), abs(self.high)), self.magnitude, self.counted
        )

    def divided(self, divisor: Interval) -> Interval:
        """The quotient by any integer but 0, of what a division truncates or rounds down."""
        if self.low >= 0 <= divisor.low:
            return Interval(0, self.high, self.counted)
        return Interval(-self.magnitude, self.magnitude, self.counted)

    def remainder(self, divisor: Interval, *, of_dividend: bool) -> Interval:
        """The remainder by any integer but 0, with the sign of the divisor or `of_dividend`."""
        most = max(divisor.magnitude - 1, 0)
        if of_dividend or self.low >= 0 <= divisor.low:
            most = min(most, self.magnitude)
        signs = self if of_dividend else divisor
        return Interval(-most if signs.low < 0 else 0, most if signs.high > 0 else 0)

    def total(self, count: int | None) -> Interval:
        """The sum of so many numbers; None if their number is not known."""
        times = COUNT if count is None else count
        whole = Interval(min(self.low * times, 0), max(self.high * times, 0))
        if count is None and not self.counted:
            return whole.counting(self.magnitude)  # a sum of ones counts them
        return whole.counting((count or 0) * self.counted)

    def product(self, count: int | None) -> Interval:
        """The product of so many numbers; None if their number is not known."""
        if count is not None and count <= 64:
            return reduce(mul, [self] * count, Interval(1, 1))
        if FLAG.includes(self):
            return FLAG
        return ANY.counting(self.counted if self.counted == 1 else 0)

    def includes(self, other: Interval) -> bool:
        """Whether the interval has all integers of another."""
        return self.low <= other.low and other.high <= self.high

    def within(self, dtype: DType) -> Interval:
        """What a result of an element type may be: all that the type has, if it may wrap."""
        limits = of_type(dtype)
        return self if limits.includes(self) else limits


#: The integers of each element type.
_LIMITS = {
    TensorProto.BOOL: Interval(0, 1),
    **{
        getattr(TensorProto, f"{prefix}INT{bits}"): Interval(*ends)
        for bits in (8, 16, 32, 64)
        for prefix, ends in (("", (-(1 << bits - 1), (1 << bits - 1) - 1)), ("U", (0, (1 << bits) - 1)))
    },
}


def is_integer(dtype: DType) -> bool:
    """Whether an element type has integers, or flags, of which ranges are found."""
    return dtype in _LIMITS


def of_type(dtype: DType) -> Interval:
    """All integers of an element type; those of int64 if it is not known."""
    return _LIMITS.get(dtype, _LIMITS[TensorProto.INT64])


#: More than any element type has.
ANY = Interval(-(1 << 65), 1 << 65)
FLAG = Interval(0, 1)
SIZE = Interval(0, COUNT, 1)
PLACE = Interval(0, POSITION)
ZERO = Interval(0, 0)
SIGN = Interval(-1, 1)


def greater(one: Interval, other: Interval) -> Interval:
    """The greater of two numbers."""
    return replace(one | other, low=max(one.low, other.low), high=max(one.high, other.high))
