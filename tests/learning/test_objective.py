"""The perturbed objective: its gradient, and how it scales with the number of records."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from explorer.learning import Logistic, PerturbedObjective, Records


@pytest.mark.parametrize("clip_norm", [0.3, None])
def test_gradient_of_the_objective(clip_norm):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 5)), rng.choice([-1.0, 1.0], 40)
    X[7] = 0.0  # a record without features has a constant loss
    objective = PerturbedObjective(
        Records(X, y), loss=Logistic(), l2_reg=0.7, linear_term=rng.normal(size=5), clip_norm=clip_norm
    )
    theta = rng.normal(size=5)
    _, gradient = objective.value_and_gradient(theta)
    numeric = approx_fprime(theta, lambda t: objective.value_and_gradient(t)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, atol=1e-4)
    np.testing.assert_array_equal(gradient, objective.gradient(theta))
    per_record = Logistic().derivative(X @ theta, y)[:, None] * X
    if clip_norm is not None:
        per_record *= np.minimum(1, clip_norm / np.maximum(np.linalg.norm(per_record, axis=1), 1e-300))[:, None]
    np.testing.assert_allclose(gradient, per_record.sum(0) + 0.7 * theta + objective.linear_term, rtol=1e-10)


@pytest.mark.parametrize("n", [1, 10, 10_000])
def test_perturbation_and_regulariser_do_not_scale_with_the_number_of_records(n):
    rng = np.random.default_rng(n)
    X, y = rng.normal(size=(n, 3)), rng.choice([-1.0, 1.0], n)
    b, theta = rng.normal(size=3), rng.normal(size=3)
    plain = X.T @ Logistic().derivative(X @ theta, y)
    perturbed = PerturbedObjective(Records(X, y), loss=Logistic(), l2_reg=2.5, linear_term=b).gradient(theta)
    np.testing.assert_allclose(perturbed - plain, b + 2.5 * theta, rtol=1e-9)
