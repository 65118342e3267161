"""The exact privacy profile of objective perturbation in the direction "add", by the maps that attain it.

In units of the noise (sigma = 1), with s = L / sigma, kappa = beta / lambda, gamma = e^epsilon >= 1,
F(b, h) = Phi(-b) - gamma Phi(-b-h) and b*(h) = epsilon/h - h/2, so that F(b*(h), h) = max_b F(b, h) = H(epsilon; h),
the Gaussian's profile: by the reduction of `explorer.accounting.bounds.refined` the profile is the supremum, over maps
T = id + h with |h| <= s and 0 <= h' <= kappa (h of one sign for monotone losses), of the integral of
[phi(u) - gamma phi(u+h)(1+h')]_+. Complete proofs are in docs/mathematics; what is computed here:

To the right of a zero c of h an optimal control is: h rises at the largest slope kappa from c to some b and is constant
from there on, where the integrand is positive; its value is R(c) = max_{b>=c} F(b, min(s, kappa (b-c))). It is optimal
since W(u, h) = max_{b>=u} F(b, min(s, h + kappa (b-u))) satisfies W_u + v W_h + gain(v) <= 0 for every slope v in
[0, kappa]: with q = log phi(u)/(gamma phi(u+h)), the gain at slope 0, phi(u)(1 - e^-q), increases along the ramp as
long as q <= log(1+kappa), which holds up to the optimal b, so that a constant piece there is better than an earlier
one. The left side is the mirror image, R(-c). So delta = max(H(epsilon; s), sup_c R(c) + R(-c)), attained; for one sign
it is H(epsilon; s), attained by the constant h = s.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from explorer.accounting.bounds.gaussian import log_delta
from explorer.accounting.bounds.sign_change import sign_change
from explorer.accounting.logspace import (
    log1mexp,
    log_from_complement,
    log_mills_difference,
    log_normal_density,
    mills_ratio,
)
from explorer.accounting.types import FloatArray

Control: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]  # (b, h, q), see `add_controls`


def add_log_delta(
    epsilon: ArrayLike, *, sensitivity_ratio: float, curvature_ratio: float, monotone: bool = False
) -> FloatArray:
    """Log of max(H(epsilon; s), sup_{c>=0} R(c) + R(-c)): "add" exactly, epsilon >= 0; log H(epsilon; s) for
    monotone losses.

    On the right of c the optimal control either saturates, h = s, at b = max(b*(s), c + s/kappa), or ends its ramp at b
    = c + v, where v > 0 solves kappa (2+kappa) v^2 + 2 kappa c v = 2 (epsilon + log(1+kappa)). Where both sides end
    their ramps below s, or both saturate, the derivative dR(c)/dc shows that the sum increases with c, or decreases
    from c = 0; hence the supremum is at c = 0 or where the side of -c saturates and that of c does not, see
    `_saturation`.

    Parameters
    ----------
    epsilon : array_like, any shape, finite and >= 0, nats
    sensitivity_ratio, curvature_ratio : floats > 0, s = L / sigma and kappa = beta / lambda
    monotone : bool, whether f' keeps one sign

    Returns
    -------
    ndarray of epsilon's shape, natural log of delta
    """
    s, kappa = sensitivity_ratio, curvature_ratio
    epsilon = np.asarray(epsilon, float)
    if monotone:
        return log_delta(epsilon, sensitivity_ratio=s)
    centred, off_centre = add_controls(epsilon, sensitivity_ratio=s, curvature_ratio=kappa)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        both = _log_sum(epsilon, *centred[1:])
        asymmetric = _log_sum(epsilon, *off_centre[1:])
    both = np.maximum(both, np.where(epsilon / s - s / 2 < s / kappa, asymmetric, -np.inf))
    return np.maximum(both, log_delta(epsilon, sensitivity_ratio=s))


def add_controls(
    epsilon: ArrayLike, *, sensitivity_ratio: float, curvature_ratio: float
) -> tuple[tuple[FloatArray, Control, Control], tuple[FloatArray, Control, Control]]:
    """The two controls that, besides the constant h = s, `add_log_delta` takes its supremum over.

    Parameters as for `add_log_delta`.

    Returns
    -------
    two triples (zero, left, right): the point where h is 0, which is 0 in the first triple and not in the second (of
    use only where b*(s) < s/kappa), and the controls on its two sides. A side is a triple (b, h, q) of ndarrays of
    epsilon's shape: from the zero on |h| rises at slope kappa to the value h, and the integrand is positive from b on,
    which on the left is -u; q = log phi(b)/(gamma phi(b+h)) there.
    """
    s, kappa = sensitivity_ratio, curvature_ratio
    epsilon = np.asarray(epsilon, float)
    onset = epsilon / s - s / 2  # b*(s)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        centred = _best_control(np.zeros_like(epsilon), epsilon, onset, s, kappa)
        q = _saturation(epsilon, onset, s, kappa)
        right = onset + q / s
        c = np.maximum(s / kappa - right, 0)
        left = _best_control(c, epsilon, onset, s, kappa)
    return (np.zeros_like(c), centred, centred), (-c, left, (right, np.full_like(right, s), q))


def _ramp_length(c: FloatArray, epsilon: FloatArray, kappa: float) -> FloatArray:
    """The positive root v of kappa (2+kappa) v^2 + 2 kappa c v = 2 (epsilon + log(1+kappa))."""
    energy = 2 * (epsilon + np.log1p(kappa))
    return energy / (kappa * c + np.sqrt(np.square(kappa * c) + kappa * (2 + kappa) * energy))


def _best_control(c: FloatArray, epsilon: FloatArray, onset: FloatArray, s: float, kappa: float) -> Control:
    """(b, h, q) that attain R(c), c >= 0: from b on the shift is h, and q = log phi(b)/(gamma phi(b+h))."""
    ramp = _ramp_length(c, epsilon, kappa)
    saturated = np.maximum(onset, c + s / kappa)
    stops = ramp < s / kappa
    return (
        np.where(stops, c + ramp, saturated),
        np.where(stops, kappa * ramp, s),
        np.where(stops, np.log1p(kappa), s * (saturated - onset)),
    )


def _saturation(epsilon: FloatArray, onset: FloatArray, s: float, kappa: float) -> FloatArray:
    """q at the end b2 = b*(s) + q/s of the saturating ramp from -c, c = s/kappa - b2, of the best pair of sides.

    There d/dc [R(c) + R(-c)] = A - B with A = phi(b2)(1 - e^-q) and B = kappa' phi(b1), b1 = c + v. log(A/B) is
    concave in c (its derivative is b2 - s/(e^q - 1) + b1 b1', every term of which falls in c) and ends at -inf for
    q = 0, so the maximum is its last zero. Without a zero the sum decreases in c, and any result is a valid c.
    """
    centred = s * (s / kappa - onset)  # q at c = 0
    most = np.maximum(np.minimum(np.log1p(kappa), 2 * centred - np.log1p(kappa)), 1e-300)

    def ends(q: FloatArray) -> Control:
        b2 = onset + q / s
        c = s / kappa - b2
        return b2, c, _ramp_length(c, epsilon, kappa)

    def rise(log_q: FloatArray) -> FloatArray:  # in q, of log(A/B), as a difference of logarithms
        b2, c, v = ends(np.exp(log_q))
        return np.log(s / np.expm1(np.exp(log_q))) - np.log(b2 + c + (1 + kappa) * v * v / (c + (2 + kappa) * v))

    def below(log_q: FloatArray) -> FloatArray:  # log(B/A)
        b2, c, v = ends(np.exp(log_q))
        return -np.log(-np.expm1(-np.exp(log_q))) - np.log1p(1 / kappa) - (c + v - b2) * (c + v + b2) / 2

    _, top = sign_change(rise, np.log(most) - 80, np.log(most))
    return np.exp(sign_change(below, top - 80, top)[1])


def _log_sum(epsilon: FloatArray, left: Control, right: Control) -> FloatArray:
    """log(F(b1, h1) + F(b2, h2)), the two sides of c; from the complement, a sum of positive terms, if that is less."""
    (b1, h1, _), (b2, h2, _) = left, right
    direct = np.logaddexp(_log_gain(*left), _log_gain(*right))
    between = log_ndtr(b1) + log1mexp(np.minimum(log_ndtr(-b2) - log_ndtr(b1), 0))
    complement = np.logaddexp(between, epsilon + np.logaddexp(log_ndtr(-b1 - h1), log_ndtr(-b2 - h2)))
    return log_from_complement(direct, complement)


def _log_gain(b: FloatArray, h: FloatArray, q: FloatArray) -> FloatArray:
    """log F(b, h) for q >= 0, b >= -30: phi(b) [m(b) - m(b+h) + (1 - e^-q) m(b+h)], without cancellation."""
    rest = log1mexp(-q) + np.log(mills_ratio(b + h))
    return log_normal_density(b) + np.logaddexp(log_mills_difference(np.maximum(b, -30), h), rest)
