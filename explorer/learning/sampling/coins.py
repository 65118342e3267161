"""Exact random subsets: every record by a fair or biased coin of its own, without a coin for every record.

A set in which each of n records is included independently with probability q has a Binomial(n, q) number of elements
and is, given its size, uniform among the sets of that size. Both are drawn exactly: the size by inverting the
distribution function, known by integer bounds, at a uniform real of which more digits are drawn where the first 64 do
not decide; the elements by rejection.
"""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from explorer.learning.sampling.bits import Bits, Words
from explorer.learning.sampling.lazy import WORD, Digits

Integers = NDArray[np.int64]


def below(limit: int, size: int, bits: Bits) -> Integers:
    """`size` independent uniform whole numbers in [0, limit), ndarray (size,); limit at most 2^32.

    floor(w limit / 2^32) for words w of 32 bits, without those with w limit mod 2^32 < 2^32 mod limit, of which each
    number has the same count. The first m results do not depend on `size` beyond m, for the same bits.

    References: Lemire 2019.
    """
    surplus = 2**32 % limit
    found = np.zeros(0, np.uint64)
    while len(found) < size:
        words = bits.words((size - len(found)) // 2 + 2).view(np.uint32)
        products = words * np.uint64(limit)
        if surplus:
            products = products[(products & np.uint64(2**32 - 1)) >= surplus]
        found = np.append(found, products >> np.uint64(32)) if len(found) else products >> np.uint64(32)
    return found[:size].astype(np.int64)


def poisson_samples(bits: Bits, *, n_records: int, sampling_rate: float, steps: int) -> list[Integers]:
    """The sample of each step: increasing ndarrays of record numbers, each included with probability q.

    The n_records * steps trials are independent, and q is the double `sampling_rate` exactly.

    Parameters
    ----------
    bits : Bits
    n_records, steps : int >= 1
    sampling_rate : float in (0, 1], q
    """
    return PoissonSampler(n_records=n_records, sampling_rate=sampling_rate).draw(steps, bits)


class PoissonSampler:
    """`poisson_samples` for many calls: the distribution of the sample's size is computed once."""

    def __init__(self, *, n_records: int, sampling_rate: float) -> None:
        self._n = n_records
        self._size = Binomial(n_records, Fraction(sampling_rate))

    def draw(self, steps: int, bits: Bits) -> list[Integers]:
        """The samples of `steps` steps."""
        n, sizes = self._n, self._size.sample(steps, bits)
        few = np.minimum(sizes, n - sizes)  # of the larger sets the complement is drawn
        keys = np.zeros(0, np.int64)
        missing = few
        while missing.any():  # distinct numbers among uniform ones, until there are enough: a uniform set
            step = np.repeat(np.arange(steps), missing)
            keys = np.sort(np.append(keys, step * n + below(n, len(step), bits)))
            keys = keys[np.append(True, keys[1:] != keys[:-1])]  # np.unique takes ten times as long
            missing = few - np.bincount(keys // n, minlength=steps)
        ends = np.cumsum(np.append(0, few)).tolist()
        sets = [keys[start:end] - i * n for i, (start, end) in enumerate(pairwise(ends))]
        return [
            drawn if len(drawn) == size else np.setdiff1d(np.arange(n), drawn, assume_unique=True)
            for drawn, size in zip(sets, sizes.tolist(), strict=True)
        ]


class Binomial:
    """Exact samples of the Binomial(n, q) law, q a Fraction in (0, 1]."""

    def __init__(self, n: int, q: Fraction) -> None:
        self._n, self._q = n, q
        if q < 1:
            self._first, low, high = self._table(2 * WORD)
            self._low = np.array([value >> WORD for value in low], np.uint64)
            self._high = np.array([min((value >> WORD) + 1, 2**WORD - 1) for value in high], np.uint64)

    def sample(self, size: int, bits: Bits) -> Integers:
        """`size` independent draws, ndarray (size,)."""
        return self.decided(bits.words(size), bits) if self._q < 1 else np.full(size, self._n)

    def decided(self, words: Words, bits: Bits) -> Integers:
        """The draws #{j : U >= F(j)} at uniforms U with these first words; further digits come from `bits`."""
        position = np.searchsorted(self._low, words, side="right")
        doubtful = position != np.searchsorted(self._high, words, side="right")
        doubtful |= (words == 0) | (words == np.uint64(2**WORD - 1))  # perhaps beyond the table
        draws = self._first + position.astype(np.int64)
        for i in np.flatnonzero(doubtful).tolist():
            draws[i] = self._exact(Digits(int(words[i])), bits)
        return draws

    def _exact(self, U: Digits, bits: Bits) -> int:
        while True:
            first, low, high = self._table(U.count + WORD)
            position = bisect_right(high, U.value << WORD)  # of F(j) <= U for certain
            within = 0 < U.value < (1 << U.count) - 1 or (first == 0 and first + len(low) == self._n + 1)
            if within and position == bisect_right(low, ((U.value + 1) << WORD) - 1):
                return first + position
            U.extend(bits)

    def _table(self, precision: int) -> tuple[int, list[int], list[int]]:
        """(a, low, high): integers with low[i] <= 2^precision F(a + i) <= high[i].

        F(a - 1) and 1 - F(last) are below 2^-precision.

        From the mode outwards by the ratios of neighbouring probabilities, each rounded down; the terms that are left
        out on both sides, and all roundings, are in the difference of the bounds.
        """
        n, q = self._n, self._q
        odds_top, odds_bottom = q.numerator, q.denominator - q.numerator
        mode = min(int((n + 1) * q), n)
        unit = 1 << (precision + 2 * WORD)
        up, down = [unit], [unit]
        for j in range(mode, n):
            up.append(up[-1] * ((n - j) * odds_top) // ((j + 1) * odds_bottom))
            if not up[-1] >> WORD:
                break
        for j in range(mode, 0, -1):
            down.append(down[-1] * (j * odds_bottom) // ((n - j + 1) * odds_top))
            if not down[-1] >> WORD:
                break
        return self._summed(mode, up, down, precision)

    def _summed(self, mode: int, up: list[int], down: list[int], precision: int) -> tuple[int, list[int], list[int]]:
        weights = down[:0:-1] + up
        first = mode - len(down) + 1
        # a weight is at most its distance from the mode, below n units, too small; a sum of at most n + 1 weights, with
        # the terms left out (each below 2^WORD and n units), is at most `slack` too small
        slack = (self._n + 1) * (self._n + (1 << WORD) + 1)
        total = sum(weights)
        low, high, before = [], [], 0
        for weight in weights:
            before += weight
            low.append((before << precision) // (total + slack))
            high.append(-((-(before + slack) << precision) // total))
        return first, low, high
