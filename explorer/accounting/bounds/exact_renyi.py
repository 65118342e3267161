"""The Renyi divergence of objective perturbation in each direction, by the map that attains it.

In units of the noise (sigma = 1): s = L / sigma, kappa = beta / lambda, a = alpha - 1 > 0. By the reduction of
`explorer.accounting.bounds.refined` the divergence is the supremum over maps T = id + h with |h| <= s, 0 <= h' <= kappa
(h of one sign for monotone losses). With y(r) the place at which the shift passes r, z = y -+ r/speed is monotone, and
the moment e^(a D) becomes an isotonic regression whose targets are ordered against the allowed direction: the best map
is one ramp at full speed from one end of the shifts to the other, through (place, shift) = (t, 0). The complete proof
is in docs/mathematics. With l the privacy loss and phi the standard normal density, e^(a D) = E e^(a l) = V(t):

- *remove*, r = kappa' (t - y), kappa' = kappa/(1+kappa): outside the ramp [t - s/kappa', t + s/kappa'] the tails of a
  shift by +-s; on it (1+kappa)^a int phi(y) e^(a (r y + r^2/2)) dy.
- *add*, h = kappa (u - t): tails of a shift by -+s; on it (1+kappa)^(-a) int phi(u) e^(a (h u + h^2/2)) du.

V'(t) has the sign of mu <r>_t - nu t, where <r>_t is the mean of r under the weights exp(theta t r - eta r^2) on
[-s, s], or [0, s] for monotone losses (Ellis, Monroe & Newman 1976: it is concave in t > 0), so t is 0 or the only
zero beyond. Divergences of k adaptive uses add up exactly: the map that attains one can be repeated.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import dawsn, log_ndtr

from explorer.accounting.bounds.sign_change import sign_change
from explorer.accounting.logspace import log1mexp
from explorer.accounting.types import FloatArray

_ROOT_2_PI = np.sqrt(2 * np.pi)
_SMALL = 1e-5  # of a D, below which the moment's distance from 1 is summed from positive terms instead
_SMALL_SHIFT = 0.3  # s, up to which those terms need no more than the places |y| <= 10
_NEAR_ONE = 1e-6  # alpha - 1, up to which larger shifts are interpolated from alpha = 1


def _rule(nodes):
    x, weights = np.polynomial.legendre.leggauss(nodes)
    return (1 + x[:, None]) / 2, weights / 2  # on [0, 1]


_NODES, _WEIGHTS = _rule(48)
_FEW, _FEW_WEIGHTS = _rule(20)  # for the mean shift, of which six digits are enough: V is stationary at its zero


def exact_rdp(
    alpha: ArrayLike, *, sensitivity_ratio: float, curvature_ratio: float, direction: str, monotone: bool = False
) -> FloatArray:
    """Renyi divergence of order alpha of objective perturbation over all its losses.

    Parameters
    ----------
    alpha : array_like >= 1, any shape; 1 is the Kullback-Leibler divergence
    sensitivity_ratio, curvature_ratio : floats > 0, s = L / sigma and kappa = beta / lambda
    direction : "add", D(M(Z) | M(Z')), or "remove", D(M(Z') | M(Z)); Z' has one record more
    monotone : bool, whether f' keeps one sign

    Returns
    -------
    ndarray of alpha's shape, nats; at least alpha s^2 / 2, infinity at alpha = infinity
    """
    alpha = np.asarray(alpha, float)
    flat = alpha.ravel()
    result = np.full(flat.shape, np.inf)
    served = np.isfinite(flat)
    with np.errstate(all="ignore"):
        ratios = sensitivity_ratio, curvature_ratio
        result[served] = _divergence(flat[served] - 1, *ratios, remove=direction == "remove", monotone=monotone)
    return np.maximum(result, flat * sensitivity_ratio**2 / 2).reshape(alpha.shape)


def _divergence(a, s, kappa, *, remove, monotone):
    ramps = _Ramps(a, s, kappa, remove=remove, monotone=monotone)
    log_moment = ramps.log_moment()
    value = log_moment / a
    if s <= _SMALL_SHIFT:
        small = (a == 0) | (log_moment < _SMALL)
        if small.any():
            value[small] = ramps.at(small).small_divergence()
    else:
        near = a < _NEAR_ONE
        if near.any():
            kl = _Ramps(np.zeros(1), s, kappa, remove=remove, monotone=monotone).mean_loss()[0]
            beyond = _divergence(np.full(1, _NEAR_ONE), s, kappa, remove=remove, monotone=monotone)[0]
            value[near] = kl + (beyond - kl) * a[near] / _NEAR_ONE
    return value


class _Ramps:
    """The best ramp for each a = alpha - 1, an ndarray (n,)."""

    def __init__(self, a, s, kappa, *, remove, monotone, centre=None):
        self.a, self.s, self.kappa, self.remove, self.monotone = a, s, kappa, remove, monotone
        self.speed = kappa / (1 + kappa) if remove else kappa
        self.jump = np.log1p(kappa) if remove else -np.log1p(kappa)  # of the privacy loss on the ramp
        self.t = (self._centre() if remove else -self._centre()) if centre is None else centre

    def at(self, chosen):
        """Those of a mask."""
        kind = {"remove": self.remove, "monotone": self.monotone}
        return _Ramps(self.a[chosen], self.s, self.kappa, centre=self.t[chosen], **kind)

    def _centre(self):
        """|t| of the best ramp: the zero of (mu/nu) <r> - t, or 0."""
        a, kappa, s = np.maximum(self.a, 1e-8), self.kappa, self.s
        if self.remove:
            inverse = self.speed / np.expm1(a * self.jump)  # 1 / C0
            ratio = 1 / self.speed + a * (1 + inverse) / (1 - a * inverse)
            theta, eta = 1 / self.speed + a, 0.5 / self.speed**2 + a * (1 / self.speed - 0.5)
        else:
            c1 = -np.expm1(a * self.jump) / kappa
            ratio = 1 / kappa + a * (1 + c1) / (a - c1)
            theta, eta = 1 / kappa - a, 0.5 / kappa**2 - a / kappa - a / 2
        high = ratio * s * (1 + 1e-12)
        low = 1e-9 * high
        if self.monotone:

            def rise(t):
                rising = _mean_shift(np.maximum(theta * t, 0), eta, s, one_sided=True)
                return ratio * np.where(theta >= 0, rising, _mean_falling(np.maximum(-theta * t, 0), eta, s)) - t
        else:

            def rise(t):
                return ratio * _mean_shift(np.maximum(theta * t, 0), eta, s, one_sided=False) - t

        rises = (rise(low) > 0) & ((theta > 0) | self.monotone)
        low, high = sign_change(rise, np.where(rises, low, high), high)
        return np.where(rises, (low + high) / 2, 0.0)

    def _ends(self):
        """Where the ramp begins and ends, and the shifts to its left and right."""
        s, t, length = self.s, self.t, self.s / self.speed
        left, right = (s, -s) if self.remove else (-s, s)
        if not self.monotone:
            return t - length, t + length, left, right
        return (t - length, t, left, 0.0) if self.remove else (t, t + length, 0.0, right)

    def log_moment(self):
        """log V(t)."""
        a, t, speed = self.a, self.t, self.speed
        low, high, left, right = self._ends()
        sign = -1.0 if self.remove else 1.0  # of the shift's slope; on the ramp it is sign * speed * (y - t)
        tails = [
            a * (a + 1) * shift * shift / 2 + log_ndtr(side * (end - a * shift))
            for shift, end, side in ((left, low, 1), (right, high, -1))
        ]
        ramp = a * (self.jump + (speed * t) ** 2 / 2) + _log_integral(
            1 - a * speed * (2 * sign + speed), -a * t * speed * (sign + speed), low, high
        )
        return np.logaddexp(np.logaddexp(*tails), ramp)

    def small_divergence(self):
        """D from V - 1 = a int phi [expm1(a l)/a + expm1(-l)], whose terms are >= 0, since int phi e^(-l) = 1."""
        a, total = self.a, 0.0
        low, high, left, right = self._ends()
        edges = np.stack([low, high, *(np.full_like(low, x) for x in (-10.0, -5.0, 0.0, 5.0, 10.0))])
        edges = np.sort(np.clip(edges, -10, 10), axis=0)
        for begin, end in pairwise(edges):
            y = begin + (end - begin) * _NODES
            middle = (begin + end) / 2
            on_ramp = (middle > low) & (middle < high)
            slope = -self.speed if self.remove else self.speed
            shift = np.where(on_ramp, slope * (y - self.t), np.where(middle <= low, left, right))
            loss = shift * (y + shift / 2) + np.where(on_ramp, self.jump, 0.0)
            gain = np.where(a > 0, np.expm1(a * loss) / np.where(a > 0, a, 1), loss)
            total = total + (end - begin) * (_WEIGHTS @ (np.exp(-y * y / 2) * (gain + np.expm1(-loss))))
        total = total / _ROOT_2_PI
        return np.where(a > 0, np.log1p(a * total) / np.where(a > 0, a, 1), total)

    def mean_loss(self):
        """The Kullback-Leibler divergence, E l."""
        low, high, left, right = self._ends()
        total = 0.0
        for shift, end, side in ((left, low, 1), (right, high, -1)):
            density = np.exp(-end * end / 2) / _ROOT_2_PI
            total = total + shift * shift / 2 * np.exp(log_ndtr(side * end)) - side * shift * density
        first, last = np.clip(low, -14, 14), np.clip(high, -14, 14)
        slope = -self.speed if self.remove else self.speed
        for part in range(4):
            y = first + (last - first) * (part + _NODES) / 4
            shift = slope * (y - self.t)
            loss = shift * (y + shift / 2) + self.jump
            total = total + (last - first) / 4 * (_WEIGHTS @ (np.exp(-y * y / 2) * loss)) / _ROOT_2_PI
        return total


def _log_integral(curvature, slope, low, high):
    """log of int_low^high exp(slope x - curvature x^2 / 2) dx / sqrt(2 pi), for a curvature of either sign; 1-d.

    By a Gauss rule where the exponent varies little, or else by the tails of a normal law or by Dawson's function,
    which then do not cancel.
    """
    width = high - low
    x = low + width * _NODES
    values = x * (slope - curvature * x / 2)
    top = values.max(axis=0)
    smooth = top + np.log(_WEIGHTS @ np.exp(values - top)) + np.log(width / _ROOT_2_PI)
    root, centre = np.sqrt(np.abs(curvature)), slope / curvature
    begin, end = root * (low - centre), root * (high - centre)
    begin, end = np.where(begin + end < 0, -end, begin), np.where(begin + end < 0, -begin, end)
    peak = slope * centre / 2 - np.log(root)
    tails = peak + log_ndtr(-begin) + log1mexp(np.minimum(log_ndtr(-end) - log_ndtr(-begin), 0))
    rest = np.exp((begin - end) * (begin + end) / 2) * dawsn(begin / np.sqrt(2))
    dawson = peak + end * end / 2 + np.log((dawsn(end / np.sqrt(2)) - rest) * np.sqrt(2) / _ROOT_2_PI)
    steepness = np.maximum(np.abs(slope - curvature * low), np.abs(slope - curvature * high))
    return np.where(steepness * width < 40, smooth, np.where(curvature > 0, tails, dawson))


def _mean_shift(slope, curvature, s, *, one_sided):
    """Mean of r under weights exp(slope r - curvature r^2) on [0, s] or [-s, s], slope >= 0; 1-d arrays."""
    spread = np.where(curvature > 0, 6 / np.sqrt(2 * np.abs(curvature)), np.inf)
    peak = np.where(curvature > 0, np.minimum(slope / (2 * curvature), s), s)
    fall = np.where(curvature > 0, slope - 2 * curvature * s, slope - curvature * s)  # at least, from s inwards
    reach = np.minimum(spread, np.where(fall > 0, 30 / fall, np.inf))
    low, high = np.maximum(peak - reach, 0), np.minimum(peak + spread, s)
    r = low + (high - low) * _FEW
    weight = _FEW_WEIGHTS[:, None] * np.exp((r - peak) * (slope - curvature * (r + peak)))
    if one_sided:
        return (r * weight).sum(axis=0) / weight.sum(axis=0)
    mirrored = np.expm1(-2 * slope * r)  # the weight at -r, less that at r, as a part of it
    return (-r * weight * mirrored).sum(axis=0) / (weight * (2 + mirrored)).sum(axis=0)


def _mean_falling(slope, curvature, s):
    """Mean of r under weights exp(-slope r - curvature r^2) on [0, s], slope >= 0; 1-d arrays."""
    reach = np.where(curvature > 0, np.minimum(30 / slope, 6 / np.sqrt(2 * np.abs(curvature))), s)
    r = np.minimum(reach, s) * _FEW
    exponent = -r * (slope + curvature * r)
    weight = _FEW_WEIGHTS[:, None] * np.exp(exponent - exponent.max(axis=0))
    return (r * weight).sum(axis=0) / weight.sum(axis=0)
