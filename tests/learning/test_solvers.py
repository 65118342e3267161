"""Solvers, tested by the recomputed gradient at their result."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from explorer.learning import LOSSES, Huber, Logistic, PerturbedObjective, Records, SmoothedHinge
from explorer.learning.solvers import (
    SOLVERS,
    choose,
    lbfgs,
    minimise,
    newton,
    newton_cg,
    sag,
    subsampled_newton,
    svrg,
)
from explorer.learning.solvers.finite_sum import FiniteSum

NEWTON_LIKE = (newton, newton_cg, subsampled_newton)
every_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)


def problem(loss=None, *, n=200, d=6, l2_reg=1.5, noise=0.0, clip_norm=None, scale=1.0, seed=3):
    """Random rows of norm about `scale`, targets that fit the loss, and a linear term of standard deviation `noise`."""
    rng, loss = np.random.default_rng(seed), loss or Logistic()
    X = scale * rng.normal(size=(n, d)) / np.sqrt(d)
    y = 3 * (X @ rng.normal(size=d)) + rng.standard_t(2, size=n)
    if loss.labels == "signs":
        y = np.where(y > 0, 1.0, -1.0)
    return PerturbedObjective(
        Records(X, y), loss=loss, l2_reg=l2_reg, linear_term=noise * rng.normal(size=d), clip_norm=clip_norm
    )


@pytest.mark.parametrize("clip_norm", [None, 0.3])
@pytest.mark.parametrize("loss", [loss() for loss in LOSSES.values()], ids=LOSSES)
@every_solver
def test_certificate(solver, loss, clip_norm):
    objective = problem(loss, noise=2.0, clip_norm=clip_norm)
    result = solver(objective, gradient_tol=1e-3, random_state=0)
    assert result.success
    assert np.linalg.norm(objective.gradient(result.x)) <= 1e-3 * (1 + 1e-9)  # summed in another order
    assert result.gradient_norm == np.linalg.norm(result.jac) == result.trace[-1, 1] <= 1e-3 < result.trace[-2, 1]


@pytest.mark.parametrize("gradient_tol", [1.0, 1e-2, 1e-5])
@every_solver
def test_tolerance(solver, gradient_tol):
    objective = problem()
    assert solver(objective, gradient_tol=gradient_tol, random_state=1).gradient_norm <= gradient_tol


@every_solver
def test_agrees_with_scikit_learn(solver):
    objective = problem(n=60, d=3)
    ours = solver(objective, gradient_tol=1e-8, random_state=0).x  # lambda = 1.5: within 1e-8 of the minimum
    theirs = LogisticRegression(C=1 / 1.5, fit_intercept=False, tol=1e-12, solver="newton-cholesky")
    theirs.fit(objective.records.X, objective.records.y)
    np.testing.assert_allclose(ours, theirs.coef_[0], atol=1e-8)


@every_solver
def test_trace_and_callback(solver):
    objective, seen = problem(), []
    result = solver(objective, gradient_tol=1e-3, random_state=0, callback=lambda *step: seen.append(step))
    assert np.array_equal(seen, result.trace)
    assert result.trace[0, 0] == objective.n_records
    assert result.n_gradient_evaluations == result.trace[-1, 0]
    assert (np.diff(result.trace[:, 0]) >= objective.n_records).all()


@every_solver
def test_reports_failure_and_returns_the_best_point(solver):
    objective = problem(noise=3.0)
    result = solver(objective, gradient_tol=1e-9, max_passes=3, random_state=0)
    assert not result.success
    assert "max_passes" in result.message
    assert result.gradient_norm == result.trace[:, 1].min() > 1e-9
    np.testing.assert_allclose(objective.gradient(result.x), result.jac, atol=1e-10)


@every_solver
def test_starting_at_the_minimum_costs_one_pass(solver):
    objective = problem()
    minimum = newton(objective, gradient_tol=1e-9).x
    again = solver(objective, gradient_tol=1e-3, start=minimum)
    assert again.success
    assert again.n_gradient_evaluations == objective.n_records
    np.testing.assert_array_equal(again.x, minimum)


@every_solver
def test_a_start_near_the_minimum_is_used(solver):
    objective = problem(n=3000, d=3)
    near = newton(objective, gradient_tol=1e-9).x + 1e-6
    result = solver(objective, gradient_tol=1e-4, start=near, random_state=0)
    assert result.success
    np.testing.assert_allclose(result.x, near, atol=1e-4)


@every_solver
def test_callback_can_abort(solver):
    def abort(evaluations, norm):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solver(problem(), gradient_tol=1e-3, callback=abort)


@pytest.mark.parametrize(
    "bad, message",
    [
        ({"gradient_tol": 0.0}, "gradient_tol must be .* got gradient_tol=0.0"),
        ({"max_passes": 0}, "max_passes must be >= 1: got max_passes=0"),
        ({"start": np.zeros(5)}, r"start must be an array of shape \(6,\): got shape \(5,\)"),
        ({"start": np.full(6, np.nan)}, "start must be finite"),
    ],
)
@every_solver
def test_parameters_are_checked(solver, bad, message):
    with pytest.raises(ValueError, match=message):
        solver(problem(), **{"gradient_tol": 1e-3, **bad})


@pytest.mark.parametrize("solver", [sag, svrg, subsampled_newton])
def test_random_state_repeats_the_run(solver):
    objective = problem(n=400, d=4, noise=3.0)
    runs = [solver(objective, gradient_tol=1e-3, random_state=seed).x for seed in (5, 5, np.random.default_rng(5), 6)]
    assert (runs[0] == runs[1]).all()
    assert (runs[0] == runs[2]).all()
    assert (runs[0] != runs[3]).any()


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.01), SmoothedHinge(0.03)], ids=["logistic", "huber", "hinge"])
@pytest.mark.parametrize("solver", NEWTON_LIKE)
def test_newton_converges_from_anywhere(solver, loss):
    """Far out on flat pieces the Hessian is lambda I and the full step is thousands of times too long."""
    objective = problem(loss, n=500, d=5, l2_reg=1e-3, scale=10)
    for far in (np.zeros(5), np.full(5, 100.0), np.array([1e4, -1e4, 0, 0, 1.0])):
        assert solver(objective, gradient_tol=1e-6, start=far, random_state=0).success


@pytest.mark.parametrize("solver", NEWTON_LIKE)
def test_newton_is_exact_to_the_floor(solver):
    objective = problem(n=3000, d=5, noise=1.0)
    floor = objective.gradient_floor(newton(objective, gradient_tol=1e-6).x)
    assert solver(objective, gradient_tol=10 * floor, random_state=0).success


@pytest.mark.parametrize("loss", [loss() for loss in LOSSES.values()], ids=LOSSES)
def test_minimise_withstands_nearly_equal_columns(loss):
    """Curvatures from 1e-8 to about 1e6: at their ratio the BFGS matrix loses its digits."""
    objective = problem(loss, n=500, d=8, l2_reg=1e-8, scale=20)
    X = objective.records.X
    twins = np.hstack([X[:, :4], X[:, :4] + 1e-7 * X[:, 4:]])
    objective.records = Records(twins, objective.records.y)
    assert minimise(objective, gradient_tol=1e-2, random_state=0).success


@every_solver
def test_sparse_records(solver):
    dense = problem(n=80, noise=2.0)
    dense.records.X[np.abs(dense.records.X) < 0.3] = 0.0
    thin = PerturbedObjective(
        Records(sparse.csr_array(dense.records.X), dense.records.y, constant=True),
        loss=Logistic(),
        l2_reg=dense.l2_reg,
        linear_term=np.append(dense.linear_term, 1.0),
    )
    assert np.linalg.norm(thin.gradient(solver(thin, gradient_tol=1e-3, random_state=0).x)) <= 1e-3 * (1 + 1e-9)


def test_samples_save_passes():
    objective = problem(n=20_000, d=10, noise=1.0)
    sampled, full = (solver(objective, gradient_tol=1e-4, random_state=0) for solver in (subsampled_newton, newton))
    assert sampled.n_gradient_evaluations < full.n_gradient_evaluations / 2


@pytest.mark.parametrize("solver", [sag, svrg])
def test_blocks_of_one_record_are_the_textbook(solver):
    objective = problem(n=50, noise=1.0, clip_norm=0.4)
    assert FiniteSum(objective, batch_size=1, solver="sag").sizes == [1] * 50
    assert solver(objective, gradient_tol=1e-3, batch_size=1, random_state=0).success
    with pytest.raises(ValueError, match="batch_size must be an integer >= 1: got batch_size=0"):
        solver(objective, gradient_tol=1e-3, batch_size=0)


def test_blocks_add_up_to_the_objective():
    objective = problem(n=50, clip_norm=0.4)
    objective.weight = 3.0
    blocks = FiniteSum(objective, batch_size=16, solver="sag")
    theta = np.linspace(-1, 1, 6)
    data = sum(blocks.gradient(j, blocks.slopes(j, theta)) for j in range(len(blocks.sizes)))
    np.testing.assert_allclose(data + objective.l2_reg * theta, objective.gradient(theta))
    assert blocks.sizes == [16, 16, 16, 2]
    rows = objective.records.X[:16]
    assert blocks.lipschitz >= 4 * 3 * 0.25 * np.linalg.norm(rows, 2) ** 2 + objective.l2_reg


def totals_only(objective):
    """The objective on records that can only be summed over, as distributed ones."""
    records = objective.records
    part = SimpleNamespace(n_records=records.n_records, dimension=records.dimension, total=records.total)
    return PerturbedObjective(part, loss=Logistic(), l2_reg=objective.l2_reg, linear_term=objective.linear_term)


@pytest.mark.parametrize("solver", [sag, svrg])
def test_random_access_is_needed(solver):
    with pytest.raises(ValueError, match=f"{solver.__name__!r} needs records that can be read in any order"):
        solver(totals_only(problem()), gradient_tol=1e-3)


@pytest.mark.parametrize("solver", [lbfgs, newton, newton_cg])
def test_totals_are_enough(solver):
    assert solver(totals_only(problem()), gradient_tol=1e-3).success


def test_minimise_resolves_names_and_functions():
    objective = problem()
    for name, solver in SOLVERS.items():
        named = minimise(objective, solver=name, gradient_tol=1e-2, random_state=0)
        passed = minimise(objective, solver=solver, gradient_tol=1e-2, random_state=0)
        assert np.array_equal(named.x, passed.x)
    with pytest.raises(ValueError, match=r"solver must be 'auto', one of 'gradient_descent', .*: got solver='adam'"):
        minimise(objective, solver="adam", gradient_tol=1e-2)


@pytest.mark.parametrize(
    ("n", "d", "chosen"),
    [
        (36_177, 105, subsampled_newton),
        (569, 31, subsampled_newton),
        (4000, 500, newton_cg),
        (100_000, 900, subsampled_newton),
        (200, 5000, newton_cg),
    ],
)
def test_auto(n, d, chosen):
    assert choose(SimpleNamespace(n_records=n, dimension=d)) is chosen


@pytest.mark.parametrize("solver", ["lbfgs", "sag", "gradient_descent", "auto"])
def test_minimise_falls_back(solver):
    objective, seen = problem(noise=5.0), []
    result = minimise(
        objective, solver=solver, gradient_tol=1e-6, max_passes=2, callback=lambda *step: seen.append(step)
    )
    assert result.success
    assert "by subsampled_newton (before: max_passes" in result.message
    assert np.linalg.norm(objective.gradient(result.x)) <= 1e-6 * (1 + 1e-3)
    assert np.array_equal(seen, result.trace)
    assert (np.diff(result.trace[:, 0]) > 0).all()
    assert result.n_gradient_evaluations == result.trace[-1, 0]


@pytest.mark.parametrize("loss", [loss() for loss in LOSSES.values()], ids=LOSSES)
@pytest.mark.parametrize("d", [6, 1001])
def test_only_the_floor_stops_minimise(loss, d):
    objective = problem(loss, d=d, noise=2.0, scale=10)
    result = minimise(objective, gradient_tol=1e-17)
    assert not result.success
    assert "floating-point floor" in result.message
    assert result.gradient_norm <= 100 * objective.gradient_floor(result.x)
    assert result.n_gradient_evaluations <= 20_000 * objective.n_records


@every_solver
def test_every_solver_ends_at_the_floor(solver):
    objective = problem(n=40, d=2)
    result = solver(objective, gradient_tol=1e-18, random_state=0)
    assert not result.success
    assert result.gradient_norm <= 1e-10
    assert result.n_gradient_evaluations < 5000 * objective.n_records
