"""The two laws of a privacy loss that the paper compares: normal, and half-normal.

The privacy loss of a pair (P, Q) is log dP/dQ under P. Its density shows where the profile
delta(epsilon) = E[1 - e^(epsilon - loss)]_+ comes from: only losses beyond epsilon count.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from explorer.accounting.bounds.gaussian import half_normal_log_delta, log_delta
from explorer.accounting.logspace import log_normal_density
from explorer.accounting.protocol import require_l2_reg_above_smoothness
from explorer.validation import epsilon_array, non_negative, positive, real_array


@dataclass(frozen=True, kw_only=True)
class NormalPLD:
    """N(s^2/2, s^2), the privacy loss of the Gaussian mechanism.

    Parameters
    ----------
    sensitivity_ratio : float > 0, s, sensitivity divided by the noise standard deviation

    Raises
    ------
    ValueError if it is not a finite number > 0.

    References: Balle & Wang 2018, Section 3.
    """

    sensitivity_ratio: float

    def __post_init__(self):
        positive("sensitivity_ratio", self.sensitivity_ratio)

    def log_density(self, loss):
        """log of the density, in 1/nats, at `loss` (array_like, nats), of its shape."""
        s = self.sensitivity_ratio
        return log_normal_density(real_array("loss", loss) / s - s / 2) - np.log(s)

    def log_tail(self, epsilon):
        """log Pr[loss > epsilon], of epsilon's shape; epsilon array_like in nats, any real number."""
        s = self.sensitivity_ratio
        return log_ndtr(s / 2 - epsilon_array(epsilon) / s)

    def log_delta(self, epsilon):
        """log E[1 - e^(epsilon - loss)]_+, of epsilon's shape; epsilon array_like in nats, any real number."""
        return log_delta(epsilon, sensitivity_ratio=self.sensitivity_ratio)


@dataclass(frozen=True, kw_only=True)
class HalfNormalPLD:
    """offset + s^2/2 + |N(0, s^2)|, which dominates the privacy loss of objective perturbation.

    Parameters
    ----------
    sensitivity_ratio : float > 0, s = L / sigma
    offset : float >= 0, nats; -log(1 - beta/lambda) for objective perturbation, 0 for the half-normal mechanism

    Raises
    ------
    ValueError if a parameter is out of range.

    References: Redberg, Koskela, Wang 2023, proof of the hockey-stick theorem.
    """

    sensitivity_ratio: float
    offset: float = 0.0

    def __post_init__(self):
        positive("sensitivity_ratio", self.sensitivity_ratio)
        non_negative("offset", self.offset)

    @property
    def start(self):
        """offset + s^2/2, the start-up gap in nats: the smallest loss there is."""
        return self.offset + self.sensitivity_ratio**2 / 2

    def log_density(self, loss):
        """log of the density, in 1/nats, at `loss` (array_like, nats), of its shape; -inf below `start`."""
        loss, s = real_array("loss", loss), self.sensitivity_ratio
        folded = np.log(2) + log_normal_density((loss - self.start) / s) - np.log(s)
        return np.where(loss >= self.start, folded, -np.inf)[()]

    def log_tail(self, epsilon):
        """log Pr[loss > epsilon], of epsilon's shape; epsilon array_like in nats, any real number."""
        beyond = np.maximum((epsilon_array(epsilon) - self.start) / self.sensitivity_ratio, 0)
        return np.minimum(np.log(2) + log_ndtr(-beyond), 0.0)

    def log_delta(self, epsilon):
        """log E[1 - e^(epsilon - loss)]_+, of epsilon's shape; epsilon array_like in nats, any real number."""
        shifted = epsilon_array(epsilon) - self.offset
        return half_normal_log_delta(shifted, sensitivity_ratio=self.sensitivity_ratio)


def dominating_pld(mechanism):
    """The HalfNormalPLD of an ObjectivePerturbation, for l2_reg > smoothness: its profile is `HockeyStickBound`'s.

    Raises BoundNotApplicable (a ValueError) if l2_reg <= smoothness.
    """
    require_l2_reg_above_smoothness(mechanism)
    offset = -np.log1p(-mechanism.curvature_ratio)
    return HalfNormalPLD(sensitivity_ratio=mechanism.sensitivity_ratio, offset=offset)
