"""Exact output densities of one-dimensional objective perturbation, and the divergences between them."""

import numpy as np
from scipy.special import logsumexp

from explorer.accounting.logspace import log1mexp, log_normal_density


def log_density(theta, *, loss, records, l2_reg, noise_std):
    """`minimiser_log_density` for b ~ N(0, noise_std^2)."""

    def log_noise(b):
        return log_normal_density(b / noise_std) - np.log(noise_std)

    return minimiser_log_density(theta, loss=loss, records=records, l2_reg=l2_reg, log_noise=log_noise)


def minimiser_log_density(theta, *, loss, records, l2_reg, log_noise):
    """Log density of the exact minimiser of sum f(x theta; y) + (l2_reg/2) theta^2 + b theta, b of density e^log_noise.

    The minimiser theta comes from b = -sum f'(x theta) x - l2_reg theta alone, which decreases in theta: the density is
    that of b times the second derivative of the objective.

    Parameters
    ----------
    theta : ndarray, any shape, where the density is wanted
    loss : Loss
    records : list of (x, y), floats
    l2_reg : float > 0
    log_noise : callable, elementwise

    Returns
    -------
    ndarray of theta's shape
    """
    slope = l2_reg * theta + sum(loss.derivative(x * theta, y) * x for x, y in records)
    bend = l2_reg + sum(loss.second_derivative(x * theta, y) * x * x for x, y in records)
    return log_noise(-slope) + np.log(bend)


def log_hockey_stick(epsilon, theta, log_p, log_q):
    """log of the integral of (p - e^epsilon q)_+ over the fine grid theta, -inf where p never exceeds e^epsilon q."""
    excess = log_p + log1mexp(np.minimum(epsilon + log_q - log_p, 0))
    return logsumexp(excess + np.log(np.gradient(theta)))
