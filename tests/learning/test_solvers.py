"""Solvers are tested by certificate: the gradient at what they return, recomputed."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from explorer.learning import Logistic, PerturbedObjective, Records
from explorer.learning.solvers import lbfgs


@pytest.fixture
def objective():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(200, 6)), rng.choice([-1.0, 1.0], 200)
    return PerturbedObjective(Records(X, y), loss=Logistic(), l2_reg=1.5, linear_term=np.zeros(6))


@pytest.mark.parametrize("gradient_tol", [1.0, 1e-2, 1e-5])
def test_certificate(objective, gradient_tol):
    result = lbfgs(objective, gradient_tol=gradient_tol)
    assert result.success
    assert np.linalg.norm(objective.gradient(result.x)) <= gradient_tol
    assert result.gradient_norm == np.linalg.norm(result.jac)
    assert result.trace[-1, 1] <= gradient_tol < result.trace[-2, 1]


def test_agrees_with_scikit_learn(objective):
    ours = lbfgs(objective, gradient_tol=1e-5).x
    theirs = LogisticRegression(C=1 / 1.5, fit_intercept=False, tol=1e-12, max_iter=1000).fit(
        objective.records.X, objective.records.y
    )
    np.testing.assert_allclose(ours, theirs.coef_[0], atol=1e-5)


def test_counts_single_record_gradients(objective):
    seen = []
    result = lbfgs(objective, gradient_tol=1e-3, callback=lambda *step: seen.append(step))
    assert np.array_equal(seen, result.trace)
    assert result.n_gradient_evaluations == result.trace[-1, 0]
    assert result.n_gradient_evaluations % objective.n_records == 0
    assert (np.diff(result.trace[:, 0]) > 0).all()


def test_reports_failure_and_returns_the_best_point(objective):
    result = lbfgs(objective, gradient_tol=1e-6, max_passes=3)
    assert not result.success
    assert result.gradient_norm == result.trace[:, 1].min() > 1e-6
    assert np.linalg.norm(objective.gradient(result.x)) == pytest.approx(result.gradient_norm)


def test_starting_at_the_minimum_costs_one_pass(objective):
    minimum = lbfgs(objective, gradient_tol=1e-4).x
    again = lbfgs(objective, gradient_tol=1e-3, start=minimum)
    assert again.success
    assert again.n_gradient_evaluations == objective.n_records


def test_callback_can_abort(objective):
    def abort(evaluations, norm):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lbfgs(objective, gradient_tol=1e-3, callback=abort)
