"""The bounds on the excess risk against the risk measured over many draws of the noise, and their corrections."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from explorer.accounting import (
    ApproximateMinimaPerturbation,
    Gaussian,
    GaussianLowerBound,
    HockeyStickBound,
    InfeasibleTarget,
    KiferBound,
    ObjectivePerturbation,
    RefinedBound,
    RenyiBound,
    calibrate,
    calibrate_gaussian,
    frontier,
)
from explorer.learning import (
    Logistic,
    best_l2_reg,
    best_on_frontier,
    best_private_parameters,
    excess_risk_bound,
    glm_trace_bound,
    local_trace_bound,
    minimum_curvature,
    output_step,
)

EXAMPLE = dict(
    n_records=100,
    dimension=7,
    lipschitz=1.5,
    noise_std=4.0,
    l2_reg=3.0,
    optimum_norm=2.0,
    gradient_tol=0.01,
    output_noise_std=0.05,
)


class Quadratic:
    """f(u; y) = offset + (curvature / 2) (u - y)^2."""

    def __init__(self, curvature=1.0, offset=0.0):
        self.curvature, self.offset = curvature, offset

    def value(self, u, y):
        return self.offset + self.curvature / 2 * (u - y) ** 2

    def derivative(self, u, y):
        return self.curvature * (u - y)

    def second_derivative(self, u, y):
        return np.full_like(u, self.curvature)


def objective(theta, X, y, loss, l2_reg):
    """J at each row of theta."""
    return loss.value(theta @ X.T, y).sum(-1) + l2_reg / 2 * (theta**2).sum(-1)


def minimisers(b, X, y, loss, l2_reg):
    """The exact minimiser of J(theta) + b.theta for each row of b, by Newton's method."""
    theta = np.zeros_like(b)
    for _ in range(50):
        u = theta @ X.T
        gradient = loss.derivative(u, y) @ X + l2_reg * theta + b
        if np.linalg.norm(gradient, axis=1).max() < 1e-9:
            return theta
        hessian = np.einsum("kn,ni,nj->kij", loss.second_derivative(u, y), X, X) + l2_reg * np.eye(X.shape[1])
        theta = theta - np.linalg.solve(hessian, gradient[..., None])[..., 0]
    raise AssertionError("Newton's method has not converged")


def mean_and_error(values):
    """The mean of independent values and four times its standard error."""
    return values.mean(), 4 * values.std() / np.sqrt(len(values))


@pytest.fixture(scope="module")
def logistic_problem():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 4))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = np.where(rng.uniform(size=150) < 1 / (1 + np.exp(-X @ [3, -2, 0, 1])), 1.0, -1.0)
    return X, y


@pytest.mark.parametrize("l2_reg, noise_std", [(1.0, 2.0), (8.0, 4.0), (0.5, 8.0), (30.0, 0.5)])
def test_measured_excess_risk_of_algorithm_1_is_below_the_bound(logistic_problem, l2_reg, noise_std):
    X, y = logistic_problem
    rng, draws, d, (tol, spread) = np.random.default_rng(0), 1500, X.shape[1], (0.3, 0.02)
    optimum = minimisers(np.zeros((1, d)), X, y, Logistic(), 1e-9)  # of F
    b, stop = rng.normal(scale=noise_std, size=(draws, d)), rng.normal(size=(draws, d))
    stop *= tol / np.linalg.norm(stop, axis=1)[:, None]  # a solver that stops with exactly this gradient left
    exact = minimisers(b, X, y, Logistic(), l2_reg)
    released = minimisers(b - stop, X, y, Logistic(), l2_reg) + rng.normal(scale=spread, size=(draws, d))
    constants = dict(n_records=150, dimension=d, lipschitz=1.0, noise_std=noise_std, l2_reg=l2_reg)
    bound = partial(excess_risk_bound, **constants, optimum_norm=np.linalg.norm(optimum))
    least = objective(optimum, X, y, Logistic(), 0.0)
    for theta, limit in [
        (exact, bound()),
        (released, bound(gradient_tol=tol, output_noise_std=spread)),
    ]:
        measured, error = mean_and_error(objective(theta, X, y, Logistic(), 0.0) - least)
        assert error < measured / 4  # the measurement means something
        assert measured - error <= limit.total < limit.published


def test_any_point_may_be_compared_with_even_where_the_losses_have_no_minimiser():
    X, y = np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([1.0, 1.0])  # separable
    b = np.random.default_rng(2).normal(scale=0.7, size=(4000, 2))
    risk = objective(minimisers(b, X, y, Logistic(), 0.3), X, y, Logistic(), 0.0)
    for theta in np.array([[0.0, 0.0], [3.0, 3.0], [30.0, -5.0]]):
        measured, error = mean_and_error(risk - objective(theta, X, y, Logistic(), 0.0))
        limit = excess_risk_bound(
            n_records=2, dimension=2, lipschitz=1, noise_std=0.7, l2_reg=0.3, optimum_norm=np.linalg.norm(theta)
        )
        assert measured - error <= limit.total


def test_the_constants_are_the_best_possible():
    # F = c |theta - theta*|: the minimiser moves theta* - w / lambda back by c, with w = b + lambda theta*
    d, sigma, l2_reg = 600, 2.0, 5.0
    rng = np.random.default_rng(3)
    centre = rng.normal(size=d) / 20
    w = rng.normal(scale=sigma, size=(400, d)) + l2_reg * centre
    length = np.linalg.norm(w, axis=1)
    c = np.sqrt(d * sigma**2 + l2_reg**2 * centre @ centre) / 2
    v = -w * np.maximum(0, 1 - c / length)[:, None] / l2_reg
    direction = v / np.linalg.norm(v, axis=1)[:, None]
    np.testing.assert_allclose(c * direction + l2_reg * v + w, 0, atol=1e-12)  # stationary, so v is the minimiser
    measured, error = mean_and_error(c * np.linalg.norm(v, axis=1))
    limit = excess_risk_bound(
        n_records=1, dimension=d, lipschitz=c, noise_std=sigma, l2_reg=l2_reg, optimum_norm=np.linalg.norm(centre)
    )
    assert 0.99 * limit.total < measured + error
    assert measured - error < limit.total
    assert limit.published == pytest.approx(2 * limit.total)


def test_the_solver_terms_are_attained_by_a_linear_loss():
    # all records at -x with f'(u) = L: a gradient left over along x raises F by n L tau / lambda
    n, lipschitz, l2_reg, tol = 20, 1.5, 4.0, 0.1
    exact, stopped = -n * lipschitz / l2_reg, -(n * lipschitz - tol) / l2_reg
    step = output_step(extra_risk=2.0, rho=0.5, n_records=n, dimension=1, lipschitz=lipschitz, l2_reg=l2_reg)
    parts = partial(excess_risk_bound, n_records=n, dimension=1, lipschitz=lipschitz, noise_std=1, optimum_norm=0)
    assert n * lipschitz * (stopped - exact) == pytest.approx(parts(l2_reg=l2_reg, gradient_tol=tol).solver)
    spent = parts(l2_reg=l2_reg, gradient_tol=step.gradient_tol, output_noise_std=step.output_noise_std)
    assert spent.solver == pytest.approx(2.0, rel=1e-12)


@pytest.mark.parametrize("name", sorted(set(EXAMPLE) - {"l2_reg"}))
def test_the_bound_grows_with_every_parameter_but_l2_reg(name):
    values = EXAMPLE[name] * np.arange(1, 6)
    total = excess_risk_bound(**{**EXAMPLE, name: values}).total
    assert total.shape == (5,)
    assert (np.diff(total) > 0).all()
    assert total[2] == excess_risk_bound(**{**EXAMPLE, name: values[2]}).total


def test_parts_broadcast():
    risk = excess_risk_bound(**{**EXAMPLE, "l2_reg": np.ones((3, 1)), "noise_std": np.arange(4.0)})
    assert risk.solver.shape == risk.noise.shape == risk.regulariser.shape == (3, 4)
    np.testing.assert_array_equal(risk.noise[0], EXAMPLE["dimension"] * np.arange(4.0) ** 2 / 4)


@given(
    sigma=st.floats(0.01, 100), norm=st.floats(0.01, 100), tol=st.floats(0, 1), d=st.integers(1, 1000),
    spread=st.floats(0, 1),
)  # fmt: skip
def test_best_l2_reg_minimises(sigma, norm, tol, d, spread):
    problem = dict(
        n_records=50,
        dimension=d,
        lipschitz=1.2,
        noise_std=sigma,
        optimum_norm=norm,
        gradient_tol=tol,
        output_noise_std=spread,
    )
    best = best_l2_reg(**problem)
    assert best.risk == excess_risk_bound(**problem, l2_reg=best.l2_reg)
    others = excess_risk_bound(**problem, l2_reg=best.l2_reg * np.geomspace(1e-3, 1e3, 101)).total
    assert best.risk.total <= others.min() * (1 + 1e-12)
    closed_form = 60 * spread * np.sqrt(d) + norm * np.sqrt(d * sigma**2 + 240 * tol) / 2
    assert best.risk.total == pytest.approx(closed_form, rel=1e-12)


PROBLEM = dict(n_records=1000, dimension=20)
TARGET = dict(epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("bound", [RefinedBound, HockeyStickBound, KiferBound])
@pytest.mark.parametrize("norm", [2.0, 50.0])
def test_best_private_parameters_are_private_and_no_point_of_the_frontier_is_better(bound, norm):
    family = partial(ObjectivePerturbation, lipschitz=1.0, smoothness=0.25)
    best = best_private_parameters(bound, family, **TARGET, **PROBLEM, optimum_norm=norm)
    assert bound(family(noise_std=best.noise_std, l2_reg=best.l2_reg)).delta(1.0) <= 1e-5
    sigma = np.geomspace(0.9, 2, 40) * best.noise_std
    least = frontier(bound, family, noise_std=sigma, **TARGET)
    l2_reg = np.maximum(least, np.sqrt(20) * sigma / norm)  # as little as is private, unless more has less risk
    private = np.isfinite(l2_reg)
    others = excess_risk_bound(
        **PROBLEM, lipschitz=1, noise_std=sigma[private], l2_reg=l2_reg[private], optimum_norm=norm
    )
    assert 0.97 * others.total.min() < best.risk.total <= others.total.min() * (1 + 1e-5)


def test_the_optimal_rate():
    # without privacy loss from curvature the best risk is sigma_G sqrt(d) |theta*| / 2, and no bound gets below
    sigma = calibrate_gaussian(**TARGET).value
    family = partial(ObjectivePerturbation, lipschitz=1.0, smoothness=0.25)
    ideal = best_private_parameters(GaussianLowerBound, family, **TARGET, **PROBLEM, optimum_norm=2.0)
    assert ideal.risk.total == pytest.approx(sigma * np.sqrt(20), rel=1e-6)
    assert ideal.l2_reg == pytest.approx(sigma * np.sqrt(20) / 2, rel=1e-3)
    real = best_private_parameters(RefinedBound, family, **TARGET, **PROBLEM, optimum_norm=2.0)
    assert ideal.risk.total < real.risk.total < 1.1 * ideal.risk.total
    wide = best_private_parameters(RefinedBound, family, **TARGET, n_records=1000, dimension=2000, optimum_norm=2.0)
    assert wide.risk.total / real.risk.total == pytest.approx(10, rel=0.05)  # sqrt(d)


def test_best_private_parameters_of_algorithm_1_count_its_output_step():
    family = partial(
        ApproximateMinimaPerturbation, lipschitz=1.0, smoothness=0.25, gradient_tol=0.01, output_noise_std=0.02
    )
    best = best_private_parameters(RenyiBound, family, **TARGET, **PROBLEM, optimum_norm=50.0)
    assert RenyiBound(family(noise_std=best.noise_std, l2_reg=best.l2_reg)).delta(1.0) <= 1e-5
    assert best.risk.solver == pytest.approx(1000 * (0.01 / best.l2_reg + 0.02 * np.sqrt(20)))
    # beside sqrt(d) sigma / |theta*|, lambda grows to keep the output step private
    assert best.l2_reg > 2 * np.sqrt(20) * best.noise_std / 50


@pytest.mark.parametrize("bound", [RenyiBound, RefinedBound])
@pytest.mark.parametrize("norm", [0.001, 0.1, 3.0, 1e6])
def test_the_best_of_a_known_frontier_is_the_best_of_all(bound, norm):
    output = {"gradient_tol": 1e-4, "output_noise_std": 0.01}
    kind = ObjectivePerturbation if bound is RefinedBound else partial(ApproximateMinimaPerturbation, **output)
    family = partial(kind, lipschitz=1.0, smoothness=0.25)
    wall = calibrate(bound, partial(family, l2_reg=1e9), parameter="noise_std", **TARGET).value
    noise = wall * (1 + np.geomspace(1e-4, 5, 12))
    curve = {"noise_std": noise, "l2_reg": frontier(bound, family, noise_std=noise, **TARGET)}
    best = best_on_frontier(bound, family, **curve, **TARGET, **PROBLEM, optimum_norm=norm)
    assert bound(family(noise_std=best.noise_std, l2_reg=best.l2_reg)).delta(TARGET["epsilon"]) <= TARGET["delta"]
    expected = best_private_parameters(bound, family, **TARGET, **PROBLEM, optimum_norm=norm)
    assert best.risk.total <= expected.risk.total * (1 + 3e-4)


def test_a_target_out_of_reach_is_reported():
    class Nothing(GaussianLowerBound):
        def log_delta(self, epsilon):
            return np.zeros(np.shape(epsilon))

    with pytest.raises(InfeasibleTarget, match="noise_std"):
        best_private_parameters(
            Nothing,
            partial(ObjectivePerturbation, lipschitz=1.0, smoothness=0.25),
            **TARGET,
            **PROBLEM,
            optimum_norm=1.0,
        )


@pytest.mark.parametrize("n, d", [(40, 6), (5, 12)])
@pytest.mark.parametrize("curvature", [0.2, 1.0, 7.0])
def test_trace_bound_is_exact_for_quadratic_losses(n, d, curvature):
    rng = np.random.default_rng(n)
    X, y, loss, l2_reg, sigma = rng.normal(size=(n, d)), rng.normal(size=n), Quadratic(curvature), 2.0, 3.0
    theta = minimisers(rng.normal(scale=sigma, size=(8000, d)), X, y, loss, l2_reg)
    centre = minimisers(np.zeros((1, d)), X, y, loss, l2_reg)
    least = objective(centre, X, y, loss, l2_reg)
    measured, error = mean_and_error(objective(theta, X, y, loss, l2_reg) - least)
    exact = glm_trace_bound(X, noise_std=sigma, l2_reg=l2_reg, curvature=curvature)
    assert error < exact / 20
    assert abs(measured - exact) < error
    assert exact == pytest.approx(sigma**2 / 2 * np.trace(np.linalg.inv(curvature * X.T @ X + l2_reg * np.eye(d))))
    assert exact == pytest.approx(glm_trace_bound(sparse.csr_array(X), noise_std=3, l2_reg=2, curvature=curvature))
    local = local_trace_bound(X, y, loss=loss, minimiser=centre[0], noise_std=sigma, l2_reg=l2_reg)
    assert exact <= local <= exact * (1 + 1e-6)  # the curvature is the same everywhere


@pytest.mark.parametrize("l2_reg, noise_std, slack", [(20.0, 1.0, 1.1), (8.0, 4.0, 1.3), (0.5, 4.0, 12.0)])
def test_measured_regularised_excess_is_below_the_trace_bounds(logistic_problem, l2_reg, noise_std, slack):
    X, y = logistic_problem
    d, loss = X.shape[1], Logistic()
    centre = minimisers(np.zeros((1, d)), X, y, loss, l2_reg)
    theta = minimisers(np.random.default_rng(4).normal(scale=noise_std, size=(4000, d)), X, y, loss, l2_reg)
    excess = objective(theta, X, y, loss, l2_reg) - objective(centre, X, y, loss, l2_reg)
    measured, error = mean_and_error(excess)
    problem = dict(noise_std=noise_std, l2_reg=l2_reg)
    local = local_trace_bound(X, y, loss=loss, minimiser=centre[0], **problem)
    assert measured - error <= local <= slack * measured
    assert local <= d * noise_std**2 / (2 * l2_reg)
    reach = np.abs(theta @ X.T).max(1)
    for margin_bound in np.quantile(reach, [0.5, 0.9]):  # the draws in which every margin stays within the bound
        assert np.abs(X @ centre[0]).max() < margin_bound
        inside, error = mean_and_error(np.where(reach <= margin_bound, excess, 0))
        curvature = minimum_curvature(loss, margin_bound=margin_bound)
        assert inside - error <= glm_trace_bound(X, curvature=curvature, **problem)


def test_local_trace_bound_weighs_large_noise_by_its_square():
    # one record x = 2 whose curvature, 1, ends at |u| = 1: H = 4 + lambda within distance 1/2, which |b| <= H/2 keeps
    class Huber(Quadratic):
        def derivative(self, u, y):
            return np.clip(u - y, -1, 1)

        def second_derivative(self, u, y):
            return np.where(np.abs(u - y) <= 1, 1.0, 0.0)

    problem = dict(noise_std=1.5, l2_reg=1.0)
    b = np.random.default_rng(7).normal(scale=1.5, size=400_000)
    definition, error = mean_and_error(b**2 / 2 / np.where(np.abs(b) <= 2.5, 5.0, 1.0))
    local = local_trace_bound(np.array([[2.0]]), np.zeros(1), loss=Huber(), minimiser=np.zeros(1), **problem)
    assert definition - error <= local <= 1.1 * definition


def test_trace_bound_and_regulariser_bound_the_unregularised_excess(logistic_problem):
    X, _ = logistic_problem
    y, d, sigma, l2_reg = X @ [3.0, -2, 0, 1], 4, 2.0, 5.0
    optimum = np.array([[3.0, -2, 0, 1]])
    theta = minimisers(np.random.default_rng(5).normal(scale=sigma, size=(4000, d)), X, y, Quadratic(), l2_reg)
    measured, error = mean_and_error(objective(theta, X, y, Quadratic(), 0.0))  # F(theta*) = 0
    limit = glm_trace_bound(X, noise_std=sigma, l2_reg=l2_reg, curvature=1) + l2_reg / 2 * (optimum**2).sum()
    assert measured - error <= limit
    assert (
        limit
        < excess_risk_bound(
            n_records=150,
            dimension=d,
            lipschitz=1,
            noise_std=sigma,
            l2_reg=l2_reg,
            optimum_norm=np.linalg.norm(optimum),
        ).published
    )  # the data help


def published_trace_bound(X, *, noise_std, l2_reg, low, high):
    return high * noise_std**2 / low**2 * np.trace(np.linalg.inv(X.T @ X + l2_reg * np.eye(X.shape[1])))


@given(low=st.floats(0.05, 1), high=st.floats(1, 5), l2_reg=st.floats(0.01, 100), seed=st.integers(0, 99))
def test_trace_bound_improves_on_the_published_form_under_its_condition(low, high, l2_reg, seed):
    X = np.random.default_rng(seed).normal(size=(8, 5))
    improved = glm_trace_bound(X, noise_std=1.0, l2_reg=l2_reg, curvature=low)
    published = published_trace_bound(X, noise_std=1.0, l2_reg=l2_reg, low=low, high=high)
    assert 2 * high / low * improved <= published * (1 + 1e-9)


@pytest.mark.parametrize(
    "story, curvature, offset, low, high",
    [
        # f'' = 8 between m = 8 and M = 8, but m also divides the directions that only the regulariser holds
        ("m above 1", 8.0, 0.0, 8.0, 8.0),
        # 1 <= f <= 1.1 on all margins that occur, so bounds on f instead of f'' promise what a flat loss cannot give
        ("bounds on f", 1e-6, 1.0, 1.0, 1.1),
    ],
)
def test_measured_risk_exceeds_the_published_trace_bound_without_the_corrected_condition(
    story, curvature, offset, low, high
):
    rng, (n, d, sigma, l2_reg) = np.random.default_rng(6), (10, 12, 2.0, 1.5)
    X, y, loss = 3 * rng.normal(size=(n, d)), np.zeros(n), Quadratic(curvature, offset)
    theta = minimisers(rng.normal(scale=sigma, size=(3000, d)), X, y, loss, l2_reg)
    seen = loss.value(theta @ X.T, y) if story == "bounds on f" else loss.second_derivative(theta @ X.T, y)
    assert low <= seen.min() <= seen.max() <= high  # the condition as printed, or with m above 1
    measured, error = mean_and_error(objective(theta, X, y, loss, l2_reg) - n * offset)
    problem = dict(noise_std=sigma, l2_reg=l2_reg)
    assert published_trace_bound(X, **problem, low=low, high=high) < measured - error
    assert measured - error <= glm_trace_bound(X, **problem, curvature=curvature)


def test_curvature_of_the_logistic_loss():
    loss = Logistic()
    margins = np.linspace(-3, 3, 1001)
    assert minimum_curvature(loss, margin_bound=3) == pytest.approx(loss.second_derivative(margins, 1.0).min())
    assert minimum_curvature(loss, margin_bound=0) == 0.25
    assert minimum_curvature(Quadratic(), margin_bound=np.inf, labels=[0.3]) == 1
    for reach in [np.inf, 1e4]:
        with pytest.raises(ValueError, match="no trace bound exists where f'' reaches 0"):
            minimum_curvature(loss, margin_bound=reach)
    with pytest.raises(ValueError, match="without curvature no trace bound exists"):
        glm_trace_bound(np.eye(2), noise_std=1, l2_reg=1, curvature=0)


@given(
    rho=st.floats(1e-4, 10), extra=st.floats(1e-3, 1e3), d=st.integers(1, 10_000), n=st.integers(1, 10**6),
    l2_reg=st.floats(1e-3, 1e3),
)  # fmt: skip
def test_output_step_spends_its_budget_and_its_risk_exactly(rho, extra, d, n, l2_reg):
    step = output_step(extra_risk=extra, rho=rho, n_records=n, dimension=d, lipschitz=1.3, l2_reg=l2_reg)
    gaussian = Gaussian(noise_std=step.output_noise_std, sensitivity=2 * step.gradient_tol / l2_reg)
    assert gaussian.sensitivity_ratio**2 / 2 == pytest.approx(rho, rel=1e-12)
    risk = excess_risk_bound(
        n_records=n,
        dimension=d,
        lipschitz=1.3,
        noise_std=0,
        l2_reg=l2_reg,
        optimum_norm=0,
        gradient_tol=step.gradient_tol,
        output_noise_std=step.output_noise_std,
    )
    assert risk.total == pytest.approx(extra, rel=1e-12)


def test_the_printed_output_noise_spends_four_times_its_budget():
    rho, l2_reg, alpha = 0.01, 5.0, np.array([1.5, 8.0, 60.0])
    step = output_step(extra_risk=1.0, rho=rho, n_records=500, dimension=10, lipschitz=1, l2_reg=l2_reg)
    printed = np.sqrt(step.gradient_tol**2 / (2 * l2_reg**2 * rho))

    def rdp_of_output_step(output_noise_std):
        amp = ApproximateMinimaPerturbation(
            noise_std=4, l2_reg=l2_reg, lipschitz=1, smoothness=0.25,
            gradient_tol=step.gradient_tol, output_noise_std=output_noise_std,
        )  # fmt: skip
        return RenyiBound(amp).rdp(alpha) - RenyiBound(amp.objective).rdp(alpha)

    np.testing.assert_allclose(rdp_of_output_step(step.output_noise_std), rho * alpha)
    np.testing.assert_allclose(rdp_of_output_step(printed), 4 * rho * alpha)
    # the sensitivity 2 tau / lambda is real: without data J + b.theta is (lambda/2) |theta + b/lambda|^2, and gradients
    # of +tau and -tau are left at points that far apart
    published = Gaussian(noise_std=printed, sensitivity=2 * step.gradient_tol / l2_reg)
    assert published.sensitivity_ratio**2 / 2 > 3.99 * rho


@pytest.mark.parametrize("name", sorted(EXAMPLE))
@pytest.mark.parametrize("bad", [-1, np.nan, np.inf, "1"])
def test_errors_name_the_parameter(name, bad):
    with pytest.raises(ValueError, match=f"{name} must be"):
        excess_risk_bound(**{**EXAMPLE, name: bad})
    problem = {**EXAMPLE, name: bad}
    del problem["l2_reg"]
    if name != "l2_reg":
        with pytest.raises(ValueError, match=f"{name} must be"):
            best_l2_reg(**problem)


@pytest.mark.parametrize("name", ["extra_risk", "rho", "n_records", "dimension", "lipschitz", "l2_reg"])
def test_output_step_errors_name_the_parameter(name):
    good = dict(extra_risk=1.0, rho=1.0, n_records=5, dimension=2, lipschitz=1.0, l2_reg=1.0)
    with pytest.raises(ValueError, match=f"{name} must be"):
        output_step(**{**good, name: 0})


def test_trace_bounds_reject_bad_data():
    problem = dict(noise_std=1, l2_reg=1, curvature=1)
    with pytest.raises(ValueError, match="X must be a matrix"):
        glm_trace_bound([1.0, 2.0], **problem)
    with pytest.raises(ValueError, match="X must be a matrix of finite numbers"):
        glm_trace_bound([[1.0, np.nan]], **problem)
    with pytest.raises(ValueError, match="minimiser must minimise J"):
        local_trace_bound([[1.0]], np.ones(1), loss=Logistic(), minimiser=[0.0], noise_std=1, l2_reg=1)
