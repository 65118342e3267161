"""Exact output densities of one-dimensional objective perturbation, and the divergences between them."""

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from explorer.accounting.logspace import log1mexp


def log_density(theta, *, loss, records, l2_reg, noise_std):
    """Log density of the exact minimiser of sum f(x theta; y) + (l2_reg/2) theta^2 + b theta, b ~ N(0, noise_std^2).

    The minimiser theta comes from b = -sum f'(x theta) x - l2_reg theta alone, which decreases in theta: the density is
    that of b times the second derivative of the objective. `records` is a list of (x, y).
    """
    slope = l2_reg * theta + sum(loss.derivative(x * theta, y) * x for x, y in records)
    bend = l2_reg + sum(loss.second_derivative(x * theta, y) * x * x for x, y in records)
    return norm.logpdf(-slope, scale=noise_std) + np.log(bend)


def log_hockey_stick(epsilon, theta, log_p, log_q):
    """log of the integral of (p - e^epsilon q)_+ over the fine grid theta."""
    excess = log_p + log1mexp(np.minimum(epsilon + log_q - log_p, 0))
    return logsumexp(excess + np.log(np.gradient(theta)))
