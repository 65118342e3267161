"""Lower bounds on the privacy profile of objective perturbation: the profiles of explicit losses.

In the notation of `explorer.accounting.bounds.tight`, every map T = id + h with |h| <= s, 0 <= h' <= kappa is that of a
loss (one record, one dimension, an empty Z), so the hockey-stick divergence of any one map is attained on some dataset.
"add" is exact, with the map that attains it. For "remove" a map is given by r = T^-1 - id, non-increasing, |r| <= s, of
slope at least -kappa' = -kappa/(1+kappa), and its delta is the integral of [phi(y) - gamma phi(y+r)(1+r')]_+. Where r
is linear the integral is a difference of four normal tails, so it is summed in closed form over intervals on which the
integrand is positive (leaving one out gives a smaller delta) for each of these maps:

- the constant r = s, which is the Gaussian mechanism;
- one ramp: r = s up to p, then of slope -kappa' down to r2, and constant from there; (p, r2) is found by search;
- for epsilon >= log(1+kappa), a staircase that follows y*(r), the control of the upper bound: short ramps of slope
  -kappa' centred at y*(r_i), constant pieces between them. Ramps that would overlap are moved right, or left, or to a
  mean of both. It attains the upper bound, up to the number of its steps, wherever the ramps do not overlap.

The sums are rounded down by more than their rounding error.
"""

import numpy as np
from numpy.typing import ArrayLike

from explorer.accounting.bounds.tight import DualityBound, curve_ends, curve_point
from explorer.accounting.logspace import log_normal_density, mills_ratio
from explorer.accounting.types import FloatArray

_ROUNDING = 1e-15  # relative error of a tail, and of each unit of its exponent
_STEPS, _MISSED = 40, 14.0  # of the staircase; its steps cover all but e^-14 of the integral
_BLENDS = np.array([0.0, 0.3, 0.5, 0.7, 1.0])  # weights of "moved left" against "moved right"
_ROUNDS = 12  # of the search for one ramp


def interval_log_delta(epsilon: ArrayLike, y0: ArrayLike, y1: ArrayLike, r0: ArrayLike, r1: ArrayLike) -> FloatArray:
    """Log of the integral of phi(y) - gamma phi(y+r)(1+r') over [y0, y1], r linear from r0 to r1; elementwise.

    -inf where y1 <= y0 or the integral is not positive. The antiderivative is -Phi(-y) + gamma Phi(-(y+r)); all four
    tails are scaled by phi(y0) and the sum is rounded down. The part left of -30 is omitted.
    """
    epsilon, y0, y1, r0, r1 = (np.asarray(x, float) for x in (epsilon, y0, y1, r0, r1))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        r0 = np.where(y0 < -30, r1 + (r0 - r1) * np.divide(y1 + 30, y1 - y0), r0)
        y0 = np.maximum(y0, -30)
        total, error = _tails(epsilon, y0, r0)
        end, end_error = _tails(epsilon, y1, r1)
        exponent = (y0 - y1) * (y0 + y1) / 2
        fall = np.exp(exponent)
        total = total - fall * end - _ROUNDING * (error + fall * end_error * (1 + np.minimum(np.abs(exponent), 1e3)))
        return np.where((y1 > y0) & (total > 0), log_normal_density(y0) + np.log(total), -np.inf)


def tail_log_delta(epsilon: ArrayLike, y: ArrayLike, r: ArrayLike) -> FloatArray:
    """Log of the integral of phi - gamma phi(. + r) over [y, infinity), r >= 0 constant; see `interval_log_delta`."""
    epsilon, y, r = (np.asarray(x, float) for x in (epsilon, y, r))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        y = np.maximum(y, -30)
        total, error = _tails(epsilon, y, r)
        total = total - _ROUNDING * error
        return np.where(total > 0, log_normal_density(y) + np.log(total), -np.inf)


def _tails(epsilon: FloatArray, y: FloatArray, r: FloatArray) -> tuple[FloatArray, FloatArray]:
    """[Phi(-y) - gamma Phi(-y-r)] / phi(y), and its error in units of `_ROUNDING`."""
    r = np.where(y + r < -30, -30 - y, r)  # Phi(30) = 1 to within e^-450
    exponent = r * (y + r / 2)
    own, other = mills_ratio(y), np.exp(epsilon - exponent) * mills_ratio(y + r)
    # left of 0 the Mills ratio grows as e^(y^2/2), whose exponent is rounded too
    error = (1 + np.minimum(y, 0) ** 2) * own + (1 + epsilon + np.abs(exponent) + np.minimum(y + r, 0) ** 2) * other
    return own - other, error


def one_ramp_log_delta(
    epsilon: ArrayLike, p: ArrayLike, r2: ArrayLike, *, sensitivity_ratio: float, curvature_ratio: float
) -> FloatArray:
    """Log delta of the map whose r is s up to p, falls with slope -kappa' to r2 and is constant from there;
    elementwise.

    On the ramp, y = c + v with c = p + s/kappa' where r would vanish, the integrand is positive where
    (1-q^2) v^2 + 2 c (1-q) v < 2 (log(1+kappa) - epsilon), q = 1/(1+kappa); where r is constant, right of
    b*(r) = epsilon/r - r/2 if r > 0 and left of it if r < 0.

    Parameters
    ----------
    epsilon : array_like >= 0, nats
    p, r2 : array_like, -s <= r2 <= s; all three broadcast
    sensitivity_ratio, curvature_ratio : floats > 0, s = L / sigma and kappa = beta / lambda

    Returns
    -------
    ndarray of the broadcast shape, natural log of delta, at most the exact value
    """
    s, kappa = sensitivity_ratio, curvature_ratio
    epsilon, p, r2 = (np.asarray(x, float) for x in (epsilon, p, r2))
    slope_limit = kappa / (1 + kappa)
    p2 = p + (s - r2) / slope_limit
    r2 = s - slope_limit * (p2 - p)  # as rounded
    c = p + s / slope_limit
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        held = interval_log_delta(epsilon, epsilon / s - s / 2, p, s, s)
        half = np.sqrt(c * c - 2 * (epsilon - np.log1p(kappa)) * (2 + kappa) / kappa)  # nan: the integrand is negative
        low = np.clip(c - (c + half) * (1 + kappa) / (2 + kappa), p, p2)
        high = np.clip(c - (c - half) * (1 + kappa) / (2 + kappa), p, p2)
        ramp = interval_log_delta(epsilon, low, high, s - slope_limit * (low - p), s - slope_limit * (high - p))
        onset = epsilon / r2 - r2 / 2
        right = tail_log_delta(epsilon, np.maximum(onset, p2), np.maximum(r2, 0))
        left = interval_log_delta(epsilon, p2, onset, r2, r2)
    rest = np.where(r2 > 0, right, np.where(r2 < 0, left, -np.inf))
    return np.logaddexp(np.logaddexp(held, ramp), rest)


def best_ramp_log_delta(
    epsilon: FloatArray, *, sensitivity_ratio: float, curvature_ratio: float, lowest: float
) -> FloatArray:
    """`one_ramp_log_delta` of the `best_ramp`, for 1-d epsilon >= 0."""
    return best_ramp(epsilon, sensitivity_ratio=sensitivity_ratio, curvature_ratio=curvature_ratio, lowest=lowest)[0]


def best_ramp(
    epsilon: FloatArray, *, sensitivity_ratio: float, curvature_ratio: float, lowest: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(`one_ramp_log_delta`, p, r2) at the best p and r2 in [lowest, s] that a search finds, for 1-d epsilon >= 0.

    A coarse grid (around b*(s), around the ramp that is centred at 0, and between), then a compass search. Every (p,
    r2) is a loss, so an inexact search gives a smaller lower bound that is still valid.
    """
    s, kappa = sensitivity_ratio, curvature_ratio
    slope_limit = kappa / (1 + kappa)

    def value(p: FloatArray, r2: FloatArray) -> FloatArray:
        return one_ramp_log_delta(epsilon, p, r2, sensitivity_ratio=s, curvature_ratio=kappa)

    onset, centred = epsilon / s - s / 2, np.full_like(epsilon, -s / slope_limit)
    near = onset + np.array([[1], [0.3], [0], [-0.3], [-0.7], [-1.3], [-2], [-4]]) / (1 + np.abs(onset))
    bulk = centred + np.linspace(-3, 3, 7)[:, None]
    between = onset + (centred - onset) * np.array([[0.05], [0.2], [0.5], [0.8]])
    p = np.concatenate([near, bulk, between])[:, None]
    length = np.array([0.05, 0.2, 0.6, 1.5, 4])[:, None] / (1 + np.abs(onset))
    drop = np.concatenate([slope_limit * length, np.outer([0.3 * s, 0.6 * s, s, s - lowest], np.ones_like(onset))])
    r2 = np.maximum(s - drop, lowest)[None]
    found = value(p, r2)
    row = np.arange(epsilon.size)
    best = np.argmax(found.reshape(-1, epsilon.size), axis=0)
    p, r2 = (np.broadcast_to(x, found.shape).reshape(-1, epsilon.size)[best, row] for x in (p, r2))
    found = found.reshape(-1, epsilon.size)[best, row]
    step_p, step_r = 0.5 / (1 + np.abs(p)), 0.4 * (s - r2)
    compass = np.array([(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]).T[:, :, None]
    for _ in range(_ROUNDS):
        trial_p, trial_r = p + compass[0] * step_p, np.clip(r2 + compass[1] * step_r, lowest, s)
        trial = value(trial_p, trial_r)
        best = np.argmax(trial, axis=0), row
        better = trial[best] > found
        p, r2 = np.where(better, trial_p[best], p), np.where(better, trial_r[best], r2)
        found = np.maximum(found, trial[best])
        step_p, step_r = (np.where(better, step, step / 2) for step in (step_p, step_r))
    return found, p, r2


def staircase_log_delta(epsilon: FloatArray, *, sensitivity_ratio: float, curvature_ratio: float) -> FloatArray:
    """Log delta of the best of the `staircases`, for 1-d epsilon >= log(1 + kappa)."""
    begin, end, level = staircases(epsilon, sensitivity_ratio=sensitivity_ratio, curvature_ratio=curvature_ratio)
    ramps = interval_log_delta(epsilon, begin, end, level[:, :-1], level[:, 1:])
    onset = epsilon / level - level / 2
    ready = np.concatenate([np.full_like(end[:, :1], -np.inf), end[:, :-1]], axis=1)
    constant = interval_log_delta(epsilon, np.maximum(onset[:, :-1], ready), begin, level[:, :-1], level[:, :-1])
    tail = tail_log_delta(epsilon, np.maximum(onset[:, -1], end[:, -1]), level[:, -1])
    parts = np.concatenate([ramps, constant, tail[:, None]], axis=1)
    return np.logaddexp.reduce(parts, axis=1).max(axis=0)


def staircases(
    epsilon: FloatArray, *, sensitivity_ratio: float, curvature_ratio: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The staircases whose best `staircase_log_delta` takes, for 1-d epsilon >= log(1 + kappa).

    Returns
    -------
    begin, end : ndarrays (staircases, steps, epsilons), the interval of y of each ramp
    level : ndarray (staircases, steps + 1, epsilons), the shift r before the first ramp and after each
    """
    s, kappa = sensitivity_ratio, curvature_ratio
    slope_limit = kappa / (1 + kappa)
    turn = np.sqrt(2 * kappa / (2 + kappa) * epsilon)  # r_c: above it the target is b*(r), not y*(r)
    excess = np.maximum(epsilon - np.log1p(kappa), 0)
    high, low = curve_ends(excess, np.log(np.minimum(s, turn)), np.log1p(kappa), fall=_MISSED)
    graded = -np.log1p(np.linspace(0, 2 * _STEPS, 2 * _STEPS + 1) / (2 * _STEPS) * np.expm1(-_MISSED / 3)) * 3 / _MISSED
    y, r = curve_point(np.exp(high - (high - low) * graded[:, None]), excess)
    r = np.minimum(r, s)
    above = np.linspace(s, np.minimum(s, turn), 17)[:-1]
    r = np.concatenate([above, r])
    target = np.concatenate([epsilon / above - above / 2, y])[1::2]
    level = r[::2]
    length = -np.diff(level, axis=0) / slope_limit
    begin = target - length / 2
    # A ramp must not start before the previous one ends. Such starts form a convex set, so means of them are feasible.
    passed = np.concatenate([np.zeros((1, epsilon.size)), np.cumsum(length, axis=0)[:-1]])
    late = np.maximum.accumulate(begin - passed, axis=0)
    early = np.minimum.accumulate((begin - passed)[::-1], axis=0)[::-1]
    begin = late + (early - late) * _BLENDS[:, None, None] + passed
    end = np.maximum.accumulate(begin + length, axis=1)
    # levels from the rounded ends of the ramps: independent ones would exceed the largest slope where a ramp is a few
    # floating-point steps long
    level = s - slope_limit * np.cumsum(np.maximum(end - begin, 0), axis=1)
    level = np.concatenate([np.full_like(level[:, :1], s), np.maximum(level, 0)], axis=1)
    return begin, end, level


class AttainedLowerBound(DualityBound):
    """The delta that some loss within the mechanism's constants attains: a lower bound, not a guarantee.

    "add" is exact. "remove" is the best of the maps of this module's docstring, between the Gaussian's profile and
    `TightBound`; the exact profile is between this bound and `TightBound`. Each direction at negative epsilon is the
    dual of the other, as for the profiles of one map. It is monotone in epsilon and in the parameters only up to the
    tolerance of its search, about 1e-3 in log delta.

    Parameters
    ----------
    mechanism : ObjectivePerturbation, with any l2_reg > 0; its `monotone_loss` restricts the losses to one sign of f'

    Raises
    ------
    TypeError for another mechanism.
    """

    _unknown = -np.inf

    def _remove(self, epsilon: FloatArray) -> FloatArray:
        ratios = {"sensitivity_ratio": self._s, "curvature_ratio": self._kappa}
        lowest = 0.0 if self.mechanism.monotone_loss else -self._s
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            best = best_ramp_log_delta(epsilon, **ratios, lowest=lowest)
            slow = epsilon >= np.log1p(self._kappa)
            if slow.any():
                best[slow] = np.maximum(best[slow], staircase_log_delta(epsilon[slow], **ratios))
        # at epsilon = 0 both directions equal the total variation, which is exact in "add"
        return np.where(epsilon == 0, self._log_total_variation, best)
