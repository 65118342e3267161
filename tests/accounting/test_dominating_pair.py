"""Densities, tails and profiles of the normal and the half-normal loss, against each other and by quadrature."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import halfnorm, norm

from explorer.accounting import (
    BoundNotApplicable,
    HalfNormalPLD,
    HockeyStickBound,
    NormalPLD,
    ObjectivePerturbation,
    dominating_pld,
)

PLDS = [kind(sensitivity_ratio=s) for kind in (NormalPLD, HalfNormalPLD) for s in (0.02, 0.5, 3.0)]
PLDS += [HalfNormalPLD(sensitivity_ratio=s, offset=c) for s in (0.02, 3.0) for c in (0.05, 2.0)]


def integral(pld, weight, low):
    """The integral of weight(x) times the density from `low` on, by panels of one standard deviation."""
    s = pld.sensitivity_ratio
    edges = max(low, getattr(pld, "start", -np.inf), s * s / 2 - 12 * s) + s * np.arange(26)
    return sum(
        quad(lambda x: weight(x) * np.exp(pld.log_density(x)), *pair, epsabs=0, epsrel=1e-10)[0]
        for pair in pairwise(edges)
    )


@pytest.mark.parametrize("pld", PLDS, ids=repr)
def test_tail_and_profile_are_integrals_of_the_density(pld):
    s = pld.sensitivity_ratio
    assert integral(pld, lambda x: 1, -np.inf) == pytest.approx(1, rel=1e-9)
    for epsilon in (-s, 0.0, getattr(pld, "start", s * s / 2), s * s / 2 + s, 0.1 + 4 * s):
        assert np.exp(pld.log_tail(epsilon)) == pytest.approx(integral(pld, lambda x: 1, epsilon), rel=1e-8)
        delta = integral(pld, lambda x, e=epsilon: -np.expm1(e - x), epsilon)
        assert np.exp(pld.log_delta(epsilon)) == pytest.approx(delta, rel=1e-8)


def test_densities_are_those_of_scipy():
    x = np.linspace(-3, 6, 50)
    np.testing.assert_allclose(NormalPLD(sensitivity_ratio=1.5).log_density(x), norm(1.125, 1.5).logpdf(x))
    folded = HalfNormalPLD(sensitivity_ratio=1.5, offset=0.3)
    np.testing.assert_allclose(folded.log_density(x), halfnorm(1.425, 1.5).logpdf(x))
    assert folded.log_density(folded.start) == pytest.approx(np.log(2 * norm.pdf(0) / 1.5))


def test_tails_far_out_stay_finite_and_near_the_start_do_not_exceed_one():
    for pld in PLDS:
        assert np.isfinite(pld.log_tail(1e4))
        assert pld.log_tail(-1e4) == 0
    near = HalfNormalPLD(sensitivity_ratio=0.1).log_tail(0.005 + np.array([0, 1e-18, 1e-12, 1e-3]))
    assert (near <= 0).all()
    assert (np.diff(near) <= 0).all()


def test_dominating_pld_has_the_hockey_stick_profile():
    mechanism = ObjectivePerturbation(noise_std=5, l2_reg=20, lipschitz=1, smoothness=1)
    pld = dominating_pld(mechanism)
    assert pld.start == pytest.approx(-np.log(0.95) + 0.02, rel=1e-14)
    epsilon = np.array([-1, 0, 0.05, 0.3, 2.0])
    np.testing.assert_array_equal(pld.log_delta(epsilon), HockeyStickBound(mechanism).log_delta(epsilon))
    with pytest.raises(BoundNotApplicable, match="l2_reg must exceed smoothness"):
        dominating_pld(ObjectivePerturbation(noise_std=5, l2_reg=1, lipschitz=1, smoothness=1))


@pytest.mark.parametrize("kind", [NormalPLD, HalfNormalPLD])
def test_bad_parameters_are_named(kind):
    with pytest.raises(ValueError, match="sensitivity_ratio must be a finite number > 0"):
        kind(sensitivity_ratio=0.0)
    with pytest.raises(ValueError, match="privacy_loss must be a real number"):
        kind(sensitivity_ratio=1.0).log_density("far")
    with pytest.raises(ValueError, match="offset must be a finite number >= 0"):
        HalfNormalPLD(sensitivity_ratio=1.0, offset=-0.1)
