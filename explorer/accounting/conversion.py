"""From Renyi differential privacy to (epsilon, delta): conversion at one order, and the search for the best order."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from explorer.accounting.logspace import log1mexp
from explorer.accounting.types import BoolArray, Divergence, FloatArray

# alpha - 1 of the coarse search; beyond its ends the converted bounds are trivial (left) or below e^-10^9 (right).
_EXCESS = np.geomspace(1e-6, 1e12, 121)
_STEP = float(np.log(_EXCESS[1] / _EXCESS[0]))
_SHRINK, _FINEST, _MOVES = 5, _STEP / 3e3, 16


class Conversion(Protocol):
    """A conversion from the Renyi divergence of one order to (epsilon, delta); all arguments broadcast."""

    def log_delta(self, epsilon: FloatArray, *, alpha: FloatArray, rdp: FloatArray) -> FloatArray:
        """Log delta at `epsilon` (nats) that follows from the divergence `rdp` (nats) of order `alpha`."""
        ...

    def epsilon(self, log_delta: FloatArray, *, alpha: FloatArray, rdp: FloatArray) -> FloatArray:
        """Epsilon (nats) at `log_delta` that follows from the divergence `rdp` (nats) of order `alpha`."""
        ...


class Mironov:
    """delta = exp((alpha - 1)(rdp - epsilon)).

    References: Mironov 2017, Proposition 3.
    """

    @staticmethod
    def log_delta(epsilon: FloatArray, *, alpha: FloatArray, rdp: FloatArray) -> FloatArray:
        """Log delta at `epsilon` from the divergence `rdp` of order `alpha`; all arguments broadcast, nats."""
        return (alpha - 1) * (rdp - epsilon)

    @staticmethod
    def epsilon(log_delta: FloatArray, *, alpha: FloatArray, rdp: FloatArray) -> FloatArray:
        """Epsilon at `log_delta` from the divergence `rdp` of order `alpha`; all arguments broadcast, nats."""
        return rdp - log_delta / (alpha - 1)


class CanonneKamathSteinke:
    """delta = exp((alpha - 1)(rdp - epsilon)) (1 - 1/alpha)^(alpha - 1) / alpha, the best constant for one order.

    References: Canonne, Kamath & Steinke 2020, Proposition 12; Balle et al. 2020, Theorem 21.
    """

    @staticmethod
    def log_delta(epsilon: FloatArray, *, alpha: FloatArray, rdp: FloatArray) -> FloatArray:
        """Log delta at `epsilon` from the divergence `rdp` of order `alpha`; all arguments broadcast, nats."""
        return (alpha - 1) * (rdp - epsilon + np.log1p(-1 / alpha)) - np.log(alpha)

    @staticmethod
    def epsilon(log_delta: FloatArray, *, alpha: FloatArray, rdp: FloatArray) -> FloatArray:
        """Epsilon at `log_delta` from the divergence `rdp` of order `alpha`; all arguments broadcast, nats."""
        return rdp + np.log1p(-1 / alpha) - (log_delta + np.log(alpha)) / (alpha - 1)


class Optimum(NamedTuple):
    """The best value over Renyi orders, the order that attains it, and whether that is an end of the search."""

    value: FloatArray
    order: FloatArray
    at_edge: BoolArray


def minimise_over_orders(
    value: Callable[[FloatArray, FloatArray], FloatArray],
    rdp: Divergence,
    *,
    rows: int,
    orders: FloatArray | None = None,
) -> Optimum:
    """Minimise value(alpha, rdp(alpha)) over alpha, for `rows` problems at once.

    Every alpha gives a valid bound, so an inexact minimum is a looser bound but still valid. Without `orders` the
    search is continuous: a geometric grid of alpha - 1 from 1e-6 to 1e12 brackets each row's minimum, then successive
    parabolic interpolation in log(alpha - 1) refines it, over three equally spaced points whose distance shrinks. Where
    the best of the three is an end (the divergence of a subsampled mechanism can have a kink that the parabola misses),
    the points move there without a change of their distance.

    Parameters
    ----------
    value : callable (alpha, rdp) -> objective, broadcasting a leading axis of length `rows`
    rdp : callable, elementwise in alpha
    rows : int
    orders : 1-d array of orders > 1 to choose from, or None for the continuous search

    Returns
    -------
    Optimum of arrays of shape (rows,)
    """
    row = np.arange(rows)
    alpha = 1 + _EXCESS if orders is None else orders
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        objective = np.broadcast_to(value(alpha, rdp(alpha)), (rows, alpha.size))
        best = _argmin(objective)
        optimum, order = objective[row, best], alpha[best]
        edge = (best == 0) | (best == alpha.size - 1)
        if orders is not None:
            return Optimum(optimum, order, edge)
        centre, step = np.log(_EXCESS[best]), np.full(rows, _STEP)
        for _ in range(_MOVES):
            active = step > _FINEST  # rows converge independently
            if not active.any():
                break
            alpha = 1 + np.exp(centre[:, None] + step[:, None] * np.array([-1.0, 0.0, 1.0]))
            objective = value(alpha, rdp(alpha))
            best = _argmin(objective)
            better = active & (objective[row, best] < optimum)
            optimum = np.where(better, objective[row, best], optimum)
            order = np.where(better, alpha[row, best], order)
            left, middle, right = objective.T
            inside = edge | (middle - objective[row, best] <= 1e-15 * np.abs(middle))
            vertex = 0.5 * (left - right) / (left - 2 * middle + right)
            vertex = np.where(inside & (np.abs(vertex) <= 1), vertex, best - 1.0)
            centre, step = centre + vertex * step, np.where(inside, step / _SHRINK, step)
    return Optimum(optimum, order, edge)


def _argmin(objective: FloatArray) -> np.ndarray:
    return np.argmin(np.where(np.isnan(objective), np.inf, objective), axis=1)


def kl_log_delta(kl: ArrayLike) -> FloatArray:
    """Log of sqrt(1 - e^-KL), a bound on delta at every epsilon >= 0.

    References: Bretagnolle & Huber 1979.
    """
    return 0.5 * log1mexp(-np.asarray(kl, float))
