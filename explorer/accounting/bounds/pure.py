"""Pure differential privacy: mechanisms whose output densities on neighbouring datasets have a bounded ratio.

Output noise of density proportional to e^(-|noise| / scale) is shifted by at most the sensitivity, so its log density
changes by at most sensitivity / scale.

Objective perturbation: theta is the exact minimiser for one value of the noise only, b = -grad J(theta; Z). This map
from theta to b is one-to-one with a Lipschitz inverse, so the density of theta is that of b times the determinant of H,
the Hessian of J(.; Z) (almost everywhere, where f' has a kink). With one record (x, y) more, b changes by that record's
gradient, of norm at most L, and the determinant by the factor 1 + f'' x.H^-1 x, which is between 1 and 1 + kappa
because H >= lambda I. So the log of the density
with the record over that without lies in

    [-L / scale, L / scale + log(1 + kappa)],    kappa = beta / lambda:

"remove" costs L / scale + log(1 + kappa), "add" only L / scale. Both ends are attained by a loss whose
slope and curvature are largest at the same point. Given the exact minimiser, the points that two runs of the solver
return are both within tau / lambda of it: releasing one of them with noise is one more mechanism, of sensitivity
2 tau / lambda, and its epsilon is added.

References: Chaudhuri, Monteleoni & Sarwate 2011, Theorems 6 and 9. They use means of losses
and replacement of a record: there log(1 + kappa) appears twice, for the removed and the added record, and the gradient
bound is 2 L.
"""

from functools import singledispatch

import numpy as np
from numpy.typing import ArrayLike

from explorer.accounting.logspace import log1mexp
from explorer.accounting.mechanisms import GammaNoise, PureObjectivePerturbation, PureOutputPerturbation
from explorer.accounting.protocol import ProfileBound
from explorer.accounting.types import FloatArray
from explorer.validation import epsilon_array, natural, real_array


@singledispatch
def pure_epsilon(mechanism: object) -> float:
    """The smallest epsilon (nats) at which `mechanism` has delta = 0: the larger one of add and remove.

    Raises TypeError for a mechanism without one, such as any with Gaussian noise.
    """
    raise TypeError(f"mechanism has no pure epsilon: got mechanism={mechanism!r}")


@pure_epsilon.register
def _(mechanism: GammaNoise) -> float:
    return mechanism.sensitivity / mechanism.noise_scale


@pure_epsilon.register
def _(mechanism: PureOutputPerturbation) -> float:
    return pure_epsilon(mechanism.output_step)


@pure_epsilon.register
def _(mechanism: PureObjectivePerturbation) -> float:
    objective = mechanism.lipschitz / mechanism.noise_scale + float(np.log1p(mechanism.curvature_ratio))
    return objective + pure_epsilon(mechanism.output_step)


class PureBound(ProfileBound):
    """The privacy profile of a pure epsilon_0-differentially private mechanism, at most that of randomised response.

    delta(epsilon) = (e^epsilon_0 - e^epsilon) / (e^epsilon_0 + 1) for |epsilon| <= epsilon_0, 0 above and
    1 - e^epsilon below.

    Parameters
    ----------
    mechanism : GammaNoise, PureOutputPerturbation or PureObjectivePerturbation
    uses : int >= 1, number of runs on the same data, whose epsilon_0 add up

    Attributes
    ----------
    pure_epsilon : float, epsilon_0 of all uses together, nats

    Raises
    ------
    TypeError for another mechanism.

    Examples
    --------
    >>> from explorer.accounting import GammaNoise, PureBound
    >>> bound = PureBound(GammaNoise(noise_scale=2.0))
    >>> float(bound.epsilon(0.0))
    0.5

    References: Kairouz, Oh & Viswanath 2015 (randomised response simulates every pure mechanism).
    """

    def __init__(
        self, mechanism: GammaNoise | PureOutputPerturbation | PureObjectivePerturbation, *, uses: int = 1
    ) -> None:
        self.mechanism = mechanism
        self.uses = natural("uses", uses)
        self.pure_epsilon = self.uses * pure_epsilon(mechanism)

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Log of the profile above, of epsilon's shape; epsilon array_like in nats, any real number."""
        epsilon, largest = epsilon_array(epsilon), self.pure_epsilon
        below = log1mexp(np.minimum(epsilon, 0))
        inside = log1mexp(np.minimum(epsilon - largest, 0)) - np.log1p(np.exp(-largest))
        return np.where(epsilon >= largest, -np.inf, np.where(epsilon < -largest, below, inside))[()]

    def epsilon(self, delta: ArrayLike) -> FloatArray:
        """Smallest epsilon >= 0 (nats) at which the profile is at most delta, of delta's shape; epsilon_0 at delta = 0.

        Raises ValueError for delta outside [0, 1).
        """
        delta = real_array("delta", delta, rule="inside [0, 1)", valid=lambda x: (x >= 0) & (x < 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.log1p(-np.minimum(delta * (1 + np.exp(-self.pure_epsilon)), 1))
        largest = self.pure_epsilon
        return np.clip(largest + share + 4 * np.spacing(largest), 0.0, largest)[()]  # rounded up
