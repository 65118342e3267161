"""Dominating privacy losses of objective perturbation in closed form, for any l2_reg > 0 and each direction separately.

The proof, in units of the noise (sigma = 1), with s = L / sigma and kappa = beta / lambda (see also notebook 11):

*Reduction.* Z' is Z with one more record x, loss f(x.theta). The minimiser on Z satisfies b = -grad J(theta; Z), and
the noise that gives the same theta on Z' is b - f'(x.theta) x: the two differ along x only. Fix the component of b
orthogonal to x and let u be its coordinate along x. As u grows, x.theta falls at a rate of at most |x| / lambda, so
h(u) = -f'(x.theta(u)) |x| / sigma obeys |h| <= s and 0 <= h' <= kappa. Hence (M(Z), M(Z')) has the divergences of
(T#N, N), where N is the standard normal distribution and T(u) = u + h(u), averaged over the orthogonal component; and
every such T occurs (one record, one dimension, Z empty). The privacy profile is therefore the supremum over these maps
T. For a *monotone* loss, whose f' never changes sign, h has one sign.

*Add* is the divergence of M(Z) from M(Z'). The privacy loss at u is u h + h^2/2 - log(1 + h') <= s |u| + s^2/2, since
h' >= 0 only reduces it: the half-normal privacy loss, which does not depend on beta. For a monotone loss the profile at
epsilon >= 0 is the Gaussian's, H(epsilon; s) (see `explorer.accounting.bounds.exact_add`). At epsilon < 0 duality,
delta_add(epsilon) = 1 - e^epsilon (1 - delta_remove(-epsilon)), and delta_remove(-epsilon) <= delta_remove(0) =
delta_add(0) <= H(0; s) give the profile of the privacy loss max(0, N(s^2/2, s^2)). It is *not* the Gaussian pair, whose
divergence alpha s^2/2 is exceeded by the h that switches from 0 to s.

*Remove* is the divergence of N from T#N. With R = T^-1, r = R - id non-increasing and R' >= 1/(1 + kappa), the
privacy loss at y is at most log(1 + kappa) + log phi(y) - log phi(R(y)). Let R(y0) = 0 and rho = r(y0): R is
increasing and r non-increasing, so |R(y)| <= |y + rho| on both sides of y0, and the remaining terms are at most the
privacy loss of a shift by |rho| <= s, which gives log(1 + kappa) + N(s^2/2, s^2).

*Renyi, linearised, add.* h(0) depends on the orthogonal component alone, |h(0)| <= s and |h(u) - h(0)| <= kappa |u|, so
the privacy loss is at most s^2/2 + h(0) u + kappa u^2, whose moment of order alpha - 1 is a Gaussian integral.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr

from explorer.accounting.bounds.gaussian import half_normal_log_delta, log_delta
from explorer.accounting.bounds.renyi import half_normal_rdp, linearised_add_rdp, normal_rdp
from explorer.accounting.logspace import log1mexp, log_from_complement
from explorer.accounting.mechanisms import ObjectivePerturbation
from explorer.accounting.protocol import ProfileBound
from explorer.accounting.types import FloatArray
from explorer.validation import epsilon_array, instance, order_array, positive

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def monotone_log_delta(epsilon: ArrayLike, *, sensitivity_ratio: float) -> FloatArray:
    """Log of the profile of the privacy loss max(0, N(s^2/2, s^2)), which dominates "add" for monotone losses.

    delta = H(epsilon; s) for epsilon >= 0 and 1 - e^epsilon (1 - H(0; s)) for epsilon < 0.

    Parameters
    ----------
    epsilon : array_like, any shape, any real number, nats
    sensitivity_ratio : float > 0, s = L / sigma

    Returns
    -------
    ndarray of epsilon's shape, natural log of delta
    """
    epsilon = epsilon_array(epsilon)
    gaussian = log_delta(np.maximum(epsilon, 0), sensitivity_ratio=sensitivity_ratio)
    below = dual_log_delta(np.minimum(epsilon, 0), log_delta(0.0, sensitivity_ratio=sensitivity_ratio))
    return np.where(epsilon < 0, below, gaussian)[()]


def dual_log_delta(epsilon: ArrayLike, log_delta_reversed: ArrayLike) -> FloatArray:
    """log(1 - e^epsilon (1 - delta_reversed)) for epsilon <= 0, elementwise.

    The profile of (P, Q) at epsilon from delta_reversed, the profile of (Q, P) at -epsilon; accurate near 0 and near 1.
    """
    epsilon, log_delta_reversed = np.asarray(epsilon, float), np.asarray(log_delta_reversed, float)
    with np.errstate(invalid="ignore"):
        complement = epsilon + log1mexp(log_delta_reversed)
        direct = np.logaddexp(log1mexp(epsilon), epsilon + log_delta_reversed)
    return log_from_complement(direct, complement)


def monotone_rdp(alpha: ArrayLike, *, sensitivity_ratio: float) -> FloatArray:
    """log E e^((alpha-1) w) / (alpha-1) for w = max(0, N(s^2/2, s^2)): "add" for monotone losses.

    The moment is Phi(-s/2) + e^(alpha (alpha-1) s^2/2) Phi((alpha - 1/2) s). Near alpha = 1, where it is nearly 1, its
    excess over 1 is expm1(alpha (alpha-1) s^2/2) Phi((alpha - 1/2) s) plus the mass of [s/2, (alpha - 1/2) s]; the
    limit at alpha = 1 is s^2/2 Phi(s/2) + s phi(s/2).

    Parameters
    ----------
    alpha : array_like, any shape, >= 1
    sensitivity_ratio : float > 0, s = L / sigma

    Returns
    -------
    ndarray of alpha's shape, nats; infinity at alpha = infinity

    Raises
    ------
    ValueError for alpha < 1.
    """
    s, alpha = sensitivity_ratio, order_array(alpha)
    excess = np.asarray(alpha - 1)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        step, small = np.minimum(excess * s, 0.5), np.minimum(excess, 0.5 / s)
        nodes = s / 2 + step[..., None] * (1 + _NODES) / 2
        # (1/excess) of each part of the moment's excess over 1, finite at excess = 0
        mass = np.exp(-np.square(nodes) / 2) @ _WEIGHTS * s / 2 / np.sqrt(2 * np.pi)
        exponent = (1 + small) * s * s / 2
        growth = np.where(small > 0, np.expm1(small * exponent) / small, exponent) * ndtr(s / 2 + step)
        total = growth + mass
        near = np.where(small * total > 0, np.log1p(small * total) / small, total)
        far = np.logaddexp(log_ndtr(-s / 2), alpha * excess * s * s / 2 + log_ndtr((alpha - 0.5) * s)) / excess
        is_near = excess * (s + s * s) < 0.5  # the other form is accurate once the moment is well above 1
    return np.where(is_near, near, np.where(np.isposinf(alpha), np.inf, far))[()]


def remove_rdp(alpha: ArrayLike, *, sensitivity_ratio: float, curvature_ratio: float) -> FloatArray:
    """log(1 + kappa) + alpha s^2/2: "remove". Parameters, returns and errors as for `linearised_add_rdp`."""
    return np.log1p(curvature_ratio) + normal_rdp(alpha, sensitivity_ratio=sensitivity_ratio)


class DirectionalBound(ProfileBound):
    """Base class of bounds that define `log_delta_add(epsilon)` and `log_delta_remove(epsilon)`.

    "add" is the divergence of M(Z) from M(Z'), "remove" that of M(Z') from M(Z), where Z' has one record more. Both
    hold at every real epsilon, so a privacy loss distribution can be built from each.

    Parameters
    ----------
    mechanism : ObjectivePerturbation, with any l2_reg > 0

    Raises
    ------
    TypeError for another mechanism; ValueError if s = L / sigma or kappa = beta / lambda is not a finite float > 0.
    """

    def __init__(self, mechanism: ObjectivePerturbation) -> None:
        self.mechanism = instance("mechanism", mechanism, ObjectivePerturbation)
        positive("sensitivity_ratio", mechanism.sensitivity_ratio)
        positive("curvature_ratio", mechanism.curvature_ratio)

    @property
    def _s(self) -> float:
        return self.mechanism.sensitivity_ratio

    @property
    def _kappa(self) -> float:
        return self.mechanism.curvature_ratio

    def log_delta_add(self, epsilon: ArrayLike) -> FloatArray:
        """Log of the "add" profile, of epsilon's shape; any real epsilon, nats."""
        raise NotImplementedError

    def log_delta_remove(self, epsilon: ArrayLike) -> FloatArray:
        """Log of the "remove" profile, of epsilon's shape; any real epsilon, nats."""
        raise NotImplementedError

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Log delta, of epsilon's shape: the larger of both directions, at any real epsilon (nats)."""
        return np.maximum(self.log_delta_add(epsilon), self.log_delta_remove(epsilon))


class RefinedBound(DirectionalBound):
    """Bound by a dominating privacy loss in closed form for each direction, for composition and subsampling too.

    - add: s^2/2 + |N(0, s^2)|, or max(0, N(s^2/2, s^2)) for a monotone loss;
    - remove: log(1 + kappa) + N(s^2/2, s^2).

    It is below `HockeyStickBound` wherever that is defined, and it needs only l2_reg > 0. The docstring of this module
    has the proof.

    Parameters
    ----------
    mechanism : ObjectivePerturbation; its `monotone_loss` selects the smaller "add"

    Raises
    ------
    TypeError for another mechanism.

    Examples
    --------
    >>> from explorer.accounting import ObjectivePerturbation, RefinedBound
    >>> mechanism = ObjectivePerturbation(noise_std=5, l2_reg=0.5, lipschitz=1, smoothness=1)
    >>> round(float(RefinedBound(mechanism).epsilon(1e-5)), 4)
    1.8241
    """

    def log_delta_add(self, epsilon: ArrayLike) -> FloatArray:
        """Log of the profile of the "add" privacy loss, of epsilon's shape; any real epsilon, nats."""
        profile = monotone_log_delta if self.mechanism.monotone_loss else half_normal_log_delta
        return profile(epsilon, sensitivity_ratio=self._s)

    def log_delta_remove(self, epsilon: ArrayLike) -> FloatArray:
        """log H(epsilon - log(1 + kappa); s), the "remove" profile, of epsilon's shape; any real epsilon, nats."""
        return log_delta(epsilon_array(epsilon) - np.log1p(self._kappa), sensitivity_ratio=self._s)

    def rdp_add(self, alpha: ArrayLike) -> FloatArray:
        """Renyi divergence of order alpha (>= 1) in the "add" direction: the smaller of closed form and linearised."""
        own = monotone_rdp if self.mechanism.monotone_loss else half_normal_rdp
        linearised = linearised_add_rdp(alpha, sensitivity_ratio=self._s, curvature_ratio=self._kappa)
        return np.minimum(own(alpha, sensitivity_ratio=self._s), linearised)

    def rdp_remove(self, alpha: ArrayLike) -> FloatArray:
        """Renyi divergence of order alpha (>= 1) in the "remove" direction: log(1 + kappa) + alpha s^2/2."""
        return remove_rdp(alpha, sensitivity_ratio=self._s, curvature_ratio=self._kappa)

    def rdp(self, alpha: ArrayLike) -> FloatArray:
        """Renyi divergence of order alpha, of alpha's shape, nats: the larger of both directions.

        At alpha = 1 it is the Kullback-Leibler divergence, at alpha = infinity it is infinite. Raises ValueError for
        alpha < 1.
        """
        return np.maximum(self.rdp_add(alpha), self.rdp_remove(alpha))
