"""The exact privacy of several adaptive uses of objective perturbation, as a certified interval."""

from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike

from explorer.accounting.bounds.exact import ExactBound
from explorer.accounting.bounds.gaussian import log_delta as gaussian_log_delta
from explorer.accounting.bounds.refined import DirectionalBound
from explorer.accounting.bounds.renyi import RenyiBound, RenyiCurve
from explorer.accounting.mechanisms import ObjectivePerturbation
from explorer.accounting.pld.adaptive_profile import AdaptiveProfile, Resolution
from explorer.accounting.pld.composition import CompositionBound, profile_plds
from explorer.accounting.pld.distribution import Interval
from explorer.accounting.pld.ramps import Ramps
from explorer.accounting.protocol import smallest_epsilon
from explorer.accounting.types import FloatArray
from explorer.validation import delta_array, epsilon_array, natural, positive, real

_FLOOR = 1e-6  # the grid ends where delta is at most this part of the delta that it is made for
_LEAST_MASS = 1e-7  # mass of small privacy losses that the grid need not resolve
_POINTS = 4000  # on the grid, at most
_LONGEST_RAMP = 25.0  # in units of the noise
_SINGLE_ERROR = 1e-9  # of the exact profile of one use, relative to log delta


class AdaptiveCompositionBound(DirectionalBound):
    """The exact profile of `uses` adaptive runs of objective perturbation on one pair of neighbours, as an interval.

    delta_k(epsilon) is the supremum over adversaries who choose each run's loss in the light of the earlier outcomes;
    the same record is present in all runs, or absent from all. Composing privacy loss distributions or adding up Renyi
    divergences gives upper bounds on it, which are not attained. Here both ends are proved: the low end is attained by
    explicit losses, the high end is a guarantee, and the guarantee is what `log_delta`, `delta` and `epsilon` return.

    Parameters
    ----------
    mechanism : ObjectivePerturbation, with any l2_reg > 0
    uses : int >= 1, number of runs on the same data
    delta : float inside (0, 1), at which the interval of epsilon is meant to be narrow; below 1e-6 of it the Renyi
        divergence is the guarantee
    width : float > 0, nats, of the interval of epsilon at `delta` that is aimed at

    Raises
    ------
    TypeError for another mechanism; ValueError for parameters out of range.

    Notes
    -----
    Seconds for a few uses; the time grows with the number of uses. Where log(1 + kappa) is very small against the
    range of privacy losses, or a ramp from s to 0 is longer than 25 standard deviations of the noise, the recursion is
    not tried. `certified` tells whether `width` was reached. Where it was not, the guarantee is the smaller one of the
    high end and `CompositionBound` of `ExactBound`.

    References: docs/mathematics/composition.md; `explorer.accounting.pld.adaptive_profile`.

    Examples
    --------
    >>> from explorer.accounting import AdaptiveCompositionBound, ObjectivePerturbation
    >>> mechanism = ObjectivePerturbation(noise_std=20, l2_reg=50, lipschitz=1, smoothness=1)
    >>> low, high = AdaptiveCompositionBound(mechanism, uses=2).epsilon_interval(1e-5)
    >>> print(f"{low:.3f} {high:.3f}")
    0.243 0.243
    """

    def __init__(
        self, mechanism: ObjectivePerturbation, *, uses: int = 1, delta: float = 1e-5, width: float = 1e-3
    ) -> None:
        super().__init__(mechanism)
        self.uses = natural("uses", uses)
        self.target = real("delta", delta, rule="inside (0, 1)", valid=lambda x: (x > 0) & (x < 1))
        self.width = positive("width", width)
        self._exact = ExactBound(mechanism)

    @cached_property
    def certified(self) -> bool:
        """Whether the interval of epsilon at the `delta` given is at most `width` wide."""
        low, high = (np.maximum(*ends) for ends in zip(self._own("add"), self._own("remove"), strict=True))
        return bool(high - low <= self.width)

    def log_delta_add(self, epsilon: ArrayLike) -> FloatArray:
        """Upper end of log delta of "add", of epsilon's shape; any real epsilon, nats."""
        return self._log_delta("add", epsilon).high

    def log_delta_remove(self, epsilon: ArrayLike) -> FloatArray:
        """Upper end of log delta of "remove", of epsilon's shape; any real epsilon, nats."""
        return self._log_delta("remove", epsilon).high

    def log_delta_interval(self, epsilon: ArrayLike) -> Interval:
        """Interval(low, high) of log delta, the larger of both directions, of epsilon's shape; epsilon in nats."""
        return _larger(*(self._log_delta(direction, epsilon) for direction in ("add", "remove")))

    def delta_interval(self, epsilon: ArrayLike) -> Interval:
        """Interval(low, high) of delta, the larger of both directions, of epsilon's shape; epsilon in nats."""
        return Interval(*(np.exp(end) for end in self.log_delta_interval(epsilon)))

    def epsilon_interval(self, delta: ArrayLike, *, direction: str | None = None) -> Interval:
        """Interval(low, high) of the smallest epsilon >= 0 (nats) with delta(epsilon) <= delta, of delta's shape.

        `direction` is "add" or "remove", or None for the larger of both.
        """
        if direction is None:
            return _larger(*(self._epsilon(each, delta) for each in ("add", "remove")))
        if direction not in ("add", "remove"):
            raise ValueError(f"direction must be 'add', 'remove' or None: got direction={direction!r}")
        return self._epsilon(direction, delta)

    def epsilon(self, delta: ArrayLike) -> FloatArray:
        """Upper end of the smallest epsilon >= 0 (nats) with delta(epsilon) <= delta, of delta's shape."""
        return self.epsilon_interval(delta).high

    def _log_delta(self, direction: str, epsilon: ArrayLike) -> Interval:
        epsilon = epsilon_array(epsilon)
        if self.uses == 1:
            value = np.asarray(getattr(self._exact, f"log_delta_{direction}")(epsilon))
            error = _SINGLE_ERROR * np.where(np.isfinite(value), np.abs(value), 0.0)
            return Interval((value - error)[()], np.minimum(value + error, 0.0)[()])
        low = self._gaussian(epsilon)
        high = np.asarray(self._renyi[direction].log_delta(epsilon))
        finite = np.where(np.isfinite(epsilon), epsilon, 0.0)
        if (profile := self._profiles[direction]) is not None:
            inside = np.isfinite(epsilon)
            low = np.where(inside, np.maximum(low, profile.log_delta(profile.lower, finite)), low)
            high = np.where(inside, np.minimum(high, profile.log_delta(profile.upper, finite)), high)
        if not self.certified:
            high = np.minimum(high, getattr(self._composed, direction).log_delta(epsilon))
        return Interval(low[()], np.maximum(high, low)[()])

    def _epsilon(self, direction: str, delta: ArrayLike) -> Interval:
        delta = delta_array(delta)
        if self.uses == 1:
            low, high = (
                smallest_epsilon(lambda x, end=end: self._log_delta(direction, x)[end], delta) for end in (0, 1)
            )
            return Interval(low, high)
        low, high = self._own(direction, delta)
        if not self.certified:
            high = np.minimum(high, getattr(self._composed, direction).epsilon(delta))
        return Interval(low, np.maximum(high, low))

    def _own(self, direction: str, delta: ArrayLike | None = None) -> Interval:
        """The interval of epsilon by the recursion, the Renyi divergence and the Gaussian."""
        delta = self.target if delta is None else delta
        low, high = smallest_epsilon(self._gaussian, delta), self._renyi[direction].epsilon(delta)
        if self.uses > 1 and (profile := self._profiles[direction]) is not None:
            ends = (profile.lower, profile.upper)
            recursion = [smallest_epsilon(partial(profile.log_delta, end), delta) for end in ends]
            # the search ends a few rounding errors above the root
            low, high = np.maximum(low, recursion[0] * (1 - 1e-12)), np.minimum(high, recursion[1])
        elif self.uses == 1:
            return self._epsilon(direction, delta)
        return Interval(low, high)

    def _gaussian(self, epsilon: ArrayLike) -> FloatArray:
        """Log delta of as many uses with a linear loss, a lower bound."""
        return gaussian_log_delta(epsilon, sensitivity_ratio=self._s * np.sqrt(self.uses))

    @cached_property
    def _renyi(self) -> dict[str, RenyiBound]:
        curves = {"add": self._exact.rdp_add, "remove": self._exact.rdp_remove}
        return {direction: RenyiBound(RenyiCurve(curve), uses=self.uses) for direction, curve in curves.items()}

    @cached_property
    def _composed(self) -> CompositionBound:
        return CompositionBound(self.mechanism, uses=self.uses, plds=partial(profile_plds, bound=ExactBound))

    @cached_property
    def _profiles(self) -> dict[str, AdaptiveProfile | None]:
        return {direction: self._profile(direction) for direction in ("add", "remove")}

    def _profile(self, direction: str) -> AdaptiveProfile | None:
        ramps = Ramps(s=self._s, kappa=self._kappa, remove=direction == "remove", monotone=self.mechanism.monotone_loss)
        resolution = self._resolution(direction, ramps)
        if resolution is None:
            return None
        profile = AdaptiveProfile(ramps, getattr(self._exact, f"log_delta_{direction}"), resolution)
        while profile.uses < self.uses:
            profile.advance()
        return profile

    def _resolution(self, direction: str, ramps: Ramps) -> Resolution | None:
        """A grid whose chords and tangents cost about a fifth of `width`, or None where that is too much to compute.

        With lambda = -d log delta / d epsilon, the gap of a step h is about (lambda h)^2 / 8 of delta for each use.
        """
        if ramps.s / ramps.kappa_y > _LONGEST_RAMP or ramps.s > _LONGEST_RAMP:
            return None
        own, other = self._renyi[direction], self._renyi["add" if direction == "remove" else "remove"]
        slope = float(own.optimum(self.target).order) - 1
        step = np.sqrt(1.6 * self.width / (self.uses * slope))
        farthest = self.uses * (ramps.jump + ramps.s**2 / 2 + 9.5 * ramps.s)
        low = -min(farthest, float(other.epsilon(min(self.target, _LEAST_MASS))) + ramps.jump)
        high = min(farthest, float(own.epsilon(self.target * _FLOOR)))
        few = self.uses <= 4
        window = max(int(np.ceil(ramps.jump / step * (1.5 if few else 1))), 10)
        window = min(window, int(_POINTS * ramps.jump / (high - low)))
        if window < 4:
            return None
        many = self.uses > 16
        return Resolution(window, low, high, slab=0.2 if many else 0.1, cells=24, group=8 if many else 4)


def _larger(add: Interval, remove: Interval) -> Interval:
    return Interval(np.maximum(add.low, remove.low), np.maximum(add.high, remove.high))
