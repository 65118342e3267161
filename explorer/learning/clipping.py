"""Gradient clipping as a change of the loss: Algorithm 1's clipped-gradient loss."""

import numpy as np


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
    row_norms : ndarray (n,), the l2 norms |x|

    References: Redberg, Koskela, Wang 2023, Algorithm 1 (whose display omits f(u_L) and f(u_H)).
    """

    def __init__(self, loss, *, clip_norm, row_norms):
        self.loss = loss
        with np.errstate(divide="ignore"):
            self.slope = clip_norm / np.asarray(row_norms, float)

    def value(self, u, y):
        """f_C(u; y), elementwise over records, ndarray (n,)."""
        low, high = self._kinks(y)
        kink = np.clip(u, low, high)
        anchor = np.where(np.isfinite(kink), kink, 0.0)  # linear everywhere: any anchor, the loss shifts by a constant
        signed_slope = np.where(u < low, -self.slope, np.where(u > high, self.slope, 0.0))
        return self.loss.value(anchor, y) + signed_slope * (u - anchor)

    def derivative(self, u, y):
        """f_C'(u; y): the derivative of f clipped to [-c, c]."""
        return np.clip(self.loss.derivative(u, y), -self.slope, self.slope)

    def value_and_derivative(self, u, y):
        """Both at once."""
        return self.value(u, y), self.derivative(u, y)

    def second_derivative(self, u, y):
        """f_C''(u; y): that of f on [u_L, u_H], 0 outside."""
        low, high = self._kinks(y)
        return np.where((u >= low) & (u <= high), self.loss.second_derivative(u, y), 0.0)

    def _kinks(self, y):
        return self.loss.inverse_derivative(-self.slope, y), self.loss.inverse_derivative(self.slope, y)
