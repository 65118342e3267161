"""The privacy profile of objective perturbation as an optimal control problem: "add" exactly, "remove" from above.

The results, in units of the noise (sigma = 1), with s = L / sigma, kappa = beta / lambda, gamma = e^epsilon >= 1,
F(b, h) = Phi(-b) - gamma Phi(-b-h) and b*(h) = epsilon/h - h/2, so that F(b*(h), h) = max_b F(b, h) = H(epsilon; h),
the Gaussian's profile (see also notebook 11):

*Reduction* (`explorer.accounting.bounds.refined`). (M(Z), M(Z')) has the divergences of (T#N, N) for a map T = id + h
with |h| <= s, 0 <= h' <= kappa, and every such T occurs; for monotone losses h has one sign. The profile of the
mechanism is the supremum over T.

*Add*: the integral of [phi(u) - gamma phi(u+h)(1+h')]_+. To the right of a zero c of h an optimal control
is: h rises at the largest slope kappa from c to some b and is constant from there on, where the integrand is positive;
its value is R(c) = max_{b>=c} F(b, min(s, kappa (b-c))). It is optimal since W(u, h) = max_{b>=u} F(b, min(s, h +
kappa (b-u))) satisfies W_u + v W_h + gain(v) <= 0 for every slope v in [0, kappa]: with q = log phi(u)/(gamma
phi(u+h)), the gain at slope 0, phi(u)(1 - e^-q), increases along the ramp as long as q <= log(1+kappa), which
holds up to the optimal b, so that a constant piece there is better than an earlier one. The left side is the mirror
image, R(-c). So delta = max(H(epsilon; s), sup_c R(c) + R(-c)), attained; for one sign it is H(epsilon; s), attained by
the constant h = s.

*Remove*: with r = T^-1 - id, non-increasing, |r| <= s, v = -r' <= kappa' = kappa/(1+kappa), the integral of
[phi(y) - gamma phi(y+r)(1-v)]_+ is at most each of
 (i) H(epsilon - log(1+kappa); s), the closed form of `RefinedBound`;
 (ii) for gamma >= 1+kappa, Psi(s), where Psi(0) = 0, Psi' = G*/kappa' below r_c = sqrt(2 kappa epsilon/(2+kappa)) and
   Psi' = H' beyond, and G*(r) = max_y [phi(y) - gamma/(1+kappa) phi(y+r)]. A decrease of r at
   rate v contributes at most (v/kappa') G*(r) at y < b*(r), and at y >= b*(r) no more than a constant r: Psi(r),
   continued by Psi(r) - H(epsilon; r) + F(y, r) beyond b*(r), satisfies the inequality of the control problem. After r
   changes sign the remaining value is 0. Attained where the maximiser y*(r) can be followed within the slope limit;
 (iii) every chord, in gamma, from (1, TV) to a point of (i) or (ii) further right, since a profile is convex in gamma
   and at epsilon = 0 both directions equal the total variation TV, which is the exact value of "add".

Both directions at negative epsilon follow by duality, delta_PQ(epsilon) = 1 - e^epsilon + e^epsilon delta_QP(-epsilon).
"""

from collections.abc import Callable
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from explorer.accounting.bounds.gaussian import log_delta
from explorer.accounting.bounds.refined import DirectionalBound, RefinedBound, dual_log_delta
from explorer.accounting.logspace import (
    log1mexp,
    log_from_complement,
    log_mills_difference,
    log_normal_density,
    mills_ratio,
)
from explorer.accounting.types import BoolArray, FloatArray, LogProfile
from explorer.validation import epsilon_array

_TOLERANCE = 1.5e-6  # relative, in log delta, between the sums from above and below
_FEWEST_PANELS, _MOST_PANELS = 128, 8192
_REACH, _GRADING = 40.0, 3.0  # panels cover all but e^-40 of the integral, their density falls as its cube root
_FARTHEST = 1e100  # largest |epsilon| of the control bounds; beyond it only the closed forms are used

Control: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]  # (b, h, q), see `add_controls`


def bisect(below: Callable, low: ArrayLike, high: ArrayLike, *, steps: int = 45) -> FloatArray:
    """The point of [low, high] up to which the elementwise predicate `below` holds.

    It is the upper end of the last bracket, and `high` where the predicate holds throughout.
    """
    low, high = np.asarray(low, float), np.asarray(high, float)
    for _ in range(steps):
        middle = (low + high) / 2
        holds = below(middle)
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return high


def add_log_delta(epsilon: ArrayLike, *, sensitivity_ratio: float, curvature_ratio: float) -> FloatArray:
    """Log of max(H(epsilon; s), sup_{c>=0} R(c) + R(-c)): "add" exactly, for losses of any sign, epsilon >= 0.

    On the right of c the optimal control either saturates, h = s, at b = max(b*(s), c + s/kappa), or ends its ramp at b
    = c + v, where v > 0 solves kappa (2+kappa) v^2 + 2 kappa c v = 2 (epsilon + log(1+kappa)). Where both sides end
    their ramps below s, or both saturate, the derivative dR(c)/dc shows that the sum increases with c, or decreases
    from c = 0; hence the supremum is at c = 0 or where the side of -c saturates and that of c does not, see
    `_saturation`.

    Parameters
    ----------
    epsilon : array_like, any shape, finite and >= 0, nats
    sensitivity_ratio, curvature_ratio : floats > 0, s = L / sigma and kappa = beta / lambda

    Returns
    -------
    ndarray of epsilon's shape, natural log of delta
    """
    s, kappa = sensitivity_ratio, curvature_ratio
    epsilon = np.asarray(epsilon, float)
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

    def rises_with_q(log_q: FloatArray) -> BoolArray:
        b2, c, v = ends(np.exp(log_q))
        return s / np.expm1(np.exp(log_q)) > b2 + c + (1 + kappa) * v * v / (c + (2 + kappa) * v)

    def a_below_b(log_q: FloatArray) -> BoolArray:
        b2, c, v = ends(np.exp(log_q))
        log_ratio = np.log(-np.expm1(-np.exp(log_q))) + np.log1p(1 / kappa) + (c + v - b2) * (c + v + b2) / 2
        return log_ratio < 0

    top = bisect(rises_with_q, np.log(most) - 80, np.log(most))
    return np.exp(bisect(a_below_b, top - 80, top))


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


def remove_log_delta(
    epsilon: ArrayLike, *, sensitivity_ratio: float, curvature_ratio: float, enough: ArrayLike = 0.0
) -> FloatArray:
    """Log of min of (i) H(epsilon - log(1+kappa); s) and (ii) Psi(s), epsilon >= 0: "remove" without the chords.

    Psi(s) = ((1+kappa)/kappa) int_0^min(s, r_c) G*(r) dr + [H(epsilon; s) - H(epsilon; r_c)]_+. The integral is a sum
    from above, refined until it is within 1.5e-6 |log delta| of one from below. (A quadrature rule could miss the
    narrow interval that holds the mass and return less than the integral.)

    Parameters and returns as for `add_log_delta`, and
    enough : array_like that broadcasts to epsilon; a bound on log delta that is known already: larger values are not
        refined
    """
    s, kappa = sensitivity_ratio, curvature_ratio
    epsilon = np.asarray(epsilon, float)
    best = np.array(np.minimum(log_delta(epsilon - np.log1p(kappa), sensitivity_ratio=s), enough))
    slow = epsilon >= np.log1p(kappa)
    if slow.any():
        best[slow] = np.minimum(best[slow], _log_psi(epsilon[slow], s, kappa, enough=best[slow]))
    return best


def _log_psi(epsilon: FloatArray, s: float, kappa: float, *, enough: FloatArray) -> FloatArray:
    """log Psi(s), from above, for 1-d epsilon >= log(1+kappa); not refined where it is known to exceed `enough`."""
    excess = np.maximum(epsilon - np.log1p(kappa), 0)  # log(gamma / (1+kappa))
    turn = np.sqrt(2 * kappa / (2 + kappa) * epsilon)  # r_c
    scale, log_shift = np.log1p(1 / kappa), np.log(np.minimum(s, turn))
    ends = curve_ends(excess, log_shift, np.log1p(kappa), fall=_REACH)
    upper, panels, open_ = np.empty(epsilon.shape), _FEWEST_PANELS, np.arange(epsilon.size)
    while open_.size:
        above, below = _log_area(excess[open_], log_shift[open_], [end[open_] for end in ends], panels)
        upper[open_] = scale + above
        wide = above - below > _TOLERANCE * np.maximum(np.abs(scale + above), 0.01)
        panels *= 2
        open_ = open_[wide & (scale + below < enough[open_])] if panels <= _MOST_PANELS else open_[:0]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        held = log_h(epsilon, s)
        held = held + log1mexp(np.minimum(log_h(epsilon, turn) - held, 0))
    return np.where(s > turn, np.logaddexp(upper, held), upper)


def log_h(epsilon: FloatArray, shift: FloatArray | float) -> FloatArray:
    """log H(epsilon; shift), elementwise in both, for epsilon >= 0; 0, from above, where 1 - H is below e^-450."""
    onset = epsilon / shift - shift / 2
    return np.where(onset < -30, 0.0, log_normal_density(onset) + log_mills_difference(np.maximum(onset, -30), shift))


def _curve(p: FloatArray, excess: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(log r, log(r G*), its slope in log r) where p = log(1 + r/y), y = y*(r) the maximiser of
    phi(y) - gamma' phi(y+r), gamma' = e^excess.

    The maximiser obeys log phi(y)/(gamma' phi(y+r)) = p. With x = r/y all quantities are explicit in p:
    y^2 = 2 (excess+p)/(x(2+x)), r = x y, G* = phi(y) x/(1+x), and the slope is 1 + (excess+p)/sinh p.
    """
    x, energy = np.expm1(p), excess + p
    half_square = energy / (x * (2 + x))
    log_r = 0.5 * np.log(2 * energy * x / (2 + x))
    log_gain = np.log(x / (1 + x)) - half_square - 0.5 * np.log(2 * np.pi)
    return log_r, log_r + log_gain, 1 + 2 * half_square * (1 + x)


def curve_point(p: FloatArray, excess: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(y*(r), r) on the curve of `_curve` at p."""
    x = np.expm1(p)
    y = np.sqrt(2 * (excess + p) / (x * (2 + x)))
    return y, x * y


def _growth(p: FloatArray, excess: FloatArray) -> FloatArray:
    """d log r / d log p along the curve."""
    return 0.5 * p * (1 / (excess + p) + 1 / np.sinh(p))


def curve_ends(
    excess: FloatArray, log_shift: FloatArray, limit: float, *, fall: float
) -> tuple[FloatArray, FloatArray]:
    """log p where r equals the shift, by Newton's method, and where log(r G*) is lower by about `fall`; 1-d arrays."""
    square = np.exp(2 * log_shift)
    low = np.log(2 * square / (excess + np.sqrt(excess * excess + 4 * square)))  # r^2 <= (excess + p) p
    high = np.minimum(low, np.log(limit))
    for _ in range(12):
        p = np.exp(high)
        high = np.clip(high + (log_shift - _curve(p, excess)[0]) / _growth(p, excess), low, np.log(limit))
    p = np.exp(high)
    _, top, slope = _curve(p, excess)
    floor, far = top - fall, high - np.minimum(fall / (slope * _growth(p, excess)), np.maximum(high, 0) + 1.5 * fall)
    return high, bisect(lambda log_p: _curve(np.exp(log_p), excess)[1] < floor, far, high, steps=12)


def _log_area(
    excess: FloatArray, log_shift: FloatArray, ends: list[FloatArray], panels: int
) -> tuple[FloatArray, FloatArray]:
    """Logs of sums from above and from below for the integral of G* over r in [0, shift]; 1-d arrays.

    As a function of t = log r, f = log(r G*) is concave: its slope 1 + (excess+p)/sinh p decreases. So its tangents
    give a sum from above, an exponential on each panel, and its chords one from below, both with an error of second
    order. The nodes are graded towards the end that holds the mass. The integral left of them, down to r = 0, is
    bounded by that of the last tangent.
    """
    high, low = (end[:, None] for end in ends)
    p = np.exp(high)
    decay = _curve(p, excess[:, None])[2] * _growth(p, excess[:, None]) / _GRADING
    part = np.arange(panels, -1, -1) / panels
    graded = -np.log1p(part * np.expm1(-decay * (high - low))) / decay
    t, f, slope = _curve(np.exp(high - graded), excess[:, None])
    width, peak = np.diff(t, axis=1), f[:, -1:]
    # Any point of a panel may separate the tangents of its ends; the far left if the left one would overflow.
    edge = np.where((slope[:, :-1] - slope[:, 1:]) * width < 1, t[:, 1:] - width / 2, t[:, :-1])
    height = np.exp(np.minimum(f - peak, 0))
    reach = np.concatenate([edge, log_shift[:, None]], axis=1) - t
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        above = height * np.exp(slope * reach) / slope
        above[:, 1:] -= height[:, 1:] * np.exp(slope[:, 1:] * (edge - t[:, 1:])) / slope[:, 1:]
        rise = np.maximum(np.diff(f, axis=1), 1e-300)
        below = height[:, 1:] * width * -np.expm1(-rise) / rise
        above, below = (peak[:, 0] + np.log(area.sum(axis=1)) for area in (above, below))
    # For |log delta| >= 1e16 the interval that holds the mass can be narrower than a floating-point step.
    resolved = np.isfinite(above) & np.isfinite(below)
    return np.where(resolved, above, np.inf), np.where(resolved, below, 0.0)


class DualityBound(DirectionalBound):
    """Base class of bounds that define `_remove(epsilon)` for 1-d epsilon in [0, 1e100].

    "add" is exact; the values at negative epsilon are dual to the other direction. `_unknown` is the value where
    nothing can be computed (|epsilon| > 1e100, or overflow): infinity for an upper bound, minus infinity for a lower
    one. The result is clipped to the interval between the Gaussian's profile and the refined bound, which contains the
    exact value: apart from the unknown values this changes only the last digits, and it makes the order of the bounds
    exact.
    """

    _unknown: float = np.inf

    def log_delta_add(self, epsilon: ArrayLike) -> FloatArray:
        """Log delta of M(Z) from M(Z'), Z' having one record more, of epsilon's shape; any real epsilon, nats."""
        return self._profile(epsilon, self._add, self._remove, RefinedBound(self.mechanism).log_delta_add)

    def log_delta_remove(self, epsilon: ArrayLike) -> FloatArray:
        """Log delta of M(Z') from M(Z), Z' having one record more, of epsilon's shape; any real epsilon, nats."""
        return self._profile(epsilon, self._remove, self._add, RefinedBound(self.mechanism).log_delta_remove)

    def _profile(self, epsilon: ArrayLike, own: LogProfile, other: LogProfile, refined: LogProfile) -> FloatArray:
        epsilon = epsilon_array(epsilon)
        value = np.full(epsilon.shape, self._unknown)
        negative = epsilon < 0
        for side, profile in (~negative, own), (negative, other):
            computed = side & (np.abs(epsilon) <= _FARTHEST)
            if computed.any():
                with np.errstate(all="ignore"):
                    value[computed] = profile(np.abs(epsilon[computed]))
        value = np.where(np.isnan(value), self._unknown, value)
        value[negative] = dual_log_delta(epsilon[negative], np.clip(value[negative], -np.inf, 0))
        gaussian = log_delta(epsilon, sensitivity_ratio=self._s)
        return np.maximum(np.minimum(value, refined(epsilon)), gaussian)[()]

    def _remove(self, epsilon: FloatArray) -> FloatArray:
        """Log of the "remove" profile for 1-d epsilon in [0, 1e100]."""
        raise NotImplementedError

    def _add(self, epsilon: FloatArray) -> FloatArray:
        if self.mechanism.monotone_loss:
            return log_delta(epsilon, sensitivity_ratio=self._s)
        return add_log_delta(epsilon, sensitivity_ratio=self._s, curvature_ratio=self._kappa)

    @cached_property
    def _log_total_variation(self) -> float:
        return float(self.log_delta_add(0.0))


class TightBound(DualityBound):
    """The worst privacy profile of objective perturbation over all losses: "add" exactly, "remove" from above.

    The "remove" bound is attained, to the tolerance of its sums, wherever the loss that attains it has a curvature
    within kappa; `AttainedLowerBound` bounds the same profile from below. The docstring of this module has the results
    and their proofs.

    `log_delta_add` and `log_delta_remove` are the profiles of the two directions at every real epsilon, each the
    other's dual. "remove" at epsilon >= 0 ("add" below 0) is a minimum of bounds and need not be convex in e^epsilon:
    a privacy loss distribution needs its lower convex envelope, which `profile_plds` takes.

    Parameters
    ----------
    mechanism : ObjectivePerturbation, with any l2_reg > 0; its `monotone_loss` restricts the losses to one sign of f'

    Raises
    ------
    TypeError for another mechanism.

    Examples
    --------
    >>> from explorer.accounting import ObjectivePerturbation, TightBound
    >>> mechanism = ObjectivePerturbation(noise_std=5, l2_reg=20, lipschitz=1, smoothness=1)
    >>> round(float(TightBound(mechanism).epsilon(1e-5)), 4)
    0.734
    """

    def _remove(self, epsilon: FloatArray) -> FloatArray:
        best = np.full(epsilon.shape, self._log_total_variation)
        for end, log_end in self._tangents:
            inside = epsilon < end
            best[inside] = np.minimum(
                best[inside], _log_chord(epsilon[inside], self._log_total_variation, end, log_end)
            )
        return self._without_chords(epsilon, enough=best)

    def _without_chords(self, epsilon: FloatArray, *, enough: ArrayLike = 0.0) -> FloatArray:
        return remove_log_delta(epsilon, sensitivity_ratio=self._s, curvature_ratio=self._kappa, enough=enough)

    @cached_property
    def _tangents(self) -> list[tuple[float, float]]:
        """(epsilon1, log delta1) where chords from (gamma = 1, TV) are steepest: the local maxima of the descent.

        Every chord is a bound, so an inexact search gives a looser bound that is still valid. The descent is
        (TV - delta1) / (gamma1 - 1).
        """
        limit, width = np.log1p(self._kappa), self._s + self._s * self._s
        grid = np.concatenate([limit * np.arange(1, 12) / 12, [limit], limit + width * np.geomspace(1e-3, 30, 36)])
        value = self._without_chords(grid, enough=self._log_total_variation)
        steep = self._log_descent(grid, value)
        (top,) = np.nonzero((steep[1:-1] >= steep[:-2]) & (steep[1:-1] > steep[2:]))
        best, log_best = grid[top + 1], value[top + 1]
        low, high = grid[top], grid[top + 2]
        for _ in range(3 if top.size else 0):
            # the best point so far is kept: the value jumps at epsilon = log(1+kappa), where (ii) begins
            fine = np.stack([best, *(low + (high - low) * i / 20 for i in range(1, 20))])
            value = self._without_chords(fine)
            pick = np.argmax(self._log_descent(fine, value), axis=0), np.arange(top.size)
            best, log_best, step = fine[pick], value[pick], (high - low) / 20
            low, high = np.maximum(best - step, low), np.minimum(best + step, high)
        return list(zip(best, log_best, strict=True))

    def _log_descent(self, epsilon: FloatArray, log_value: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            drop = log1mexp(np.minimum(log_value - self._log_total_variation, 0))
            return drop - _log_expm1(epsilon)


def _log_chord(epsilon: FloatArray, log_start: float, end: float, log_end: float) -> FloatArray:
    """log delta on the chord, in gamma, from log_start at epsilon = 0 to log_end at `end`, for 0 <= epsilon < end."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log_weight = _log_expm1(epsilon) - _log_expm1(end)
        log_rest = log1mexp(epsilon - end) - log1mexp(-end)
        direct = np.logaddexp(log_rest + log_start, log_weight + log_end)
        complement = np.logaddexp(log_rest + log1mexp(log_start), log_weight + log1mexp(log_end))
    return log_from_complement(direct, complement)


def _log_expm1(x: ArrayLike) -> FloatArray:
    """log(e^x - 1) for x >= 0, elementwise."""
    x = np.asarray(x)
    return x + log1mexp(-x)
