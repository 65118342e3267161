"""Pure epsilon: mechanisms whose output densities on neighbouring datasets never differ by more than a factor.

Output noise of density proportional to e^(-|noise| / scale) moves by at most the sensitivity, so its log density by at
most sensitivity / scale.

Objective perturbation: theta is the exact minimiser for the noise b = -grad J(theta; Z) alone, a one-to-one map with
Lipschitz inverse, so its density is that of b there times the determinant of H, the Hessian of J(.; Z) (almost
everywhere, where the loss has a kink in f'). With one record (x, y) more, b changes by its gradient, at most L, and the
determinant by the factor 1 + f'' x.H^-1 x, between 1 and 1 + kappa because H >= lambda I. So the log of the density
with the record over that without lies in

    [-L / scale, L / scale + log(1 + kappa)],    kappa = beta / lambda:

"remove" costs L / scale + log(1 + kappa), "add" only L / scale. Both are attained by a loss that reaches its largest
slope on its steepest bend. Given the exact minimiser, which is the same on both sides of this change of measure, the
points that two solvers found lie within tau / lambda of it: releasing one with noise is one more step, of sensitivity
2 tau / lambda, and the two add up.

References: Chaudhuri, Monteleoni, Sarwate 2011, Theorems 6 and 9. They take means and replace records; there
log(1 + kappa) appears twice, since one record leaves and one comes, and a gradient of 2 L.
"""

from functools import singledispatch

import numpy as np

from explorer.accounting.logspace import log1mexp
from explorer.accounting.mechanisms import GammaNoise, PureObjectivePerturbation, PureOutputPerturbation
from explorer.accounting.protocol import ProfileBound
from explorer.validation import epsilon_array, natural, real_array


@singledispatch
def pure_epsilon(mechanism):
    """The epsilon (float, nats) at which `mechanism` needs no delta: the larger of add and remove.

    Raises TypeError for a mechanism without one, such as any with Gaussian noise.
    """
    raise TypeError(f"mechanism has no pure epsilon: got mechanism={mechanism!r}")


@pure_epsilon.register
def _(mechanism: GammaNoise):
    return mechanism.sensitivity / mechanism.noise_scale


@pure_epsilon.register
def _(mechanism: PureOutputPerturbation):
    return pure_epsilon(mechanism.output_step)


@pure_epsilon.register
def _(mechanism: PureObjectivePerturbation):
    objective = mechanism.lipschitz / mechanism.noise_scale + float(np.log1p(mechanism.curvature_ratio))
    return objective + pure_epsilon(mechanism.output_step)


class PureBound(ProfileBound):
    """The profile that pure epsilon_0-differential privacy implies: that of randomised response.

    delta(epsilon) = (e^epsilon_0 - e^epsilon) / (e^epsilon_0 + 1) for |epsilon| <= epsilon_0, 0 above and
    1 - e^epsilon below.

    Parameters
    ----------
    mechanism : GammaNoise, PureOutputPerturbation or PureObjectivePerturbation
    uses : int >= 1, how often it runs on the same data; the epsilon_0 of the uses add up

    Attributes
    ----------
    pure_epsilon : float, epsilon_0 in nats, of all uses

    Raises
    ------
    TypeError for another mechanism.

    References: Kairouz, Oh, Viswanath 2015 (randomised response simulates every pure mechanism).
    """

    def __init__(self, mechanism, *, uses=1):
        self.mechanism = mechanism
        self.uses = natural("uses", uses)
        self.pure_epsilon = self.uses * pure_epsilon(mechanism)

    def log_delta(self, epsilon):
        """Log of the profile above, of epsilon's shape; epsilon array_like in nats, any real number."""
        epsilon, largest = epsilon_array(epsilon), self.pure_epsilon
        below = log1mexp(np.minimum(epsilon, 0))
        inside = log1mexp(np.minimum(epsilon - largest, 0)) - np.log1p(np.exp(-largest))
        return np.where(epsilon >= largest, -np.inf, np.where(epsilon < -largest, below, inside))[()]

    def epsilon(self, delta):
        """Smallest epsilon >= 0 (nats) at which the profile is at most delta, of delta's shape; epsilon_0 at delta = 0.

        Raises ValueError for delta outside [0, 1).
        """
        delta = real_array("delta", delta, rule="inside [0, 1)", valid=lambda x: (x >= 0) & (x < 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.log1p(-np.minimum(delta * (1 + np.exp(-self.pure_epsilon)), 1))
        largest = self.pure_epsilon
        return np.clip(largest + share + 4 * np.spacing(largest), 0.0, largest)[()]  # never less than the exact value
