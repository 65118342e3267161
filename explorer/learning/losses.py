"""Convex losses of generalised linear models, f(u; y) at the margin u = x.theta, with the constants privacy needs.

Every loss has, for unit row norm, `lipschitz` (bound on |f'|) and `smoothness` (bound on f''); a row of norm B turns
them into B lipschitz and B^2 smoothness, the constants of the loss in theta. `monotone` tells whether f' never
changes sign. All methods are elementwise over arrays that broadcast.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit


@dataclass(frozen=True)
class Logistic:
    """f(u; y) = log(1 + e^(-y u)) for labels y in {-1, +1}; |f'| < 1, f'' <= 1/4, monotone."""

    lipschitz = 1.0
    smoothness = 0.25
    monotone = True

    def value(self, u, y):
        """f(u; y), stable at any margin."""
        return np.logaddexp(0, -y * u)

    def derivative(self, u, y):
        """f'(u; y) = -y / (1 + e^(y u))."""
        return -y * expit(-y * u)

    def second_derivative(self, u, y):
        """f''(u; y), between 0 and 1/4."""
        return expit(u) * expit(-u)

    def inverse_derivative(self, slope, y):
        """sup { u : f'(u; y) < slope }; -inf or +inf where the slope lies beyond the range of f'."""
        return -y * logit(np.clip(-y * slope, 0, 1))

    def value_and_derivative(self, u, y):
        """Both at once."""
        return self.value(u, y), self.derivative(u, y)


def resolve_loss(loss, *, labels):
    return Logistic()
