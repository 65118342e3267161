"""Differences of nearly equal quantities in the log domain, without cancellation."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx

from explorer.accounting.types import FloatArray

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(6)


def log1mexp(x: ArrayLike) -> FloatArray:
    """log(1 - e^x) for x <= 0, elementwise; -inf at x = 0."""
    x = np.asarray(x, float)
    with np.errstate(divide="ignore"):
        return np.where(x > -np.log(2), np.log(-np.expm1(x)), np.log1p(-np.exp(x)))


def log_from_complement(direct: ArrayLike, complement: ArrayLike) -> FloatArray:
    """log delta from log delta and log(1 - delta), elementwise: from the complement where delta > 1/2, else directly.

    Each is accurate to rounding where it is the smaller one.
    """
    complement = np.asarray(complement)
    return np.where(complement < -np.log(2), log1mexp(np.minimum(complement, 0)), direct) + 0.0  # no -0.0


def log_normal_density(x: ArrayLike) -> FloatArray:
    """log of the standard normal density at x, elementwise."""
    with np.errstate(over="ignore"):
        return -0.5 * np.square(x) - 0.5 * np.log(2 * np.pi)


def mills_ratio(x: ArrayLike) -> FloatArray:
    """m(x) = Phi(-x) / phi(x) = sqrt(pi/2) erfcx(x / sqrt 2), elementwise; overflows to inf below x = -37."""
    return np.sqrt(np.pi / 2) * erfcx(np.asarray(x) / np.sqrt(2))


def log_mills_difference(x: ArrayLike, step: ArrayLike) -> FloatArray:
    """log(m(x) - m(x + step)) for step > 0 and x >= -step/2, elementwise, without cancellation.

    m(x) - m(x + step) is the integral of -m'(u) = 1 - u m(u) over the step. Where the two ratios are close, that
    integral is taken by a six-point Gauss rule (the integrand is analytic and nearly constant there) instead.
    """
    x, step = np.broadcast_arrays(np.asarray(x, float), np.asarray(step, float))
    narrow = step < 0.2 * np.maximum(1, x)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        result = np.asarray(np.log(mills_ratio(x) - mills_ratio(x + step)))
        nodes = x[narrow][:, None] + step[narrow][:, None] * (1 + _NODES) / 2
        result[narrow] = np.log(step[narrow] / 2) + np.log(_minus_mills_derivative(nodes) @ _WEIGHTS)
    return result[()]


def _minus_mills_derivative(x: FloatArray) -> FloatArray:
    """1 - x m(x), by its asymptotic series from x = 30 on, where the difference would lose three digits."""
    z = 1 / np.square(np.maximum(x, 1))
    series = z * (1 - 3 * z * (1 - 5 * z * (1 - 7 * z * (1 - 9 * z * (1 - 11 * z * (1 - 13 * z * (1 - 15 * z)))))))
    return np.where(x < 30, 1 - x * mills_ratio(np.minimum(x, 30)), series)
