"""The loss, its derivatives and its clipped form, record by record."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from explorer.learning import ClippedLoss, Logistic, PerturbedObjective, Records

MARGINS = np.array([-1e4, -700, -30, -3, -0.5, 0, 1e-9, 0.7, 4, 40, 1e4])
signs = st.sampled_from([-1.0, 1.0])


@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_stable_at_large_margins(y):
    loss = Logistic()
    assert np.isfinite([loss.value(MARGINS, y), loss.derivative(MARGINS, y), loss.second_derivative(MARGINS, y)]).all()
    assert loss.value(np.array(1e4), -1.0) == 1e4
    assert (np.abs(loss.derivative(MARGINS, y)) <= loss.lipschitz).all()
    assert (loss.second_derivative(MARGINS, y) <= loss.smoothness).all()


@given(u=st.floats(-20, 20), y=signs)
def test_derivatives_are_derivatives(u, y):
    loss, step = Logistic(), 1e-5
    slope = (loss.value(u + step, y) - loss.value(u - step, y)) / (2 * step)
    bend = (loss.derivative(u + step, y) - loss.derivative(u - step, y)) / (2 * step)
    assert loss.derivative(u, y) == pytest.approx(slope, abs=1e-9)
    assert loss.second_derivative(u, y) == pytest.approx(bend, abs=1e-9)


@given(u=st.floats(-15, 15), y=signs)
def test_inverse_derivative_inverts(u, y):
    loss = Logistic()
    assert loss.inverse_derivative(loss.derivative(u, y), y) == pytest.approx(u, rel=1e-6, abs=1e-6)
    assert np.isinf(loss.inverse_derivative(np.array([-1.5, 1.5]), y)).all()


@given(u=st.floats(-8, 8), y=signs, c=st.floats(1e-3, 1.5))
def test_clipped_loss_has_the_clipped_gradient(u, y, c):
    loss = ClippedLoss(Logistic(), clip_norm=c, row_norms=np.ones(1))
    step = 1e-6
    around = loss.value(np.array([u - step, u, u + step]), y)
    assert loss.derivative(u, y) == np.clip(Logistic().derivative(u, y), -c, c)
    assert (around[2] - around[0]) / (2 * step) == pytest.approx(loss.derivative(u, y)[0], abs=1e-5)  # continuous too
    assert around[0] + around[2] >= 2 * around[1] - 1e-12  # convex
    assert 0 <= loss.second_derivative(u, y)[0] <= Logistic.smoothness * (1 + 1e-15)


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
