"""The exact rounding of noise whose density is proportional to e^(-|w|): a uniform direction and a Gamma norm."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np

from explorer.learning.sampling.bits import Bits
from explorer.learning.sampling.lazy import EXPONENTIAL, HALF_NORMAL, WORD, Reals, signs


def rounded_gamma_norm(scale: Fraction, size: int, bits: Bits) -> np.ndarray:
    """floor(scale w + 1/2) for one real vector w in R^size of density proportional to e^(-|w|), exactly.

    w = R N / |N| with N standard normal and R a sum of `size` standard exponentials, that is Gamma(size). All are known
    by their first digits, which give an interval for each coordinate; more digits of all are drawn until every
    coordinate's interval rounds to one number.

    Parameters
    ----------
    scale : Fraction > 0
    size : int >= 1
    bits : Bits

    Returns
    -------
    ndarray (size,) of int64, or of Python's integers where these may be too small
    """
    normals, terms = _Intervals(HALF_NORMAL.sample(size, bits)), _Intervals(EXPONENTIAL.sample(size, bits))
    sign = signs(size, bits).tolist()
    while True:
        normals.extend(bits)
        terms.extend(bits)
        whole = _rounded(normals, terms, scale)
        if whole is not None:
            signed = [s * w for s, w in zip(sign, whole, strict=True)]
            return np.array(signed, dtype=np.int64 if max(whole) < 2**62 else object)


def _rounded(normals: _Intervals, terms: _Intervals, scale: Fraction) -> list[int] | None:
    """Every scale R |N_i| / |N| rounded, or None where the digits do not determine them."""
    least, most = normals.values, [value + 1 for value in normals.values]  # of |N_i|, in units of 2^-count
    total = sum(terms.values)  # R is in [total, total + size)
    shortest, longest = isqrt(sum(n * n for n in least)), isqrt(sum(n * n for n in most)) + 1
    if not shortest:
        return None
    # floor(a / b + 1/2) = floor((2 a + b) / (2 b)); R and |N| have the same unit
    top, bottom = 2 * scale.numerator, 2 * scale.denominator << terms.count
    low, high = total * top, (total + len(terms.values)) * top
    short, long = bottom * shortest, bottom * longest
    half_short, half_long = short // 2, long // 2
    whole = [(low * n + half_long) // long for n in least]
    if whole != [(high * n + half_short) // short for n in most]:
        return None
    return whole


class _Intervals:
    """Lazily known reals as integers in a common unit 2^-count: each is in [value, value + 1)."""

    def __init__(self, reals: Reals) -> None:
        digits = [reals.digits(i) for i in range(len(reals.k))]
        self._k, self._digits = reals.k.tolist(), digits
        self.count = max(d.count for d in digits)
        self.values: list[int] = []

    def extend(self, bits: Bits) -> None:
        """Draw another word of digits for each, and for those that had fewer as many as the others have."""
        self.count += WORD
        for digits in self._digits:
            while digits.count < self.count:
                digits.extend(bits)
        self.values = [(k << self.count) + d.value for k, d in zip(self._k, self._digits, strict=True)]
