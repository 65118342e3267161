"""Compositions of mechanisms through their privacy loss distributions, each direction of "add or remove" on its own.

"add" is the divergence of M(Z) from M(Z + record), "remove" that of M(Z + record) from M(Z). With s = L / sigma and
kappa = beta / lambda the losses are

    Gaussian                N(s^2/2, s^2) in both directions
    objective perturbation  paper: -log(1 - kappa) + s^2/2 + |N(0, s^2)| in both directions, for kappa < 1
                            refined: add s^2/2 + |N(0, s^2)|, or max(0, N(s^2/2, s^2)) for monotone losses;
                                     remove log(1 + kappa) + N(s^2/2, s^2); for every kappa
    Algorithm 1             objective perturbation plus the Gaussian of its output step
    DP-SGD                  for a base pair (P, Q) at rate q: add (P, (1-q)P + qQ), remove ((1-q)Q + qP, Q)

The refined losses are proved in `explorer.accounting.bounds.refined`. Any other bound composes through its profile
(`profile_plds`): a bound on both directions at epsilon >= 0 is one at every real epsilon, by the duality
delta_add(epsilon) = 1 - e^epsilon + e^epsilon delta_remove(-epsilon).
"""

from functools import partial, singledispatch
from typing import NamedTuple

import numpy as np

from explorer.accounting.bounds.gaussian import half_normal_log_delta, log_delta
from explorer.accounting.bounds.refined import dual_log_delta, monotone_log_delta
from explorer.accounting.logspace import log1mexp
from explorer.accounting.mechanisms import (
    ApproximateMinimaPerturbation,
    Gaussian,
    ObjectivePerturbation,
    PoissonSubsampledGaussian,
)
from explorer.accounting.pld.distribution import Interval, PrivacyLossDistribution
from explorer.accounting.protocol import ProfileBound, require_l2_reg_above_smoothness
from explorer.validation import instance, natural, real


class DirectedPLDs(NamedTuple):
    """One privacy loss distribution for each direction of the neighbouring relation."""

    add: PrivacyLossDistribution
    remove: PrivacyLossDistribution

    def compose(self, other):
        """Composition direction by direction."""
        return DirectedPLDs(self.add.compose(other.add), self.remove.compose(other.remove))

    def self_compose(self, k):
        """k-fold self-composition of each direction."""
        if self.add is self.remove:
            return DirectedPLDs(*2 * [self.add.self_compose(k)])
        return DirectedPLDs(self.add.self_compose(k), self.remove.self_compose(k))


def normal_pld(*, sensitivity_ratio, shift=0.0):
    """shift + N(s^2/2, s^2), s = sensitivity_ratio > 0: the Gaussian mechanism's loss, as a PrivacyLossDistribution."""
    return PrivacyLossDistribution.from_profile(partial(log_delta, sensitivity_ratio=sensitivity_ratio), shift=shift)


def half_normal_pld(*, sensitivity_ratio, shift=0.0):
    """shift + s^2/2 + |N(0, s^2)|, s = sensitivity_ratio > 0, as a PrivacyLossDistribution."""
    start = sensitivity_ratio**2 / 2  # the density's jump, on a grid point

    def profile(epsilon):
        return half_normal_log_delta(epsilon + start, sensitivity_ratio=sensitivity_ratio)

    return PrivacyLossDistribution.from_profile(profile, shift=shift + start)


def rectified_normal_pld(*, sensitivity_ratio):
    """max(0, N(s^2/2, s^2)), s = sensitivity_ratio > 0: H(epsilon; s) from 0 on, else 1 - e^epsilon (1 - H(0; s))."""
    profile = partial(monotone_log_delta, sensitivity_ratio=sensitivity_ratio)
    return PrivacyLossDistribution.from_profile(profile)


def poisson_subsampled_plds(log_delta_add, log_delta_remove, *, sampling_rate):
    """The losses of a mechanism that runs on a Poisson sample: each record is in it independently with probability q.

    With gamma = e^epsilon and the base profiles h_add, h_remove at every gamma,

        add     (1 - gamma (1-q)) h_add(q gamma / (1 - gamma (1-q)))   below gamma = 1/(1-q), then 0
        remove  q h_remove((gamma - (1-q)) / q)                          above gamma = 1-q, before that 1 - gamma

    which are the profiles of (P, (1-q)P + qQ) and ((1-q)Q + qP, Q). Batches of fixed size from a shuffled pass over the
    data are *not* Poisson samples, and these numbers do not hold for them.

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

    References: Zhu, Dong, Wang 2022, Theorem 11.
    """
    q = real("sampling_rate", sampling_rate, rule="inside (0, 1]", valid=lambda x: (x > 0) & (x <= 1))
    if q == 1:
        return DirectedPLDs(*map(PrivacyLossDistribution.from_profile, (log_delta_add, log_delta_remove)))
    end = float(np.log1p(-q))  # where the losses of remove start; those of add end at -end; epsilon counts from there

    def add(epsilon):
        below = np.minimum(epsilon, 0)
        inside = log1mexp(below) + log_delta_add(-_unsampled(-below, q, end))
        return np.where(epsilon < 0, inside, -np.inf)

    def remove(epsilon):
        inside = np.log(q) + log_delta_remove(_unsampled(np.maximum(epsilon, 0), q, end))
        return np.where(epsilon > 0, inside, log1mexp(np.minimum(epsilon, 0) + end))

    return DirectedPLDs(
        PrivacyLossDistribution.from_profile(add, shift=-end), PrivacyLossDistribution.from_profile(remove, shift=end)
    )


def _unsampled(above, q, end):
    """log(1 + (e^(above + end) - 1) / q) = log((1 - q)(e^above - 1) / q) for above >= 0, where end = log(1 - q).

    The first form is exact around 0, where a base mechanism with much noise has all its losses, the second elsewhere.
    """
    with np.errstate(divide="ignore", over="ignore"):
        ratio = np.expm1(np.minimum(above, 1) + end) / q
        far = end - np.log(q) + above + log1mexp(-above)
        return np.where((ratio > -0.5) & (above <= 1), np.log1p(np.maximum(ratio, -0.5)), far)


@singledispatch
def refined_plds(mechanism):
    """The DirectedPLDs of `mechanism`: exact for Gaussian and PoissonSubsampledGaussian; for ObjectivePerturbation
    and ApproximateMinimaPerturbation the refined dominating losses (module docstring), at any l2_reg > 0.

    Raises TypeError for another mechanism.
    """
    raise TypeError(f"mechanism has no privacy loss distribution: got mechanism={mechanism!r}")


@refined_plds.register
def _(mechanism: Gaussian):
    loss = normal_pld(sensitivity_ratio=mechanism.sensitivity_ratio)
    return DirectedPLDs(loss, loss)


@refined_plds.register
def _(mechanism: ObjectivePerturbation):
    s = mechanism.sensitivity_ratio
    add = rectified_normal_pld if mechanism.monotone_loss else half_normal_pld
    remove = normal_pld(sensitivity_ratio=s, shift=np.log1p(mechanism.curvature_ratio))
    return DirectedPLDs(add(sensitivity_ratio=s), remove)


@refined_plds.register
def _(mechanism: ApproximateMinimaPerturbation):
    return refined_plds(mechanism.objective).compose(refined_plds(mechanism.output_step))


@refined_plds.register
def _(mechanism: PoissonSubsampledGaussian):
    base = partial(log_delta, sensitivity_ratio=1 / mechanism.noise_multiplier)
    return poisson_subsampled_plds(base, base, sampling_rate=mechanism.sampling_rate).self_compose(mechanism.steps)


@singledispatch
def hockey_stick_plds(mechanism):
    """The DirectedPLDs behind the paper's hockey-stick theorem, the same in both directions; for mechanisms which
    that theorem does not concern, `refined_plds`.

    Raises BoundNotApplicable (a ValueError) if l2_reg <= smoothness, TypeError for an unknown mechanism.

    References: Redberg, Koskela, Wang 2023, hockey-stick theorem (corrected).
    """
    return refined_plds(mechanism)


@hockey_stick_plds.register
def _(mechanism: ObjectivePerturbation):
    require_l2_reg_above_smoothness(mechanism)
    loss = half_normal_pld(sensitivity_ratio=mechanism.sensitivity_ratio, shift=-np.log1p(-mechanism.curvature_ratio))
    return DirectedPLDs(loss, loss)


@hockey_stick_plds.register
def _(mechanism: ApproximateMinimaPerturbation):
    loss = hockey_stick_plds(mechanism.objective).add.compose(refined_plds(mechanism.output_step).add)
    return DirectedPLDs(loss, loss)


def profile_plds(mechanism, *, bound):
    """The DirectedPLDs that any bound on objective perturbation gives: functools.partial(profile_plds, bound=...)
    is what `CompositionBound` takes as its `losses`.

    Parameters
    ----------
    mechanism : ObjectivePerturbation, or ApproximateMinimaPerturbation, whose output step is composed too
    bound : callable, ObjectivePerturbation to PrivacyBound; where the bound also has `log_delta_add` and
        `log_delta_remove`, at every real epsilon, each direction is composed on its own

    Raises
    ------
    What `bound` raises; TypeError for another mechanism.
    """
    if isinstance(mechanism, ApproximateMinimaPerturbation):
        return profile_plds(mechanism.objective, bound=bound).compose(refined_plds(mechanism.output_step))
    proof = bound(instance("mechanism", mechanism, (ObjectivePerturbation, ApproximateMinimaPerturbation)))
    add, remove = directed_profiles(proof)
    loss = PrivacyLossDistribution.from_profile(add)
    return DirectedPLDs(loss, loss if remove is add else PrivacyLossDistribution.from_profile(remove))


def directed_profiles(proof):
    """The profiles of "add" and "remove" at every real epsilon that a PrivacyBound gives: its own `log_delta_add` and
    `log_delta_remove`, or, twice the same, `log_delta` at epsilon >= 0 and its dual below."""
    if hasattr(proof, "log_delta_add"):
        return proof.log_delta_add, proof.log_delta_remove

    def both(epsilon):
        log_delta = proof.log_delta(np.abs(epsilon))
        return np.where(epsilon < 0, dual_log_delta(np.minimum(epsilon, 0), log_delta), log_delta)

    return both, both


class CompositionBound(ProfileBound):
    """The privacy of `uses` runs of a mechanism by its privacy loss distributions: the larger of add and remove.

    Parameters
    ----------
    mechanism : Gaussian, ObjectivePerturbation, ApproximateMinimaPerturbation or PoissonSubsampledGaussian (whose
        `steps` are composed too)
    uses : int >= 1, how often the mechanism runs on the same data
    plds : callable, mechanism to DirectedPLDs: `refined_plds`, `hockey_stick_plds`, `profile_plds` with a
        bound filled in, or your own
    accuracy, step : as in `PrivacyLossDistribution.from_profile`

    Attributes
    ----------
    add, remove : PrivacyLossDistribution of the whole composition

    Notes
    -----
    `PoissonSubsampledGaussian` is about Poisson sampling. Batches from a shuffled pass over the data are not Poisson
    samples: nothing reported here holds for them.

    References: Zhu, Dong, Wang 2022, Theorem 10 (composition of dominating pairs) and 11 (subsampling).
    """

    def __init__(self, mechanism, *, uses=1, plds=refined_plds, accuracy=1e-3, step=None):
        self.mechanism = mechanism
        self.uses = natural("uses", uses)
        directed = plds(mechanism).self_compose(self.uses)
        self.add = directed.add.on_grid(accuracy=accuracy, step=step)
        self.remove = (
            self.add if directed.remove is directed.add else directed.remove.on_grid(accuracy=accuracy, step=step)
        )

    def log_delta_interval(self, epsilon):
        """Interval(low, high) of log delta, of epsilon's shape; epsilon array_like in nats."""
        return self._larger("log_delta_interval", epsilon)

    def delta_interval(self, epsilon):
        """Interval(low, high) of delta, of epsilon's shape; epsilon array_like in nats."""
        return self._larger("delta_interval", epsilon)

    def epsilon_interval(self, delta):
        """Interval(low, high) of the smallest epsilon >= 0 (nats) that has delta, of delta's shape."""
        return self._larger("epsilon_interval", delta)

    def log_delta(self, epsilon):
        """Upper end of log delta, of epsilon's shape; epsilon array_like in nats."""
        return self.log_delta_interval(epsilon).high

    def epsilon(self, delta):
        """Upper end of the smallest epsilon >= 0 (nats) that has delta, of delta's shape."""
        return np.maximum(self.add.epsilon(delta), self.remove.epsilon(delta))

    def _larger(self, name, argument):
        add = getattr(self.add, name)(argument)
        if self.remove is self.add:
            return add
        return Interval(*map(np.maximum, add, getattr(self.remove, name)(argument)))
