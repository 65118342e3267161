"""A bound on how much more than a ramp any loss can leak, for all outcomes of the uses that follow at once.

Let D(l), a mixture of hockey sticks, be what later uses leak after a privacy loss l of this one. What a map leaks is
J = J(ramp) plus the integral of omega over the region between the map's curve and the ramp's, in the plane of lines t
and shifts r (see docs/mathematics/composition.md). In the notation of `explorer.accounting.pld.ramps`,

    omega(t, r) = phi(y) M (b r - n x) / kappa,   y = t - r/kappa_y,   x = t - r/kappa_x,

where M is the mass of hockey sticks in a window of width log(1+kappa) that moves with m(r), 0 <= n <= kappa a mean over
the same window, and b = 1 + kappa for "remove", 1 for "add". Two things are bounded on slabs of t:

- k(t) = int_0^s omega dr / phi(t), hockey stick by hockey stick in closed form: every term rises and then falls in t,
  so that its extrema on a slab are known (`gain_on_slabs`);
- int_0^a omega dr / phi(t) at the other a, which decide whether a map that leaves the ramp at a is better: only their
  signs matter, and intervals of r and t suffice (`Detours`).
"""

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from explorer.accounting.pld.ramps import Ramps
from explorer.accounting.types import BoolArray, FloatArray

_BATCH = 32  # groups of epsilon that are bounded at once, for the sake of memory
_SLACK = 1e-9  # steps by which the ranges of privacy losses are widened, far more than their rounding errors


class _Gain(NamedTuple):
    """k(t) = end - start where the line enters the window at all, else 0; low where it leaves it before s."""

    end: FloatArray
    start: FloatArray
    enters: BoolArray
    low: BoolArray

    @property
    def value(self) -> FloatArray:
        return np.where(self.enters, self.end - self.start, 0.0)


def _gain(ramps: Ramps, t: FloatArray, level: FloatArray) -> _Gain:
    """k(t) of one hockey stick: omega = dK/dr where level - log(1+kappa) < m < level, and 0 elsewhere.

    K/phi(t) is psi(level - m) phi(y)/phi(t), psi(u) = e^u - 1 for "remove" and 1 - e^-u for "add"; it is 0 at m =
    level. `level` is epsilon - x for "remove" and x - epsilon for "add", x the place of the hockey stick.
    """
    s, c = ramps.s, ramps.curvature
    leaves = level - ramps.jump  # m where the line leaves the window
    root = np.sqrt(np.maximum(t * t - 4 * c * leaves, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        larger = np.where(t >= 0, (t + root) / (2 * c), np.where(root > t, -2 * leaves / (root - t), 0.0))
        smaller = np.where(t > 0, 2 * leaves / (t + root), 0.0)
    low = t * s - c * s * s < leaves
    real = (t * t > 4 * c * leaves) & (t > 0)
    enters = np.where(low, ((leaves <= 0) | real) & (larger > 0) & (larger < s), (leaves <= 0) | (real & (smaller < s)))
    end = np.where(
        low,
        _psi(ramps, ramps.jump) * _relative_density(ramps, t, np.minimum(larger, s)),
        _psi(ramps, level - t * s + c * s * s) * _relative_density(ramps, t, s),
    )
    start = np.where(
        leaves > 0,
        _psi(ramps, ramps.jump) * _relative_density(ramps, t, np.clip(smaller, 0, s)),
        _psi(ramps, level) + 0 * t,
    )
    return _Gain(end, start, enters, low)


def _psi(ramps: Ramps, u: FloatArray | float) -> FloatArray:
    u = np.clip(u, 0, ramps.jump)
    return np.expm1(u) if ramps.remove else -np.expm1(-u)


def _relative_density(ramps: Ramps, t: FloatArray, r: FloatArray | float) -> FloatArray:
    """phi(y)/phi(t), y = t - r/kappa_y."""
    return np.exp(r / ramps.kappa_y * (t - r / (2 * ramps.kappa_y)))


def gain_on_slabs(ramps: Ramps, low: FloatArray, high: FloatArray, level: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lower and upper bound of k(t) on slabs [low, high] (1-d), for hockey sticks at each `level` (1-d); 2-d arrays.

    k rises with t while the line leaves the window before s; beyond, its end falls and its start does not rise.
    """
    s, c = ramps.s, ramps.curvature
    first, last = low[:, None], high[:, None]
    at_first, at_last = _gain(ramps, first, level), _gain(ramps, last, level)
    turn = (level - ramps.jump) / s + c * s  # t from which on the line leaves the window at s
    turns = at_first.low & ~at_last.low
    at_turn = _gain(ramps, np.where(turns, turn, last), level)
    peak = _psi(ramps, ramps.jump) * _relative_density(ramps, np.clip(turn, first, last), s)
    largest = np.where(turns, peak, at_first.end) - at_last.start
    least = np.where(turns, np.minimum(at_first.value, at_last.end - at_turn.start), at_last.end - at_first.start)
    rises = at_last.low
    return np.where(rises, at_first.value, least), np.where(rises, at_last.value, largest)


class _RangeExtrema:
    """The extrema of ranges of an array, each from two precomputed ranges whose length is a power of 2."""

    def __init__(self, choose: np.ufunc, values: FloatArray, *, longest: int) -> None:
        rows, width = [values], 1
        while 2 * width <= longest:
            shifted = np.concatenate([rows[-1][width:], np.repeat(rows[-1][-1:], width)])
            rows.append(choose(rows[-1], shifted))
            width *= 2
        self._choose, self._rows, self._size = choose, np.concatenate(rows), values.size

    def __call__(self, first: NDArray, last: NDArray) -> FloatArray:
        """Extremum of values[first .. last]; beyond its ends the array continues with its first and last values."""
        level = np.frexp(last - first + 1)[1] - 1
        starts = (np.clip(each, 0, self._size - 1) + level * self._size for each in (first, last + 1 - (1 << level)))
        return self._choose(*(self._rows[start] for start in starts))


class Detours:
    """Bounds on int_0^a omega dr / phi(t), 0 <= a <= s, for t >= 0.

    Parameters
    ----------
    ramps : Ramps
    edges : increasing ndarray from 0 on, of slabs of t
    cells : int, equal cells of r on [0, s]
    step, window : float and int; hockey sticks are at multiples of the step, and log(1+kappa) is `window` steps
    group : int, so many neighbouring values of epsilon (multiples of the step) share a bound
    """

    def __init__(self, ramps: Ramps, edges: FloatArray, *, cells: int, step: float, window: int, group: int) -> None:
        self._ramps, self._step, self._window, self._group = ramps, step, window, group
        c, speed, r = ramps.curvature, ramps.kappa_y, np.linspace(0, ramps.s, cells + 1)
        inner, outer, first, last = r[:-1], r[1:], edges[:-1, None], edges[1:, None]

        def m(t: FloatArray, r: FloatArray) -> FloatArray:
            return r * (t - c * r)

        # Both m and the density rise with t and are concave in r.
        lowest = np.minimum(m(first, inner), m(first, outer))
        highest = m(last, np.clip(last / (2 * c), inner, outer))
        ends = (_relative_density(ramps, first, each) for each in (inner, outer))
        scale = (outer - inner) / ramps.kappa
        self._least_weight = np.minimum(*ends) * scale
        self._largest_weight = _relative_density(ramps, last, np.clip(last * speed, inner, outer)) * scale
        base = 1 + ramps.kappa if ramps.remove else 1.0
        self._least_base, self._largest_base = base * inner, base * outer
        self._largest_x, self._least_x = last - inner / ramps.kappa_x, first - outer / ramps.kappa_x
        self._positive = last - inner / speed <= 0  # y <= 0: omega >= 0
        ranges = (-highest, -lowest) if ramps.remove else (lowest, highest)
        self._first = np.floor(ranges[0] / step - _SLACK).astype(int)
        self._last = np.floor(ranges[1] / step + _SLACK).astype(int) + group - 1
        self._longest = int((self._last - self._first).max()) + 1

    def gains(self, mass: FloatArray, whole: FloatArray) -> FloatArray:
        """Upper bound on int_0^a omega dr / phi(t), or 0, at those a where max(0, int_0^s omega dr) is not one already.

        Parameters
        ----------
        mass : ndarray (n,), n a multiple of `group`: masses of the hockey sticks at n successive multiples of the step
        whole : ndarray (n / group, slabs), upper bound on int_0^s omega dr / phi(t)

        Returns
        -------
        ndarray (n / group, slabs): for epsilon at the same multiples of the step, in groups
        """
        windows = self._windows(mass)
        groups = np.arange(0, mass.size, self._group)
        parts = [
            self._best(*self._omega(windows, groups[start : start + _BATCH]), whole[start : start + _BATCH])
            for start in range(0, groups.size, _BATCH)
        ]
        return np.concatenate(parts)

    @staticmethod
    def _best(low: FloatArray, high: FloatArray, known: BoolArray, whole: FloatArray) -> FloatArray:
        """The larger of both ends of every cell, by the integral from 0 to a, or by the whole less that from a to s.

        From the cell on beyond which omega >= 0 (`known`), the integral increases to the whole.
        """
        increasing = np.logical_and.accumulate(known[..., ::-1], axis=-1)[..., ::-1]
        to_end = np.cumsum(high, axis=-1)
        less = np.cumsum(-low[..., ::-1], axis=-1)[..., ::-1]
        bound = np.minimum(np.maximum(to_end, to_end - high), whole[..., None] + np.maximum(less, less + low))
        return np.maximum(np.where(increasing, -np.inf, bound).max(axis=-1), 0.0)

    def _windows(self, mass: FloatArray) -> tuple[_RangeExtrema, ...]:
        """Least M, largest M, least n and largest n between neighbouring multiples of the step.

        The first entry belongs to the place `window` + 1 steps before the first mass.
        """
        size, step, kappa = self._window, self._step, self._ramps.kappa
        places = np.arange(mass.size + 2 * size + 2)
        if self._ramps.remove:  # the window ends at the place; n = 1 + kappa - mean of e^(place - x)
            start, tilt = places + 1, np.exp(step * np.arange(size - 1, -1, -1))
        else:  # it begins there; n = (1 + kappa) mean - 1
            start, tilt = places + size + 1, np.exp(-step * np.arange(1, size + 1))
        windows = sliding_window_view(np.pad(mass, 2 * size + 1), size)[start]
        total = windows.sum(axis=1)
        some = total > 0
        mean = windows @ tilt / np.where(some, total, 1.0)
        ends = np.stack([mean, mean * np.exp(step)])  # of the interval between two places
        n = np.clip(1 + kappa - ends[::-1] if self._ramps.remove else (1 + kappa) * ends - 1, 0, kappa)
        least, largest = np.where(some, n[0], np.inf), np.where(some, n[1], -np.inf)
        chosen = (np.minimum, total), (np.maximum, total), (np.minimum, least), (np.maximum, largest)
        return tuple(_RangeExtrema(choose, values, longest=self._longest) for choose, values in chosen)

    def _omega(self, windows: tuple[_RangeExtrema, ...], groups: NDArray) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Bounds on int omega dr / phi(t) over every cell, (groups, slabs, cells), and whether omega >= 0 there."""
        places = groups[:, None, None] + self._window + 1
        least_m, largest_m, least_n, largest_n = (each(places + self._first, places + self._last) for each in windows)
        empty = largest_n < least_n
        least_n, largest_n = np.where(empty, 0.0, least_n), np.where(empty, 0.0, largest_n)
        least = self._least_base - np.where(self._largest_x > 0, largest_n, least_n) * self._largest_x
        largest = self._largest_base - np.where(self._least_x > 0, least_n, largest_n) * self._least_x
        least = np.where(self._positive, np.maximum(least, 0.0), least)
        low = least * np.where(least > 0, self._least_weight * least_m, self._largest_weight * largest_m)
        high = largest * np.where(largest > 0, self._largest_weight * largest_m, self._least_weight * least_m)
        return low, high, least >= 0
