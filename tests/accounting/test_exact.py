"""The exact profile and Renyi divergence: values of 40 digits, the best map by dynamic programming, exact densities,
Monte Carlo."""

import json
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.special import expit

import explorer.accounting
from explorer.accounting import (
    ExactBound,
    GaussianLowerBound,
    HockeyStickBound,
    ObjectivePerturbation,
    PrivacyBound,
    RefinedBound,
)
from explorer.accounting.bounds.exact_add import add_log_delta
from explorer.accounting.bounds.gaussian import log_delta as gaussian_log_delta
from explorer.accounting.bounds.refined import DirectionalBound
from tests.accounting.maps import best_leak, inverse, leak, random_map
from tests.accounting.strategies import log_uniform, mechanism

GRID = np.concatenate([[0.0], np.geomspace(1e-4, 100, 40)])
parameters = {"s": log_uniform(1e-3, 10), "kappa": log_uniform(1e-4, 10), "monotone": st.booleans()}
REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "exact.json").read_text())
extreme = {"s": log_uniform(1e-5, 300), "kappa": log_uniform(1e-6, 1e6), "monotone": st.booleans()}


def bound_of(row, monotone):
    return ExactBound(mechanism(row["sensitivity_ratio"], row["curvature_ratio"], monotone))


@pytest.mark.parametrize("row", REFERENCE["remove"])
def test_remove_has_its_reference_values(row):
    value = bound_of(row, row["monotone"]).log_delta_remove(row["epsilon"])
    assert value == pytest.approx(float(row["log_delta_remove"]), rel=1e-9)


@pytest.mark.parametrize("row", REFERENCE["rdp"])
def test_renyi_has_its_reference_values(row):
    bound = bound_of(row, row["monotone"])
    value = (bound.rdp_add if row["direction"] == "add" else bound.rdp_remove)(row["alpha"])
    assert value == pytest.approx(float(row["rdp"]), rel=1e-9)


@pytest.mark.parametrize("row", REFERENCE["kl"])
@pytest.mark.parametrize("monotone", [False, True])
def test_kullback_leibler_has_its_reference_values(row, monotone):
    bound, suffix = bound_of(row, monotone), "_monotone" if monotone else ""
    assert bound.rdp_add(1.0) == pytest.approx(row["add" + suffix], rel=1e-9)
    assert bound.rdp_remove(1.0) == pytest.approx(row["remove" + suffix], rel=1e-9)


@given(**extreme, direction=st.sampled_from(["add", "remove"]))
@settings(max_examples=60, deadline=None)
def test_divergence_lies_between_the_gaussians_and_the_refined_one(s, kappa, monotone, direction):
    m, alpha = mechanism(s, kappa, monotone), np.concatenate([[1.0], 1 + np.geomspace(1e-9, 1e6, 40)])
    exact, refined = (getattr(bound(m), f"rdp_{direction}")(alpha) for bound in (ExactBound, RefinedBound))
    assert np.isfinite(exact).all()
    assert (exact >= alpha * s**2 / 2 * (1 - 1e-12)).all()
    assert (exact <= refined * (1 + 1e-9)).all()
    assert (np.diff(exact) >= -1e-9 * exact[1:]).all()


@pytest.mark.parametrize("suffix", ["", "_monotone"])
def test_add_has_its_reference_values(suffix, bounds_reference):
    for row in bounds_reference["tight"]:
        bound = ExactBound(mechanism(row["L"] / row["sigma"], row["beta"] / row["lam"], bool(suffix)))
        add, upper = (float(row[name + suffix]) for name in ("log_delta_add", "log_delta_remove_upper"))
        assert bound.log_delta_add(row["epsilon"]) == pytest.approx(add, rel=1e-9)
        assert bound.log_delta_remove(row["epsilon"]) <= upper * (1 - 1e-9) + 1e-13


@given(**extreme)
@settings(max_examples=60, deadline=None)
def test_both_profiles_are_finite_and_convex_over_the_whole_range(s, kappa, monotone):
    """A supremum of profiles is convex in e^epsilon: it lies below each chord between its neighbours."""
    bound, turn = ExactBound(mechanism(s, kappa, monotone)), np.log1p(kappa)
    epsilon = np.concatenate([turn * np.linspace(0, 1, 9), turn * (1 + np.geomspace(1e-6, 10, 9))])
    for profile in (bound.log_delta_add, bound.log_delta_remove):
        value = profile(np.append(epsilon, 1e5))
        assert np.isfinite(value).all()
        value = value[:-1]
        log_weight = np.log(-np.expm1(epsilon[:-2] - epsilon[1:-1])) - np.log(-np.expm1(epsilon[:-2] - epsilon[2:]))
        weight = np.exp(log_weight + epsilon[1:-1] - epsilon[2:])  # of the right end
        chord = np.logaddexp(np.log1p(-weight) + value[:-2], np.log(weight) + value[2:])
        assert (value[1:-1] <= chord + 1e-9 * np.maximum(1, np.abs(value[1:-1]))).all()


def best_log_sum(epsilon, s, kappa, centres):
    """The largest log(R(c) + R(-c)) over `centres`, in 60 digits, from the two candidates for each R."""
    with mpmath.workdps(60):
        e, s, kappa = mpmath.mpf(epsilon), mpmath.mpf(s), mpmath.mpf(kappa)

        def collected(b, h):
            return mpmath.erfc(b / mpmath.sqrt(2)) / 2 - mpmath.exp(e) * mpmath.erfc((b + h) / mpmath.sqrt(2)) / 2

        def side(c):
            energy = 2 * (e + mpmath.log1p(kappa))
            v = (-kappa * c + mpmath.sqrt((kappa * c) ** 2 + kappa * (2 + kappa) * energy)) / (kappa * (2 + kappa))
            v = min(v, s / kappa)
            return max(0, collected(c + v, kappa * v), collected(max(e / s - s / 2, c + s / kappa), s))

        return float(mpmath.log(max(side(c) + side(-c) for c in map(mpmath.mpf, centres))))


@pytest.mark.parametrize(
    ("s", "kappa", "epsilon"),
    [
        (1.0, 0.7, 0.5),  # both sides stop on their ramps at c = 0: the best c is off the centre
        (1.0, 1.0, 1.3),  # s^2/kappa + s^2/2 - log(1+kappa) < epsilon: both are cut off by saturation at c = 0
        (3.0, 10.0, 0.2),
        (0.3, 0.05, 0.02),
        (0.1, 0.02, 0.35),
        (1e-3, 1e-6, 0.4472),  # log delta = -10^5
        (20.0, 0.4, 1e-3),  # log delta = -10^-23
    ],
)
def test_add_is_the_best_centre(s, kappa, epsilon):
    got = add_log_delta(epsilon, sensitivity_ratio=s, curvature_ratio=kappa)
    reach = max(s / kappa - epsilon / s + s / 2, 0)  # beyond, the side of -c cannot gain
    centres = np.unique(
        np.concatenate([np.linspace(0, reach, 200), reach - min(reach, 1) * np.geomspace(1e-9, 1, 200)])
    )
    best = best_log_sum(epsilon, s, kappa, centres)
    assert got >= best * (1 + 1e-11)  # logs are negative
    assert got == pytest.approx(best, rel=1e-4)


def test_curvature_beyond_one_stays_meaningful():
    """s = 0.1, kappa = 5, epsilon = 1: 0.0521, where the closed form has 0.55."""
    bound = ExactBound(mechanism(0.1, 5))
    assert bound.delta(1.0) == pytest.approx(0.0521, rel=0.001)
    assert RefinedBound(bound.mechanism).delta(1.0) == pytest.approx(0.55, rel=0.01)


# The best map, by dynamic programming, and random maps.


@pytest.mark.parametrize(
    ("s", "kappa", "levels", "grid"),
    [
        (0.1, 0.2, 200, (0.0, 0.1, 0.3)),
        (1, 2 / 3, 300, (0.0, 0.5, 2.0)),
        (0.4, 5, 60, (0.1, 1.0)),
        (3, 10, 300, (1.0,)),
    ],
)
@pytest.mark.parametrize("monotone", [False, True])
def test_a_dynamic_program_reaches_both_directions_and_exceeds_neither(s, kappa, levels, grid, monotone):
    bound = ExactBound(mechanism(s, kappa, monotone))
    for epsilon in grid:
        add, remove = (
            np.log(best_leak(epsilon, s=s, kappa=kappa, direction=way, monotone=monotone, levels=levels))
            for way in ("add", "remove")
        )
        for reached, exact in ((add, bound.log_delta_add(epsilon)), (remove, bound.log_delta_remove(epsilon))):
            assert reached <= exact + 1e-9
            assert reached == pytest.approx(exact, abs=2e-4)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    s=log_uniform(0.01, 3),
    kappa=log_uniform(0.01, 10),
    epsilon=log_uniform(1e-3, 3),
    monotone=st.booleans(),
)
def test_no_map_exceeds_the_bound(seed, s, kappa, epsilon, monotone):
    bound = ExactBound(mechanism(s, kappa, monotone))
    knots, shift = random_map(np.random.default_rng(seed), s=s, kappa=kappa, monotone=monotone)
    assert np.diff(shift).min(initial=0) >= -1e-12 and np.abs(shift).max() <= s * (1 + 1e-12)
    for e in (epsilon, -epsilon, 0.0):
        assert leak(e, knots, shift) <= np.exp(bound.log_delta_add(e)) + 1e-12
        assert leak(e, *inverse(knots, shift)) <= np.exp(bound.log_delta_remove(e)) + 1e-12


# Exact densities of a one-dimensional release.


def hockey_stick_of_densities(log_p, log_q, theta, epsilon):
    """int [p - e^epsilon q]_+ by the trapezoid rule on a fine grid."""
    return trapezoid(np.maximum(np.exp(log_p) - np.exp(epsilon + log_q), 0), theta)


INSTANCES = {  # f', f'' of a loss with L = beta' = 1, and whether f' keeps one sign
    "logistic": (lambda v: -expit(-v), lambda v: expit(v) * expit(-v), 0.25, True),
    "log cosh": (lambda v: np.tanh(v - 0.3), lambda v: 1 / np.cosh(v - 0.3) ** 2, 1.0, False),
    "Huber": (lambda v: np.clip(v, -1, 1), lambda v: (np.abs(v) <= 1).astype(float), 1.0, False),
}


@pytest.mark.parametrize("name", INSTANCES)
@pytest.mark.parametrize("others", [[], [0.8, -0.5]])
@pytest.mark.parametrize(("sigma", "l2_reg"), [(1.0, 0.5), (3.0, 2.0), (8.0, 1.0)])
def test_exact_output_density_in_one_dimension(name, others, sigma, l2_reg):
    """theta has the density of b at -J'(theta), times J''(theta): releases with and without one record."""
    slope, curvature, smoothness, monotone = INSTANCES[name]
    # a grid that has every jump of the Huber loss's f'', at 1/x, in the middle of a step: no error of first order there
    size = round(1000 * (12 * sigma + 3) / l2_reg)
    theta = (np.arange(-size, size) + 0.5) / 1000

    def log_density(records):
        gradient = l2_reg * theta + sum((x * slope(x * theta) for x in records), np.zeros_like(theta))
        hessian = l2_reg + sum((x * x * curvature(x * theta) for x in records), np.zeros_like(theta))
        return -0.5 * (gradient / sigma) ** 2 - 0.5 * np.log(2 * np.pi * sigma**2) + np.log(hessian)

    without, with_record = log_density(others), log_density([*others, 1.0])
    assert trapezoid(np.exp(without), theta) == pytest.approx(1, abs=1e-7)
    bound = ExactBound(
        ObjectivePerturbation(
            noise_std=sigma, l2_reg=l2_reg, lipschitz=1, smoothness=smoothness, monotone_loss=monotone
        )
    )
    for epsilon in (-0.5, 0.0, 0.1, 0.3, 1.0):
        add = hockey_stick_of_densities(without, with_record, theta, epsilon)
        remove = hockey_stick_of_densities(with_record, without, theta, epsilon)
        assert add <= np.exp(bound.log_delta_add(epsilon)) + 1e-7
        assert remove <= np.exp(bound.log_delta_remove(epsilon)) + 1e-7


def test_a_huber_loss_leaks_exactly_the_add_bound():
    """Z empty and the Huber loss of width L / beta is the ramp through 0, the worst map where delta_add = 2 H."""
    sigma, l2_reg = 2.0, 0.25  # s = 1/2, kappa = 4
    s, kappa = 1 / sigma, 1 / l2_reg
    theta = np.linspace(-120, 120, 4_000_001)
    without = np.log(l2_reg) - 0.5 * (l2_reg * theta / sigma) ** 2
    with_record = np.log(l2_reg + (np.abs(theta) <= 1)) - 0.5 * ((l2_reg * theta + np.clip(theta, -1, 1)) / sigma) ** 2
    bound = ExactBound(mechanism(s, kappa))
    for epsilon in (0.2, 0.5, 1.0):
        assert epsilon > s * s / 2 + s * s / kappa
        leaked = hockey_stick_of_densities(without, with_record, theta, epsilon) / np.sqrt(2 * np.pi * sigma**2)
        assert np.exp(bound.log_delta_add(epsilon)) == pytest.approx(leaked, rel=1e-6)
        twice = np.log(2) + gaussian_log_delta(epsilon, sensitivity_ratio=s)
        assert bound.log_delta_add(epsilon) == pytest.approx(twice, rel=1e-12)


# Monte Carlo of the exact density ratio of a fit in three dimensions.


def gradient_and_hessian(theta, x, l2_reg):
    """Of sum_i log(1 + e^(-x_i.theta)) + l2_reg |theta|^2 / 2, at every row of theta."""
    p = expit(-theta @ x.T)
    gradient = -p @ x + l2_reg * theta
    return gradient, np.einsum("ni,ij,ik->njk", p * (1 - p), x, x) + l2_reg * np.eye(x.shape[1])


def release(noise, x, l2_reg):
    """The minimiser with the linear term b.theta for every row b of noise, by damped Newton steps."""
    theta = np.zeros_like(noise)
    for _ in range(200):
        gradient, hessian = gradient_and_hessian(theta, x, l2_reg)
        step = np.linalg.solve(hessian, (gradient + noise)[..., None])[..., 0]
        theta = theta - step / np.maximum(1, np.linalg.norm(step, axis=1, keepdims=True))
        if np.abs(step).max() < 1e-10:
            return theta
    raise AssertionError("Newton's method did not converge")


def log_density(theta, x, l2_reg, sigma):
    gradient, hessian = gradient_and_hessian(theta, x, l2_reg)
    return -np.square(gradient).sum(axis=1) / (2 * sigma**2) + np.linalg.slogdet(hessian)[1]


@pytest.mark.parametrize(("sigma", "l2_reg"), [(1.0, 0.3), (2.0, 0.05), (0.5, 1.0)])
def test_monte_carlo_of_a_logistic_fit_in_three_dimensions(sigma, l2_reg):
    """Mean of [1 - e^(epsilon - loss)]_+ over releases, against the bound plus a Bernstein margin at 1e-12."""
    rng = np.random.default_rng(20231)
    x = rng.standard_normal((4, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    bound = ExactBound(
        ObjectivePerturbation(noise_std=sigma, l2_reg=l2_reg, lipschitz=1, smoothness=0.25, monotone_loss=True)
    )
    size, tail = 10_000, np.log(1e12)
    for direction, (own, other) in {"add": (x[:-1], x), "remove": (x, x[:-1])}.items():
        theta = release(sigma * rng.standard_normal((size, 3)), own, l2_reg)
        loss = log_density(theta, own, l2_reg, sigma) - log_density(theta, other, l2_reg, sigma)
        assert np.mean(np.exp(-loss)) == pytest.approx(1, abs=0.1)  # both densities are normalised
        for epsilon in (0.0, 0.2, 0.7):
            excess = np.maximum(-np.expm1(epsilon - loss), 0)
            margin = np.std(excess) * np.sqrt(2 * tail / size) + 7 * tail / (3 * size)
            claimed = np.exp(getattr(bound, "log_delta_" + direction)(epsilon))
            assert excess.mean() <= claimed + margin
            if epsilon == 0:
                assert excess.mean() > 0.2 * claimed  # the check has teeth


# What every bound owes.


@settings(max_examples=40)
@given(**parameters)
def test_order_and_monotonicity_in_epsilon(s, kappa, monotone):
    m = mechanism(s, kappa, monotone)
    lower, upper = GaussianLowerBound(m).log_delta(GRID), RefinedBound(m)
    bound = ExactBound(m)
    for direction in ("log_delta_add", "log_delta_remove", "log_delta"):
        value, above = getattr(bound, direction)(GRID), getattr(upper, direction)(GRID)
        assert np.isfinite(value).all()
        assert (lower <= value).all() and (value <= above).all()
        assert (np.diff(value) <= 1e-11 * np.abs(value[1:])).all()
        negative, above = getattr(bound, direction)(-GRID), getattr(upper, direction)(-GRID)
        assert (negative <= above).all() and (np.diff(negative) >= -1e-9).all()
    if kappa < 1:
        assert (bound.log_delta(GRID) <= HockeyStickBound(m).log_delta(GRID) * (1 - 1e-12) + 1e-15).all()
    if monotone:
        assert (bound.log_delta_add(GRID) == lower).all()


@settings(max_examples=40)
@given(**parameters, epsilon=log_uniform(1e-3, 30))
def test_more_noise_and_more_regularisation_are_more_private(s, kappa, monotone, epsilon):
    def log_delta(noise, reg):
        return ExactBound(mechanism(s / noise, kappa / reg, monotone)).log_delta(epsilon)

    here = log_delta(1, 1)
    assert log_delta(1.1, 1) <= here + 1e-10 * abs(here)
    assert log_delta(1, 1.1) <= here + 1e-10 * abs(here)


@settings(max_examples=40)
@given(**parameters)
def test_both_directions_meet_at_zero_and_are_dual(s, kappa, monotone):
    bound = ExactBound(mechanism(s, kappa, monotone))
    assert bound.delta(0.0) == pytest.approx(np.exp(bound.log_delta_add(0.0)), rel=1e-11)
    assert bound.log_delta_remove(0.0) == pytest.approx(bound.log_delta_add(0.0), rel=1e-9, abs=1e-13)
    for epsilon in (0.1, 1.0):
        for own, other in (
            (bound.log_delta_add, bound.log_delta_remove),
            (bound.log_delta_remove, bound.log_delta_add),
        ):
            dual = 1 - np.exp(-epsilon) + np.exp(-epsilon + other(epsilon))
            assert np.exp(own(-epsilon)) == pytest.approx(dual, rel=1e-12)


@settings(max_examples=30)
@given(s=log_uniform(1e-30, 1e25), kappa=log_uniform(1e-30, 1e30), monotone=st.booleans())
def test_never_nan_at_absurd_parameters(s, kappa, monotone):
    bound = ExactBound(mechanism(s, kappa, monotone))
    epsilon = np.concatenate([GRID, -GRID, [1e100, 1e200, 1e300, -1e300, 1e-300, np.log1p(kappa)]])
    for direction in (bound.log_delta_add, bound.log_delta_remove):
        value = direction(epsilon)
        assert not np.isnan(value).any() and (value <= 0).all()
        assert (value >= gaussian_log_delta(epsilon, sensitivity_ratio=bound.mechanism.sensitivity_ratio)).all()
        assert direction(np.inf) == -np.inf and direction(-np.inf) == 0


def test_interface():
    bound = ExactBound(ObjectivePerturbation(noise_std=5, l2_reg=0.5, lipschitz=1, smoothness=1))
    assert isinstance(bound, PrivacyBound) and isinstance(bound, DirectionalBound)
    for shape in [(), (0,), (3,), (2, 3)]:
        assert np.shape(bound.log_delta(np.full(shape, 0.5))) == shape
        assert np.shape(bound.log_delta_add(np.full(shape, -0.5))) == shape
        assert np.shape(bound.epsilon(np.full(shape, 1e-5))) == shape
    epsilon = np.array([[0.0, 0.3], [-0.2, 4.0]])
    one_by_one = [[bound.log_delta_remove(e) for e in row] for row in epsilon]
    np.testing.assert_allclose(bound.log_delta_remove(epsilon), one_by_one, rtol=1e-13)
    at = bound.epsilon(1e-6)
    assert bound.delta(at) <= 1e-6 < bound.delta(at * (1 - 1e-4))
    with pytest.raises(ValueError, match="epsilon must be a real number: got epsilon="):
        bound.log_delta_add([0.1, np.nan])
    for kind in (ExactBound, RefinedBound):
        with pytest.raises(TypeError, match="mechanism must be ObjectivePerturbation: got mechanism="):
            kind(explorer.accounting.Gaussian(noise_std=1))


def test_the_package_lists_its_bounds():
    names = ["Kifer", "Renyi", "HockeyStick", "Refined", "Exact", "GaussianLower"]
    assert [b.__name__ for b in explorer.accounting.bounds] == [name + "Bound" for name in names]
