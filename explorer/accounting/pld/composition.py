"""Compositions of mechanisms by their privacy loss distributions, for each direction of "add or remove" separately.

"add" is the divergence of M(Z) from M(Z + record), "remove" that of M(Z + record) from M(Z). With s = L / sigma and
kappa = beta / lambda the privacy losses are

    Gaussian                N(s^2/2, s^2) in both directions
    objective perturbation  hockey-stick: -log(1 - kappa) + s^2/2 + |N(0, s^2)| in both directions, for kappa < 1
                            refined: add s^2/2 + |N(0, s^2)|, or max(0, N(s^2/2, s^2)) for monotone losses;
                                     remove log(1 + kappa) + N(s^2/2, s^2); for every kappa
    Algorithm 1             objective perturbation plus the Gaussian of its output step
    DP-SGD                  for a base pair (P, Q) at rate q: add (P, (1-q)P + qQ), remove ((1-q)Q + qP, Q)

`explorer.accounting.bounds.refined` has the proof for the refined ones. Every other bound is composed by its profile
(`profile_plds`): a bound on both directions at epsilon >= 0 implies one at every real epsilon, by the duality
delta_add(epsilon) = 1 - e^epsilon + e^epsilon delta_remove(-epsilon).
"""

from collections.abc import Callable
from functools import partial, singledispatch
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from explorer.accounting.bounds.exact import ExactBound
from explorer.accounting.bounds.gaussian import half_normal_log_delta, log_delta
from explorer.accounting.bounds.refined import dual_log_delta, monotone_log_delta
from explorer.accounting.bounds.renyi import RenyiBound, RenyiCurve
from explorer.accounting.logspace import log1mexp
from explorer.accounting.mechanisms import (
    ApproximateMinimaPerturbation,
    Gaussian,
    ObjectivePerturbation,
    PoissonSubsampledGaussian,
)
from explorer.accounting.pld.distribution import Interval, PrivacyLossDistribution
from explorer.accounting.protocol import (
    DirectionalProfiles,
    PrivacyBound,
    ProfileBound,
    require_l2_reg_above_smoothness,
)
from explorer.accounting.types import FloatArray, LogProfile
from explorer.validation import instance, natural, real


class DirectedPLDs(NamedTuple):
    """One privacy loss distribution for each direction of the neighbouring relation."""

    add: PrivacyLossDistribution
    remove: PrivacyLossDistribution

    def compose(self, other: "DirectedPLDs") -> "DirectedPLDs":
        """Composition direction by direction."""
        return DirectedPLDs(self.add.compose(other.add), self.remove.compose(other.remove))

    def self_compose(self, k: int) -> "DirectedPLDs":
        """k-fold self-composition of each direction."""
        if self.add is self.remove:
            both = self.add.self_compose(k)
            return DirectedPLDs(both, both)
        return DirectedPLDs(self.add.self_compose(k), self.remove.self_compose(k))


class ProfilePLDs(DirectedPLDs):
    """The DirectedPLDs of a single use by the profiles of `bound`."""

    bound: PrivacyBound


def normal_pld(*, sensitivity_ratio: float, shift: float = 0.0) -> PrivacyLossDistribution:
    """shift + N(s^2/2, s^2), s = sensitivity_ratio > 0: the privacy loss of the Gaussian mechanism."""
    return PrivacyLossDistribution.from_profile(partial(log_delta, sensitivity_ratio=sensitivity_ratio), shift=shift)


def half_normal_pld(*, sensitivity_ratio: float, shift: float = 0.0) -> PrivacyLossDistribution:
    """shift + s^2/2 + |N(0, s^2)|, s = sensitivity_ratio > 0: the privacy loss of the half-normal mechanism."""
    start = sensitivity_ratio**2 / 2  # where the density jumps, which the shift puts on a grid point

    def profile(epsilon: FloatArray) -> FloatArray:
        return half_normal_log_delta(epsilon + start, sensitivity_ratio=sensitivity_ratio)

    return PrivacyLossDistribution.from_profile(profile, shift=shift + start)


def rectified_normal_pld(*, sensitivity_ratio: float) -> PrivacyLossDistribution:
    """max(0, N(s^2/2, s^2)), s = sensitivity_ratio > 0: H(epsilon; s) from 0 on, else 1 - e^epsilon (1 - H(0; s))."""
    profile = partial(monotone_log_delta, sensitivity_ratio=sensitivity_ratio)
    return PrivacyLossDistribution.from_profile(profile)


def poisson_subsampled_plds(
    log_delta_add: LogProfile, log_delta_remove: LogProfile, *, sampling_rate: float
) -> DirectedPLDs:
    """The PLDs of a mechanism on a Poisson sample, which contains each record independently with probability q.

    With gamma = e^epsilon and the base profiles h_add, h_remove at every gamma,

        add     (1 - gamma (1-q)) h_add(q gamma / (1 - gamma (1-q)))   below gamma = 1/(1-q), 0 above
        remove  q h_remove((gamma - (1-q)) / q)                          above gamma = 1-q, 1 - gamma below

    which are the profiles of (P, (1-q)P + qQ) and ((1-q)Q + qP, Q). Batches of fixed size from a shuffled pass over the
    data are *not* Poisson samples, and these bounds do not hold for them.

    Parameters
    ----------
    log_delta_add, log_delta_remove : callables, log profile of the base mechanism's dominating pair in each direction,
        at every real epsilon and both infinities (nats)
    sampling_rate : float in (0, 1], q

    Returns
    -------
    DirectedPLDs

    Raises
    ------
    ValueError if sampling_rate is out of range.

    References: Zhu, Dong & Wang 2022, Theorem 11.
    """
    q = real("sampling_rate", sampling_rate, rule="inside (0, 1]", valid=lambda x: (x > 0) & (x <= 1))
    if q == 1:
        from_profile = PrivacyLossDistribution.from_profile
        return DirectedPLDs(from_profile(log_delta_add), from_profile(log_delta_remove))
    end = float(np.log1p(-q))  # least privacy loss of remove; the largest of add is -end; epsilon is relative to these

    def add(epsilon: FloatArray) -> FloatArray:
        below = np.minimum(epsilon, 0)
        inside = log1mexp(below) + log_delta_add(-_unsampled(-below, q, end))
        return np.where(epsilon < 0, inside, -np.inf)

    def remove(epsilon: FloatArray) -> FloatArray:
        inside = np.log(q) + log_delta_remove(_unsampled(np.maximum(epsilon, 0), q, end))
        return np.where(epsilon > 0, inside, log1mexp(np.minimum(epsilon, 0) + end))

    return DirectedPLDs(
        PrivacyLossDistribution.from_profile(add, shift=-end), PrivacyLossDistribution.from_profile(remove, shift=end)
    )


def _unsampled(above: FloatArray, q: float, end: float) -> FloatArray:
    """log(1 + (e^(above + end) - 1) / q) = log((1 - q)(e^above - 1) / q) for above >= 0, where end = log(1 - q).

    The first form is accurate around 0, where a base mechanism with much noise has all its privacy losses, the second
    elsewhere.
    """
    with np.errstate(divide="ignore", over="ignore"):
        ratio = np.expm1(np.minimum(above, 1) + end) / q
        far = end - np.log(q) + above + log1mexp(-above)
        return np.where((ratio > -0.5) & (above <= 1), np.log1p(np.maximum(ratio, -0.5)), far)


@singledispatch
def refined_plds(mechanism: object) -> DirectedPLDs:
    """The DirectedPLDs of `mechanism`.

    They are exact for Gaussian and PoissonSubsampledGaussian. For ObjectivePerturbation and
    ApproximateMinimaPerturbation they are those of `RefinedBound`, at any l2_reg > 0.

    Raises TypeError for another mechanism.
    """
    raise TypeError(f"mechanism has no privacy loss distribution: got mechanism={mechanism!r}")


@refined_plds.register
def _(mechanism: Gaussian) -> DirectedPLDs:
    pld = normal_pld(sensitivity_ratio=mechanism.sensitivity_ratio)
    return DirectedPLDs(pld, pld)


@refined_plds.register
def _(mechanism: ObjectivePerturbation) -> DirectedPLDs:
    s = mechanism.sensitivity_ratio
    add = rectified_normal_pld if mechanism.monotone_loss else half_normal_pld
    remove = normal_pld(sensitivity_ratio=s, shift=float(np.log1p(mechanism.curvature_ratio)))
    return DirectedPLDs(add(sensitivity_ratio=s), remove)


@refined_plds.register
def _(mechanism: ApproximateMinimaPerturbation) -> DirectedPLDs:
    return refined_plds(mechanism.objective).compose(refined_plds(mechanism.output_step))


@refined_plds.register
def _(mechanism: PoissonSubsampledGaussian) -> DirectedPLDs:
    base = partial(log_delta, sensitivity_ratio=1 / mechanism.noise_multiplier)
    return poisson_subsampled_plds(base, base, sampling_rate=mechanism.sampling_rate).self_compose(mechanism.steps)


@singledispatch
def hockey_stick_plds(mechanism: object) -> DirectedPLDs:
    """The DirectedPLDs of `HockeyStickBound`, the same in both directions; for mechanisms without it, `refined_plds`.

    Raises BoundNotApplicable (a ValueError) if l2_reg <= smoothness, TypeError for an unknown mechanism.

    References: Redberg, Koskela & Wang 2023, hockey-stick theorem (corrected).
    """
    return refined_plds(mechanism)


@hockey_stick_plds.register
def _(mechanism: ObjectivePerturbation) -> DirectedPLDs:
    require_l2_reg_above_smoothness(mechanism)
    shift = -float(np.log1p(-mechanism.curvature_ratio))
    pld = half_normal_pld(sensitivity_ratio=mechanism.sensitivity_ratio, shift=shift)
    return DirectedPLDs(pld, pld)


@hockey_stick_plds.register
def _(mechanism: ApproximateMinimaPerturbation) -> DirectedPLDs:
    pld = hockey_stick_plds(mechanism.objective).add.compose(refined_plds(mechanism.output_step).add)
    return DirectedPLDs(pld, pld)


def profile_plds(mechanism: object, *, bound: Callable[[ObjectivePerturbation], PrivacyBound]) -> DirectedPLDs:
    """The DirectedPLDs of any bound on objective perturbation, from its privacy profile.

    `CompositionBound` takes functools.partial(profile_plds, bound=...) as its argument `plds`.

    Parameters
    ----------
    mechanism : ObjectivePerturbation, or ApproximateMinimaPerturbation, whose output step is composed too
    bound : callable, ObjectivePerturbation to PrivacyBound; where the bound also has `log_delta_add` and
        `log_delta_remove`, at every real epsilon, each direction is composed on its own

    Raises
    ------
    What `bound` raises; TypeError for another mechanism.
    """
    checked = instance("mechanism", mechanism, (ObjectivePerturbation, ApproximateMinimaPerturbation))
    if isinstance(checked, ApproximateMinimaPerturbation):
        return profile_plds(checked.objective, bound=bound).compose(refined_plds(checked.output_step))
    proof = bound(checked)
    add, remove = directed_profiles(proof)
    pld = PrivacyLossDistribution.from_profile(add)
    plds = ProfilePLDs(pld, pld if remove is add else PrivacyLossDistribution.from_profile(remove))
    plds.bound = proof
    return plds


def directed_profiles(bound: PrivacyBound) -> tuple[LogProfile, LogProfile]:
    """The profiles of "add" and "remove" at every real epsilon that follow from `bound`.

    They are its own `log_delta_add` and `log_delta_remove`; without these, `log_delta` at epsilon >= 0 and its dual
    below, for both directions.
    """
    if isinstance(bound, DirectionalProfiles):
        return bound.log_delta_add, bound.log_delta_remove

    def both(epsilon: FloatArray) -> FloatArray:
        log_delta = bound.log_delta(np.abs(epsilon))
        return np.where(epsilon < 0, dual_log_delta(np.minimum(epsilon, 0), log_delta), log_delta)

    return both, both


def directed_renyi_bounds(mechanism: object, plds: DirectedPLDs, *, uses: int) -> tuple[RenyiBound, RenyiBound] | None:
    """Bounds on add and remove by Renyi divergences, of which k uses have exactly k times as much, if `plds` has them.

    Only the exact analysis of objective perturbation does: no PLD is exact for several uses of it, nor is the
    conversion of its exact divergence to (epsilon, delta), so that either may be the smaller bound.
    """
    bound = plds.bound if isinstance(plds, ProfilePLDs) else None
    if not isinstance(bound, ExactBound) or bound.mechanism != mechanism:
        return None
    return RenyiBound(RenyiCurve(bound.rdp_add), uses=uses), RenyiBound(RenyiCurve(bound.rdp_remove), uses=uses)


class CompositionBound(ProfileBound):
    """A bound on `uses` runs of a mechanism by its privacy loss distributions: the larger one of add and remove.

    With `profile_plds` of `ExactBound`, each direction has the smaller one of two bounds: by its PLD, and by its exact
    Renyi divergence.

    Parameters
    ----------
    mechanism : Gaussian, ObjectivePerturbation, ApproximateMinimaPerturbation or PoissonSubsampledGaussian (whose
        `steps` are composed too)
    uses : int >= 1, number of runs on the same data
    plds : callable, mechanism to DirectedPLDs: `refined_plds`, `hockey_stick_plds`, `profile_plds` with
        its argument `bound` set, or your own
    accuracy, step : as in `PrivacyLossDistribution.from_profile`

    Attributes
    ----------
    add, remove : PrivacyLossDistribution of the whole composition

    Notes
    -----
    `PoissonSubsampledGaussian` is DP-SGD with Poisson sampling. Batches from a shuffled pass over the data are not
    Poisson samples, and these bounds do not hold for them.

    Examples
    --------
    >>> from explorer.accounting import CompositionBound, ObjectivePerturbation
    >>> mechanism = ObjectivePerturbation(noise_std=5, l2_reg=20, lipschitz=1, smoothness=1)
    >>> ten = CompositionBound(mechanism, uses=10)
    >>> round(float(ten.epsilon(1e-5)), 4)
    3.4507

    References: Zhu, Dong & Wang 2022, Theorem 10 (composition of dominating pairs) and 11 (subsampling).
    """

    def __init__(
        self,
        mechanism: object,
        *,
        uses: int = 1,
        plds: Callable[..., DirectedPLDs] = refined_plds,
        accuracy: float = 1e-3,
        step: float | None = None,
    ) -> None:
        self.mechanism = mechanism
        self.uses = natural("uses", uses)
        single = plds(mechanism)
        self._renyi = directed_renyi_bounds(mechanism, single, uses=self.uses) if self.uses > 1 else None
        directed = single.self_compose(self.uses)
        self.add = directed.add.on_grid(accuracy=accuracy, step=step)
        self.remove = (
            self.add if directed.remove is directed.add else directed.remove.on_grid(accuracy=accuracy, step=step)
        )

    def log_delta_interval(self, epsilon: ArrayLike) -> Interval:
        """Interval(low, high) of log delta, of epsilon's shape; epsilon array_like in nats."""
        return self._larger("log_delta_interval", epsilon)

    def delta_interval(self, epsilon: ArrayLike) -> Interval:
        """Interval(low, high) of delta, of epsilon's shape; epsilon array_like in nats."""
        return self._larger("delta_interval", epsilon)

    def epsilon_interval(self, delta: ArrayLike) -> Interval:
        """Interval(low, high) of the smallest epsilon >= 0 (nats) with delta(epsilon) <= delta, of delta's shape."""
        return self._larger("epsilon_interval", delta)

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Upper end of log delta, of epsilon's shape; epsilon array_like in nats."""
        return self.log_delta_interval(epsilon).high

    def epsilon(self, delta: ArrayLike) -> FloatArray:
        """Upper end of the smallest epsilon >= 0 (nats) with delta(epsilon) <= delta, of delta's shape."""
        if self._renyi is not None:
            return self.epsilon_interval(delta).high
        return np.maximum(self.add.epsilon(delta), self.remove.epsilon(delta))

    def _larger(self, name: str, argument: ArrayLike) -> Interval:
        add: Interval = getattr(self.add, name)(argument)
        if self.remove is self.add:
            return add
        remove: Interval = getattr(self.remove, name)(argument)
        if self._renyi is not None:
            converted = (getattr(each, name.removesuffix("_interval"))(argument) for each in self._renyi)
            add, remove = (
                Interval(np.minimum(pld.low, other), np.minimum(pld.high, other))
                for pld, other in zip((add, remove), converted, strict=True)
            )
        return Interval(np.maximum(add.low, remove.low), np.maximum(add.high, remove.high))
