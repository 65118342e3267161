"""Privacy loss distributions: composition with a certified interval for every delta and every epsilon.

The privacy loss of a pair of distributions (P, Q) is log dP/dQ under P. The losses of composed mechanisms add up, so
the privacy profile of a composition is delta(epsilon) = E[1 - e^(epsilon - sum of losses)]_+, also when the mechanisms
are chosen adaptively and the pairs only dominate them (Zhu, Dong, Wang 2022, Theorem 10). A loss is given here by its
privacy profile alone; each direction of the neighbouring relation (add, remove) is a distribution of its own.

Everything is lazy: a `PrivacyLossDistribution` is a product of profiles with counts, and the grid is chosen when the
first number is asked for, once, for the whole product (`grid`). The profiles are enclosed from both sides on that grid
(`discretisation`) and summed by FFT with all errors accounted for (`convolution`); constants stay outside the grid.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from explorer.accounting.pld.convolution import convolve
from explorer.accounting.pld.discretisation import EPS, convex_masses, evaluate, find_support
from explorer.accounting.pld.grid import plan
from explorer.accounting.protocol import ProfileBound, smallest_epsilon
from explorer.validation import delta_array, epsilon_array, natural, positive, real

_SMALLEST_DELTA = 1e-10  # the accuracy is for delta from here up


class Interval(NamedTuple):
    """Two arrays (or floats) with the truth between them."""

    low: np.ndarray
    high: np.ndarray


class PrivacyLossDistribution(ProfileBound):
    """A sum of independent privacy losses, as a `PrivacyBound` with intervals.

    Built by `from_profile`, `compose` and `self_compose`. `log_delta`, `delta` and `epsilon` give the safe (upper) end.

    Parameters
    ----------
    factors : mapping of _Factor to its number of uses
    accuracy : float in (0, 1), relative width (high - low) / high wanted of every delta >= 1e-10
    step : float > 0, the grid's step in nats, or None to choose it from `accuracy`

    Notes
    -----
    At most 2^21 grid points are used; where `accuracy` would need more the interval is wider, and as true: that can be
    so after very many uses, and in the bulk of a few uses of a loss that is nearly constant but for rare large values.
    A delta below the rounding error of the FFT has low = 0 and a high that includes that error.
    """

    def __init__(self, factors, *, accuracy, step):
        self._factors = dict(factors)
        self.accuracy = accuracy
        self.step = step

    @classmethod
    def from_profile(cls, log_delta, *, shift=0.0, relative_error=1e-14, accuracy=1e-3, step=None):
        """The distribution of `shift` plus the loss whose privacy profile is exp(log_delta).

        Parameters
        ----------
        log_delta : callable, elementwise on float arrays: log of delta at every real epsilon and at +inf (nats). The
            profile of a pair of distributions; or any bound on one, and then what is enclosed is, from above, its
            lower convex envelope in e^epsilon (the low end still assumes convexity)
        shift : float, nats; put it on an atom of the loss or on an end of its range: grid points are multiples of the
            step away from it, and an atom off the grid costs O(step) instead of O(step^2)
        relative_error : float in (0, 0.01]; exp(log_delta) is trusted up to a factor
            1 +- relative_error (1 + |log_delta|)
        accuracy : float in (0, 1), relative width wanted of every delta >= 1e-10
        step : float > 0, nats, rounded to 24 significant bits; None chooses it from `accuracy` and the counts

        Raises
        ------
        ValueError if a number is out of range; TypeError if log_delta is not callable.
        """
        if not callable(log_delta):
            raise TypeError(f"log_delta must be callable: got log_delta={log_delta!r}")
        factor = _Factor(
            log_delta,
            real("shift", shift),
            real("relative_error", relative_error, rule="inside (0, 0.01]", valid=lambda x: (x > 0) & (x <= 0.01)),
        )
        return cls({factor: 1}, accuracy=_accuracy(accuracy), step=_step(step))

    def on_grid(self, *, accuracy=1e-3, step=None):
        """The same loss on another grid; parameters as in `from_profile`."""
        return PrivacyLossDistribution(self._factors, accuracy=_accuracy(accuracy), step=_step(step))

    def compose(self, other):
        """The sum of both losses; the finer of the two accuracies and steps is kept."""
        if not isinstance(other, PrivacyLossDistribution):
            raise TypeError(f"other must be PrivacyLossDistribution: got other={other!r}")
        factors = dict(self._factors)
        for factor, count in other._factors.items():
            factors[factor] = factors.get(factor, 0) + count
        steps = [step for step in (self.step, other.step) if step is not None]
        return PrivacyLossDistribution(
            factors, accuracy=min(self.accuracy, other.accuracy), step=min(steps, default=None)
        )

    def self_compose(self, k):
        """The sum of k independent copies of this loss; k an int >= 1."""
        k = natural("k", k)
        factors = {factor: count * k for factor, count in self._factors.items()}
        return PrivacyLossDistribution(factors, accuracy=self.accuracy, step=self.step)

    def delta_interval(self, epsilon):
        """Interval(low, high) of delta at `epsilon` (array_like, nats, any real number), of epsilon's shape."""
        return Interval(*(np.exp(log) for log in self.log_delta_interval(epsilon)))

    def log_delta_interval(self, epsilon):
        """The same for the natural log of delta; low is -inf where delta is below the rounding error."""
        low = self._log_delta(self._below, epsilon, self._below.by_both)
        return Interval(low, self.log_delta(epsilon))

    def log_delta(self, epsilon):
        """Upper end of log delta, of epsilon's shape; epsilon array_like in nats."""
        return self._log_delta(self._above, epsilon, self._above.by_both)

    def epsilon_interval(self, delta):
        """Interval(low, high) of the smallest epsilon >= 0 (nats) with delta(epsilon) <= delta, of delta's shape."""
        low = self._smallest_epsilon(self._below, delta)
        return Interval(low * (1 - 1e-12), self.epsilon(delta))  # the search ends a few roundings above its answer

    def epsilon(self, delta):
        """Upper end of the smallest epsilon >= 0 (nats) with delta(epsilon) <= delta; infinity if there is none."""
        return self._smallest_epsilon(self._above, delta)

    def _smallest_epsilon(self, side, delta):
        """By the tail transform alone where that is sharp at the answer; the search starts where it never is."""
        answer = smallest_epsilon(lambda epsilon: self._log_delta(side, epsilon, side.by_tail), delta_array(delta))
        if np.any(side.by_tail(np.where(np.isfinite(answer), answer, 0.0))[1]):
            answer = smallest_epsilon(lambda epsilon: self._log_delta(side, epsilon, side.by_both), delta)
        return answer

    def _log_delta(self, side, epsilon, evaluate):
        epsilon = epsilon_array(epsilon)
        finite = np.where(np.isfinite(epsilon), epsilon, 0.0)
        result = np.minimum(evaluate(finite)[0], 0.0)
        if side.sign < 0:  # any two distributions have delta >= 1 - e^epsilon
            with np.errstate(divide="ignore"):
                result = np.maximum(result, np.log(-np.expm1(np.minimum(finite, 0))))
        result = np.where(epsilon == np.inf, side.log_infinity, result)
        return np.where(epsilon == -np.inf, 0.0, result)[()]

    @property
    def privacy_losses(self):
        """Grid of finite losses (ndarray, nats, increasing) that carries `probabilities`."""
        return self._dominating[0]

    @property
    def probabilities(self):
        """Masses at `privacy_losses` of a loss that dominates this one (its profile is nowhere smaller), each >= 0."""
        return self._dominating[1]

    @property
    def infinity_mass(self):
        """The dominating loss's probability of an infinite loss."""
        return self._dominating[2]

    @cached_property
    def _dominating(self):
        """Connect the dots once more, through the upper ends at all grid points of both transforms."""
        side = self._upper
        first = min(side.bulk.first, side.tail.first)
        end = max(t.first + t.profile.size for t in (side.bulk, side.tail))
        knots = np.arange(first, end)
        by_tail, by_bulk = (t.log_delta(knots * t.step, sign=1)[0] for t in (side.tail, side.bulk))
        high = np.exp(np.minimum(np.minimum(by_tail, by_bulk), 0.0))
        mass, infinity_mass = convex_masses(high, knots, origin=1.0, step=side.bulk.step, rounding=4 * EPS)
        losses = knots * side.bulk.step
        rounding = 4 * EPS * (np.abs(losses) + abs(side.shift))
        return losses + side.shift + rounding, mass, infinity_mass

    @cached_property
    def _plan(self):
        factors, counts = list(self._factors), list(self._factors.values())
        chosen = plan(factors, counts, accuracy=self.accuracy, step=self.step)
        if self.step is not None or chosen.bulk_is_resolved():
            return chosen
        coarsest = chosen.step
        while (excess := _width(chosen) / self.accuracy) > 1 and chosen.step > coarsest / 20:
            # what a plan promises is about smooth losses; but one that is concentrated could ask for any step
            finer = max(chosen.step * np.clip(np.sqrt(0.8 / excess), 0.1, 0.5), chosen.finest)
            if finer > 0.9 * chosen.step:
                break
            chosen = plan(factors, counts, accuracy=self.accuracy, step=finer)
        return chosen

    @property
    def _above(self):
        return self._upper if self._single is None else _Profile(1, self._single)

    @property
    def _below(self):
        return self._lower if self._single is None else _Profile(-1, self._single)

    @property
    def _single(self):
        """The only factor, used once: then its profile is the answer and needs no grid."""
        return next(iter(self._factors)) if sum(self._factors.values()) == 1 else None

    @cached_property
    def _upper(self):
        return _Side(1, self._plan.upper(), self._plan)

    @cached_property
    def _lower(self):
        return _Side(-1, self._plan.lower(), self._plan)


class _Profile:
    """A factor's own profile from above (sign 1) or below (sign -1), with the interface of `_Side`."""

    def __init__(self, sign, factor):
        self.sign, self._factor = sign, factor

    @property
    def log_infinity(self):
        return float(self._end(np.array(np.inf)))

    def by_both(self, epsilon):
        """Log of this side's delta at `epsilon` (finite ndarray), and False."""
        return self._end(_off(epsilon, self._factor.shift, self.sign)), np.zeros(epsilon.shape, bool)

    by_tail = by_both

    def _end(self, epsilon):
        log_delta = evaluate(self._factor.log_delta, epsilon)
        error = self._factor.relative_error * (1 - np.maximum(log_delta, -1e3))
        with np.errstate(divide="ignore"):
            return log_delta + np.log(np.maximum(1 + self.sign * error, 0.0))


class _Side:
    """The composed profile from above (sign 1) or below (sign -1): a tail transform, and a bulk transform if needed."""

    def __init__(self, sign, losses, grid_plan):
        self.sign, self.shift = sign, grid_plan.shift
        self._losses, self._plan = losses, grid_plan

    @cached_property
    def tail(self):
        return convolve(self._losses, self._plan.counts, tilt=self._plan.tilt)

    @cached_property
    def bulk(self):
        return convolve(self._losses, self._plan.counts, tilt=0.0)

    @property
    def log_infinity(self):
        return self.tail.log_infinity

    def by_tail(self, epsilon):
        """Log of this side's delta at `epsilon` (finite ndarray), and where its error is visible, by one transform."""
        return self.tail.log_delta(_off(epsilon, self.shift, self.sign), sign=self.sign)

    def by_both(self, epsilon):
        """The same by the better of two transforms."""
        result, vague = self.by_tail(epsilon)
        if np.any(vague):
            other, other_vague = self.bulk.log_delta(_off(epsilon, self.shift, self.sign), sign=self.sign)
            better = self.sign * other < self.sign * result
            result, vague = np.where(better, other, result), vague & other_vague
        return result, vague


def _off(epsilon, shift, sign):
    """epsilon - shift with its rounding outwards."""
    return epsilon - shift - sign * 4 * EPS * (np.abs(epsilon) + abs(shift))


def _width(chosen):
    """Largest relative width of delta >= 1e-10 over a plan's probes."""
    sides = (_Side(1, chosen.upper(), chosen), _Side(-1, chosen.lower(), chosen))
    high, low = (np.minimum(side.by_both(chosen.probes() + chosen.shift)[0], 0.0) for side in sides)
    seen = high >= np.log(_SMALLEST_DELTA)
    return float(np.max(-np.expm1(low - high)[seen], initial=0.0))


class _Factor:
    """One privacy profile; equal only to itself, so that repeated uses of it can be counted."""

    def __init__(self, log_delta, shift, relative_error):
        self.log_delta, self.shift, self.relative_error = log_delta, shift, relative_error

    @cached_property
    def support(self):
        return find_support(self.log_delta, relative_error=self.relative_error)


def _accuracy(value):
    return real("accuracy", value, rule="inside (0, 1)", valid=lambda x: (x > 0) & (x < 1))


def _step(value):
    return None if value is None else positive("step", value)
