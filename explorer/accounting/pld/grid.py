"""The choice of a grid for a composition of privacy losses: step, offset and window, from coarse discretisations.

The choice affects the width of the interval and the time of the computation; the interval is valid for every grid.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from explorer.accounting.pld.convolution import cumulant, find_window, tilted_moments
from explorer.accounting.pld.discretisation import (
    SMALLEST_STEP,
    GridPLD,
    Side,
    choose_knots,
    find_support,
    majorant,
    minorant,
)
from explorer.accounting.types import FloatArray, LogProfile

MAX_POINTS = 2**21  # grid points of a composition; about 0.2 GB
_TAIL_RATE = 24.5  # the tail transform is centred where the Chernoff bound on delta is e^-24.5
_RESOLVED = 0.05  # largest mass of one grid point with which a privacy loss counts as smooth on the grid
_MANY = 1000  # number of uses above which every sum counts as smooth
_HEAVY = 0.25  # mass of one cell above which the offset of the grid is optimised


class Factor:
    """One privacy profile of a composition; equal only to itself, so that its uses can be counted."""

    def __init__(self, log_delta: LogProfile, shift: float, relative_error: float) -> None:
        self.log_delta, self.shift, self.relative_error = log_delta, shift, relative_error

    @cached_property
    def support(self) -> GridPLD:
        """Its coarse discretisation, see `find_support`."""
        return find_support(self.log_delta, relative_error=self.relative_error)


@dataclass(frozen=True)
class GridPlan:
    """A grid for the composition of `counts` uses of each of `factors`.

    A factor's grid points are at (integer * step) + its offset; `shift` is the constant left outside the grid, and
    `finest` the smallest step that MAX_POINTS allow.
    """

    factors: tuple[Factor, ...]
    counts: tuple[int, ...]
    tilt: float
    finest: float
    step: float
    offsets: tuple[float, ...]

    def upper(self) -> tuple[GridPLD, ...]:
        """The factors' GridPLDs from above."""
        return self._discretise(majorant)

    def lower(self) -> tuple[GridPLD, ...]:
        """The factors' GridPLDs from below."""
        return self._discretise(minorant)

    def _discretise(self, side: Side) -> tuple[GridPLD, ...]:
        return tuple(
            discretise(side, factor, step=self.step, offset=offset, tilt=self.tilt)
            for factor, offset in zip(self.factors, self.offsets, strict=True)
        )

    def bulk_is_resolved(self) -> bool:
        """Whether no grid point has a large mass, or the uses are many; else the interval may be wider in the bulk."""
        return sum(self.counts) > _MANY or max(float(upper.mass.max()) for upper in self.upper()) < _RESOLVED

    def probes(self) -> FloatArray:
        """Values of epsilon (nats, without `shift`) from the bulk of the sum into its tail, denser in the bulk."""
        ends = (tilted_moments(_coarse(self.factors), self.counts, tilt)[0] for tilt in (0.0, self.tilt))
        mean, tail = (end - np.dot(self.counts, self.offsets) for end in ends)
        return mean + (tail - mean) * np.linspace(0, 1, 33) ** 3

    @property
    def shift(self) -> float:
        """The constant that is added outside the grid, nats."""
        terms = zip(self.factors, self.counts, self.offsets, strict=True)
        return float(sum(count * (factor.shift + offset) for factor, count, offset in terms))


def discretise(side: Side, factor: Factor, *, step: float, offset: float, tilt: float) -> GridPLD:
    """`side` (majorant or minorant) of a factor on the grid of this step and offset."""
    knots = choose_knots(factor.support, step=step, offset=offset, tilt=tilt)
    profile = factor.log_delta if offset == 0 else lambda epsilon: factor.log_delta(epsilon + offset)
    return side(profile, knots, step=step, relative_error=factor.relative_error)


def plan_grid(factors: Sequence[Factor], counts: Sequence[int], *, accuracy: float, step: float | None) -> GridPlan:
    """A `GridPlan` with the given step, or, if that is None, with the coarsest of estimated width at most `accuracy`.

    Raises ValueError for a step that needs more than MAX_POINTS grid points; an automatic step is never that small.
    """
    coarse = _coarse(factors)
    tilt = _tail_tilt(coarse, counts)
    widest = max(right - left for left, right in (find_window(coarse, counts, tilt=t) for t in (0.0, tilt)))
    finest = max(1.01 * widest / MAX_POINTS, SMALLEST_STEP)
    if step is None:
        # the errors of the profiles themselves, which each use adds several times, do not depend on the grid
        accuracy += 100 * sum(k * factor.relative_error for k, factor in zip(counts, factors, strict=True))
        step, offsets = _automatic_step(factors, counts, tilt, accuracy, finest)
    elif step < finest:
        raise ValueError(f"step must be at least {finest:.3g}, for at most {MAX_POINTS} grid points: got step={step!r}")
    else:
        step = _short(step)
        variance = tilted_moments(coarse, counts, 0.0)[1]
        offsets = tuple(_offset(factor, step, tilt, variance) for factor in factors)
    return GridPlan(tuple(factors), tuple(counts), tilt, finest, step, offsets)


def _coarse(factors: Sequence[Factor]) -> list[GridPLD]:
    return [factor.support for factor in factors]


def _short(step: float) -> float:
    """`step` with 24 significant bits, so that all grid points are exact."""
    mantissa, exponent = np.frexp(step)
    return float(np.ldexp(np.round(np.ldexp(mantissa, 24)), exponent - 24))


def _automatic_step(
    factors: Sequence[Factor], counts: Sequence[int], tilt: float, accuracy: float, finest: float
) -> tuple[float, tuple[float, ...]]:
    """(step, offsets) of the first trial whose gap between the two sides is below the accuracy.

    The gap is proportional to step^2 once it is small. The two sides of a smooth privacy loss differ in variance by
    step^2 / 3 per use, and in mean by half of that, which changes log delta where the tilt is centred by tilt (1 +
    tilt) / 2 times the sum over all uses; the first step is three times the one that follows from this. Trials end
    where a finer step does not reduce the gap: then it consists of the errors of the profiles themselves.
    """
    step = 3 * np.sqrt(6 * accuracy / (sum(counts) * tilt * (1 + tilt)))
    step = max(min(step, 128 * max(support.step for support in _coarse(factors))), finest)
    best, least = None, np.inf
    while True:
        step = _short(step)
        offsets, gap = _place(factors, counts, step, tilt)
        if gap <= accuracy or step <= 1.001 * finest:
            return step, offsets
        if gap < 0.5 * least:
            best, least = (step, offsets), gap
        elif best is not None and step < best[0] / 5:
            return best
        step = max(step * np.clip(np.sqrt(0.8 * accuracy / gap), 0.1, 0.5), finest)


def _place(
    factors: Sequence[Factor], counts: Sequence[int], step: float, tilt: float
) -> tuple[tuple[float, ...], float]:
    """(offsets, gap): the offset of the grid for each factor, and the estimated gap in log delta between the sides."""
    variance = tilted_moments(_coarse(factors), counts, 0.0)[1]
    placed = [_best_offset(factor, step, tilt, variance) for factor in factors]
    return tuple(offset for offset, _ in placed), sum(k * gap for k, (_, gap) in zip(counts, placed, strict=True))


def _offset(factor: Factor, step: float, tilt: float, variance: float) -> float:
    upper = discretise(majorant, factor, step=step, offset=0.0, tilt=tilt)
    return 0.0 if upper.mass.max() <= _HEAVY else _best_offset(factor, step, tilt, variance)[0]


def _best_offset(factor: Factor, step: float, tilt: float, variance: float) -> tuple[float, float]:
    """(offset, gap per use). Where a cell holds much of the mass, a knot at its mean privacy loss reduces the gap."""
    upper, gap = _gap(factor, step, 0.0, tilt, variance)
    best, heaviest = (0.0, gap), int(np.argmax(upper.mass))
    if upper.mass[heaviest] > _HEAVY:
        near = slice(max(heaviest - 1, 0), heaviest + 2)
        value, mass = upper.index[near] * step, upper.mass[near]
        centre = float(np.log(mass.sum() / (mass @ np.exp(-value))))
        centre = float(np.round(centre / step * 1024) / 1024 * step)  # so that moved grid points are exact
        for offset in (centre, centre + step / 64, centre - step / 64):
            gap = _gap(factor, step, offset, tilt, variance)[1]
            if gap < 0.9 * best[1]:
                best = offset, gap
    return best


def _gap(factor: Factor, step: float, offset: float, tilt: float, variance: float) -> tuple[GridPLD, float]:
    """The upper GridPLD, and the gap that one use adds between log delta of both sides, in the tail or in the bulk.

    In the tail that is the difference of the cumulants; in the bulk of a sum with this variance it is the differences
    of mass, of mean in standard deviations, and of variance relative to twice that of the sum.
    """
    upper, lower = (discretise(side, factor, step=step, offset=offset, tilt=tilt) for side in (majorant, minorant))
    if not lower.mass.any():
        return upper, np.inf
    tail, mass = cumulant([upper], [1], np.array([tilt, 0.0])) - cumulant([lower], [1], np.array([tilt, 0.0]))
    (upper_mean, upper_variance), (lower_mean, lower_variance) = (
        tilted_moments([side], [1], 0.0) for side in (upper, lower)
    )
    mean, spread = abs(upper_mean - lower_mean), abs(upper_variance - lower_variance)
    return upper, max(float(tail), float(mass + mean / np.sqrt(variance) + spread / (2 * variance)), 0.0)


def _tail_tilt(plds: Sequence[GridPLD], counts: Sequence[int]) -> float:
    """The largest tilt of a geometric series at which the Chernoff bound e^(K - tilt K') on the tail is >= e^-24.5.

    A larger bound is used where the mass at infinity exceeds the tail, or a bounded privacy loss has no tail so small.
    """
    infinite = float(np.dot(counts, [pld.infinity_mass for pld in plds]))
    _, variance = tilted_moments(plds, counts, 0.0)
    wanted = min(_TAIL_RATE, 7 - np.log(min(max(infinite, 1e-300), 1.0)))
    tilt = np.sqrt(2 * wanted / variance) * 2.0 ** np.linspace(-10, 6, 129)
    h = 1e-4 * tilt
    here = cumulant(plds, counts, tilt)
    rate = tilt * (cumulant(plds, counts, tilt + h) - here) / h - here
    return float(tilt[max(np.count_nonzero(rate <= min(wanted, 0.9 * np.max(rate))) - 1, 0)])
