"""Gradient clipping as a change of the loss: Algorithm 1's clipped-gradient loss."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from explorer.learning.losses import Labels, Loss
from explorer.learning.types import Array
from explorer.validation import positive


class ClippedLoss:
    """The convex loss whose gradient is the clipped per-record gradient min(1, C / |grad|) grad.

    With c = C / |x| and u_L = sup { u : f'(u) < -c }, u_H = inf { u : f'(u) > c }, it equals f on [u_L, u_H] and
    continues linearly with slope -c below and +c above, continuously: f(u_L) - c (u - u_L) and f(u_H) + c (u - u_H).
    It is convex, depends on x.theta alone, and has the smoothness bound of f. A row x = 0 is unchanged (its loss is a
    constant); where |f'| > c everywhere, the loss is linear.

    Parameters
    ----------
    loss : Loss
    clip_norm : float > 0, C
    row_norms : ndarray (n,), the l2 norms |x| or upper bounds on them

    Raises
    ------
    ValueError if clip_norm is not a finite number > 0.

    References: Redberg, Koskela & Wang 2023, Algorithm 1 (whose display omits f(u_L) and f(u_H)).
    """

    def __init__(self, loss: Loss, *, clip_norm: float, row_norms: ArrayLike) -> None:
        self.loss = loss
        with np.errstate(divide="ignore", over="ignore"):
            slope = positive("clip_norm", clip_norm) / np.array(row_norms, float, ndmin=1)
        # Finite, so that it clips an infinite derivative: where C / |x| overflows, the largest double times |x| is < C.
        self.slope = np.minimum(slope, np.finfo(float).max)

    @property
    def lipschitz(self) -> Array:
        """Bound on |f_C'| of each record, min(L, c), ndarray (n,); times |x| it is at most C."""
        return np.minimum(self.loss.lipschitz, self.slope)

    @property
    def smoothness(self) -> float:
        """Bound on f_C'', that of f."""
        return self.loss.smoothness

    @property
    def monotone(self) -> bool:
        """Whether f_C' never changes sign, as for f."""
        return self.loss.monotone

    @property
    def labels(self) -> Labels:
        """The kind of y, as for f."""
        return self.loss.labels

    def value(self, u: Any, y: Any) -> Array:
        """f_C(u; y), elementwise over records, ndarray (n,)."""
        return self.value_and_derivative(u, y)[0]

    def derivative(self, u: Any, y: Any) -> Array:
        """f_C'(u; y): the derivative of f clipped to [-c, c]."""
        return _within(self.loss.derivative(u, y), self.slope)

    def value_and_derivative(self, u: Any, y: Any) -> tuple[Array, Array]:
        """f_C(u; y) and f_C'(u; y); u_L or u_H is computed only for the records that are clipped."""
        u, y, slope = np.broadcast_arrays(u, y, self.slope)
        value, derivative = self.loss.value_and_derivative(u, y)
        clipped = _within(derivative, slope)
        beyond = np.nonzero(clipped != derivative)
        if beyond[0].size:
            value[beyond] = self._line(u[beyond], y[beyond], clipped[beyond])
        return value, clipped

    def second_derivative(self, u: Any, y: Any) -> Array:
        """f_C''(u; y): that of f on [u_L, u_H], where |f'| <= c, and 0 outside."""
        inside = np.abs(self.loss.derivative(u, y)) <= self.slope
        return np.where(inside, self.loss.second_derivative(u, y), 0.0)

    def _line(self, u: Array, y: Array, slope: Array) -> Array:
        """The tangent of f with this slope; where |f'| exceeds it everywhere, the line through f(0)."""
        kink = self.loss.inverse_derivative(slope, y)
        anchor = np.where(np.isfinite(kink), kink, 0.0)
        return self.loss.value(anchor, y) + slope * (u - anchor)


def _within(derivative: Array, slope: Array) -> Array:
    """`derivative` clipped to [-slope, slope]; np.clip with arrays as bounds is four times slower."""
    return np.maximum(np.minimum(derivative, slope), -slope)
