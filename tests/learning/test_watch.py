"""The watch callback: the iterates and the actual noise, and the same release as without it."""

import numpy as np
import pytest
from scipy.special import expit

from explorer.learning import (
    AMPClassifier,
    AMPRegressor,
    DPFTRLClassifier,
    DPFTRLRegressor,
    DPGDClassifier,
    DPGDRegressor,
    DPSGDClassifier,
    DPSGDRegressor,
    tree_noise_covariance,
)

CLASSIFIERS = [AMPClassifier, DPSGDClassifier, DPGDClassifier, DPFTRLClassifier]
REGRESSORS = [AMPRegressor, DPSGDRegressor, DPGDRegressor, DPFTRLRegressor]
GIVEN = {"fit_intercept": False, "random_state": 3}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.7, 0.7, size=(200, 2))
    return X, np.where(X @ [3, -1] + rng.logistic(size=200) > 0, 1, -1)


def watched(learner, data):
    """The fit, its iterates and its noise, each ndarray (steps, d)."""
    seen = []
    learner.set_params(watch=lambda *what: seen.append(what)).fit(*data)
    return learner, *(np.array(column) for column in zip(*seen, strict=True))


def gradient(theta, X, y):
    return X.T @ (-y * expit(-y * (X @ theta)))


@pytest.mark.parametrize("kind", CLASSIFIERS + REGRESSORS)
def test_a_watched_fit_releases_what_an_unwatched_one_does(kind, data):
    fit, thetas, noise = watched(kind(**GIVEN), data)
    assert thetas.shape == noise.shape == (len(thetas), 2)
    np.testing.assert_array_equal(fit.coef_, kind(**GIVEN).fit(*data).coef_)


@pytest.mark.parametrize(
    ("learner", "rate"),
    [
        (DPGDClassifier(steps=30, **GIVEN), 1.0 / 200),
        (DPSGDClassifier(batch_size=200, epochs=30, **GIVEN), 1.0 / 200),
        (DPFTRLClassifier(steps=1, epochs=30, learning_rate=0.01, **GIVEN), 0.01),
    ],
)
def test_the_watched_noise_is_added_to_the_gradient(learner, rate, data):
    fit, thetas, noise = watched(learner, data)
    before = np.vstack([np.zeros(2), thetas[:-1]])
    gradients = np.array([gradient(theta, *data) for theta in before])
    np.testing.assert_allclose(
        thetas, before - rate * (gradients + noise), atol=rate * 200 * 1e-6
    )  # records to six digits
    np.testing.assert_array_equal(fit.coef_[0], thetas[-1])


def test_the_trees_noise_starts_anew_with_each_epoch_and_has_its_covariance(data):
    steps, epochs = 6, 5000
    one_record = data[0][:2], np.array([-1, 1])
    fit, _, noise = watched(DPFTRLClassifier(steps=steps, epochs=epochs, **GIVEN), one_record)
    drawn = noise.reshape(epochs, steps, 2) / fit.privacy_.mechanism.noise_std
    expected = tree_noise_covariance(steps)
    found = np.einsum("esd,etd->st", drawn, drawn) / (2 * epochs)
    error = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / (2 * epochs))
    assert (np.abs(found - expected) < 5 * error).all()


@pytest.mark.parametrize("solver", ["gradient_descent", "lbfgs", "auto"])
def test_algorithm_1_has_one_b_and_its_last_point_is_the_minimum(solver, data):
    fit, thetas, noise = watched(AMPClassifier(solver=solver, output_noise_std=0.01, **GIVEN), data)
    assert (noise == noise[0]).all()
    np.testing.assert_array_equal(thetas[0], np.zeros(2))
    mechanism = fit.privacy_.mechanism
    at_last = gradient(thetas[-1], *data) + mechanism.l2_reg * thetas[-1] + noise[0]
    assert np.linalg.norm(at_last) <= fit.privacy_.gradient_norm
    assert np.linalg.norm(at_last) == pytest.approx(fit.privacy_.gradient_norm, abs=1e-9)
    assert 0 < np.linalg.norm(fit.coef_[0] - thetas[-1]) < 0.06  # the output noise
