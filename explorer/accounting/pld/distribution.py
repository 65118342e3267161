"""Privacy loss distributions: composition, with an interval that contains the exact delta or epsilon.

The privacy loss of a pair of distributions (P, Q) is log dP/dQ under P. The losses of composed mechanisms add up, so
the privacy profile of a composition is delta(epsilon) = E[1 - e^(epsilon - sum of losses)]_+, also when the mechanisms
are chosen adaptively and the pairs only dominate them (Zhu, Dong & Wang 2022, Theorem 10). A privacy loss is
given by its privacy profile; each direction of the neighbouring relation (add, remove) has a distribution of its own.

Evaluation is lazy: a `PrivacyLossDistribution` is a composition of profiles with counts. The first query chooses a grid
for the whole composition (`grid`), the profiles are bounded from above and from below on it (`discretisation`), and the
sums are computed by FFT with bounds on all errors (`convolution`); constants are added outside the grid.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from explorer.accounting.pld.convolution import TiltedProfile, convolve
from explorer.accounting.pld.discretisation import EPS, GridPLD, convex_masses, evaluate
from explorer.accounting.pld.grid import Factor, GridPlan, plan_grid
from explorer.accounting.protocol import ProfileBound, smallest_epsilon
from explorer.accounting.types import BoolArray, FloatArray, LogProfile
from explorer.validation import delta_array, epsilon_array, natural, positive, real

_SMALLEST_DELTA = 1e-10  # the accuracy refers to delta >= this


_Evaluation: TypeAlias = Callable[[FloatArray], tuple[FloatArray, BoolArray]]


class Interval(NamedTuple):
    """Lower and upper bound on a quantity, elementwise."""

    low: FloatArray
    high: FloatArray


class PrivacyLossDistribution(ProfileBound):
    """The distribution of a sum of independent privacy losses, as a `PrivacyBound` with intervals.

    Use `from_profile`, `compose` and `self_compose` to construct one. `log_delta`, `delta` and `epsilon` return the
    upper end of the interval, which is the guarantee.

    Parameters
    ----------
    factors : mapping of privacy profiles to their numbers of uses
    accuracy : float in (0, 1), target for the relative width (high - low) / high of every delta >= 1e-10
    step : float > 0, the grid's step in nats, or None to choose it from `accuracy`

    Notes
    -----
    At most 2^21 grid points are used. Where `accuracy` would need more, the interval is wider, but still contains the
    exact value: this can happen after very many uses, and in the bulk of a few uses of a privacy loss that is nearly
    constant except for rare large values. A delta below the rounding error of the FFT has low = 0 and a high that
    includes that error.

    Examples
    --------
    >>> from explorer.accounting import Gaussian, GaussianLowerBound, PrivacyLossDistribution
    >>> profile = GaussianLowerBound(Gaussian(noise_std=10.0)).log_delta
    >>> hundred = PrivacyLossDistribution.from_profile(profile).self_compose(100)
    >>> low, high = hundred.epsilon_interval(1e-5)
    >>> bool(low <= GaussianLowerBound(Gaussian(noise_std=1.0)).epsilon(1e-5) <= high)
    True
    """

    def __init__(self, factors: Mapping[Factor, int], *, accuracy: float, step: float | None) -> None:
        self._factors = dict(factors)
        self.accuracy = accuracy
        self.step = step

    @classmethod
    def from_profile(
        cls,
        log_delta: LogProfile,
        *,
        shift: float = 0.0,
        relative_error: float = 1e-14,
        accuracy: float = 1e-3,
        step: float | None = None,
    ) -> "PrivacyLossDistribution":
        """The distribution of `shift` plus the privacy loss whose profile is exp(log_delta).

        Parameters
        ----------
        log_delta : callable, elementwise on float arrays: log of delta at every real epsilon and at +inf (nats). The
            profile of a pair of distributions, or any bound on one: then the upper end refers to its lower convex
            envelope in e^epsilon (the lower end assumes convexity)
        shift : float, nats; choose it at an atom of the privacy loss or at an end of its range: grid points are at
            multiples of the step from it, and an atom off the grid has an error of O(step) instead of O(step^2)
        relative_error : float in (0, 0.01]; exp(log_delta) is correct up to a factor
            1 +- relative_error (1 + |log_delta|)
        accuracy : float in (0, 1), target for the relative width of every delta >= 1e-10
        step : float > 0, nats, rounded to 24 significant bits; None chooses it from `accuracy` and the counts

        Raises
        ------
        ValueError if a number is out of range; TypeError if log_delta is not callable.
        """
        if not callable(log_delta):
            raise TypeError(f"log_delta must be callable: got log_delta={log_delta!r}")
        factor = Factor(
            log_delta,
            real("shift", shift),
            real("relative_error", relative_error, rule="inside (0, 0.01]", valid=lambda x: (x > 0) & (x <= 0.01)),
        )
        return cls({factor: 1}, accuracy=_accuracy(accuracy), step=_step(step))

    def on_grid(self, *, accuracy: float = 1e-3, step: float | None = None) -> "PrivacyLossDistribution":
        """The same distribution on another grid; parameters as in `from_profile`."""
        return PrivacyLossDistribution(self._factors, accuracy=_accuracy(accuracy), step=_step(step))

    def compose(self, other: "PrivacyLossDistribution") -> "PrivacyLossDistribution":
        """The distribution of the sum of both privacy losses, with the finer one of the two accuracies and steps."""
        if not isinstance(other, PrivacyLossDistribution):
            raise TypeError(f"other must be PrivacyLossDistribution: got other={other!r}")
        factors = dict(self._factors)
        for factor, count in other._factors.items():
            factors[factor] = factors.get(factor, 0) + count
        steps = [step for step in (self.step, other.step) if step is not None]
        return PrivacyLossDistribution(
            factors, accuracy=min(self.accuracy, other.accuracy), step=min(steps, default=None)
        )

    def self_compose(self, k: int) -> "PrivacyLossDistribution":
        """The distribution of the sum of k independent copies; k an int >= 1."""
        k = natural("k", k)
        factors = {factor: count * k for factor, count in self._factors.items()}
        return PrivacyLossDistribution(factors, accuracy=self.accuracy, step=self.step)

    def delta_interval(self, epsilon: ArrayLike) -> Interval:
        """Interval(low, high) of delta at `epsilon` (array_like, nats, any real number), of epsilon's shape."""
        low, high = self.log_delta_interval(epsilon)
        return Interval(np.exp(low), np.exp(high))

    def log_delta_interval(self, epsilon: ArrayLike) -> Interval:
        """Interval(low, high) of log delta, of epsilon's shape; low is -inf where delta is below the rounding error."""
        low = self._log_delta(self._below, epsilon, self._below.by_both)
        return Interval(low, self.log_delta(epsilon))

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Upper end of log delta, of epsilon's shape; epsilon array_like in nats."""
        return self._log_delta(self._above, epsilon, self._above.by_both)

    def epsilon_interval(self, delta: ArrayLike) -> Interval:
        """Interval(low, high) of the smallest epsilon >= 0 (nats) with delta(epsilon) <= delta, of delta's shape."""
        low = self._smallest_epsilon(self._below, delta)
        return Interval(low * (1 - 1e-12), self.epsilon(delta))  # the search ends a few rounding errors above the root

    def epsilon(self, delta: ArrayLike) -> FloatArray:
        """Upper end of the smallest epsilon >= 0 (nats) with delta(epsilon) <= delta; infinity if there is none."""
        return self._smallest_epsilon(self._above, delta)

    def _smallest_epsilon(self, side: "_Profile | _Side", delta: ArrayLike) -> FloatArray:
        """From the tail transform alone if its error is negligible at the root, else from both transforms.

        (The search starts at epsilon = 0, where the error of the tail transform is always large.)
        """
        root = smallest_epsilon(lambda epsilon: self._log_delta(side, epsilon, side.by_tail), delta_array(delta))
        if np.any(side.by_tail(np.where(np.isfinite(root), root, 0.0))[1]):
            root = smallest_epsilon(lambda epsilon: self._log_delta(side, epsilon, side.by_both), delta)
        return root

    def _log_delta(self, side: "_Profile | _Side", epsilon: ArrayLike, evaluate: "_Evaluation") -> FloatArray:
        epsilon = epsilon_array(epsilon)
        finite = np.where(np.isfinite(epsilon), epsilon, 0.0)
        result = np.minimum(evaluate(finite)[0], 0.0)
        if side.sign < 0:  # any two distributions have delta >= 1 - e^epsilon
            with np.errstate(divide="ignore"):
                result = np.maximum(result, np.log(-np.expm1(np.minimum(finite, 0))))
        result = np.where(epsilon == np.inf, side.log_infinity, result)
        return np.where(epsilon == -np.inf, 0.0, result)[()]

    @property
    def privacy_losses(self) -> FloatArray:
        """Grid of finite privacy losses (ndarray, nats, increasing) that carries `probabilities`."""
        return self._dominating[0]

    @property
    def probabilities(self) -> FloatArray:
        """Masses >= 0 at `privacy_losses` of a privacy loss that dominates this one: its profile is nowhere smaller."""
        return self._dominating[1]

    @property
    def infinity_mass(self) -> float:
        """The probability that the dominating privacy loss is infinite."""
        return self._dominating[2]

    @cached_property
    def _dominating(self) -> tuple[FloatArray, FloatArray, float]:
        """Connect the dots (see `discretisation`) of the upper ends at all grid points of both transforms."""
        side = self._upper
        first = min(side.bulk.first, side.tail.first)
        end = max(t.first + t.profile.size for t in (side.bulk, side.tail))
        knots = np.arange(first, end)
        by_tail, by_bulk = (t.log_delta(np.asarray(knots * t.step, float), sign=1)[0] for t in (side.tail, side.bulk))
        high = np.exp(np.minimum(np.minimum(by_tail, by_bulk), 0.0))
        mass, infinity_mass = convex_masses(high, knots, origin=1.0, step=side.bulk.step, rounding=4 * EPS)
        values = knots * side.bulk.step
        rounding = 4 * EPS * (np.abs(values) + abs(side.shift))
        return np.asarray(values + side.shift + rounding, float), mass, infinity_mass

    @cached_property
    def _plan(self) -> GridPlan:
        factors, counts = list(self._factors), list(self._factors.values())
        chosen = plan_grid(factors, counts, accuracy=self.accuracy, step=self.step)
        if self.step is not None or chosen.bulk_is_resolved():
            return chosen
        coarsest = chosen.step
        while (excess := _width(chosen) / self.accuracy) > 1 and chosen.step > coarsest / 20:
            # the estimated width is that of smooth privacy losses; concentrated ones may need a finer step
            finer = max(chosen.step * float(np.clip(np.sqrt(0.8 / excess), 0.1, 0.5)), chosen.finest)
            if finer > 0.9 * chosen.step:
                break
            chosen = plan_grid(factors, counts, accuracy=self.accuracy, step=finer)
        return chosen

    @property
    def _above(self) -> "_Profile | _Side":
        return self._upper if self._single is None else _Profile(1, self._single)

    @property
    def _below(self) -> "_Profile | _Side":
        return self._lower if self._single is None else _Profile(-1, self._single)

    @property
    def _single(self) -> Factor | None:
        """The factor if there is only one, used once: then its profile needs no grid; else None."""
        return next(iter(self._factors)) if sum(self._factors.values()) == 1 else None

    @cached_property
    def _upper(self) -> "_Side":
        return _Side(1, self._plan.upper(), self._plan)

    @cached_property
    def _lower(self) -> "_Side":
        return _Side(-1, self._plan.lower(), self._plan)


class _Profile:
    """A factor's own profile from above (sign 1) or below (sign -1), with the interface of `_Side`."""

    def __init__(self, sign: int, factor: Factor) -> None:
        self.sign, self._factor = sign, factor

    @property
    def log_infinity(self) -> float:
        return float(self._end(np.array(np.inf)))

    def by_both(self, epsilon: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Log of this side's delta at `epsilon` (finite ndarray), and False."""
        return self._end(_off(epsilon, self._factor.shift, self.sign)), np.zeros(epsilon.shape, bool)

    by_tail = by_both

    def _end(self, epsilon: FloatArray) -> FloatArray:
        log_delta = evaluate(self._factor.log_delta, epsilon)
        error = self._factor.relative_error * (1 - np.maximum(log_delta, -1e3))
        with np.errstate(divide="ignore"):
            return log_delta + np.log(np.maximum(1 + self.sign * error, 0.0))


class _Side:
    """The composed profile from above (sign 1) or below (sign -1): a tail transform, and a bulk transform if needed."""

    def __init__(self, sign: int, plds: tuple[GridPLD, ...], plan: GridPlan) -> None:
        self.sign, self.shift = sign, plan.shift
        self._plds, self._plan = plds, plan

    @cached_property
    def tail(self) -> TiltedProfile:
        return convolve(self._plds, self._plan.counts, tilt=self._plan.tilt)

    @cached_property
    def bulk(self) -> TiltedProfile:
        return convolve(self._plds, self._plan.counts, tilt=0.0)

    @property
    def log_infinity(self) -> float:
        return self.tail.log_infinity

    def by_tail(self, epsilon: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Log of this side's delta at `epsilon` (finite ndarray), and where its error is large, from one transform."""
        return self.tail.log_delta(_off(epsilon, self.shift, self.sign), sign=self.sign)

    def by_both(self, epsilon: FloatArray) -> tuple[FloatArray, BoolArray]:
        """The same from the more accurate one of two transforms."""
        result, inexact = self.by_tail(epsilon)
        if np.any(inexact):
            other, other_inexact = self.bulk.log_delta(_off(epsilon, self.shift, self.sign), sign=self.sign)
            better = self.sign * other < self.sign * result
            result, inexact = np.where(better, other, result), inexact & other_inexact
        return result, inexact


def _off(epsilon: FloatArray, shift: float, sign: int) -> FloatArray:
    """epsilon - shift, rounded so that the bound remains valid."""
    return epsilon - shift - sign * 4 * EPS * (np.abs(epsilon) + abs(shift))


def _width(chosen: GridPlan) -> float:
    """Largest relative width of delta >= 1e-10 at the probes of a plan."""
    sides = (_Side(1, chosen.upper(), chosen), _Side(-1, chosen.lower(), chosen))
    high, low = (np.minimum(side.by_both(chosen.probes() + chosen.shift)[0], 0.0) for side in sides)
    seen = high >= np.log(_SMALLEST_DELTA)
    return float(np.max(-np.expm1(low - high)[seen], initial=0.0))


def _accuracy(value: float) -> float:
    return real("accuracy", value, rule="inside (0, 1)", valid=lambda x: (x > 0) & (x < 1))


def _step(value: float | None) -> float | None:
    return None if value is None else positive("step", value)
