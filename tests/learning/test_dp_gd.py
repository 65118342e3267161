"""DP-GD: gradient descent without noise; with noise, one Gaussian mechanism."""

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from explorer.accounting import Gaussian, GaussianLowerBound, RenyiBound, calibrate_gaussian
from explorer.learning import DPGDClassifier, DPGDRegressor, DPSGDClassifier, Huber

NOISELESS = {"epsilon": None, "noise_multiplier": 1e-12}


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    return X / np.linalg.norm(X, axis=1)[:, None], y


@parametrize_with_checks([DPGDClassifier(steps=20, random_state=0), DPGDRegressor(steps=20, random_state=0)])
def test_scikit_learn_estimator(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_without_noise_it_comes_to_the_plain_minimum(data, kind):
    X, y = data
    ours = DPGDClassifier(**NOISELESS, steps=2000, learning_rate=2.0, l2_reg=20.0, random_state=0).fit(kind(X), y)
    ones = np.hstack([X, np.ones((len(X), 1))])
    theirs = LogisticRegression(C=1 / 20.0, fit_intercept=False, solver="newton-cholesky", tol=1e-12).fit(ones, y)
    np.testing.assert_allclose(
        np.append(ours.coef_, ours.intercept_), theirs.coef_[0], atol=1e-6
    )  # records to six digits
    assert ours.n_gradient_evaluations_ == 2000 * len(X)


def test_without_noise_regression_comes_to_the_huber_minimum():
    X, y = load_diabetes(return_X_y=True)
    X, y = X / np.linalg.norm(X, axis=1)[:, None], y / 100
    setting = {"steps": 3000, "learning_rate": 1.0, "l2_reg": 3.0, "random_state": 0}
    model = DPGDRegressor(loss=Huber(threshold=0.3), **NOISELESS, **setting).fit(X, y)
    residuals = model.predict(X) - y
    design, theta = np.hstack([X, np.ones((len(X), 1))]), np.append(model.coef_, model.intercept_)
    np.testing.assert_allclose(
        design.T @ np.clip(residuals, -0.3, 0.3) + 3.0 * theta, 0, atol=2e-4
    )  # 442 records to six digits
    assert (np.abs(residuals) > 0.3).any()


def test_it_is_dp_sgd_with_all_records_in_every_sample(data):
    setting = {**NOISELESS, "clip_norm": 0.3, "learning_rate": 3.0, "optimizer": "momentum", "random_state": 0}
    full = DPGDClassifier(steps=15, **setting).fit(*data)
    sampled = DPSGDClassifier(epochs=15, batch_size=569, **setting).fit(*data)
    np.testing.assert_allclose(full.coef_, sampled.coef_, rtol=1e-9)


def test_noise_has_the_stated_deviation():
    """Rows of zeros have no gradient: three steps leave nothing but noise."""
    model = DPGDClassifier(epsilon=0.5, clip_norm=0.4, fit_intercept=False, steps=3, learning_rate=0.5, random_state=0)
    theta = model.fit(np.zeros((16, 20_000)), np.arange(16) % 2).coef_[0]
    deviation = calibrate_gaussian(epsilon=0.5, delta=1e-5, sensitivity=0.4 * np.sqrt(3)).value
    assert stats.kstest(theta / (0.5 / 16 * deviation * np.sqrt(3)), "norm").pvalue > 1e-3


def test_guarantee_is_that_of_one_gaussian(data):
    privacy = DPGDClassifier(epsilon=0.7, delta=1e-6, steps=50, random_state=0).fit(*data).privacy_
    assert (privacy.epsilon, privacy.bound) == (0.7, "GaussianComposition")
    assert privacy.delta <= 1e-6
    assert privacy.mechanism.sensitivity == pytest.approx(np.sqrt(2 * 50))  # unit rows and the constant column
    expected = calibrate_gaussian(epsilon=0.7, delta=1e-6, sensitivity=np.sqrt(2 * 50)).value
    assert privacy.mechanism.noise_std == pytest.approx(expected, rel=1e-9)


def test_several_classes_compose():
    X, y = load_iris(return_X_y=True)
    privacy = DPGDClassifier(epsilon=1.0, steps=10, random_state=0).fit(X, y).privacy_
    assert privacy.uses == 3
    mechanism = privacy.mechanism
    together = Gaussian(noise_std=mechanism.noise_std, sensitivity=mechanism.sensitivity * np.sqrt(3))
    assert GaussianLowerBound(together).epsilon(1e-5) == pytest.approx(1.0, rel=1e-9)


def test_another_accountant_needs_more_noise(data):
    exact, renyi = (
        DPGDClassifier(accountant=accountant).plan(*data).mechanism.noise_std for accountant in ("exact", RenyiBound)
    )
    assert exact < renyi < 1.2 * exact


def test_given_noise_is_accounted_for(data):
    privacy = DPGDClassifier(epsilon=None, noise_multiplier=40.0, steps=30).plan(*data)
    assert privacy.mechanism.noise_std == pytest.approx(40.0 * np.sqrt(2))
    together = Gaussian(noise_std=40.0, sensitivity=np.sqrt(30))
    assert privacy.epsilon == pytest.approx(GaussianLowerBound(together).epsilon(1e-5), rel=1e-9)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"steps": 0}, "steps must be an integer >= 1: got steps=0"),
        ({"learning_rate": 0}, "learning_rate must be a finite number > 0: got learning_rate=0"),
        ({"accountant": "renyi"}, "accountant must be one of .*'exact'.* or callable: got accountant='renyi'"),
    ],
)
def test_bad_parameters(data, bad, message):
    with pytest.raises(ValueError, match=message):
        DPGDClassifier(**bad).fit(*data)
