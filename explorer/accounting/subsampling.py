"""Renyi divergence of the Poisson-subsampled Gaussian mechanism (DP-SGD) at every real order alpha >= 1.

With sampling rate q, noise multiplier sigma and s = 1/sigma, one step is dominated by the pair (1-q) N(0,1) + q N(s,1)
against N(0,1), so with w(x) = q (e^(s x - s^2/2) - 1) and x ~ N(0,1), where E w = 0,

    A(alpha) = E (1 + w)^alpha = 1 + E[(1 + w)^alpha - 1 - alpha w],        rdp = log A(alpha) / (alpha - 1).

The last bracket is never negative (Bernoulli's inequality), so it is computed without cancellation at every sampling
rate and noise. At an integer order it
is a finite sum of positive terms (`_integer_log_excess`). Elsewhere the integral is taken by the trapezoidal rule,
which converges geometrically here: the integrand is analytic in a strip of half-width pi / s (`_real_log_excess`).
The binomial series for fractional orders would alternate.

With Poisson sampling each record is in a batch independently with probability q. Batches from a shuffled pass over the
data are not Poisson samples, and these bounds do not hold for them.

References: Mironov, Talwar & Zhang 2019, Section 3.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, gammaln, logsumexp

from explorer.accounting.bounds.renyi import rdp_of
from explorer.accounting.mechanisms import PoissonSubsampledGaussian
from explorer.accounting.types import BoolArray, Divergence, FloatArray
from explorer.validation import order_array, positive, real

_LARGEST_SUM = 512  # largest integer order that is summed; the others are integrated
_LARGEST_RATIO, _LARGEST_ORDER = 10.0, 1e13  # beyond either, Minkowski's inequality is used


def poisson_subsampled_gaussian_rdp(alpha: ArrayLike, *, noise_multiplier: float, sampling_rate: float) -> FloatArray:
    """Renyi divergence of one step: exact to rounding for noise_multiplier >= 0.1 and alpha <= 1e13, else an upper
    bound.

    Parameters
    ----------
    alpha : array_like, any shape, >= 1
    noise_multiplier : float > 0, sigma
    sampling_rate : float in (0, 1], q

    Returns
    -------
    ndarray of alpha's shape, nats; at alpha = 1 the Kullback-Leibler divergence E[(1 + w) log(1 + w)]

    Raises
    ------
    ValueError if an argument is out of range.

    References: Mironov, Talwar & Zhang 2019, Theorems 4 and 5 and Section 3.
    """
    alpha = order_array(alpha)
    s = 1 / positive("noise_multiplier", noise_multiplier)
    q = real("sampling_rate", sampling_rate, rule="inside (0, 1]", valid=lambda x: (x > 0) & (x <= 1))
    if q == 1 or s * s == np.inf:
        return (alpha * (s * s / 2))[()]
    orders = alpha.ravel()
    rdp = _minkowski(orders, s, q)
    if s <= _LARGEST_RATIO:
        whole = (orders == np.floor(orders)) & (orders > 1) & (orders <= _LARGEST_SUM)
        rest = ~whole & (orders <= _LARGEST_ORDER)
        for chosen, log_excess in ((whole, _integer_log_excess), (rest, _real_log_excess)):
            if chosen.any():
                rdp[chosen] = _rdp_from_excess(orders[chosen] - 1, log_excess(orders[chosen], s, q))
    # A divergence that underflows must not become 0, which is perfect privacy.
    return np.maximum(rdp, np.finfo(float).tiny).reshape(alpha.shape)[()]


def steepest_order(*, noise_multiplier: float, sampling_rate: float) -> tuple[float, float]:
    """The order at which log rdp grows fastest as a function of log alpha.

    Without sampling rdp = alpha s^2/2, whose growth d log rdp / d log alpha is 1 everywhere. With it the excess moment
    of order alpha is about q^2 alpha (alpha - 1) (e^(s^2) - 1) / 2 at small orders, and q^alpha e^(alpha (alpha - 1)
    s^2/2), the contribution of the record being sampled, at large ones: the growth is 1 in both ranges, and larger
    between them, for small q near alpha = 1 + 2 sigma^2 log(1/q). The divergences of the steps add up, so their number
    does not matter.

    Parameters
    ----------
    noise_multiplier : float > 0, sigma
    sampling_rate : float in (0, 1], q

    Returns
    -------
    order : float >= 1, nan for q = 1
    growth : float, d log rdp / d log alpha there, 1 for q = 1

    Raises
    ------
    ValueError if an argument is out of range.
    """
    ratios = {"noise_multiplier": noise_multiplier, "sampling_rate": sampling_rate}
    poisson_subsampled_gaussian_rdp(1.0, **ratios)  # validates
    if sampling_rate == 1:
        return np.nan, 1.0
    low, high = 0.0, float(np.log1p(8 * noise_multiplier**2 * max(-np.log(sampling_rate), 1.0)))
    order = growth = 1.0
    for _ in range(4):  # the mean growth of a cell shows a steep part within it, however narrow
        cells = np.linspace(low, high, 65)
        slopes = np.diff(np.log(poisson_subsampled_gaussian_rdp(np.exp(cells), **ratios))) / np.diff(cells)
        i = int(np.argmax(slopes))
        order, growth = float(np.exp((cells[i] + cells[i + 1]) / 2)), float(slopes[i])
        low, high = cells[max(i - 1, 0)], cells[min(i + 2, 64)]
    return order, growth


def _rdp_from_excess(order_excess: FloatArray, log_excess: FloatArray) -> FloatArray:
    """log A / (alpha - 1) from log of (A - 1) / (alpha - 1), which has a limit at alpha = 1."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(
            order_excess > 0,
            np.logaddexp(0, np.log(order_excess) + log_excess) / order_excess,
            np.exp(log_excess),
        )


def _minkowski(alpha: FloatArray, s: float, q: float) -> FloatArray:
    """alpha / (alpha - 1) log(1 - q + q e^((alpha-1) s^2/2)): the triangle inequality for the alpha-norm of 1 + w.

    Never below the divergence, and equal to it to leading order for large alpha s; q s^2/2 at alpha = 1.
    """
    excess = alpha - 1
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        norm = _log_mixture(excess * s * s / 2, q) / excess
        return np.where(excess * s * s < 1e-290, q * s * s / 2, np.where(np.isinf(alpha), np.inf, alpha * norm))


def _log_mixture(v: FloatArray, q: float) -> FloatArray:
    """log(1 + q (e^v - 1)), elementwise: accurate for small v and small q, finite for every finite v."""
    small = np.log1p(q * np.expm1(np.minimum(v, 700)))
    with np.errstate(over="ignore"):
        return np.where(v < 700, small, v + np.log(q) + np.log1p((1 - q) / q * np.exp(-v)))


def _integer_log_excess(alpha: FloatArray, s: float, q: float) -> FloatArray:
    """log of sum_{k=2}^alpha C(alpha,k) (1-q)^(alpha-k) q^k (e^(k(k-1)s^2/2) - 1) / (alpha - 1), for integers >= 2."""
    k = np.arange(2, int(alpha.max()) + 1)
    gain = k * (k - 1) * s * s / 2
    with np.errstate(divide="ignore"):
        log_gain = gain + np.log(-np.expm1(-gain))
    log_factorial = gammaln(np.arange(k[-1] + 1) + 1)
    n = alpha.astype(int)[:, None]
    rest = n - k
    per_k = k * (np.log(q) - np.log1p(-q)) - log_factorial[k] + log_gain
    terms = np.where(rest >= 0, per_k - log_factorial[np.maximum(rest, 0)], -np.inf)
    total = logsumexp(terms, axis=1)
    return total + log_factorial[n[:, 0]] + alpha * np.log1p(-q) - np.log(alpha - 1)


def _real_log_excess(alpha: FloatArray, s: float, q: float) -> FloatArray:
    """log of E[(1 + w)^alpha - 1 - alpha w] / (alpha - 1), for real alpha >= 1, by the trapezoidal rule."""
    parts = np.full((2, alpha.size), -np.inf)
    for part, (low, high) in zip(parts, _windows(alpha, s, q), strict=True):
        row = np.flatnonzero(high > low)
        if row.size:
            # A step of half a unit, or of half of 1/s, has an error of e^-39. Windows wider than 256 need no finer one.
            count = int(np.ceil(min(np.max((high - low)[row]), 256.0) / min(0.5, 0.5 / s)))
            step = (high - low)[row] / count
            x = low[row, None] + step[:, None] * np.arange(count + 1)
            values = _log_bernoulli(alpha[row, None], _log_mixture(s * (x - s / 2), q)) - x * x / 2
            part[row] = logsumexp(values, axis=1) + np.log(step)
    return np.logaddexp(*parts) - np.log(2 * np.pi) / 2


def _log_bernoulli(alpha: FloatArray, privacy_loss: FloatArray) -> FloatArray:
    """log of ((1 + w)^alpha - 1 - alpha w) / (alpha - 1) where log(1 + w) is given, elementwise, without cancellation.

    With v = log(1 + w) and u = (alpha - 1) v it is e^v (expm1(u) / (alpha - 1) + expm1(-v)); at alpha = 1,
    expm1(u) / (alpha - 1) is v itself. For small w it is the binomial series from its second term; for large u the
    leading power is factored out.
    """
    excess, v = alpha - 1, privacy_loss
    u = excess * v
    w = np.expm1(np.minimum(v, 1.0))
    series = np.ones(np.broadcast_shapes(alpha.shape, w.shape))
    for k in range(13, 2, -1):  # 1 + (alpha-2) w/3 (1 + (alpha-3) w/4 (1 + ...)), used where alpha |w| < 1/8
        series = 1 + (alpha - k + 1) * w / k * series
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        small = np.log(alpha / 2) + 2 * np.log(np.abs(w)) + np.log(series)
        slope = np.where(np.abs(u) < 1e-290, 1.0, np.expm1(np.minimum(u, 1)) / u)
        middle = v + np.log(v * slope + np.expm1(-v))
        large = alpha * v - np.log(excess) + np.log1p(-np.exp(-u) * (1 - excess * np.expm1(-v)))
    return np.where(alpha * np.abs(w) < 0.125, small, np.where(u < 1, middle, large))


def _windows(alpha: FloatArray, s: float, q: float) -> tuple[tuple[FloatArray, FloatArray], ...]:
    """Two intervals per order, as pairs of arrays (low, high), outside of which the integrand is negligible.

    The exponent of phi(x) (1 + w)^alpha, f(x) = -x^2/2 + alpha v(x) with v = log(1 + w), has f'(x) = alpha s p(x) - x,
    where p is the posterior weight of N(s,1). Since v'' = s^2 p (1 - p), f is concave, then convex, then concave: at
    most two peaks with a valley between, all in [0, alpha s]. So each end is a crossing of a level on a stretch where f
    is monotone. Two intervals are kept apart only if the valley lies below the level, else the second one is empty.

    The level is e^-45 of the integral, which is at least about (q min(s, 1))^2 where A - 1 is small, and about e^max f
    where it is not. For w < 0 the integrand may exceed phi (1 + w)^alpha, but not phi: hence the floor at -reach.
    """
    depth = 48 - 2 * np.log(q * min(s, 1.0))
    reach = np.sqrt(2 * depth)
    middle = s / 2 + (np.log1p(-q) - np.log(q)) / s  # where p = 1/2

    def f(x: FloatArray) -> FloatArray:
        return -x * x / 2 + alpha * _log_mixture(s * (x - s / 2), q)

    def rising(x: FloatArray) -> BoolArray:
        return alpha * s * expit(s * (x - middle)) > x

    zero, end = np.zeros_like(alpha), alpha * s
    bend = 2 * np.arccosh(np.maximum(s * np.sqrt(alpha) / 2, 1)) / s  # alpha v'' = 1 at middle -+ bend
    low_peak, high_peak = _last_true(
        rising, np.stack([zero, np.clip(middle + bend, 0, end)]), np.stack([np.clip(middle - bend, 0, end), end])
    )
    valley = _last_true(lambda x: ~rising(x), low_peak, high_peak)
    level = np.maximum(f(low_peak), f(high_peak)) - depth
    upwards = np.array([True, False, True, False])[:, None]  # whether f increases where each end is searched
    ends = _last_true(
        lambda x: (f(x) < level) == upwards,
        np.stack([zero - reach, low_peak, valley, high_peak]),
        np.stack([low_peak, valley, high_peak, end + reach]),
    )
    joined = f(valley) >= level
    first = np.where(ends[0] < reach, -reach, ends[0]), np.where(joined, ends[3], ends[1])
    second = np.where(joined, ends[3], ends[2]), ends[3]
    return first, second


def _last_true(condition: Callable[[FloatArray], BoolArray], low: FloatArray, high: FloatArray) -> FloatArray:
    """Bisection, elementwise: the point where `condition` changes from true to false; an end where it does not."""
    for _ in range(50):
        middle = (low + high) / 2
        true = condition(middle)
        low, high = np.where(true, middle, low), np.where(true, high, middle)
    return (low + high) / 2


@rdp_of.register
def _(mechanism: PoissonSubsampledGaussian) -> Divergence:
    ratios = {"noise_multiplier": mechanism.noise_multiplier, "sampling_rate": mechanism.sampling_rate}

    def rdp(alpha: ArrayLike) -> FloatArray:
        with np.errstate(over="ignore"):
            return mechanism.steps * poisson_subsampled_gaussian_rdp(alpha, **ratios)

    return rdp
