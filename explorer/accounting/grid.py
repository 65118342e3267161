"""Which grid a composition of privacy losses needs: step, position and window, from coarse pictures of the losses.

Nothing here decides whether a bound holds, only how narrow the interval is and how long it takes.
"""

from dataclasses import dataclass

import numpy as np

from explorer.accounting.convolution import cumulant, find_window, tilted_moments
from explorer.accounting.discretisation import SMALLEST_STEP, choose_knots, majorant, minorant

MAX_POINTS = 2**21  # grid points of a composition; about 0.2 GB
_TAIL_RATE = 24.5  # the tail transform is centred where Chernoff's bound on delta is e^-24.5
_HEAVY = 0.25  # mass of one cell from which on its position matters


@dataclass(frozen=True)
class Plan:
    """A grid for the composition of `counts` uses of each of `factors`.

    A factor's grid points are at (integer * step) + its offset; `shift` is the constant left outside the grid.
    """

    factors: tuple
    counts: tuple
    tilt: float
    step: float
    offsets: tuple

    def upper(self):
        """The factors' GridLosses from above."""
        return self._discretise(majorant)

    def lower(self):
        """The factors' GridLosses from below."""
        return self._discretise(minorant)

    def _discretise(self, side):
        return tuple(
            discretise(side, factor, step=self.step, offset=offset, tilt=self.tilt)
            for factor, offset in zip(self.factors, self.offsets, strict=True)
        )

    @property
    def shift(self):
        terms = zip(self.factors, self.counts, self.offsets, strict=True)
        return float(sum(count * (factor.shift + offset) for factor, count, offset in terms))


def discretise(side, factor, *, step, offset, tilt):
    """`side` (majorant or minorant) of a factor on the grid of this step and offset."""
    knots = choose_knots(factor.support, step=step, offset=offset, tilt=tilt)
    profile = factor.log_delta if offset == 0 else lambda epsilon: factor.log_delta(epsilon + offset)
    return side(profile, knots, step=step, relative_error=factor.relative_error)


def plan(factors, counts, *, accuracy, step):
    """A `Plan` on the given step, or, if that is None, on the coarsest that promises the accuracy.

    Raises ValueError for a step that needs more than MAX_POINTS grid points; an automatic step is never that small.
    """
    coarse = _coarse(factors)
    tilt = _tail_tilt(coarse, counts)
    widest = max(right - left for left, right in (find_window(coarse, counts, tilt=t) for t in (0.0, tilt)))
    finest = max(1.01 * widest / MAX_POINTS, SMALLEST_STEP)
    if step is None:
        step = _automatic_step(factors, counts, tilt, accuracy, finest)
    elif step < finest:
        raise ValueError(f"step must be at least {finest:.3g}, else {MAX_POINTS} points do not do: got step={step!r}")
    step = _short(step)
    offsets = tuple(_best_offset(factor, step, tilt)[0] for factor in factors)
    return Plan(tuple(factors), tuple(counts), tilt, step, offsets)


def _coarse(factors):
    return [factor.support for factor in factors]


def _short(step):
    """`step` with 24 significant bits, so that all grid points are exact."""
    mantissa, exponent = np.frexp(step)
    return float(np.ldexp(np.round(np.ldexp(mantissa, 24)), exponent - 24))


def _automatic_step(factors, counts, tilt, accuracy, finest):
    """Extrapolate from coarser trials: the two sides differ by about gap, their log ratio under the tilt, ~ step^2.

    The first trial is four times what a smooth loss would need: its two sides differ in variance by step^2 / 3 per
    use, and in mean by half of that, which moves log delta where the tilt is centred by tilt (1 + tilt) / 2 times the
    whole. Trials end where a finer step stops to help: then the profile's own error is what is left.
    """
    step = 4 * np.sqrt(6 * accuracy / (sum(counts) * tilt * (1 + tilt)))
    step = max(min(step, 128 * max(support.step for support in _coarse(factors))), finest)
    before = np.inf
    while True:
        step = _short(step)
        gap = sum(count * _best_offset(factor, step, tilt)[1] for factor, count in zip(factors, counts, strict=True))
        if gap > before / 2:
            return 10 * step
        ratio = np.sqrt(0.8 * accuracy / max(gap, 1e-3 * accuracy))
        if ratio > 0.1 or step <= finest:
            return max(step * ratio, finest)
        step, before = max(step / 10, finest), gap


def _best_offset(factor, step, tilt):
    """(offset, gap): where to put the grid. A cell that holds much of the mass wants a knot at its mean loss."""
    upper, gap = _gap(factor, step, 0.0, tilt)
    best, heaviest = (0.0, max(gap, 0.0)), int(np.argmax(upper.mass))
    if upper.mass[heaviest] > _HEAVY:
        near = slice(max(heaviest - 1, 0), heaviest + 2)
        loss, mass = upper.index[near] * step, upper.mass[near]
        centre = float(np.log(mass.sum() / (mass @ np.exp(-loss))))
        for offset in (centre, centre + step / 64, centre - step / 64):
            gap = _gap(factor, step, offset, tilt)[1]
            if gap < 0.9 * best[1]:
                best = offset, gap
    return best


def _gap(factor, step, offset, tilt):
    upper, lower = (discretise(side, factor, step=step, offset=offset, tilt=tilt) for side in (majorant, minorant))
    return upper, float(cumulant([upper], [1], tilt) - cumulant([lower], [1], tilt))


def _tail_tilt(losses, counts):
    """The largest tilt tried at which Chernoff's bound e^(K - tilt K') on the tail is at least e^-24.5.

    A tail far below the mass at infinity is of no interest.
    """
    infinite = np.dot(counts, [loss.infinity_mass for loss in losses])
    wanted = min(_TAIL_RATE, 7 - np.log(min(max(infinite, 1e-300), 1.0)))
    _, variance = tilted_moments(losses, counts, 0.0)
    tilt = np.sqrt(2 * wanted / variance) * 2.0 ** np.linspace(-10, 6, 129)
    h = 1e-4 * tilt
    here = cumulant(losses, counts, tilt)
    rate = tilt * (cumulant(losses, counts, tilt + h) - here) / h - here
    wanted = min(wanted, 0.9 * np.max(rate))  # a bounded loss may not have so small a tail
    return float(tilt[max(np.count_nonzero(rate <= wanted) - 1, 0)])
