"""Privacy loss distributions: composition with a certified interval for every delta and every epsilon.

The privacy loss of a pair of distributions (P, Q) is log dP/dQ under P. Losses of independent (or adaptively composed) mechanisms
add up, so the privacy profile of a composition is delta(epsilon) = E[1 - e^(epsilon - sum of losses)]_+. A loss is given by its
privacy profile alone; each direction of the neighbouring relation (add, remove) is a distribution of its own.

Everything is lazy: a `PrivacyLossDistribution` is a product of profiles with counts, and the grid is chosen when the
first number is asked for, once, for the whole product. See `discretisation` for how the truth is enclosed on a grid, and
`convolution` for the sum by FFT; constants are added outside the grid.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from explorer.accounting.bound import ProfileBound, smallest_epsilon
from explorer.accounting.convolution import convolve, total_cumulant, window
from explorer.accounting.discretisation import convex_masses, enclose, find_support
from explorer.validation import delta_array, epsilon_array, positive, real

MAX_POINTS = 2**21  # grid points of a composition; about 0.2 GB at most
SMALLEST_DELTA = 1e-10  # the requested accuracy is met from here up
_TAIL_RATE = 24.5  # the tail transform is centred where Chernoff's bound on delta is e^-24.5
_EPS = np.finfo(float).eps


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
    At most 2^21 grid points are used; where `accuracy` would need more the interval is wider, and as true.
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
        log_delta : callable, elementwise on float arrays: natural log of delta at every real epsilon and +inf (nats). The
            profile of a pair of distributions, or any bound on one: then what is enclosed is its lower convex envelope in e^epsilon
        shift : float, nats; multiples of the step away from it are grid points, so put it on an atom or on an end of the loss:
            an atom off the grid costs O(step) instead of O(step^2)
        relative_error : float in (0, 0.01]; how far exp(log_delta) is trusted: a factor 1 +- relative_error (1 + |log_delta|)
        accuracy : float in (0, 1), relative width wanted of every delta >= 1e-10
        step : float > 0, nats, rounded to 24 significant bits; None chooses it from `accuracy` and the number of compositions

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
        accuracy = real("accuracy", accuracy, rule="inside (0, 1)", valid=lambda x: (x > 0) & (x < 1))
        return cls({factor: 1}, accuracy=accuracy, step=None if step is None else positive("step", step))

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
        epsilon = epsilon_array(epsilon)
        finite = np.where(np.isfinite(epsilon), epsilon, 0.0)
        at, slack = finite - self._shift, 4 * _EPS * (np.abs(finite) + abs(self._shift))
        low = np.max([profile.log_delta(at + slack, sign=-1) for profile in self._composed.lower], axis=0)
        high = np.min([profile.log_delta(at - slack, sign=1) for profile in self._composed.upper], axis=0)
        with np.errstate(divide="ignore"):
            trivial = np.where(finite < 0, np.log(-np.expm1(np.minimum(finite, 0))), -np.inf)
        low, high = np.maximum(low, trivial), np.minimum(high, 0.0)
        for values, ends in ((low, self._composed.lower), (high, self._composed.upper)):
            values[epsilon == np.inf] = min(end.log_infinity for end in ends)
            values[epsilon == -np.inf] = 0.0
        return Interval(low[()], high[()])

    def log_delta(self, epsilon):
        """Upper end of log delta, of epsilon's shape; epsilon array_like in nats."""
        return self.log_delta_interval(epsilon).high

    def epsilon_interval(self, delta):
        """Interval(low, high) of the smallest epsilon >= 0 (nats) with delta(epsilon) <= delta, of delta's shape."""
        delta = delta_array(delta)
        low = smallest_epsilon(lambda epsilon: self.log_delta_interval(epsilon).low, delta)
        return Interval(low * (1 - 1e-12), self.epsilon(delta))

    @property
    def losses(self):
        """Grid of finite losses (ndarray, nats, increasing) that carries `probabilities`."""
        return self._pessimistic[0]

    @property
    def probabilities(self):
        """Masses at `losses` of a loss that dominates this one (its profile is nowhere smaller), each >= 0."""
        return self._pessimistic[1]

    @property
    def infinity_mass(self):
        """The dominating loss's probability of an infinite loss."""
        return self._pessimistic[2]

    @cached_property
    def _pessimistic(self):
        bulk, tail = self._composed.upper
        end = max(profile.first + profile.profile.size for profile in (bulk, tail))
        knots = np.arange(min(bulk.first, tail.first), end) * bulk.step
        high = np.min([profile.log_delta(knots, sign=1) for profile in (bulk, tail)], axis=0)
        mass, infinity_mass = convex_masses(np.exp(np.minimum(high, 0)), origin=1.0, step=bulk.step, rounding=4 * _EPS)
        return np.nextafter(knots + self._shift, np.inf), mass, infinity_mass

    @cached_property
    def _shift(self):
        return float(sum(count * factor.shift for factor, count in self._factors.items()))

    @cached_property
    def _composed(self):
        """The composition on the grid that was asked for, or on the coarsest that meets the accuracy."""
        counts = list(self._factors.values())
        coarse = [factor.support[2] for factor in self._factors]
        tilt = _tail_tilt(coarse, counts)
        finest = self._finest_step(coarse, counts, tilt)
        if self.step is not None:
            if self.step < finest:
                raise ValueError(
                    f"step must be at least {finest:.3g} to keep the grid below {MAX_POINTS} points: got step={self.step!r}"
                )
            return self._compose_on(self.step, tilt)
        step = _first_step(tilt, sum(counts), self.accuracy)
        while True:
            step = max(step, finest)
            composed = self._compose_on(step, tilt)
            excess = composed.width(coarse, counts, tilt) / self.accuracy
            if excess <= 1 or step <= finest:
                return composed
            step *= max(np.sqrt(0.9 / excess), 0.1)

    def _finest_step(self, coarse, counts, tilt):
        longest = max(high - low for low, high, _ in (factor.support for factor in self._factors))
        for t in (0.0, tilt):
            left, right = window(coarse, counts, tilt=t)
            longest = max(longest, right - left)
        return 1.01 * longest / MAX_POINTS

    def _compose_on(self, step, tilt):
        step = float(np.float32(step))
        lower, upper = zip(*(factor.enclose(step) for factor in self._factors), strict=True)
        counts = list(self._factors.values())
        return _Composed(*(tuple(convolve(side, counts, tilt=t) for t in (0.0, tilt)) for side in (lower, upper)))


class _Factor:
    """One privacy profile; equal only to itself, so that repeated uses of it can be counted."""

    def __init__(self, log_delta, shift, relative_error):
        self.log_delta, self.shift, self.relative_error = log_delta, shift, relative_error

    @cached_property
    def support(self):
        return find_support(self.log_delta, relative_error=self.relative_error)

    def enclose(self, step):
        low, high, _ = self.support
        start = int(np.floor(low / step))
        cells = max(int(np.ceil(high / step)) - start, 1)
        return enclose(self.log_delta, start=start, cells=cells, step=step, relative_error=self.relative_error)


class _Composed(NamedTuple):
    """The composed profile from below and from above, each by the bulk transform and by the tail transform."""

    lower: tuple
    upper: tuple

    def width(self, coarse, counts, tilt):
        """Largest relative width of delta >= SMALLEST_DELTA over losses from the mean into the tail."""
        mean, tail = _means(coarse, counts, np.array([0.0, tilt]))
        epsilon = np.linspace(mean, tail, 33)
        low = np.max([profile.log_delta(epsilon, sign=-1) for profile in self.lower], axis=0)
        high = np.min([profile.log_delta(epsilon, sign=1) for profile in self.upper], axis=0)
        seen = high >= min(np.log(SMALLEST_DELTA), high[0])
        return float(-np.expm1(np.min(low[seen] - high[seen])))


def _means(losses, counts, tilt):
    """Mean of the tilted sum of losses, the cumulant's derivative."""
    h = 1e-5 * max(np.max(tilt), 1e-300)
    return (total_cumulant(losses, counts, tilt + h) - total_cumulant(losses, counts, tilt - h)) / (2 * h)


def _tail_tilt(losses, counts):
    """The tilt at which Chernoff's bound e^(K - tilt K') on the tail is e^-24.5 (or the largest tried)."""
    deviation = np.sqrt(sum(k * _spread(loss) for k, loss in zip(counts, losses, strict=True)))
    tilt = np.sqrt(2 * _TAIL_RATE) / deviation * 2.0 ** np.linspace(-10, 6, 129)
    h = 1e-4 * tilt
    here = total_cumulant(losses, counts, tilt)
    rate = tilt * (total_cumulant(losses, counts, tilt + h) - here) / h - here
    return float(tilt[max(np.count_nonzero(rate <= _TAIL_RATE) - 1, 0)])


def _spread(loss):
    x = (loss.start + np.arange(loss.mass.size)) * loss.step
    total = loss.mass.sum()
    mean = loss.mass @ x / total
    return max(float(loss.mass @ np.square(x - mean) / total), loss.step**2)


def _first_step(tilt, uses, accuracy):
    """The step that theory gives for a smooth loss.

    The two sides differ in variance by about step^2 / 3 per use, and in mean by half of that, which moves log delta at the loss
    where the tilt is centred by tilt (1 + tilt) / 2 times the whole.
    """
    return float(np.sqrt(0.8 * accuracy * 6 / (uses * tilt * (1 + tilt))))


def natural(name, value):
    """`value` as an int >= 1; raises ValueError naming the parameter otherwise."""
    number = real(name, value, rule="an integer >= 1", valid=lambda x: np.isfinite(x) & (x >= 1) & (x == np.floor(x)))
    return int(number)
