"""The bound of Kifer, Smith & Thakurta 2012, the first for objective perturbation with Gaussian noise."""

import numpy as np
from numpy.typing import ArrayLike

from explorer.accounting.mechanisms import ObjectivePerturbation
from explorer.accounting.protocol import ProfileBound
from explorer.accounting.types import FloatArray
from explorer.validation import epsilon_array, instance


class KiferBound(ProfileBound):
    """(epsilon, delta)-DP when l2_reg >= 2 beta / epsilon and sigma >= L sqrt(8 log(2/delta) + 4 epsilon) / epsilon.

    As a privacy profile, with r = sigma / L: delta(epsilon) = min(1, 2 exp(-((epsilon r)^2 - 4 epsilon) / 8)) for
    epsilon >= 2 beta / lambda, and 1 (no guarantee) below.

    Parameters
    ----------
    mechanism : ObjectivePerturbation

    Raises
    ------
    TypeError for another mechanism.

    References: Kifer, Smith & Thakurta 2012, Theorem 2.
    """

    def __init__(self, mechanism: ObjectivePerturbation) -> None:
        self.mechanism = instance("mechanism", mechanism, ObjectivePerturbation)

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Log of the profile above, of epsilon's shape; epsilon array_like in nats, any real number."""
        epsilon = epsilon_array(epsilon)
        m = self.mechanism
        with np.errstate(over="ignore", invalid="ignore"):
            tail = np.log(2) - epsilon * (epsilon / m.sensitivity_ratio**2 - 4) / 8
            return np.where(m.l2_reg * epsilon >= 2 * m.smoothness, np.minimum(tail, 0), 0.0)[()]
