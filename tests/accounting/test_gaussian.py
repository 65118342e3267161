"""The Gaussian profile against its definition in 50-digit arithmetic, over the whole plane."""

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_mechanism

from explorer.accounting import Gaussian, GaussianLowerBound, calibrate_gaussian
from explorer.accounting.bounds.gaussian import half_normal_log_delta, log_delta

PLANE = [(s, e) for s in (1e-6, 1e-3, 0.03, 0.2, 1, 5, 40) for e in (-50, -1, -1e-4, 0, 1e-8, 0.01, 0.3, 2, 30, 800)]


def exact_profile(epsilon, s, sides):
    """log of E[1 - e^(epsilon - loss)]_+ for the normal (sides=1) or half-normal (sides=2) loss, 60 digits or more."""
    if abs(epsilon) / s + s > 45:
        return None
    with mpmath.workdps(60 + int((abs(epsilon) / s + s) ** 2)):  # delta may be as small as 10^-(that square)
        e, s = mpmath.mpf(epsilon), mpmath.mpf(s)

        def cdf(x):
            return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

        if sides == 2 and e < s * s / 2:
            delta = 1 - 2 * mpmath.exp(e) * cdf(-s)
        else:
            delta = sides * (cdf(s / 2 - e / s) - mpmath.exp(e) * cdf(-s / 2 - e / s))
        return float(mpmath.log(delta))


@pytest.mark.parametrize(("profile", "sides"), [(log_delta, 1), (half_normal_log_delta, 2)])
def test_definition_in_high_precision(profile, sides):
    checked = 0
    for s, epsilon in PLANE:
        exact = exact_profile(epsilon, s, sides)
        if exact is not None:
            got = profile(epsilon, sensitivity_ratio=s)
            assert got == pytest.approx(exact, rel=1e-11, abs=1e-15), (s, epsilon)
            checked += 1
    assert checked > 30


def test_far_tail_does_not_cancel():
    """s = 0.001, epsilon = 100: log delta = -5e9, where log Phi + log(1 - exp(...)) has nothing left to subtract."""
    assert log_delta(100, sensitivity_ratio=0.001) == pytest.approx(-5.0e9, rel=1e-4)
    neighbours = log_delta(np.array([99.999, 100, 100.001]), sensitivity_ratio=0.001)
    assert np.isfinite(neighbours).all()
    assert (np.diff(neighbours) < 0).all()


def test_half_normal_profile_is_continuous_where_its_two_forms_meet():
    for s in (1e-3, 0.1, 1, 10):
        left, right = half_normal_log_delta(s * s / 2 * np.array([1 - 1e-12, 1 + 1e-12]), sensitivity_ratio=s)
        assert left == pytest.approx(right, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1, 1e-5), (8, 1e-5), (1, 1e-12)])
def test_calibration_agrees_with_a_public_accountant(epsilon, delta):
    ours = calibrate_gaussian(epsilon=epsilon, delta=delta)
    theirs = privacy_loss_mechanism.GaussianPrivacyLoss(standard_deviation=ours.value)
    assert theirs.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=1e-6)
    assert ours.delta <= delta
    assert GaussianLowerBound(Gaussian(noise_std=ours.value)).epsilon(delta) == pytest.approx(epsilon, rel=1e-9)
