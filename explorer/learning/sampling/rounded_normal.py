"""The exact rounding of a real Gaussian to whole numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from explorer.learning.sampling.bits import Bits
from explorer.learning.sampling.lazy import HALF_NORMAL, Digits, Reals, signs

_LARGEST = 2.0**61  # of results in 64-bit integers, far from their limit


def rounded_normal(scale: Fraction, size: int, bits: Bits) -> np.ndarray:
    """`size` independent draws of floor(scale N + 1/2), N a standard normal real number, exactly.

    The probability of k is Phi((k + 1/2) / scale) - Phi((k - 1/2) / scale). Uses no floating-point number that decides:
    see `explorer.learning.sampling.lazy`.

    Parameters
    ----------
    scale : Fraction > 0
    size : int
    bits : Bits

    Returns
    -------
    ndarray (size,) of int64, or of Python's integers where these may be too small
    """
    if size == 0:
        return np.zeros(0, np.int64)
    return rounded(HALF_NORMAL.sample(size, bits), signs(size, bits), scale, bits)


def rounded(reals: Reals, sign: np.ndarray, scale: Fraction, bits: Bits) -> np.ndarray:
    """sign floor(scale (k + x) + 1/2) for Reals k + x, ndarray (size,) of int64 or of Python's integers.

    (That the sign is applied last matters only where scale (k + x) is a half exactly, with probability 0.)
    """
    if float(scale) * (int(reals.k.max()) + 1) > _LARGEST:
        whole = [_floor(k, reals.digits(i), scale, bits) for i, k in enumerate(reals.k.tolist())]
        return np.array([s * w for s, w in zip(sign.tolist(), whole, strict=True)], dtype=object)
    product = (reals.k + reals.x * 2.0**-64) * float(scale)
    shifted = product + 0.5
    size = np.floor(shifted)
    open_ = np.minimum(shifted - size, size + 1 - shifted) < (shifted + float(scale)) * 2.0**-51  # at least the error
    whole = size.astype(np.int64)
    for i in np.flatnonzero(open_).tolist():
        whole[i] = _floor(int(reals.k[i]), reals.digits(i), scale, bits)
    return sign * whole


def _floor(k: int, x: Digits, scale: Fraction, bits: Bits) -> int:
    """floor(scale (k + x) + 1/2), drawing digits of x until it is known."""
    top, bottom = 2 * scale.numerator, 2 * scale.denominator
    while True:  # floor(a / b + 1/2) = floor((2 a + b) / (2 b)) for integers
        known, unit = (k << x.count) + x.value, bottom << x.count
        whole = (top * known + unit // 2) // unit
        if whole == -(-(top * (known + 1) + unit // 2) // unit) - 1:  # the upper end is not attained
            return whole
        x.extend(bits)
