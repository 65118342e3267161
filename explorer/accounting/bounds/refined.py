"""Closed-form dominating privacy losses of objective perturbation, for any l2_reg > 0 and each direction on its own.

Proved here, in units of the noise (sigma = 1), with s = L / sigma and kappa = beta / lambda (notebook 11):

*Reduction.* Z' is Z with one more record x, loss f(x.theta). The minimiser on Z satisfies b = -grad J(theta; Z), and
the noise that gives the same theta on Z' is b - f'(x.theta) x: it differs along x only. Hold the orthogonal part of b
fixed and let u be the coordinate along x. As u grows, x.theta falls at a rate of at most |x| / lambda, so
h(u) = -f'(x.theta(u)) |x| / sigma obeys |h| <= s and 0 <= h' <= kappa. Hence (M(Z), M(Z')) has the divergences of
(T#N, N), where N is the standard normal law and T(u) = u + h(u), averaged over the orthogonal part; and every such T
occurs (one record, one dimension, Z empty). The privacy profile is therefore the worst over these maps T. For a
*monotone* loss, whose f' never changes sign, h keeps one sign.

*Add* is the divergence of M(Z) from M(Z'). The loss at u is u h + h^2/2 - log(1 + h') <= s |u| + s^2/2, since h' >= 0
only helps: the half-normal loss, without beta. For a monotone loss the profile at epsilon >= 0 is the Gaussian's,
H(epsilon; s) (see `explorer.accounting.bounds.tight`). At epsilon < 0 duality,
delta_add(epsilon) = 1 - e^epsilon (1 - delta_remove(-epsilon)), and delta_remove(-epsilon) <= delta_remove(0) =
delta_add(0) <= H(0; s) give the profile of the loss max(0, N(s^2/2, s^2)). It is *not* the Gaussian pair, whose
divergence alpha s^2/2 is exceeded by the h that switches from 0 to s.

*Remove* is the divergence of N from T#N. With R = T^-1, r = R - id non-increasing and R' >= 1/(1 + kappa), the loss at
y is at most log(1 + kappa) + log phi(y) - log phi(R(y)). Let R vanish at y0 and rho = r(y0): R increases and r does
not, so |R(y)| <= |y + rho| on both sides of y0, and what is left is the loss of a shift by |rho| <= s:
log(1 + kappa) + N(s^2/2, s^2).

*Renyi, linearised, add.* h(0) is fixed by the orthogonal part, |h(0)| <= s and |h(u) - h(0)| <= kappa |u|, so the loss
is at most s^2/2 + h(0) u + kappa u^2, whose moment of order alpha - 1 is a Gaussian integral.
"""

import numpy as np
from scipy.special import log_ndtr, ndtr

from explorer.accounting.bounds.gaussian import half_normal_log_delta, log_delta
from explorer.accounting.bounds.renyi import half_normal_rdp, linearised_add_rdp, normal_rdp
from explorer.accounting.logspace import from_either_side, log1mexp
from explorer.accounting.mechanisms import ObjectivePerturbation
from explorer.accounting.protocol import ProfileBound
from explorer.validation import epsilon_array, instance, order_array, positive

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def monotone_log_delta(epsilon, *, sensitivity_ratio):
    """Log of the profile of the loss max(0, N(s^2/2, s^2)), which dominates "add" for monotone losses.

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


def dual_log_delta(epsilon, log_delta_reversed):
    """log(1 - e^epsilon (1 - delta_reversed)) for epsilon <= 0, elementwise.

    The profile of (P, Q) at epsilon in terms of delta_reversed, that of (Q, P) at -epsilon; exact near 0 and near 1.
    """
    with np.errstate(invalid="ignore"):
        complement = epsilon + log1mexp(log_delta_reversed)
        direct = np.logaddexp(log1mexp(epsilon), epsilon + log_delta_reversed)
    return from_either_side(direct, complement)


def monotone_rdp(alpha, *, sensitivity_ratio):
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
        is_near = excess * (s + s * s) < 0.5  # the far form is exact once the moment is well above 1
    return np.where(is_near, near, np.where(np.isposinf(alpha), np.inf, far))[()]


def remove_rdp(alpha, *, sensitivity_ratio, curvature_ratio):
    """log(1 + kappa) + alpha s^2/2: "remove". Parameters, returns and errors as for `linearised_add_rdp`."""
    return np.log1p(curvature_ratio) + normal_rdp(alpha, sensitivity_ratio=sensitivity_ratio)


class DirectionalBound(ProfileBound):
    """Completes a class that defines `log_delta_add(epsilon)` and `log_delta_remove(epsilon)` to a `PrivacyBound`.

    "add" is the divergence of M(Z) from M(Z'), "remove" that of M(Z') from M(Z), where Z' has one record more. Both
    are meant for every real epsilon, so a privacy loss distribution can be built from each.

    Parameters
    ----------
    mechanism : ObjectivePerturbation, with any l2_reg > 0

    Raises
    ------
    TypeError for another mechanism; ValueError if s = L / sigma or kappa = beta / lambda is not a finite float > 0.
    """

    def __init__(self, mechanism):
        self.mechanism = instance("mechanism", mechanism, ObjectivePerturbation)
        positive("sensitivity_ratio", mechanism.sensitivity_ratio)
        positive("curvature_ratio", mechanism.curvature_ratio)

    @property
    def _s(self):
        return self.mechanism.sensitivity_ratio

    @property
    def _kappa(self):
        return self.mechanism.curvature_ratio

    def log_delta(self, epsilon):
        """Log delta, of epsilon's shape: the larger of both directions, at any real epsilon (nats)."""
        return np.maximum(self.log_delta_add(epsilon), self.log_delta_remove(epsilon))


class RefinedBound(DirectionalBound):
    """Closed-form privacy loss of each direction: valid for composition, subsampling and Renyi divergences too.

    - add: s^2/2 + |N(0, s^2)|, or max(0, N(s^2/2, s^2)) for a monotone loss;
    - remove: log(1 + kappa) + N(s^2/2, s^2).

    Below the paper's hockey-stick bound wherever that one exists, and defined for every l2_reg > 0. The proof is in
    this module's docstring.

    Parameters
    ----------
    mechanism : ObjectivePerturbation; its `monotone_loss` selects the smaller "add"

    Raises
    ------
    TypeError for another mechanism.
    """

    def log_delta_add(self, epsilon):
        """Log of the profile of the "add" loss, of epsilon's shape; any real epsilon, nats."""
        profile = monotone_log_delta if self.mechanism.monotone_loss else half_normal_log_delta
        return profile(epsilon, sensitivity_ratio=self._s)

    def log_delta_remove(self, epsilon):
        """log H(epsilon - log(1 + kappa); s), the profile of the "remove" loss; any real epsilon, nats."""
        return log_delta(epsilon_array(epsilon) - np.log1p(self._kappa), sensitivity_ratio=self._s)

    def rdp_add(self, alpha):
        """Renyi divergence of order alpha (>= 1) in the "add" direction: its loss's, or linearised where smaller."""
        own = monotone_rdp if self.mechanism.monotone_loss else half_normal_rdp
        linearised = linearised_add_rdp(alpha, sensitivity_ratio=self._s, curvature_ratio=self._kappa)
        return np.minimum(own(alpha, sensitivity_ratio=self._s), linearised)

    def rdp_remove(self, alpha):
        """Renyi divergence of order alpha (>= 1) in the "remove" direction: log(1 + kappa) + alpha s^2/2."""
        return remove_rdp(alpha, sensitivity_ratio=self._s, curvature_ratio=self._kappa)

    def rdp(self, alpha):
        """Renyi divergence of order alpha, of alpha's shape, nats: the larger of both directions.

        At alpha = 1 the Kullback-Leibler limit, at infinity infinity. Raises ValueError for alpha < 1.
        """
        return np.maximum(self.rdp_add(alpha), self.rdp_remove(alpha))
