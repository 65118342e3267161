"""Exact output densities of one-dimensional objective perturbation, and the divergences between them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import logsumexp

from explorer.accounting.logspace import log1mexp, log_normal_density
from explorer.learning.losses import Loss
from explorer.learning.types import Array


def log_density(
    theta: Array, *, loss: Loss, records: Sequence[tuple[float, float]], l2_reg: float, noise_std: float
) -> Array:
    """`minimiser_log_density` for b ~ N(0, noise_std^2)."""

    def log_noise(b: Array) -> Array:
        return log_normal_density(b / noise_std) - np.log(noise_std)

    return minimiser_log_density(theta, loss=loss, records=records, l2_reg=l2_reg, log_noise=log_noise)


def minimiser_log_density(
    theta: Array,
    *,
    loss: Loss,
    records: Sequence[tuple[float, float]],
    l2_reg: float,
    log_noise: Callable[[Array], Array],
) -> Array:
    """Log density of the exact minimiser of sum f(x theta; y) + (l2_reg/2) theta^2 + b theta, b of density e^log_noise.

    theta is the minimiser for exactly one b = -sum f'(x theta) x - l2_reg theta, which decreases in theta: by the
    change of variables, its density is that of b times the second derivative of the objective.

    Parameters
    ----------
    theta : ndarray, any shape
    loss : Loss
    records : list of (x, y), floats
    l2_reg : float > 0
    log_noise : callable, elementwise

    Returns
    -------
    ndarray of theta's shape
    """
    slope = l2_reg * theta + sum(loss.derivative(x * theta, y) * x for x, y in records)
    curvature = l2_reg + sum(loss.second_derivative(x * theta, y) * x * x for x, y in records)
    return log_noise(-slope) + np.log(curvature)


def log_hockey_stick(epsilon: float, theta: Array, log_p: Array, log_q: Array) -> float:
    """log of the integral of (p - e^epsilon q)_+ over the fine grid theta, -inf where p never exceeds e^epsilon q."""
    excess = log_p + log1mexp(np.minimum(epsilon + log_q - log_p, 0))
    total: Any = logsumexp(excess + np.log(np.gradient(theta)))
    return float(total)
