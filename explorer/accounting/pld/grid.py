"""Which grid a composition of privacy losses needs: step, position and window, from coarse pictures of the losses.

Nothing here decides whether a bound holds, only how narrow the interval is and how long it takes.
"""

from dataclasses import dataclass

import numpy as np

from explorer.accounting.pld.convolution import cumulant, find_window, tilted_moments
from explorer.accounting.pld.discretisation import SMALLEST_STEP, choose_knots, majorant, minorant

MAX_POINTS = 2**21  # grid points of a composition; about 0.2 GB
_TAIL_RATE = 24.5  # the tail transform is centred where Chernoff's bound on delta is e^-24.5
_RESOLVED = 0.05  # mass of one grid point up to which the bulk of a single loss is smooth on the grid
_MANY = 1000  # uses from which on a sum is smooth whatever its terms
_HEAVY = 0.25  # mass of one cell from which on its position matters


@dataclass(frozen=True)
class Plan:
    """A grid for the composition of `counts` uses of each of `factors`.

    A factor's grid points are at (integer * step) + its offset; `shift` is the constant left outside the grid, and
    `finest` the smallest step that MAX_POINTS allow.
    """

    factors: tuple
    counts: tuple
    tilt: float
    finest: float
    step: float
    offsets: tuple

    def upper(self):
        """The factors' GridPLDs from above."""
        return self._discretise(majorant)

    def lower(self):
        """The factors' GridPLDs from below."""
        return self._discretise(minorant)

    def _discretise(self, side):
        return tuple(
            discretise(side, factor, step=self.step, offset=offset, tilt=self.tilt)
            for factor, offset in zip(self.factors, self.offsets, strict=True)
        )

    def bulk_is_resolved(self):
        """Whether no grid point carries much of a loss, or many uses smooth it: else delta may be wider in the bulk."""
        return sum(self.counts) > _MANY or max(upper.mass.max() for upper in self.upper()) < _RESOLVED

    def probes(self):
        """Losses (nats, without `shift`) from the bulk of the sum into its tail, closer to each other in the bulk."""
        ends = (tilted_moments(_coarse(self.factors), self.counts, tilt)[0] for tilt in (0.0, self.tilt))
        mean, tail = (end - np.dot(self.counts, self.offsets) for end in ends)
        return mean + (tail - mean) * np.linspace(0, 1, 33) ** 3

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
        # no grid does better than the profiles' own errors, which each use adds several times
        accuracy += 100 * sum(k * factor.relative_error for k, factor in zip(counts, factors, strict=True))
        step, offsets = _automatic_step(factors, counts, tilt, accuracy, finest)
    elif step < finest:
        raise ValueError(f"step must be at least {finest:.3g}, else {MAX_POINTS} points do not do: got step={step!r}")
    else:
        step = _short(step)
        variance = tilted_moments(coarse, counts, 0.0)[1]
        offsets = tuple(_offset(factor, step, tilt, variance) for factor in factors)
    return Plan(tuple(factors), tuple(counts), tilt, finest, step, offsets)


def _coarse(factors):
    return [factor.support for factor in factors]


def _short(step):
    """`step` with 24 significant bits, so that all grid points are exact."""
    mantissa, exponent = np.frexp(step)
    return float(np.ldexp(np.round(np.ldexp(mantissa, 24)), exponent - 24))


def _automatic_step(factors, counts, tilt, accuracy, finest):
    """(step, offsets) of the first trial whose gap between the two sides is below the accuracy.

    The gap goes as step^2 once it is small. A smooth loss's sides differ in variance by step^2 / 3 per use, and in mean
    by half of that, which moves log delta where the tilt is centred by tilt (1 + tilt) / 2 times the whole; the first
    step is three times what that suggests. Trials end where a finer step does not help: then the profile's own error
    is what is left.
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


def _place(factors, counts, step, tilt):
    """(offsets, gap): where to put the grid for each factor, and by how much log delta of the two sides will differ."""
    variance = tilted_moments(_coarse(factors), counts, 0.0)[1]
    placed = [_best_offset(factor, step, tilt, variance) for factor in factors]
    return tuple(offset for offset, _ in placed), sum(k * gap for k, (_, gap) in zip(counts, placed, strict=True))


def _offset(factor, step, tilt, variance):
    upper = discretise(majorant, factor, step=step, offset=0.0, tilt=tilt)
    return 0.0 if upper.mass.max() <= _HEAVY else _best_offset(factor, step, tilt, variance)[0]


def _best_offset(factor, step, tilt, variance):
    """(offset, gap per use). A cell that holds much of the mass wants a knot at its mean loss."""
    upper, gap = _gap(factor, step, 0.0, tilt, variance)
    best, heaviest = (0.0, gap), int(np.argmax(upper.mass))
    if upper.mass[heaviest] > _HEAVY:
        near = slice(max(heaviest - 1, 0), heaviest + 2)
        loss, mass = upper.index[near] * step, upper.mass[near]
        centre = float(np.log(mass.sum() / (mass @ np.exp(-loss))))
        centre = float(np.round(centre / step * 1024) / 1024 * step)  # so that moved grid points are exact, too
        for offset in (centre, centre + step / 64, centre - step / 64):
            gap = _gap(factor, step, offset, tilt, variance)[1]
            if gap < 0.9 * best[1]:
                best = offset, gap
    return best


def _gap(factor, step, offset, tilt, variance):
    """The upper GridPLD, and what one use of it adds to log delta above the lower, in the tail or in the bulk.

    In the tail that is the difference of the cumulants; in the bulk of a sum with this variance it is the differences
    of mass, of mean in deviations, and of variance relative to twice the whole.
    """
    upper, lower = (discretise(side, factor, step=step, offset=offset, tilt=tilt) for side in (majorant, minorant))
    if not lower.mass.any():
        return upper, np.inf
    tail, mass = cumulant([upper], [1], np.array([tilt, 0.0])) - cumulant([lower], [1], np.array([tilt, 0.0]))
    moments = [tilted_moments([side], [1], 0.0) for side in (upper, lower)]
    mean, spread = np.abs(np.subtract(*moments))
    return upper, max(float(tail), float(mass + mean / np.sqrt(variance) + spread / (2 * variance)), 0.0)


def _tail_tilt(losses, counts):
    """The largest tilt tried at which Chernoff's bound e^(K - tilt K') on the tail is at least e^-24.5.

    A tail far below the mass at infinity is of no interest, and a bounded loss may not have one so small.
    """
    infinite = np.dot(counts, [loss.infinity_mass for loss in losses])
    _, variance = tilted_moments(losses, counts, 0.0)
    wanted = min(_TAIL_RATE, 7 - np.log(min(max(infinite, 1e-300), 1.0)))
    tilt = np.sqrt(2 * wanted / variance) * 2.0 ** np.linspace(-10, 6, 129)
    h = 1e-4 * tilt
    here = cumulant(losses, counts, tilt)
    rate = tilt * (cumulant(losses, counts, tilt + h) - here) / h - here
    return float(tilt[max(np.count_nonzero(rate <= min(wanted, 0.9 * np.max(rate))) - 1, 0)])
