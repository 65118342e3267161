"""Gradient clipping as a change of the loss: Algorithm 1's clipped-gradient loss."""

import numpy as np

from explorer.validation import positive


class ClippedLoss:
    """The convex loss whose gradient is the clipped per-record gradient min(1, C / |grad|) grad.

    With c = C / |x| and u_L = sup { u : f'(u) < -c }, u_H = inf { u : f'(u) > c }, it equals f on [u_L, u_H] and
    continues linearly with slope -c below and +c above, continuously: f(u_L) - c (u - u_L) and f(u_H) + c (u - u_H).
    It stays convex and a generalised linear model, and keeps the smoothness of f. A row x = 0 is left as it is (its
    loss is a constant); where the slope lies beyond the clip everywhere, the loss is linear.

    Parameters
    ----------
    loss : a loss of `explorer.learning.losses`
    clip_norm : float > 0, C
    row_norms : ndarray (n,), the l2 norms |x|, rounded up if at all

    Raises
    ------
    ValueError if clip_norm is not a finite number > 0.

    References: Redberg, Koskela, Wang 2023, Algorithm 1 (whose display omits f(u_L) and f(u_H)).
    """

    def __init__(self, loss, *, clip_norm, row_norms):
        self.loss = loss
        with np.errstate(divide="ignore", over="ignore"):
            slope = positive("clip_norm", clip_norm) / np.array(row_norms, float, ndmin=1)
        # Finite, so that it clips an infinite slope: where C / |x| overflows, the largest double times |x| is below C.
        self.slope = np.minimum(slope, np.finfo(float).max)

    @property
    def lipschitz(self):
        """Bound on |f_C'| of each record, min(L, c), ndarray (n,); times |x| it is at most C."""
        return np.minimum(self.loss.lipschitz, self.slope)

    @property
    def smoothness(self):
        """Bound on f_C'', that of f."""
        return self.loss.smoothness

    @property
    def monotone(self):
        """Whether f_C' never changes sign, as for f."""
        return self.loss.monotone

    @property
    def labels(self):
        """What y is, as for f."""
        return self.loss.labels

    def value(self, u, y):
        """f_C(u; y), elementwise over records, ndarray (n,)."""
        return self.value_and_derivative(u, y)[0]

    def derivative(self, u, y):
        """f_C'(u; y): the derivative of f clipped to [-c, c]."""
        return _within(self.loss.derivative(u, y), self.slope)

    def value_and_derivative(self, u, y):
        """f_C(u; y) and f_C'(u; y); u_L or u_H is computed only for the records that are clipped."""
        u, y, slope = np.broadcast_arrays(u, y, self.slope)
        value, derivative = self.loss.value_and_derivative(u, y)
        clipped = _within(derivative, slope)
        beyond = np.nonzero(clipped != derivative)
        if beyond[0].size:
            value[beyond] = self._line(u[beyond], y[beyond], clipped[beyond])
        return value, clipped

    def second_derivative(self, u, y):
        """f_C''(u; y): that of f on [u_L, u_H], where |f'| <= c, and 0 outside."""
        inside = np.abs(self.loss.derivative(u, y)) <= self.slope
        return np.where(inside, self.loss.second_derivative(u, y), 0.0)

    def _line(self, u, y, slope):
        """The line of this slope that touches f; where f is steeper everywhere, up to a constant, that through f(0)."""
        kink = self.loss.inverse_derivative(slope, y)
        anchor = np.where(np.isfinite(kink), kink, 0.0)
        return self.loss.value(anchor, y) + slope * (u - anchor)


def _within(derivative, slope):
    """`derivative` clipped to [-slope, slope]; np.clip is four times slower when its bounds are arrays."""
    return np.maximum(np.minimum(derivative, slope), -slope)
