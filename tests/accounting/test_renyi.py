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
from explorer.accounting.bounds.renyi import (
    half_normal_rdp,
    linearised_add_rdp,
    linearised_rdp,
    non_glm_rdp,
    normal_rdp,
    objective_perturbation_rdp,
)
from tests.accounting.strategies import deltas, log_uniform, mechanisms


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


def ratios(row):
    return {"sensitivity_ratio": row["L"] / row["sigma"], "curvature_ratio": row["beta"] / row["lam"]}


def test_reference_linearised_and_non_glm(bounds_reference):
    checked = 0
    for row in bounds_reference["rdp"]:
        for column in row.keys() & {"linearized_p1.5", "non_glm_d1", "non_glm_d2", "non_glm_d10"}:
            if column == "linearized_p1.5":
                got = linearised_rdp(row["alpha"], hoelder_p=1.5, **ratios(row))
            else:
                got = non_glm_rdp(row["alpha"], dimension=int(column.removeprefix("non_glm_d")), **ratios(row))
            assert got == pytest.approx(float(row[column]), rel=1e-12), (row, column)
            checked += 1
    assert checked > 90


@given(s=log_uniform(1e-4, 30), kappa=log_uniform(1e-6, 0.99), excess=log_uniform(1e-12, 1e6))
def test_the_best_hoelder_exponent_and_the_bound_without_it(s, kappa, excess):
    given_ratios = {"sensitivity_ratio": s, "curvature_ratio": kappa}
    best = linearised_rdp(1 + excess, **given_ratios)
    fixed = [linearised_rdp(1 + excess, hoelder_p=1 / u, **given_ratios) for u in np.linspace(0, 1, 301)[1:-1]]
    assert best <= np.min(fixed) * (1 + 1e-12)
    assert linearised_add_rdp(1 + excess, **given_ratios) <= best * (1 + 1e-12)
    assert np.isfinite(best) == (2 * ((1 + excess) - 1) * kappa < 1)


def test_linearised_bound_just_before_it_is_void():
    """The search once met infinity minus infinity there and fell back to an exponent that is not the best."""
    kappa, ratios = 0.025, {"sensitivity_ratio": 0.1, "curvature_ratio": 0.025}
    alpha = 1 + (1 - np.array([1e-2, 1e-4, 1e-6])) / (2 * kappa)
    with np.errstate(invalid="raise"):
        best = linearised_rdp(alpha, **ratios)
    inverse = [np.linspace(0, 1 - 2 * (a - 1) * kappa, 2001)[1:-1] for a in alpha]
    fixed = [
        min(linearised_rdp(a, hoelder_p=1 / u, **ratios) for u in us) for a, us in zip(alpha, inverse, strict=True)
    ]
    np.testing.assert_allclose(best, fixed, rtol=1e-3)
    assert (best <= np.array(fixed) * (1 + 1e-9)).all()


@pytest.mark.parametrize(("s", "kappa"), [(0.1, 0.05), (2.0, 0.2), (0.5, 3.0)])
@pytest.mark.parametrize("alpha", [1 + 1e-9, 1.05, 1.15])
def test_bound_without_hoelder_is_the_gaussian_integral(s, kappa, alpha):
    """The moment of the loss s^2/2 + s u + kappa u^2 under a standard normal u, by quadrature."""
    with mpmath.workdps(40):
        t, s_, k = mpmath.mpf(alpha) - 1, mpmath.mpf(s), mpmath.mpf(kappa)
        moment = mpmath.quad(
            lambda u: mpmath.npdf(u) * mpmath.expm1(t * (s_**2 / 2 + s_ * u + k * u * u)), [-40, -8, -2, 0, 2, 8, 40]
        )
        exact = float(mpmath.log1p(moment) / t)
    assert linearised_add_rdp(alpha, sensitivity_ratio=s, curvature_ratio=kappa) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("d", [1, 2, 7, 500, 10**6])
@pytest.mark.parametrize("s", [1e-4, 0.3, 5])
@pytest.mark.parametrize("excess", [0, 1e-12, 1e-4, 0.3, 20])
def test_non_glm_in_high_precision(d, s, excess):
    """E e^(tZ) of the chi distribution as Kummer functions; at order 1 its mean."""
    if d * excess * s > 1e5:
        return  # the series would need millions of terms
    with mpmath.workdps(50):
        t, half = (mpmath.mpf(1 + excess) - 1) * s, mpmath.mpf(d) / 2
        mean = mpmath.sqrt(2) * mpmath.exp(mpmath.loggamma(half + 0.5) - mpmath.loggamma(half))
        even = mpmath.hyp1f1(half, 0.5, t * t / 2)
        odd = t * mean * mpmath.hyp1f1(half + 0.5, 1.5, t * t / 2)
        moment = s * mean if excess == 0 else s * mpmath.log(even + odd) / t
        exact = float(-d * mpmath.log1p(-mpmath.mpf(0.1)) + mpmath.mpf(s) ** 2 / 2 + moment)
    got = non_glm_rdp(1 + excess, sensitivity_ratio=s, curvature_ratio=0.1, dimension=d)
    assert got == pytest.approx(exact, rel=1e-12)


@given(s=log_uniform(1e-6, 100), kappa=log_uniform(1e-6, 0.99))
def test_non_glm_grows_from_the_glm_bound_with_the_dimension(s, kappa):
    given_ratios = {"sensitivity_ratio": s, "curvature_ratio": kappa}
    alpha = np.concatenate([[1], 1 + np.geomspace(1e-300, 1e6, 400), [np.inf]])
    curves = np.array([non_glm_rdp(alpha, dimension=d, **given_ratios) for d in (1, 2, 3, 40, 10**3, 10**6)])
    np.testing.assert_allclose(curves[0], objective_perturbation_rdp(alpha, **given_ratios), rtol=1e-12)
    assert np.isfinite(curves[:, :-1]).all() and np.isposinf(curves[:, -1]).all()
    assert (np.diff(curves[:, :-1], axis=0) > 0).all()
    assert (np.diff(curves[:, :-1], axis=1) >= -1e-13 * curves[:, 1:-1]).all()


CURVES = {
    "normal": normal_rdp,
    "half_normal": half_normal_rdp,
    "objective_perturbation": lambda alpha, **s: objective_perturbation_rdp(alpha, curvature_ratio=0.1, **s),
    "linearised": lambda alpha, **s: linearised_rdp(alpha, curvature_ratio=0.1, **s),
    "linearised_p": lambda alpha, **s: linearised_rdp(alpha, curvature_ratio=0.1, hoelder_p=2, **s),
    "linearised_add": lambda alpha, **s: linearised_add_rdp(alpha, curvature_ratio=0.1, **s),
    "non_glm": lambda alpha, **s: non_glm_rdp(alpha, curvature_ratio=0.1, dimension=3, **s),
}


@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
def test_every_curve_keeps_shapes_takes_limits_and_refuses(curve):
    alpha = np.array([[1, 1 + 1e-15, 1.5], [2, 1e6, np.inf]])
    got = curve(alpha, sensitivity_ratio=0.3)
    assert got.shape == (2, 3)
    assert not np.isnan(got).any()
    assert got[0, 1] == pytest.approx(got[0, 0], rel=1e-12)
    assert got[1, 2] == np.inf
    assert np.ndim(curve(2, sensitivity_ratio=0.3)) == 0 and curve(2, sensitivity_ratio=0.3) == got[1, 0]
    assert curve(np.empty(0), sensitivity_ratio=0.3).shape == (0,)
    for bad in (0.99, -1, np.nan):
        with pytest.raises(ValueError, match="alpha must be >= 1: got alpha="):
            curve(bad, sensitivity_ratio=0.3)
    for bad in (0, -1, np.nan, np.inf, 10**400):
        with pytest.raises(ValueError, match="sensitivity_ratio must be a finite number > 0: got sensitivity_ratio="):
            curve(2, sensitivity_ratio=bad)


def test_bad_curvature_dimension_and_exponent():
    for bad in (0, 1, 1.5, np.nan):
        for bound in (objective_perturbation_rdp, linearised_rdp):
            with pytest.raises(ValueError, match=r"curvature_ratio must be inside \(0, 1\): got curvature_ratio="):
                bound(2, sensitivity_ratio=1, curvature_ratio=bad)
    for bad in (0, -3, 2.5, True, np.nan):
        with pytest.raises(ValueError, match="dimension must be an integer >= 1: got dimension="):
            non_glm_rdp(2, sensitivity_ratio=1, curvature_ratio=0.1, dimension=bad)
    for bad in (1, 0.5, np.inf, np.nan):
        with pytest.raises(ValueError, match="hoelder_p must be a finite number > 1: got hoelder_p="):
            linearised_rdp(2, sensitivity_ratio=1, curvature_ratio=0.1, hoelder_p=bad)


def test_uses_add_up():
    mechanism = ObjectivePerturbation(noise_std=8, l2_reg=10, lipschitz=1, smoothness=1)
    alpha = np.array([1.0, 1.5, 8.0, np.inf])
    np.testing.assert_array_equal(RenyiBound(mechanism, uses=7).rdp(alpha), 7 * RenyiBound(mechanism).rdp(alpha))
    gaussian = Gaussian(noise_std=8, sensitivity=np.sqrt(7))
    composed = RenyiBound(Gaussian(noise_std=8), uses=7).epsilon(1e-5)
    assert composed == pytest.approx(RenyiBound(gaussian).epsilon(1e-5), rel=1e-12)
    for bad in (0, -1, 1.5, "many"):
        with pytest.raises(ValueError, match="uses must be an integer >= 1: got uses="):
            RenyiBound(mechanism, uses=bad)
