"""Releases on a grid: whole multiples of a public power of two, so that the noise is added to integers.

For theta on the grid g Z^d and noise R_g(W), the exact rounding of a real vector W to the grid, theta + R_g(W) is
R_g(theta + W): a function of what the mechanism of the proofs releases, with the same guarantee. A sum of doubles has
no such property. Proofs: docs/mathematics/floating_point.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.learning.types import Array
from explorer.validation import magnitude

GRID_BITS = 40  # the grid is this many powers of two below the noise
_LARGEST = 2.0**62  # of integers in 64 bits, so that the sum of two cannot overflow
_WHOLE = 2**53  # up to which every integer is a double


def grid_below(scale: float) -> float:
    """The power of two g with 2^40 g <= scale < 2^41 g, a public grid for noise of this scale.

    Raises ValueError unless scale is a number from 1e-100 to 1e100.
    """
    return float(np.ldexp(0.5, int(np.frexp(magnitude("the scale of the noise", scale))[1]) - GRID_BITS))


def to_grid(theta: Array, grid: float) -> Array:
    """theta rounded to multiples of grid, ndarray (d,); exact, since scaling by a power of two is."""
    return np.rint(theta / grid) * grid


@dataclass(frozen=True)
class GridNoise:
    """Noise on a grid, and how far it is from the real noise of which it is the rounding.

    Attributes
    ----------
    integers : ndarray (d,) of int64 or of Python's integers; the noise is grid times these
    grid : float, a power of two
    """

    integers: np.ndarray
    grid: float

    @property
    def value(self) -> Array:
        """The noise in doubles, ndarray (d,): exact below 2^53 grid, else the nearest doubles."""
        return doubles(self.integers) * self.grid

    @property
    def distance(self) -> float:
        """An upper bound on |value - w|_2 for the real noise w: grid sqrt(d) / 2, and the rounding of large values."""
        rounding = self.grid * np.sqrt(len(self.integers)) / 2
        if len(self.integers) and max(abs(k) for k in self.integers.tolist()) > _WHOLE:
            rounding += 2.0**-53 * float(np.linalg.norm(self.value))
        return float(rounding) * (1 + 2.0**-40)


def release_on_grid(theta: Array, noise: GridNoise) -> Array:
    """theta + noise for a theta on noise.grid, ndarray (d,): the released integers times the grid.

    The sum is one of integers. Beyond 2^53 grid the result is the nearest double, which depends on the sum alone.
    """
    whole = theta / noise.grid
    if np.abs(whole).max(initial=0) < _LARGEST:
        total = added(whole.astype(np.int64), noise.integers)
    else:
        total = added(np.array([int(w) for w in whole], dtype=object), noise.integers)
    return doubles(total) * noise.grid


def added(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The sums of integers of any size, ndarray (d,) of int64 or of Python's integers.

    Arrays of int64 must hold integers of at most 2^62 in size; all samplers and sums of this package keep to that.
    """
    if first.dtype == second.dtype == np.int64:
        return first + second
    return first.astype(object) + second.astype(object)


def doubles(integers: np.ndarray) -> Array:
    """The doubles nearest to integers of any size."""
    return integers.astype(float) if integers.dtype != object else np.array([float(k) for k in integers])
