"""The refined bounds by direction: reference values, the definition by quadrature, limits, and random losses."""

from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from explorer.accounting import HockeyStickBound, KiferBound, ObjectivePerturbation, RefinedBound
from explorer.accounting.bounds.gaussian import half_normal_log_delta
from explorer.accounting.bounds.refined import monotone_log_delta, monotone_rdp, remove_rdp
from explorer.accounting.bounds.renyi import half_normal_rdp, linearised_add_rdp, normal_rdp
from tests.accounting.maps import inverse, random_map, renyi
from tests.accounting.strategies import epsilons, log_uniform, mechanisms


def refined(row, *, monotone=False):
    return RefinedBound(
        ObjectivePerturbation(
            noise_std=row["sigma"],
            l2_reg=row["lam"],
            lipschitz=row["L"],
            smoothness=row["beta"],
            monotone_loss=monotone,
        )
    )


def test_reference_log_delta(bounds_reference):
    rows = bounds_reference["log_delta"]
    for column, monotone in (("refined", False), ("refined_monotone", True)):
        got = [refined(row, monotone=monotone).log_delta(row["epsilon"]) for row in rows]
        np.testing.assert_allclose(got, [float(row[column]) for row in rows], rtol=1e-12, atol=0)


def test_reference_log_delta_by_direction(bounds_reference):
    for row in bounds_reference["refined_by_direction"]:
        epsilon = row["epsilon"]
        assert refined(row).log_delta_add(epsilon) == pytest.approx(float(row["add"]), rel=1e-12)
        assert refined(row, monotone=True).log_delta_add(epsilon) == pytest.approx(
            float(row["add_monotone"]), rel=1e-12
        )
        assert refined(row).log_delta_remove(epsilon) == pytest.approx(float(row["remove"]), rel=1e-12)


def test_reference_rdp(bounds_reference):
    """The reference's "add" is the smaller of the loss's own divergence and the linearised form; both occur."""
    smaller = set()
    for row in bounds_reference["rdp_refined"]:
        s, kappa, alpha = row["L"] / row["sigma"], row["beta"] / row["lam"], row["alpha"]
        linearised = linearised_add_rdp(alpha, sensitivity_ratio=s, curvature_ratio=kappa)
        for column, own in (("add", half_normal_rdp), ("add_monotone", monotone_rdp)):
            candidates = own(alpha, sensitivity_ratio=s), linearised
            smaller.add((column, int(np.argmin(candidates))))
            assert min(candidates) == pytest.approx(float(row[column]), rel=1e-12)
            bound = refined(row, monotone=column == "add_monotone")
            assert bound.rdp_add(alpha) == min(candidates)
            assert bound.rdp(alpha) == max(min(candidates), bound.rdp_remove(alpha))
        remove = remove_rdp(alpha, sensitivity_ratio=s, curvature_ratio=kappa)
        assert remove == pytest.approx(float(row["remove"]), rel=1e-12)
        assert refined(row).rdp_remove(alpha) == remove
    assert smaller == {("add", 0), ("add", 1), ("add_monotone", 0), ("add_monotone", 1)}


LOSSES = {
    "add": lambda x, s, kappa: s * s / 2 + abs(s * x),
    "add, monotone": lambda x, s, kappa: max(0.0, s * s / 2 + s * x),
    "remove": lambda x, s, kappa: np.log1p(kappa) + s * s / 2 + s * x,
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(("s", "kappa"), [(0.1, 0.2), (1.0, 3.0)])
def test_profile_and_rdp_are_those_of_the_loss(name, s, kappa):
    """delta = E[1 - e^(epsilon - w)]_+ and the moments of w, by quadrature, at every sign of epsilon."""
    mechanism = ObjectivePerturbation(
        noise_std=1 / s, l2_reg=1 / kappa, lipschitz=1, smoothness=1, monotone_loss="monotone" in name
    )
    bound, loss = RefinedBound(mechanism), LOSSES[name]
    add = name != "remove"
    kinks = [-s / 2, 0.0]
    for epsilon in (-2.0, -0.3, -1e-3, 0.0, 0.02, 0.5, 1.7):
        # where the loss crosses epsilon the integrand has a kink as well
        cross = [(epsilon - s * s / 2 - (0 if add else np.log1p(kappa))) / s * sign for sign in (-1, 1)]

        def integrand(x, epsilon=epsilon):
            return norm.pdf(x) * max(0.0, -np.expm1(epsilon - loss(x, s, kappa)))

        ends = np.sort([-12, *kinks, *np.clip(cross, -12, 12), 12])
        delta = sum(quad(integrand, a, b, epsabs=1e-14)[0] for a, b in pairwise(ends) if a < b)
        got = np.exp(bound.log_delta_add(epsilon) if add else bound.log_delta_remove(epsilon))
        assert got == pytest.approx(delta, rel=1e-9, abs=1e-13), epsilon
    own = {
        "add": half_normal_rdp(2.5, sensitivity_ratio=s),
        "add, monotone": monotone_rdp(2.5, sensitivity_ratio=s),
        "remove": bound.rdp_remove(2.5),
    }[name]
    moment = sum(
        quad(lambda x: norm.pdf(x) * np.exp(1.5 * loss(x, s, kappa)), a, b, epsabs=1e-14)[0]
        for a, b in ((-15, -s / 2), (-s / 2, 0), (0, 15))
    )
    assert own == pytest.approx(np.log(moment) / 1.5, rel=1e-9)


@pytest.mark.parametrize("s", [1e-30, 1e-4, 0.3, 1, 7, 60])
@pytest.mark.parametrize("excess", [1e-300, 1e-12, 1e-4, 0.1, 0.4, 3, 1e5])
def test_monotone_rdp_does_not_cancel(s, excess):
    with mpmath.workdps(120):
        alpha, sigma = 1 + mpmath.mpf((1 + excess) - 1), mpmath.mpf(s)
        if alpha == 1:
            exact = sigma**2 / 2 * mpmath.ncdf(sigma / 2) + sigma * mpmath.npdf(sigma / 2)
        else:
            growth = mpmath.exp(alpha * (alpha - 1) * sigma**2 / 2)
            moment = mpmath.ncdf(-sigma / 2) + growth * mpmath.ncdf((alpha - 0.5) * sigma)
            exact = mpmath.log(moment) / (alpha - 1)
    assert monotone_rdp(1 + excess, sensitivity_ratio=s) == pytest.approx(float(exact), rel=1e-12)


def test_linearised_rdp_is_a_gaussian_integral():
    s, kappa, alpha = 0.7, 0.11, 3.5

    def integrand(u):
        return norm.pdf(u) * np.exp((alpha - 1) * (s * s / 2 + s * u + kappa * u * u))

    expected = np.log(quad(integrand, -40, 40, points=[0, 5], limit=200)[0]) / (alpha - 1)
    got = linearised_add_rdp(alpha, sensitivity_ratio=s, curvature_ratio=kappa)
    assert got == pytest.approx(expected, rel=1e-9)
    assert linearised_add_rdp(1, sensitivity_ratio=s, curvature_ratio=kappa) == s * s / 2 + kappa
    assert linearised_add_rdp(1 + 1e-12, sensitivity_ratio=s, curvature_ratio=kappa) == pytest.approx(s * s / 2 + kappa)
    assert linearised_add_rdp(1 + 0.5 / kappa, sensitivity_ratio=s, curvature_ratio=kappa) == np.inf


@pytest.mark.parametrize("monotone", [False, True])
def test_limits_and_refusals_in_the_order(monotone):
    mechanism = ObjectivePerturbation(
        noise_std=5, l2_reg=0.5, lipschitz=1, smoothness=1, monotone_loss=monotone
    )  # kappa = 2: no strong convexity asked for
    rdp = RefinedBound(mechanism).rdp
    assert rdp(1) == pytest.approx(np.log(3) + 0.02, rel=1e-15)
    assert rdp(np.inf) == np.inf
    assert np.isfinite(rdp(1e12))
    assert rdp(np.array([[1, 2, 3]])).shape == (1, 3)
    assert (np.diff(rdp(np.linspace(1, 60, 300))) > 0).all()
    for alpha in (0.5, 0, -1, np.nan):
        with pytest.raises(ValueError, match="alpha must be >= 1: got alpha="):
            rdp(alpha)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), s=log_uniform(0.01, 3), kappa=log_uniform(0.01, 10), alpha=log_uniform(1.01, 20))
def test_no_loss_exceeds_the_rdp(seed, s, kappa, alpha):
    for monotone in (False, True):
        rng = np.random.default_rng(seed)
        knots, shift = random_map(rng, s=s, kappa=kappa, monotone=monotone)
        bound = RefinedBound(
            ObjectivePerturbation(noise_std=1 / s, l2_reg=1 / kappa, lipschitz=1, smoothness=1, monotone_loss=monotone)
        )
        assert renyi(alpha, knots, shift) <= bound.rdp_add(alpha) * (1 + 1e-9) + 1e-12
        assert renyi(alpha, *inverse(knots, shift)) <= bound.rdp_remove(alpha) * (1 + 1e-9) + 1e-12


def test_the_gaussian_pair_does_not_dominate_monotone_losses():
    """A switch of h from 0 to s exceeds alpha s^2/2 and stays below the monotone divergence."""
    s, kappa, alpha = 0.5, 100.0, 1.5
    knots, shift = np.array([-s / 2, -s / 2 + s / kappa]), np.array([0.0, s])
    reached = renyi(alpha, knots, shift)
    assert normal_rdp(alpha, sensitivity_ratio=s) < reached <= monotone_rdp(alpha, sensitivity_ratio=s)


@given(mechanism=mechanisms(), epsilon=epsilons)
def test_below_the_earlier_bounds(mechanism, epsilon):
    value = RefinedBound(mechanism).log_delta(epsilon)
    assert value <= HockeyStickBound(mechanism).log_delta(epsilon) * (1 - 1e-12) + 1e-15
    assert value <= KiferBound(mechanism).log_delta(epsilon) * (1 - 1e-12) + 1e-15


@given(s=log_uniform(1e-30, 30), epsilon=epsilons)
def test_monotone_profile_is_below_the_half_normal(s, epsilon):
    for e in (epsilon, -epsilon):
        monotone = monotone_log_delta(e, sensitivity_ratio=s)
        assert monotone <= half_normal_log_delta(e, sensitivity_ratio=s) * (1 - 1e-12) + 1e-15


def test_half_normal_profile_at_tiny_ratios():
    """1 - 2 Phi(-s) rounds to 0 below s = 1e-16, where log delta = log(s sqrt(2/pi)) is an ordinary number."""
    for s in (1e-5, 1e-12, 1e-30):
        assert half_normal_log_delta(0.0, sensitivity_ratio=s) == pytest.approx(
            np.log(s * np.sqrt(2 / np.pi)), rel=1e-10
        )
