"""Renyi divergences against the reference values, their integrals and their limits; conversions and the best order."""

import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from scipy.optimize import minimize_scalar

from explorer.accounting import (
    ApproximateMinimaPerturbation,
    CanonneKamathSteinke,
    Gaussian,
    GaussianLowerBound,
    Mironov,
    ObjectivePerturbation,
    RenyiBound,
)
from explorer.accounting.renyi import half_normal_rdp
from tests.accounting.strategies import deltas, mechanisms


def mechanism_of(row, **output):
    kind = ApproximateMinimaPerturbation if output else ObjectivePerturbation
    return kind(noise_std=row["sigma"], l2_reg=row["lam"], lipschitz=row["L"], smoothness=row["beta"], **output)


def test_reference_rdp(bounds_reference):
    rows = bounds_reference["rdp"]
    for row in rows:
        alpha = row["alpha"]
        assert RenyiBound(mechanism_of(row)).rdp(alpha) == pytest.approx(float(row["objpert"]), rel=1e-12)
        amp = mechanism_of(row, gradient_tol=0.01, output_noise_std=0.15)
        assert RenyiBound(amp).rdp(alpha) == pytest.approx(float(row["amp_tau0.01_out0.15"]), rel=1e-12)
        if "half_normal" in row:
            s = row["L"] / row["sigma"]
            assert half_normal_rdp(alpha, sensitivity_ratio=s) == pytest.approx(float(row["half_normal"]), rel=1e-12)


@pytest.mark.parametrize("s", [1e-4, 0.1, 1, 7])
@pytest.mark.parametrize("excess", [1e-12, 1e-9, 1e-3, 0.5])
def test_no_cancellation_near_order_one(s, excess):
    with mpmath.workdps(50):
        t = mpmath.mpf(1 + excess) - 1
        x = t * s
        log_moment = x * x / 2 + mpmath.log(1 + mpmath.erf(x / mpmath.sqrt(2)))
        exact = float(mpmath.mpf(s) ** 2 / 2 + log_moment / t)
    assert half_normal_rdp(1 + excess, sensitivity_ratio=s) == pytest.approx(exact, rel=1e-14)


def test_limits_in_the_order():
    mechanism = ObjectivePerturbation(noise_std=5, l2_reg=20, lipschitz=1, smoothness=1)
    rdp = RenyiBound(mechanism).rdp
    assert rdp(1) == pytest.approx(-np.log1p(-1 / 20) + 0.02 + 0.2 * np.sqrt(2 / np.pi), rel=1e-14)
    assert rdp(1 + 1e-15) == pytest.approx(rdp(1), rel=1e-12)
    assert np.isfinite(rdp(1e6))
    assert rdp(np.inf) == np.inf
    assert rdp(np.array([[1, 2], [3, np.inf]])).shape == (2, 2)
    assert (np.diff(rdp(np.linspace(1, 50, 500))) > 0).all()
    for alpha in (0.5, 0, -1, np.nan):
        with pytest.raises(ValueError, match="alpha must be >= 1: got alpha="):
            rdp(alpha)


@given(mechanism=mechanisms(), delta=deltas)
def test_the_best_order_is_found(mechanism, delta):
    bound = RenyiBound(mechanism)
    best = bound.optimum(delta)
    if best.value < 1e-200:
        assert bound.log_delta(0) <= np.log(delta)
        return

    def epsilon(t):
        alpha = 1 + np.exp(t)
        return CanonneKamathSteinke.epsilon(np.log(delta), alpha=alpha, rdp=bound.rdp(alpha))

    near = np.log(best.order - 1)
    around = minimize_scalar(epsilon, bounds=(near - 1, near + 1), method="bounded", options={"xatol": 1e-10})
    assert best.value <= around.fun * (1 + 1e-9)
    assert not best.at_edge
    everywhere = epsilon(np.linspace(-13, 27, 2000))
    assert best.value <= everywhere.min() * (1 + 1e-9)


def test_edge_of_the_search_is_reported():
    mechanism = ObjectivePerturbation(noise_std=5, l2_reg=20, lipschitz=1, smoothness=1)
    assert RenyiBound(mechanism, orders=[2, 3, 4]).optimum(1e-5)[1:] == (4, True)
    continuous = RenyiBound(mechanism).optimum(1e-5)
    discrete = RenyiBound(mechanism, orders=range(2, 100)).optimum(1e-5)
    assert not continuous.at_edge and not discrete.at_edge
    assert continuous.value < discrete.value < continuous.value * 1.001
    assert abs(continuous.order - discrete.order) <= 1


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_conversion_agrees_with_a_public_accountant(delta):
    orders = np.arange(2, 65)
    bound = RenyiBound(Gaussian(noise_std=3.0), orders=orders)
    accountant = RdpAccountant(orders=[float(a) for a in orders])
    accountant._rdp = bound.rdp(orders)
    assert bound.epsilon(delta) == pytest.approx(accountant.get_epsilon(delta), rel=1e-12)


@given(mechanism=mechanisms(), delta=deltas)
def test_the_newer_conversion_is_never_worse(mechanism, delta):
    older = RenyiBound(mechanism, conversion=Mironov)
    newer = RenyiBound(mechanism, conversion=CanonneKamathSteinke)
    assert newer.epsilon(delta) <= older.epsilon(delta) * (1 + 1e-12)
    assert GaussianLowerBound(mechanism).epsilon(delta) <= newer.epsilon(delta) * (1 + 1e-12) + 1e-300


def test_zero_epsilon_is_justified():
    mechanism = ObjectivePerturbation(noise_std=100, l2_reg=1e6, lipschitz=1, smoothness=1)
    bound = RenyiBound(mechanism)
    at_zero = bound.delta(0.0)
    assert bound.epsilon(at_zero * (1 + 1e-9)) == 0
    assert bound.epsilon(at_zero * (1 - 1e-6)) > 0
    assert at_zero >= GaussianLowerBound(mechanism).delta(0.0)


def test_bad_orders():
    mechanism = Gaussian(noise_std=1)
    with pytest.raises(ValueError, match="orders must contain at least one order"):
        RenyiBound(mechanism, orders=[])
    with pytest.raises(ValueError, match=r"alpha must be >= 1: got alpha=0\.5"):
        RenyiBound(mechanism, orders=[0.5, 2])
