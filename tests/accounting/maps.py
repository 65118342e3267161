"""The one-dimensional problem behind the tight bounds, attacked directly: maps T = id + h and their divergences.

Units: sigma = 1. A map is given by the knots of the piecewise-linear h, constant beyond them. "add" is the divergence
of T#N from N, "remove" that of N from T#N, whose map is the inverse: both are int [phi(u) - gamma phi(u+h)(1+h')]_+.
"""

import numpy as np
from scipy.special import logsumexp, ndtr

FAR = 40.0


def inverse(knots, shift):
    """The knots of T^-1: at y = u + h the shift is -h."""
    return knots + shift, -shift


def random_map(rng, *, s, kappa, monotone):
    """Knots and values of an admissible h: non-decreasing, |h| <= s (h >= 0 if monotone), h' <= kappa."""
    knots = np.sort(rng.uniform(-4, 4, rng.integers(2, 12)))
    speed = rng.choice([0.0, kappa, kappa * rng.random()], knots.size - 1)
    climb = np.concatenate([[0], np.cumsum(speed * np.diff(knots))])
    start = rng.uniform(0 if monotone else -s, s)
    # cut the climb off at s, with a knot of its own where it gets there
    full = np.nonzero(start + climb > s)[0]
    if full.size:
        i = full[0]
        knots = np.append(knots[:i], knots[i] - (start + climb[i] - s) / speed[i - 1])
        return knots, np.append(start + climb[:i], s)
    return knots, start + climb


def _pieces(knots, shift, steps, peak=0.0):
    """Ends of small intervals over [-FAR - peak, FAR + peak], fine out to 9 beyond the peak, that respect the knots."""
    far = FAR + peak
    u = np.unique(np.concatenate([[-far, far], np.linspace(-9 - peak, 9 + peak, steps), np.clip(knots, -far, far)]))
    return u[:-1], u[1:], np.interp(u[:-1], knots, shift), np.interp(u[1:], knots, shift)


def leak(epsilon, knots, shift, *, steps=4000):
    """Hockey-stick divergence of the map: exact on intervals without a sign change, from below on the others."""
    u0, u1, h0, h1 = _pieces(knots, shift, steps)
    own, other = ndtr(-u0) - ndtr(-u1), ndtr(-u0 - h0) - ndtr(-u1 - h1)
    return np.maximum(own - np.exp(epsilon) * other, 0).sum()


def renyi(alpha, knots, shift, *, steps=4000):
    """log int phi(u)^alpha (phi(u+h)(1+h'))^(1-alpha) du / (alpha - 1), by a Gauss rule on every interval."""
    nodes, weights = np.polynomial.legendre.leggauss(5)
    peak = (alpha - 1) * np.abs(shift).max()  # the integrand is a normal density moved by (alpha - 1) h
    u0, u1, h0, h1 = (x[:, None] for x in _pieces(knots, shift, steps, peak))
    u = (u0 + u1) / 2 + (u1 - u0) / 2 * nodes
    slope = (h1 - h0) / (u1 - u0)
    h = h0 + slope * (u - u0)
    loss = h * (u + h / 2) - np.log1p(slope)
    exponent = (alpha - 1) * loss - u * u / 2 - 0.5 * np.log(2 * np.pi)
    return logsumexp(exponent, b=(u1 - u0) / 2 * weights) / (alpha - 1)


def best_leak(epsilon, *, s, kappa, direction, monotone, levels):
    """The best map by a dynamic program over a grid of (u, h): at each step h rests or moves at full speed.

    Its paths are admissible maps and every step's gain is a lower bound, so the optimum cannot exceed the supremum.
    """
    gamma = np.exp(epsilon)
    h = np.linspace(0 if monotone else -s, s, levels + 1)
    if direction == "remove":
        h = h[::-1]
    step = abs(h[1] - h[0]) * (1 if direction == "add" else 1 + kappa) / kappa
    u = np.arange(-9, 12, step)

    def gain(i, h0, h1):
        return np.maximum(ndtr(-u[i]) - ndtr(-u[i + 1]) - gamma * (ndtr(-u[i] - h0) - ndtr(-u[i + 1] - h1)), 0)

    value = np.maximum(ndtr(-u[-1]) - gamma * ndtr(-u[-1] - h), 0)
    for i in range(u.size - 2, -1, -1):
        move = value[1:] + gain(i, h[:-1], h[1:])
        value = value + gain(i, h, h)
        value[:-1] = np.maximum(value[:-1], move)
    return np.max(value + np.maximum(ndtr(u[0]) - gamma * ndtr(u[0] + h), 0))
