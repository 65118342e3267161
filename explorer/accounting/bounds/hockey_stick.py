"""The hockey-stick bound of Redberg, Koskela & Wang 2023, in its corrected form."""

import numpy as np
from numpy.typing import ArrayLike

from explorer.accounting.bounds.gaussian import half_normal_log_delta
from explorer.accounting.mechanisms import ObjectivePerturbation
from explorer.accounting.protocol import ProfileBound, require_l2_reg_above_smoothness
from explorer.accounting.types import FloatArray
from explorer.validation import epsilon_array, instance


class HockeyStickBound(ProfileBound):
    """Approximate DP of objective perturbation through its dominating privacy loss, for l2_reg > smoothness.

    With kappa = beta / lambda and s = L / sigma the privacy loss is dominated by -log(1 - kappa) + s^2/2 + |N(0, s^2)|,
    so delta(epsilon) is the half-normal mechanism's at epsilon + log(1 - kappa): with e = epsilon + log(1-kappa) -
    s^2/2,

        2 H(epsilon + log(1 - kappa); s)              where e >= 0
        1 - e^e (1 - 2 H(s^2/2; s))                   where e < 0

    The theorem as printed *adds* -log(1 - kappa) to epsilon where its proof subtracts it, and has e^(L^2/sigma^2) for
    e^(L^2/(2 sigma^2)) in the second case; taken literally it is below the Gaussian lower bound.

    Parameters
    ----------
    mechanism : ObjectivePerturbation

    Raises
    ------
    BoundNotApplicable (a ValueError) if l2_reg <= smoothness; TypeError for another mechanism.

    Examples
    --------
    >>> from explorer.accounting import HockeyStickBound, ObjectivePerturbation
    >>> mechanism = ObjectivePerturbation(noise_std=5, l2_reg=20, lipschitz=1, smoothness=1)
    >>> round(float(HockeyStickBound(mechanism).epsilon(1e-5)), 4)
    0.8109

    References: Redberg, Koskela & Wang 2023, hockey-stick theorem (corrected).
    """

    def __init__(self, mechanism: ObjectivePerturbation) -> None:
        self.mechanism = instance("mechanism", mechanism, ObjectivePerturbation)
        require_l2_reg_above_smoothness(mechanism)

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Log of the profile above, of epsilon's shape; epsilon array_like in nats, any real number."""
        shifted = epsilon_array(epsilon) + np.log1p(-self.mechanism.curvature_ratio)
        return half_normal_log_delta(shifted, sensitivity_ratio=self.mechanism.sensitivity_ratio)
