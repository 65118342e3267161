"""The density of a one-dimensional minimiser in known cases, and divergences of known densities."""

import numpy as np
import pytest
from scipy.stats import norm

from explorer.accounting import Gaussian, GaussianLowerBound
from explorer.learning import LogCosh, Squared
from explorer.learning.densities import log_density, log_hockey_stick


def test_squared_loss_has_a_normal_minimiser():
    """(x theta - y)^2/2 + (l/2) theta^2 + b theta is minimal at (x y - b) / (l + x^2)."""
    theta, records = np.linspace(-3, 3, 50), [(2.0, 1.5), (-1.0, 0.5)]
    got = log_density(theta, loss=Squared(), records=records, l2_reg=3.0, noise_std=4.0)
    np.testing.assert_allclose(got, norm(2.5 / 8, 4 / 8).logpdf(theta))


def test_density_has_mass_one_whatever_the_curvature():
    theta = np.linspace(-60, 60, 200_001)
    got = log_density(theta, loss=LogCosh(), records=[(3.0, 2.0)], l2_reg=0.5, noise_std=2.0)
    assert np.trapezoid(np.exp(got), theta) == pytest.approx(1, rel=1e-6)


def test_hockey_stick_of_two_normals_is_the_gaussian_mechanism():
    theta = np.linspace(-12, 13, 20_001)
    log_p, log_q = norm(1, 1).logpdf(theta), norm(0, 1).logpdf(theta)
    exact = GaussianLowerBound(Gaussian(noise_std=1.0)).log_delta(0.7)
    assert log_hockey_stick(0.7, theta, log_p, log_q) == pytest.approx(exact, abs=1e-5)
    assert log_hockey_stick(0.7, theta, log_p, log_p) == -np.inf
