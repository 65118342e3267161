"""The profile of k adaptive uses of objective perturbation in one direction, from above and from below.

    delta_k(epsilon) = sup over maps of E delta_(k-1)(epsilon - privacy loss)

(docs/mathematics/composition.md). On a grid of privacy losses of which log(1+kappa) is a multiple, delta_(k-1) is
enclosed by two mixtures of hockey sticks. What a ramp leaks against a mixture is a sum of closed forms that depend on
the difference of two grid points alone.

- Below: at the middle of each cell, the tangent in gamma of what the best of many ramps leaks.
- Above: at each grid point the largest W(t), where W is what the ramp of centre t leaks plus the most that a detour to
  its left can add. W' is bounded on slabs of t (`ramp_certificate`). The values are joined by chords.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from explorer.accounting.pld.convolution import suffix_sums
from explorer.accounting.pld.discretisation import EPS, convex_masses, end_at, majorant, minorant
from explorer.accounting.pld.ramp_certificate import Detours, gain_on_slabs
from explorer.accounting.pld.ramps import RampProfiles, Ramps
from explorer.accounting.types import FloatArray, LogProfile

BEYOND = 9.0  # noise further out is neglected, see _NEGLECTED
# Each step moves the values outwards by so much: relatively far more than its rounding errors (about 1e-13), and
# absolutely more than what is cut off beyond the noise BEYOND, whose mass is 1e-19.
_RELATIVE, _NEGLECTED = 1e-11, 1e-16
_SINGLE_ERROR = 1e-9  # relative to log delta, of the exact profile of one use
_DIVISIONS = 8  # of each slab of `Detours`, where only closed forms are evaluated


@dataclass(frozen=True)
class Resolution:
    """How finely `AdaptiveProfile` computes; every choice is valid.

    Attributes
    ----------
    window : int, grid steps in log(1+kappa)
    low, high : float, nats, range of the grid
    slab : float, width of the slabs of t
    cells : int, cells of the shift r
    group : int, neighbouring values of epsilon with a common bound on detours
    """

    window: int
    low: float
    high: float
    slab: float
    cells: int
    group: int


class Mixture(NamedTuple):
    """Hockey sticks with masses at successive grid points, and the mass at infinity."""

    mass: FloatArray
    infinity: float


class AdaptiveProfile:
    """Enclosures of delta_1, delta_2, ... in one direction.

    Parameters
    ----------
    ramps : Ramps, of this direction
    single : callable, log of the exact profile of one use in this direction, at every real epsilon
    resolution : Resolution

    Attributes
    ----------
    uses : int, number of uses that `upper` and `lower` are for; `advance` adds one
    upper, lower : Mixture, nowhere below and nowhere above the profile
    """

    def __init__(self, ramps: Ramps, single: LogProfile, resolution: Resolution) -> None:
        self._ramps, self._resolution = ramps, resolution
        self._step = ramps.jump / resolution.window
        first, last = int(np.floor(resolution.low / self._step)), int(np.ceil(resolution.high / self._step))
        groups = (last - first) // (2 * resolution.group) + 1
        self._knots = first + np.arange(2 * resolution.group * groups)
        self.uses = 1
        sides = (
            side(single, self._knots, step=self._step, relative_error=_SINGLE_ERROR) for side in (majorant, minorant)
        )
        self.upper, self.lower = (Mixture(pld.mass, pld.infinity_mass) for pld in sides)

    def advance(self) -> None:
        """From delta_(k-1) to delta_k."""
        early = self.uses <= 2  # the profiles of few uses are the least smooth ones
        self.upper, self.lower = self._raise(self._fine if early else self._coarse), self._lower()
        self.uses += 1

    def log_delta(self, mixture: Mixture, epsilon: FloatArray) -> FloatArray:
        """Log of the profile of `mixture` at `epsilon` (finite ndarray)."""
        profile, slope = suffix_sums(mixture.mass, self._step, 0.0)
        with np.errstate(divide="ignore", over="ignore"):
            index = np.ceil(np.clip(epsilon / self._step - self._knots[0], 0, profile.size)).astype(int)
            inside = np.minimum(index, profile.size - 1)
            before = np.minimum(epsilon - (self._knots[0] + index) * self._step, 0.0)
            value = np.where(index < profile.size, profile[inside] - slope[inside] * np.expm1(before), 0.0)
            return np.log(np.minimum(value + mixture.infinity, 1.0))

    @cached_property
    def _fine(self) -> "_Slabs":
        fine = self._resolution
        return _Slabs(self._ramps, self._step, fine, slab=fine.slab / 2, cells=2 * fine.cells)

    @cached_property
    def _coarse(self) -> "_Slabs":
        return _Slabs(self._ramps, self._step, self._resolution)

    def _raise(self, slabs: "_Slabs") -> Mixture:
        mass, infinity = self.upper
        profile, _ = suffix_sums(mass, self._step, 0.0)
        ramp = (profile + infinity)[:, None] + slabs.ramp_excess(mass)
        value = slabs.monotone_bound(mass, ramp) if self._ramps.monotone else slabs.bound(mass, ramp)
        value = np.minimum(value * (1 + _RELATIVE) + _NEGLECTED, 1.0)
        return Mixture(*convex_masses(value, self._knots, origin=1.0, step=self._step, rounding=4 * EPS))

    def _lower(self) -> Mixture:
        """The tangents in gamma at the middle of each cell; at a grid point the smaller one of both neighbours'."""
        mass, infinity = self.lower
        profile, slope = suffix_sums(mass, self._step, 0.0)
        reach = self._middles.excess.shape[1] // 2
        window = sliding_window_view(np.pad(mass, reach), 2 * reach)[1 : mass.size]
        leaks = _correlate(window, self._middles.excess - self._middles.rounding)
        best = leaks.argmax(axis=1)
        half = self._step / 2
        value = profile[1:] - slope[1:] * np.expm1(-half) + infinity + leaks[np.arange(best.size), best]
        value = value * (1 - _RELATIVE) - _NEGLECTED
        fall = slope[1:] * np.exp(-half) + np.einsum("ij,ij->i", window, self._middles.slope[best, ::-1])
        at_left, at_right = value - fall * np.expm1(-half), value - fall * np.expm1(half)
        values = np.minimum(np.append(at_left, np.inf), np.insert(at_right, 0, np.inf))
        end_at(values, at_right, 0.0)
        origin = float(value[0] + fall[0])
        return Mixture(*convex_masses(values, self._knots, origin=origin, step=self._step, rounding=-4 * EPS))

    @cached_property
    def _middles(self) -> RampProfiles:
        reach = _reach(self._ramps, self._step)
        centres = _centres(self._ramps, self._resolution.slab)
        return self._ramps.profiles(centres, np.asarray((np.arange(-reach, reach) + 0.5) * self._step, float))


class _Slabs:
    """Ramps at the edges of slabs of t, and bounds in between."""

    def __init__(
        self, ramps: Ramps, step: float, resolution: Resolution, *, slab: float | None = None, cells: int | None = None
    ) -> None:
        self._group = resolution.group
        edges = _centres(ramps, slab or resolution.slab)
        self._detours = Detours(
            ramps,
            edges,
            cells=cells or resolution.cells,
            step=step,
            window=resolution.window,
            group=resolution.group,
        )
        self._edges = np.interp(np.arange(_DIVISIONS * (edges.size - 1) + 1) / _DIVISIONS, np.arange(edges.size), edges)
        reach = _reach(ramps, step)
        profiles = ramps.profiles(self._edges, np.asarray(np.arange(-reach, reach + 1) * step, float))
        self._excess = profiles.excess + profiles.rounding
        low, high = self._edges[:-1], self._edges[1:]
        shift = ramps.s * (self._edges[-1] + ramps.curvature * ramps.s)  # the largest |m| on any line
        reach = int(np.ceil((shift + ramps.jump) / step)) + 1
        level = np.asarray(np.arange(-reach, reach + 1) * (step if ramps.remove else -step), float)
        self._gains = *gain_on_slabs(ramps, low, high, level), *gain_on_slabs(ramps, -high, -low, level)
        density = np.exp(-np.square(self._edges) / 2) / np.sqrt(2 * np.pi)
        self._largest, self._least = density[:-1] * (high - low), density[1:] * (high - low)

    def ramp_excess(self, mass: FloatArray) -> FloatArray:
        """What the ramp at each edge leaks beyond the mixture itself, at each grid point."""
        return _convolve(mass, self._excess)

    def bound(self, mass: FloatArray, ramp: FloatArray) -> FloatArray:
        """The largest W(t): losses of either sign. `ramp` is what ramps leak; (grid points, edges)."""
        (least, largest), (opposite_least, opposite_largest), best = self._gains_and_detours(mass)
        detours = np.cumsum(np.maximum(best - least, 0) * self._largest, axis=1)
        rise = self._integral(np.maximum(largest, best) - opposite_least)
        fall = np.maximum(self._integral(opposite_largest - least), 0)
        w = ramp + np.insert(detours, 0, 0.0, axis=1)
        for i in range(rise.shape[1]):
            w[:, i + 1] = np.minimum(w[:, i + 1], w[:, i] + rise[:, i])
        rise = np.maximum(rise, 0)
        with np.errstate(invalid="ignore"):  # a function that rises and falls by so much is highest in between
            between = np.where(rise * fall > 0, rise * fall / (rise + fall), 0.0)
        return np.max(np.maximum(w[:, :-1], w[:, 1:]) + between, axis=1)

    def monotone_bound(self, mass: FloatArray, ramp: FloatArray) -> FloatArray:
        """The least sum over t of what the ramp leaks and detours on either side of it add: losses of one sign."""
        (least, largest), _, best = self._gains_and_detours(mass)
        left = np.cumsum(np.maximum(best - least, 0) * self._largest, axis=1)
        right = np.cumsum((np.maximum(largest, best) * self._largest)[:, ::-1], axis=1)[:, ::-1]
        total = ramp + np.insert(left, 0, 0.0, axis=1) + np.insert(right, right.shape[1], 0.0, axis=1)
        return total.min(axis=1)

    def _gains_and_detours(self, mass: FloatArray) -> tuple[list[FloatArray], list[FloatArray], FloatArray]:
        """Bounds on k(t), on k(-t), and on other int_0^a omega dr / phi(t), for each grid point and slab."""
        gains = [_convolve(mass, each) for each in self._gains]
        whole = gains[1].reshape(mass.size // self._group, self._group, -1, _DIVISIONS).max(axis=(1, 3))
        best = self._detours.gains(mass, whole)
        return gains[:2], gains[2:], np.repeat(np.repeat(best, self._group, axis=0), _DIVISIONS, axis=1)

    def _integral(self, rate: FloatArray) -> FloatArray:
        """Upper bound on the integral of rate * phi(t) over each slab."""
        return rate * np.where(rate > 0, self._largest, self._least)


def _centres(ramps: Ramps, slab: float) -> FloatArray:
    """Centres t >= 0 of ramps, no further apart than `slab`, up to where the whole ramp is beyond all noise."""
    end = ramps.s / ramps.kappa_y + BEYOND
    return np.linspace(0, end, int(np.ceil(end / slab)) + 1)


def _reach(ramps: Ramps, step: float) -> int:
    """Grid steps to the largest privacy loss of any ramp on noise of at most BEYOND."""
    return int(np.ceil((ramps.jump + ramps.s**2 / 2 + (BEYOND + 0.5) * ramps.s) / step))


def _convolve(mass: FloatArray, table: FloatArray) -> FloatArray:
    """sum_j mass[j] table[:, i - j] at each i; the middle column of the table belongs to i = j."""
    reach = table.shape[1] // 2
    return _correlate(sliding_window_view(np.pad(mass, reach), 2 * reach + 1), table)


def _correlate(windows: NDArray, table: FloatArray) -> FloatArray:
    return windows @ np.ascontiguousarray(table[:, ::-1].T)
