"""Random reals known by their first binary digits: exact samples of the half-normal and the exponential law.

A half-normal |N| or an exponential variable is k + x with a whole number k and x in [0, 1). With uniform U, X, V:

    k = #{j : U >= C_j},     X is accepted as x if V < e^(-h(k, X)),

    half-normal:  C_j = sum_(i <= j) e^(-i^2/2) / sum_i e^(-i^2/2),   h = X (2k + X) / 2, so that the density of k + x
                  is proportional to e^(-k^2/2) e^(-x(2k + x)/2) = e^(-(k + x)^2/2),
    exponential:  C_j = 1 - e^(-(j + 1)),                             h = X.

U, X and V are real numbers of which 64-bit words are the first digits; more digits are drawn where a decision needs
them. Doubles decide where both sides of a comparison differ by 2^-40 or more, 32 times the error of what is compared if
the library's exp is within 64 ulps; all other cases are decided by integers. So every decision is the one that exact
arithmetic would make with all digits known: the samples have exactly the law above, whatever bits are drawn.

References: Karney 2016 (digits drawn when they are needed); docs/mathematics/floating_point.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.learning.sampling.bits import Bits, Words

WORD = 64
_UNIT = 2.0**-WORD
_DOUBTFUL = 2.0**-40  # closer comparisons of doubles are left to integers
_GUARD = 64  # binary digits beyond those that are compared
_ACCEPTED = 0.6  # a lower bound on the share of accepted candidates of both laws
_CHUNK = 2**13  # candidates at a time: their arrays stay in the cache


class Digits:
    """A uniform real in [0, 1) by its first digits: it is in [value, value + 1) / 2^count."""

    def __init__(self, word: int, count: int = WORD) -> None:
        self.value, self.count = word, count

    def extend(self, bits: Bits) -> None:
        """Draw another 64 digits."""
        self.value, self.count = (self.value << WORD) | int(bits.words(1)[0]), self.count + WORD


def exp_minus(x: Fraction, precision: int) -> tuple[int, int]:
    """Integers (low, high) with low <= 2^precision e^(-x) <= high and high - low <= 2, for a rational x >= 0.

    By the series at x / 2^s <= 1/2 and s squarings, with all roundings counted.
    """
    halvings = int(2 * x).bit_length()
    work = precision + halvings + 20  # a squaring at most doubles the error and adds a unit
    reduced = (x.numerator << work) // (x.denominator << halvings)
    total = term = 1 << work
    terms = 0
    while term:  # a term is at most 4 units below its real value: x and two divisions are rounded down
        terms += 1
        term = (term * reduced >> work) // terms
        total += -term if terms % 2 else term
    low, high = total - 4 * terms - 8, total + 4 * terms + 8
    for _ in range(halvings):
        low, high = low * low >> work, (high * high >> work) + 1
    drop = work - precision
    return low >> drop, (high >> drop) + 1


@dataclass(frozen=True)
class Law:
    """A law of k + x as described above.

    Attributes
    ----------
    threshold : callable, (j, precision) to integers (low, high) that enclose 2^precision C_j
    exponent : callable, (k, x) to h, on arrays of doubles and on Fractions alike
    """

    threshold: Callable[[int, int], tuple[int, int]]
    exponent: Callable[[Any, Any], Any]
    _table: NDArray[np.float64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        table = [0.0]
        while table[-1] < 1 - _DOUBTFUL / 2:
            table.append(self.threshold(len(table) - 1, 128)[0] / 2**128)
        object.__setattr__(self, "_table", np.array([-1.0, *table[1:], 2.0]))

    def sample(self, size: int, bits: Bits) -> Reals:
        """`size` independent draws."""
        parts, found = [], 0
        while found < size:
            missing = size - found
            count = min(_CHUNK, int(missing / _ACCEPTED) + 16)
            part = self.decided(*bits.words(3 * count).reshape(3, count), bits)
            parts.append(part.first(missing))
            found += len(parts[-1].k)
        return Reals.joined(parts)

    def decided(self, U: Words, X: Words, V: Words, bits: Bits) -> Reals:
        """The accepted ones among candidates with these first words; further digits come from `bits`."""
        u, x, v = (words * _UNIT for words in (U, X, V))
        k = np.searchsorted(self._table, u, side="right") - 1
        chance = np.exp(-self.exponent(k, x))
        accepted = v < chance
        clear = np.minimum(u - self._table[k], self._table[k + 1] - u) >= _DOUBTFUL
        clear &= np.abs(v - chance) >= _DOUBTFUL
        longer: dict[int, Digits] = {}
        for i in np.flatnonzero(~clear).tolist():
            digits = Digits(int(X[i]))
            k[i], accepted[i] = self._decide(Digits(int(U[i])), digits, Digits(int(V[i])), bits)
            longer[i] = digits
        kept = np.flatnonzero(accepted)
        place = np.cumsum(accepted) - 1
        return Reals(k[kept], X[kept], {int(place[i]): digits for i, digits in longer.items() if accepted[i]})

    def _decide(self, U: Digits, X: Digits, V: Digits, bits: Bits) -> tuple[int, bool]:
        """k, and whether X is accepted, in exact arithmetic."""
        k = 0
        while self._reaches(U, k, bits):
            k += 1
        while True:
            precision = V.count + _GUARD
            high = exp_minus(Fraction(self.exponent(k, Fraction(X.value, 1 << X.count))), precision)[1]
            low = exp_minus(Fraction(self.exponent(k, Fraction(X.value + 1, 1 << X.count))), precision)[0]
            if (V.value + 1) << _GUARD <= low:
                return k, True
            if V.value << _GUARD >= high:
                return k, False
            X.extend(bits)
            V.extend(bits)

    def _reaches(self, U: Digits, j: int, bits: Bits) -> bool:
        """Whether U >= C_j."""
        while True:
            low, high = self.threshold(j, U.count + _GUARD)
            if (U.value + 1) << _GUARD <= low:
                return False
            if U.value << _GUARD >= high:
                return True
            U.extend(bits)


@dataclass(frozen=True)
class Reals:
    """Independent reals k + x >= 0, x known by its first digits.

    Attributes
    ----------
    k : ndarray (size,) of int
    x : ndarray (size,) of uint64, the first 64 digits of each x
    longer : dict from positions to Digits, where more of x may be known
    """

    k: NDArray[np.int64]
    x: Words
    longer: dict[int, Digits]

    def digits(self, i: int) -> Digits:
        """All that is known of x at position i."""
        return self.longer.setdefault(i, Digits(int(self.x[i])))

    def first(self, size: int) -> Reals:
        """The first `size` of them."""
        return Reals(self.k[:size], self.x[:size], {i: digits for i, digits in self.longer.items() if i < size})

    @classmethod
    def joined(cls, parts: list[Reals]) -> Reals:
        """The reals of all parts in order."""
        if len(parts) == 1:
            return parts[0]
        empty = cls(np.zeros(0, np.int64), np.zeros(0, np.uint64), {})
        parts = parts or [empty]
        starts = np.cumsum([0, *(len(part.k) for part in parts)]).tolist()
        longer = {start + i: d for start, part in zip(starts, parts, strict=False) for i, d in part.longer.items()}
        k, x = (np.concatenate([getattr(part, name) for part in parts]) for name in ("k", "x"))
        return cls(k, x, longer)


@cache
def _half_normal_threshold(j: int, precision: int) -> tuple[int, int]:
    """Bounds on 2^precision C_j from those on each e^(-i^2/2), with a bound on the rest of the sum."""
    work = precision + 32
    low, high, lows, highs, i = 0, 0, 0, 0, 0
    while True:
        least, most = exp_minus(Fraction(i * i, 2), work)
        low, high = low + least, high + most
        if i == j:
            lows, highs = low, high
        i += 1
        if i > j and most <= 2:  # the terms that follow: each at most half of the one before
            high += 2 * most
            break
    return (lows << precision) // high, -((-highs << precision) // low)


def _exponential_threshold(j: int, precision: int) -> tuple[int, int]:
    low, high = exp_minus(Fraction(j + 1), precision)
    return (1 << precision) - high, (1 << precision) - low


HALF_NORMAL = Law(_half_normal_threshold, lambda k, x: x * (2 * k + x) / 2)
EXPONENTIAL = Law(_exponential_threshold, lambda k, x: x)


def signs(size: int, bits: Bits) -> NDArray[np.int64]:
    """Independent fair signs, ndarray (size,) of -1 and 1."""
    words = bits.words(-(-size // WORD))
    return 1 - 2 * np.unpackbits(words.view(np.uint8), count=size).astype(np.int64)
