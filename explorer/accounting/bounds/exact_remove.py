"""The exact privacy profile of objective perturbation in the direction "remove", by the map that attains it.

In units of the noise (sigma = 1), with s = L / sigma, kappa = beta / lambda, gamma = e^epsilon >= 1,
kappa' = kappa/(1+kappa) and c = 1/kappa + 1/2: by the reduction of `explorer.accounting.bounds.refined` the profile is
the supremum, over maps T = id + h with |h| <= s and 0 <= h' <= kappa (h of one sign for monotone losses), of that of
(N, T#N): with r = T^-1 - id, non-increasing, |r| <= s, -r' <= kappa', of the integral of
[phi(y) - gamma phi(y+r)(1+r')]_+. Complete proofs are in docs/mathematics; what is computed here:

Let y(r) be the place at which the shift passes r. z(r) = y(r) + r/kappa' is non-increasing, and the integral becomes
that of w(z(r) - r/kappa', r) over r: a generalised isotonic regression, solved by thresholds. Along the line
y = t - r/kappa' a ramp of full speed gains phi(y) (1 - e^(e - m(r))) dr/kappa' with e = epsilon - log(1+kappa) and
m(r) = t r - c r^2.

- epsilon <= log(1+kappa): one full ramp from s to -s (monotone: to 0) through (y, r) = (t, 0). With V+(t) the gain of
  its part r > 0, delta = max of V+(t) + V+(-t) over 0 <= t <= t+ (monotone: V+(t+)), where t+ = c s + m/s and
  m/kappa' + s^2/(2 kappa kappa') + log(e^(epsilon-m) - 1) = log(e^epsilon - 1). The maximum is at t = 0 or at the last
  zero of a difference of logarithms that is concave in t.
- epsilon > log(1+kappa): a ramp from s down to r = rho along a line t, then the curve y*(r) that maximises
  phi(y) - e^e phi(y+r), followed down to r = 0. rho is the only zero, below the turning point of z along the curve, of
  the difference between the gains at the two ends of the ramp; without a turning point rho = s. The supremum is
  approached by staircases, not attained; losses of either sign and monotone ones have the same.

All integrals are of positive, smooth functions, by Gauss rules on the part that holds all but e^-37 of the mass.
"""

import numpy as np
from numpy.typing import ArrayLike

from explorer.accounting.bounds.sign_change import sign_change
from explorer.accounting.logspace import log_normal_density
from explorer.accounting.types import FloatArray

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_NODES, _WEIGHTS = (1 + _NODES[:, None]) / 2, _WEIGHTS / 2  # on [0, 1]
_REACH = 37.0  # what is left out of an integral weighs e^-37 of its largest density


def remove_log_delta(
    epsilon: ArrayLike, *, sensitivity_ratio: float, curvature_ratio: float, monotone: bool = False
) -> FloatArray:
    """Log of the exact profile of "remove", the divergence of M(Z') from M(Z), for epsilon >= 0.

    Parameters
    ----------
    epsilon : array_like, any shape, finite and >= 0, nats
    sensitivity_ratio, curvature_ratio : floats > 0, s = L / sigma and kappa = beta / lambda
    monotone : bool, whether f' keeps one sign

    Returns
    -------
    ndarray of epsilon's shape, natural log of delta; -inf or nan where doubles cannot resolve the ramp (log delta below
    -1e15)
    """
    epsilon = np.asarray(epsilon, float)
    result = np.empty(epsilon.shape)
    below = epsilon <= np.log1p(curvature_ratio)
    with np.errstate(all="ignore"):
        if below.any():
            result[below] = Ramp(epsilon[below], sensitivity_ratio, curvature_ratio).log_delta(monotone=monotone)
        if not below.all():
            result[~below] = RampAndCurve(epsilon[~below], sensitivity_ratio, curvature_ratio).log_delta()
    return result


def _log_ramp(t, inner, outer, excess, kappa):
    """Log of the integral of phi(y) (1 - e^(excess - m(r))) dr / kappa' along y = t - r/kappa', m(r) = t r - c r^2.

    Parameters
    ----------
    t, excess : ndarrays (n,)
    inner, outer : triples of ndarrays (n,), r, y and m at the two ends. Nodes are placed in distances from the end with
        the larger density, so that neither y nor m loses digits where they are large; in two panels where m grows
        steeply at the outer end.
    """
    speed, c = kappa / (1 + kappa), 1 / kappa + 0.5
    from_outer = np.abs(outer[1]) <= np.abs(inner[1])
    r0, y0, m0 = (np.where(from_outer, *ends) for ends in zip(outer, inner, strict=True))
    sign = np.where(from_outer, -1.0, 1.0)  # of r - r0, and of y0 - y
    inside = (outer[1] <= 0) & (inner[1] >= 0)  # the ramp passes y = 0, where the density is largest
    nearest = np.where(inside, 0.0, y0)
    reach = 2 * _REACH / (np.sqrt(nearest * nearest + 2 * _REACH) + np.abs(nearest))
    whole = (outer[0] - inner[0]) / speed
    first = np.where(inside, np.maximum(np.abs(y0) - reach, 0.0), 0.0)
    last = np.minimum(np.where(inside, np.abs(y0) + reach, reach), whole)

    def integral(first, last):
        along = first + (last - first) * _NODES  # |y - y0|
        shift = sign * speed * along
        y = y0 - sign * along
        m = m0 + shift * (t - c * (2 * r0 + shift))
        exponent = np.where(inside, -y * y / 2, sign * along * (y0 + y) / 2)
        return (last - first) * (_WEIGHTS @ (np.exp(exponent) * -np.expm1(np.minimum(excess - m, 0.0))))

    rate = np.abs(t - 2 * c * outer[0]) * speed
    if np.any(rate * (last - first) > _REACH):
        layer = _REACH / rate
        split = np.clip(np.where(from_outer, layer, whole - layer), first, last)
        total = integral(first, split) + integral(split, last)
    else:
        total = integral(first, last)
    return log_normal_density(nearest) + np.log(total)


class Ramp:
    """epsilon <= log(1+kappa): one full ramp. Its line is named by m = s (t - c s)."""

    def __init__(self, epsilon, s, kappa):
        self.epsilon, self.s, self.kappa = epsilon, s, kappa
        self.speed, self.c, self.excess = kappa / (1 + kappa), 1 / kappa + 0.5, epsilon - np.log1p(kappa)
        self.stretch = 1 / (2 * kappa * self.speed)

    def log_delta(self, *, monotone):
        """Log of V+(t) + V+(-t) at the best t, or V+(t+)."""
        if monotone:
            return self._half(self._last_m())
        m = self._off_centre()
        centred = self._half(-self.c * self.s**2) + np.log(2)
        return np.fmax(centred, np.logaddexp(self._half(m), self._half(-m - 2 * self.c * self.s**2)))

    def line(self, *, monotone):
        """m of the best ramp, whose line is t = c s + m/s."""
        if monotone:
            return self._last_m()
        m, centred = self._off_centre(), -self.c * self.s**2
        off = np.logaddexp(self._half(m), self._half(-m - 2 * self.c * self.s**2))
        return np.where(off > self._half(centred) + np.log(2), m, centred)

    def _half(self, m):
        """log V+(t), m = s (t - c s): of r in [0, min(s, r2)], r2 the larger root of m(r) = e."""
        s, excess = self.s, self.excess
        m = np.broadcast_to(m, excess.shape)
        t = self.c * s + m / s
        root = np.sqrt(t * t - 4 * self.c * excess)
        r2 = np.where(t >= 0, (t + root) / (2 * self.c), -2 * excess / (root - t))
        full = m >= excess  # which is r2 >= s
        outer = np.where(full, s, r2), np.where(full, m / s - s / 2, t - r2 / self.speed), np.where(full, m, excess)
        return _log_ramp(t, (np.zeros_like(t), t, np.zeros_like(t)), outer, excess, self.kappa)

    def _last_m(self):
        """m of t+."""
        start, weight = np.zeros_like(self.epsilon), -np.expm1(-self.epsilon)

        def difference(m):  # log k(t) - log(gamma - 1)
            return m / self.speed + self.s**2 * self.stretch + np.log1p(np.expm1(-m) / weight)

        slope = 1 / self.speed - 1 / weight
        m = _zero_of_concave(difference, start, self.epsilon, self.s**2 * self.stretch, slope, self.epsilon)
        return np.where(self.epsilon > 0, m, 0.0)

    def _off_centre(self):
        """m of the last zero of log k(t) - log k(-t), or of t = 0 where there is none; sought in v = m - e."""
        limit = np.full_like(self.epsilon, np.log1p(self.kappa))
        start = np.clip(-2 * (self.c * self.s**2 + self.excess), 0, limit)  # t = |t_low|
        late = start > 0  # t_low < 0: the difference may rise before it falls
        if late.any():
            low, high = sign_change(self._slope, start, limit)
            start = np.where(late & (self._slope(start) > 0), (low + high) / 2, start)
        value, slope = self._difference(start), self._slope(start)
        # Without its part in r2 the difference would be larger, and fall from v = 0 on.
        end = np.minimum(limit, self.s * np.sqrt(2 * self.stretch / _bend(limit)))
        v = _zero_of_concave(
            self._difference, start, np.maximum(end, start), np.maximum(value, 0), slope, limit - start
        )
        return np.where(value > 0, self.excess + v, -self.c * self.s**2)

    def _line(self, v):
        """t = c s + m/s."""
        return self.c * self.s + (self.excess + v) / self.s

    def _mirrored(self, v):
        """r2(-t) and the root in it."""
        t = self._line(v)
        root = np.sqrt(t * t - 4 * self.c * self.excess)
        return -2 * self.excess / (t + root), root

    def _difference(self, v):
        """log k(t) - log k(-t), no term of which cancels where v is small."""
        r2, _ = self._mirrored(v)
        return v / self.speed + np.log1p(np.expm1(-v) / self.speed) + (self.s - r2) * (self.s + r2) * self.stretch

    def _slope(self, v):
        """Of `_difference`."""
        r2, root = self._mirrored(v)
        return np.expm1(-v) / (self.speed * (self.speed + np.expm1(-v))) * (1 - self.speed) + (
            2 * r2 * r2 * self.stretch / (root * self.s)
        )


def _bend(x):
    """Minus the second derivative of log(e^x - 1)."""
    return np.exp(x) / np.square(np.expm1(x))


def _zero_of_concave(function, start, end, value, slope, left):
    """The zero in [start, end] of a function with this value >= 0 and slope at `start`, whose second derivative is at
    most that of log(e^x - 1), x = `left` there and less beyond."""
    bend = _bend(left)
    root = np.sqrt(slope * slope + 2 * bend * value)
    reach = np.where(slope > 0, (slope + root) / bend, 2 * value / (root - slope))
    low, high = sign_change(function, start, np.minimum(start + reach, end))
    return (low + high) / 2


def curve(p, excess):
    """(y*(r), r, log(r G*(r))) at p = log(1 + r/y*), y*(r) the maximiser of G = phi(y) - e^excess phi(y+r).

    The maximiser obeys log phi(y)/(e^excess phi(y+r)) = p, which with x = r/y makes everything explicit:
    y^2 = 2 (excess+p)/(x(2+x)), r = x y, G* = phi(y) x/(1+x).
    """
    x = np.expm1(p)
    half_square = (excess + p) / (x * (2 + x))
    y = np.sqrt(2 * half_square)
    return y, x * y, np.log(x / (1 + x)) - half_square - 0.5 * np.log(2 * np.pi) + np.log(x * y)


def curve_growth(p, excess):
    """d log r / d log p along the curve."""
    return 0.5 * p * (1 / (excess + p) + 1 / np.sinh(p))


def curve_end(shift, excess, limit):
    """log p where r reaches the shift, by Newton's method on r^2 = 2 (excess+p) tanh(p/2); at most log(limit)."""
    square = shift * shift
    low = np.log(2 * square / (excess + np.sqrt(excess * excess + 4 * square)))  # r^2 <= (excess + p) p
    log_p = np.minimum(low, np.log(limit))
    for _ in range(8):
        p = np.exp(log_p)
        miss = 0.5 * (np.log(square) - np.log(2 * (excess + p) * np.tanh(p / 2)))
        log_p = np.clip(log_p + miss / curve_growth(p, excess), low, np.log(limit))
    return log_p


def curve_start(log_p, excess, fall):
    """log p where log(r G*) is lower than at log_p by `fall`, or a little more: it is concave in log r."""
    top, p = curve(np.exp(log_p), excess)[2], np.exp(log_p)
    slope = (1 + (excess + p) / np.sinh(p)) * curve_growth(p, excess)
    far = log_p - np.minimum(fall / slope, np.maximum(log_p, 0) + 1.5 * fall)
    low, _ = sign_change(lambda x: top - fall - curve(np.exp(x), excess)[2], far, log_p, steps=6)
    return low, slope


class RampAndCurve:
    """epsilon > log(1+kappa): a ramp from s to rho, then the curve. A point of the curve is named by log p."""

    def __init__(self, epsilon, s, kappa):
        self.epsilon, self.s, self.kappa = epsilon, s, kappa
        self.speed, self.c, self.excess = kappa / (1 + kappa), 1 / kappa + 0.5, epsilon - np.log1p(kappa)
        self.limit = np.log1p(kappa)  # p at r_c, beyond which y* lies where holding the shift earns as much

    def log_delta(self):
        """Log of what the ramp and the curve earn."""
        m, log_p, turns = self.junction()
        p = np.exp(log_p)
        y, rho, _ = curve(p, self.excess)
        outer = self._outer(m)
        ramp = turns & (outer[0] > rho)
        t = self.c * self.s + m / self.s
        safe = [np.where(ramp, end, other) for end, other in zip(outer, (2 * rho, y - rho, self.epsilon), strict=True)]
        earned = _log_ramp(t, (rho, y, self.excess + p), safe, self.excess, self.kappa)
        return np.logaddexp(self._log_followed(log_p), np.where(ramp, earned, -np.inf))

    def junction(self):
        """m = s (t - c s) of the ramp's line, log p where it meets the curve, and whether there is a ramp at all."""
        turn = np.sqrt(2 * self.kappa / (2 + self.kappa) * self.epsilon)  # r_c
        high = curve_end(np.minimum(self.s, turn), self.excess, self.limit)
        high = np.where(self.s >= turn, np.log(self.limit), high)
        turns = self._falls(high) < 0
        # Before this p the line lies beyond all that the ramp's upper end can gain.
        onset = self.c * self.s + self.epsilon / self.s
        least = np.minimum(np.log(0.5 * np.log1p(2 * self.excess / np.square(onset))), high)
        least = np.where(turns, least, high)  # nothing is sought where there is no ramp
        _, turning = sign_change(self._falls, least, high, tolerance=1e-9)
        least = np.minimum(least, turning)
        low, upper = sign_change(self._loss_of_ramp, least, turning)
        # The line is steep in log p: between the two it is named by its own m, along which log p is nearly constant.
        first, last = (np.minimum(self._m_of_line(each), self.epsilon) for each in (low, upper))

        def place(m):
            return low + (upper - low) * np.where(last != first, (m - first) / (last - first), 0.0)

        m = sum(sign_change(lambda m: self._loss_of_ramp(place(m), m), first, last)) / 2
        log_p = place(m)
        log_p = np.where(turns, log_p, high)
        return np.where(turns, m, self._m_of_line(log_p)), log_p, turns

    def _m_of_line(self, log_p):
        """m of the line through a point of the curve."""
        y, r, _ = curve(np.exp(log_p), self.excess)
        return self.s * (y + r / self.speed - self.c * self.s)

    def _outer(self, m):
        """r, y and m where the ramp begins to earn: at s, or at the larger root s - d of m(r) = e."""
        s, t = self.s, self.c * self.s + m / self.s
        short = np.maximum(self.excess - m, 0)
        steep = 2 * self.c * s - t
        d = 2 * short / (steep + np.sqrt(np.maximum(steep * steep - 4 * self.c * short, 0)))
        root = np.sqrt(np.maximum(t * t - 4 * self.c * self.excess, 0))
        near = (short == 0) | ((steep > 0) & (d < s / 2))
        d = np.where(short == 0, 0.0, d)
        r = np.where(near, s - d, np.minimum((t + root) / (2 * self.c), s))
        return r, np.where(near, m / s - s / 2 + d / self.speed, t - r / self.speed), np.maximum(m, self.excess)

    def _falls(self, log_p):
        """Positive where z falls with r along the curve: 1 - f(p)."""
        p = np.exp(log_p)
        square = np.expm1(2 * p)
        return 1 - square / (2 * (self.excess + p)) - square / np.expm1(p + self.limit)

    def _loss_of_ramp(self, log_p, m=None):
        """log K_rho - log K_end: positive where the ramp along the line through this point lies too far right."""
        p = np.exp(log_p)
        y, rho, _ = curve(p, self.excess)
        r_end, y_end, m_end = self._outer(self._m_of_line(log_p) if m is None else m)
        v = np.minimum(m_end - self.excess, self.limit)
        length = np.where(
            self.s < self.speed * y, (r_end - rho) / self.speed, y - y_end
        )  # the one with fewer digits lost
        value = np.log1p(np.expm1(v - p) / -np.expm1(v - self.limit)) - length * (2 * y - length) / 2
        return np.where(v < self.limit, value, np.inf)

    def _log_followed(self, log_p):
        """Log of (1/kappa') int_0^rho G*(r) dr; where that falls so steeply that doubles do not see it, exponential."""
        top = curve(np.exp(log_p), self.excess)[2]
        low, slope = curve_start(log_p, self.excess, _REACH)
        width = log_p - low
        p = np.exp(low + width * _NODES)
        growth = curve_growth(p, self.excess)
        total = width * (_WEIGHTS @ (np.exp(curve(p, self.excess)[2] - top) * growth))
        steep = curve_growth(np.exp(log_p), self.excess) / slope
        return np.log1p(1 / self.kappa) + top + np.log(np.where(width > 1e-7, total, steep))
