"""Evaluations counted on growing data against the theorems' bounds, at fixed lambda = 1 and tau = 0.1."""

from functools import partial

import numpy as np
import pytest

from explorer.learning import Logistic, PerturbedObjective, Records
from explorer.learning.solvers import SOLVERS, accelerated, gradient_descent, sag, svrg
from explorer.learning.solvers.complexity import (
    accelerated_evaluations,
    gradient_descent_evaluations,
    predicted_evaluations,
    sag_evaluations,
    svrg_evaluations,
)
from explorer.learning.solvers.finite_sum import FiniteSum

SIZES = 2 ** np.arange(8, 15)
TAU = 0.1


def worst_case(n):
    """All rows are (1, 0): the Hessian is about n/4 along them, and lambda along the second axis, where b points."""
    X = np.zeros((n, 2))
    X[:, 0] = 1
    return _objective(X, [0, 1])


def ordinary(n):
    """Unit rows in all directions: each curvature grows with n."""
    X = np.random.default_rng(n).normal(size=(n, 3))
    return _objective(X / np.linalg.norm(X, axis=1, keepdims=True), [0.5, 0.5, 0.5])


def _objective(X, b):
    y = np.random.default_rng(len(X)).choice([-1.0, 1.0], len(X))
    return PerturbedObjective(Records(X, y), loss=Logistic(), l2_reg=1.0, linear_term=np.array(b, float))


def growth(solver, data):
    """Slope of log evaluations against log n, the mean of several where they depend on chance: one strays by 0.1."""
    seeds = range(4) if solver in (sag, svrg) else [0]
    slopes = []
    for seed in seeds:
        results = [solver(data(n), gradient_tol=TAU, random_state=seed) for n in SIZES]
        assert all(result.success for result in results)
        evaluations = [result.n_gradient_evaluations for result in results]
        slopes.append(np.polyfit(np.log(SIZES), np.log(evaluations), 1)[0])
    return np.mean(slopes)


@pytest.mark.parametrize(
    ("solver", "data", "low", "high"),
    [
        (gradient_descent, worst_case, 1.9, 2.2),  # n^2 log n
        (gradient_descent, ordinary, 0.95, 1.25),  # n log n
        (accelerated, worst_case, 1.4, 1.6),  # n^1.5 log n
        (sag, worst_case, 0.9, 1.2),  # n log n, whose own slope here is 1.14
        (sag, ordinary, 0.9, 1.2),
        (svrg, worst_case, 0.9, 1.2),
        (svrg, ordinary, 0.9, 1.2),
    ],
)
def test_growth_with_the_number_of_records(solver, data, low, high):
    assert low <= growth(solver, data) <= high


def known(objective):
    return {
        "l2_reg": objective.l2_reg,
        "initial_norm": np.linalg.norm(objective.gradient(np.zeros(objective.dimension))),
        "gradient_tol": TAU,
    }


@pytest.mark.parametrize("data", [worst_case, ordinary])
@pytest.mark.parametrize("n", [300, 3000])
@pytest.mark.parametrize(
    ("solver", "predicted"),
    [(gradient_descent, gradient_descent_evaluations), (accelerated, accelerated_evaluations)],
)
def test_full_gradients_stay_below_the_theorem(solver, predicted, n, data):
    objective = data(n)
    bound = predicted(n, lipschitz=objective.gradient_lipschitz(), **known(objective))
    assert solver(objective, gradient_tol=TAU).n_gradient_evaluations <= bound


@pytest.mark.parametrize("data", [worst_case, ordinary])
@pytest.mark.parametrize("batch_size", [1, 10])
@pytest.mark.parametrize(
    ("solver", "predicted"), [(partial(sag, step_factor=1 / 16), sag_evaluations), (svrg, svrg_evaluations)]
)
def test_stochastic_gradients_stay_below_the_theorem(solver, predicted, batch_size, data):
    """The theorems are about expectations, and far enough above them for every seed."""
    objective = data(500)
    lipschitz = FiniteSum(objective, batch_size=batch_size, solver="sag").lipschitz
    bound = predicted(500, lipschitz=lipschitz, batch_size=batch_size, **known(objective))
    for seed in range(3):
        result = solver(objective, gradient_tol=TAU, batch_size=batch_size, random_state=seed)
        assert result.n_gradient_evaluations <= bound


def test_predictions_for_an_objective():
    objective = ordinary(500)
    predicted = predicted_evaluations(objective, gradient_tol=TAU)
    assert list(predicted) == ["gradient_descent", "accelerated", "sag", "svrg"]
    lipschitz = objective.gradient_lipschitz()
    assert predicted["accelerated"] == accelerated_evaluations(500, lipschitz=lipschitz, **known(objective))
    for name, law in (("sag", sag_evaluations), ("svrg", svrg_evaluations)):
        data = FiniteSum(objective, batch_size=None, solver=name)
        size = data.sizes[0]
        assert size == pytest.approx({"sag": 16, "svrg": 4}[name], abs=1)  # lambda = 1, beta = 1/4
        assert predicted[name] == law(500, lipschitz=data.lipschitz, batch_size=size, **known(objective))
        assert predicted[name] >= SOLVERS[name](objective, gradient_tol=TAU, random_state=0).n_gradient_evaluations


def test_gradient_descent_attains_its_bound():
    """The second axis alone, started where only it is wrong: exactly (1 - lambda / L)^k."""
    objective = worst_case(1000)
    objective.records.y[:] = np.tile([1.0, -1.0], 500)
    bound = gradient_descent_evaluations(1000, lipschitz=objective.gradient_lipschitz(), **known(objective))
    assert abs(gradient_descent(objective, gradient_tol=TAU).n_gradient_evaluations - bound) <= 1000


@pytest.mark.parametrize(
    ("predicted", "low", "high"),
    [
        (gradient_descent_evaluations, 2, 2.2),
        (accelerated_evaluations, 1.5, 1.7),
        (sag_evaluations, 1, 1.2),
        (svrg_evaluations, 1, 1.2),
    ],
)
def test_predicted_laws(predicted, low, high):
    """Slopes of n^2 log n, n^1.5 log n and n log n; one call for all n."""
    n = SIZES.astype(float)
    counts = predicted(n, lipschitz=n / 4 + 4, l2_reg=4.0, initial_norm=n / 2, gradient_tol=0.01)
    assert low < np.polyfit(np.log(n), np.log(counts), 1)[0] < high
    assert predicted(100, lipschitz=10, l2_reg=1, initial_norm=1e-6, gradient_tol=0.01) <= 2e4
