"""The exact privacy profile of the Gaussian mechanism: a lower bound for objective perturbation, by a linear loss."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, log_ndtr

from explorer.accounting.logspace import log1mexp, log_from_complement, log_mills_difference, log_normal_density
from explorer.accounting.mechanisms import Gaussian, ObjectivePerturbation
from explorer.accounting.protocol import ProfileBound
from explorer.accounting.types import FloatArray
from explorer.validation import epsilon_array, instance, positive


def log_delta(epsilon: ArrayLike, *, sensitivity_ratio: float) -> FloatArray:
    """Log of the privacy profile of the Gaussian mechanism, exact for every real epsilon.

    H(epsilon; s) = Phi(s/2 - epsilon/s) - e^epsilon Phi(-s/2 - epsilon/s), with s = sensitivity / noise_std.

    Parameters
    ----------
    epsilon : array_like, any shape, nats
    sensitivity_ratio : float > 0, l2 sensitivity divided by the noise standard deviation

    Returns
    -------
    ndarray, shape of epsilon; natural log of delta, finite wherever log delta is within the floating-point range

    Raises
    ------
    ValueError if epsilon is not numeric or sensitivity_ratio is not a finite number > 0.

    References: Balle & Wang 2018, Theorem 8.
    """
    epsilon = epsilon_array(epsilon)
    e = np.abs(epsilon)
    direct, complement = _log_profile_and_complement(e, positive("sensitivity_ratio", sensitivity_ratio))
    # H(-e) = 1 - e^-e (1 - H(e)) = (1 - e^-e) + e^-e H(e): positive terms only, like H itself for e >= 0.
    with np.errstate(invalid="ignore"):
        mirrored = log_from_complement(np.logaddexp(log1mexp(-e), direct - e), complement - e)
    return np.where(epsilon < 0, mirrored, log_from_complement(direct, complement))[()]


def half_normal_log_delta(epsilon: ArrayLike, *, sensitivity_ratio: float) -> FloatArray:
    """Log of the profile of the privacy loss s^2/2 + |N(0, s^2)|, the half-normal mechanism, at every real epsilon.

    For epsilon >= s^2/2 it is 2 H(epsilon; s); below, every privacy loss exceeds epsilon and
    delta = 1 - E[e^(epsilon - privacy loss)] = 1 - 2 e^epsilon Phi(-s).

    Parameters, returns and errors as for `log_delta`.

    References: Redberg, Koskela & Wang 2023, proof of the hockey-stick theorem.
    """
    epsilon = epsilon_array(epsilon)
    s = positive("sensitivity_ratio", sensitivity_ratio)
    direct, _ = _log_profile_and_complement(np.maximum(epsilon, s * s / 2), s)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        near, far = epsilon / s - s / 2, epsilon / s + s / 2
        # 1 - 2 H = (2 Phi(near) - 1) + 2 e^epsilon Phi(-far)
        complement = np.logaddexp(np.log(erf(np.maximum(near, 0) / np.sqrt(2))), np.log(2) + epsilon + log_ndtr(-far))
        # 1 - 2 e^epsilon Phi(-s), which near 0 is exact as (1 - e^epsilon) + e^epsilon erf(s / sqrt 2) only
        half_mass = np.log(2) + epsilon + log_ndtr(-s)
        small = np.log(-np.expm1(epsilon) + np.exp(epsilon) * erf(s / np.sqrt(2)))
        below = np.where(half_mass > -np.log(2), small, log1mexp(np.minimum(half_mass, 0)))
    return np.where(near < 0, below, log_from_complement(np.log(2) + direct, complement))[()]


def _log_profile_and_complement(epsilon: FloatArray, s: float) -> tuple[FloatArray, FloatArray]:
    """log H and log(1 - H) for epsilon >= 0; the first is accurate while H < 1/2, the second while 1 - H < 1/2."""
    with np.errstate(over="ignore", invalid="ignore"):
        near, far = epsilon / s - s / 2, epsilon / s + s / 2  # e^epsilon phi(far) = phi(near)
        direct = log_normal_density(near) + log_mills_difference(np.maximum(near, -30), s)
        complement = np.logaddexp(log_ndtr(near), epsilon + log_ndtr(-far))
    return direct, complement


class GaussianLowerBound(ProfileBound):
    """Privacy profile of the Gaussian mechanism with the same s.

    It is exact for `Gaussian`, and a lower bound on every valid bound for `ObjectivePerturbation`, which with a linear
    loss is this Gaussian mechanism. It is *not* a guarantee for objective perturbation.

    Parameters
    ----------
    mechanism : ObjectivePerturbation or Gaussian

    Raises
    ------
    TypeError for another mechanism.

    Examples
    --------
    >>> from explorer.accounting import Gaussian, GaussianLowerBound
    >>> bound = GaussianLowerBound(Gaussian(noise_std=4.0))
    >>> round(float(bound.epsilon(1e-5)), 4)
    0.9263

    References: Balle & Wang 2018, Theorem 8; Redberg, Koskela & Wang 2023, Section 3.
    """

    def __init__(self, mechanism: ObjectivePerturbation | Gaussian) -> None:
        self.mechanism = instance("mechanism", mechanism, (ObjectivePerturbation, Gaussian))

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """log H(epsilon; s), of epsilon's shape; see `log_delta` of this module."""
        return log_delta(epsilon, sensitivity_ratio=self.mechanism.sensitivity_ratio)
