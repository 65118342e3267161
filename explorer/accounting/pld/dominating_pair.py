"""The privacy loss distributions of the Gaussian and of the half-normal mechanism in closed form.

The privacy loss of a pair (P, Q) is log dP/dQ under P. Its density determines the profile
delta(epsilon) = E[1 - e^(epsilon - privacy loss)]_+, to which only privacy losses above epsilon contribute.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from explorer.accounting.bounds.gaussian import half_normal_log_delta, log_delta
from explorer.accounting.logspace import log_normal_density
from explorer.accounting.mechanisms import ObjectivePerturbation
from explorer.accounting.protocol import require_l2_reg_above_smoothness
from explorer.accounting.types import FloatArray
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

    def __post_init__(self) -> None:
        positive("sensitivity_ratio", self.sensitivity_ratio)

    def log_density(self, privacy_loss: ArrayLike) -> FloatArray:
        """log of the density, in 1/nats, at `privacy_loss` (array_like, nats), of its shape."""
        s = self.sensitivity_ratio
        return log_normal_density(real_array("privacy_loss", privacy_loss) / s - s / 2) - np.log(s)

    def log_tail(self, epsilon: ArrayLike) -> FloatArray:
        """log Pr[privacy loss > epsilon], of epsilon's shape; epsilon array_like in nats, any real number."""
        s = self.sensitivity_ratio
        return log_ndtr(s / 2 - epsilon_array(epsilon) / s)

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """log E[1 - e^(epsilon - privacy loss)]_+, of epsilon's shape; epsilon array_like in nats, any real number."""
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

    References: Redberg, Koskela & Wang 2023, proof of the hockey-stick theorem.
    """

    sensitivity_ratio: float
    offset: float = 0.0

    def __post_init__(self) -> None:
        positive("sensitivity_ratio", self.sensitivity_ratio)
        non_negative("offset", self.offset)

    @property
    def start(self) -> float:
        """offset + s^2/2, the smallest privacy loss, nats."""
        return self.offset + self.sensitivity_ratio**2 / 2

    def log_density(self, privacy_loss: ArrayLike) -> FloatArray:
        """log of the density, in 1/nats, at `privacy_loss` (array_like, nats), of its shape; -inf below `start`."""
        x, s = real_array("privacy_loss", privacy_loss), self.sensitivity_ratio
        folded = np.log(2) + log_normal_density((x - self.start) / s) - np.log(s)
        return np.where(x >= self.start, folded, -np.inf)[()]

    def log_tail(self, epsilon: ArrayLike) -> FloatArray:
        """log Pr[privacy loss > epsilon], of epsilon's shape; epsilon array_like in nats, any real number."""
        beyond = np.maximum((epsilon_array(epsilon) - self.start) / self.sensitivity_ratio, 0)
        return np.minimum(np.log(2) + log_ndtr(-beyond), 0.0)

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """log E[1 - e^(epsilon - privacy loss)]_+, of epsilon's shape; epsilon array_like in nats, any real number."""
        shifted = epsilon_array(epsilon) - self.offset
        return half_normal_log_delta(shifted, sensitivity_ratio=self.sensitivity_ratio)


def dominating_pld(mechanism: ObjectivePerturbation) -> HalfNormalPLD:
    """The HalfNormalPLD of an ObjectivePerturbation, for l2_reg > smoothness, with the profile of `HockeyStickBound`.

    Raises BoundNotApplicable (a ValueError) if l2_reg <= smoothness.
    """
    require_l2_reg_above_smoothness(mechanism)
    offset = -np.log1p(-mechanism.curvature_ratio)
    return HalfNormalPLD(sensitivity_ratio=mechanism.sensitivity_ratio, offset=float(offset))
