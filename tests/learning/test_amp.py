"""Algorithm 1 as an estimator: its certificate, its guarantee, its refusals, and scikit-learn's own checks."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from explorer.accounting import RenyiBound
from explorer.learning import AMPClassifier, Logistic, NoReleaseError, PerturbedObjective, Records


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    return X / np.linalg.norm(X, axis=1)[:, None], y


@parametrize_with_checks([AMPClassifier(random_state=0)])
def test_scikit_learn_estimator(estimator, check):
    check(estimator)


def test_guarantee_is_the_accountants(data):
    privacy = AMPClassifier(epsilon=0.7, delta=1e-6, random_state=0).fit(*data).privacy_
    assert (privacy.epsilon, privacy.bound) == (0.7, "RenyiBound")
    assert privacy.delta <= 1e-6
    assert RenyiBound(privacy.mechanism).epsilon(1e-6) <= 0.7 * (1 + 1e-12)
    assert privacy.mechanism.lipschitz == pytest.approx(np.sqrt(2))  # unit rows and the constant column
    assert privacy.mechanism.smoothness == pytest.approx(0.5)
    assert privacy.gradient_norm <= privacy.mechanism.gradient_tol == 0.01


def test_same_seed_same_fit_and_fresh_noise_otherwise(data):
    first, second = (AMPClassifier(random_state=5).fit(*data).coef_ for _ in range(2))
    np.testing.assert_array_equal(first, second)
    fresh = [AMPClassifier().fit(*data).coef_ for _ in range(2)]
    assert not np.allclose(*fresh)
    before = np.random.mtrand._rand.get_state()[1].copy()
    AMPClassifier().fit(*data)
    assert np.array_equal(before, np.random.mtrand._rand.get_state()[1])  # numpy's global state is not touched


def test_less_noise_comes_to_the_plain_fit(data):
    """At a huge epsilon the released coefficients approach the regularised, non-private ones."""
    X, y = data
    private = AMPClassifier(epsilon=1e4, output_noise_std=1e-9, gradient_tol=1e-4, random_state=0).fit(X, y)
    mechanism = private.privacy_.mechanism
    ones = np.hstack([X, np.ones((len(X), 1))])
    plain = LogisticRegression(C=1 / mechanism.l2_reg, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(ones, y)
    coefficients = np.append(private.coef_, private.intercept_)
    assert np.linalg.norm(coefficients - plain.coef_[0]) <= 3 * mechanism.noise_std * np.sqrt(31) / mechanism.l2_reg


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_released_point_is_the_perturbed_minimum_plus_output_noise(data, fit_intercept):
    """Redraw b and the output noise from the seed: what is released lies within tau / lambda of their sum."""
    X, y = data
    fit = AMPClassifier(epsilon=1.0, random_state=11, fit_intercept=fit_intercept).fit(X, y)
    mechanism = fit.privacy_.mechanism
    design = np.hstack([X, np.ones((len(X), 1))]) if fit_intercept else X
    rng = np.random.default_rng(11)
    b = rng.normal(scale=mechanism.noise_std, size=design.shape[1])
    output_noise = rng.normal(scale=mechanism.output_noise_std, size=design.shape[1])
    released = np.append(fit.coef_, fit.intercept_) if fit_intercept else fit.coef_[0]
    objective = PerturbedObjective(
        Records(design, 2.0 * y - 1), loss=Logistic(), l2_reg=mechanism.l2_reg, linear_term=b
    )
    assert np.linalg.norm(objective.gradient(released - output_noise)) <= mechanism.gradient_tol
    assert not fit_intercept or fit.intercept_ != 0


def test_long_rows_are_clipped_not_trusted(data):
    X, y = data
    longer = X * np.linspace(1, 50, len(X))[:, None]
    np.testing.assert_allclose(
        AMPClassifier(random_state=0).fit(longer, y).coef_, AMPClassifier(random_state=0).fit(X, y).coef_, atol=1e-9
    )


def test_clip_norm_lowers_the_sensitivity_and_the_noise(data):
    loose, tight = (AMPClassifier(clip_norm=c, random_state=0).fit(*data).privacy_.mechanism for c in (None, 0.2))
    assert tight.lipschitz == 0.2
    assert tight.noise_std == pytest.approx(loose.noise_std * 0.2 / np.sqrt(2), rel=1e-9)
    assert AMPClassifier(clip_norm=100.0, random_state=0).fit(*data).privacy_.mechanism == loose


def test_sparse_and_dense_agree(data):
    X, y = data
    X = np.where(np.abs(X) > 0.15, X, 0.0)
    dense = AMPClassifier(random_state=0, clip_norm=0.5).fit(X, y)
    csr = AMPClassifier(random_state=0, clip_norm=0.5).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(dense.coef_, csr.coef_, atol=1e-8)
    np.testing.assert_array_equal(dense.predict(X), csr.predict(sparse.csr_array(X)))


@pytest.mark.parametrize("refusal", [{"gradient_tol": 1e-14}, {"max_passes": 2}])
def test_a_fit_that_does_not_converge_releases_nothing(data, refusal):
    model = AMPClassifier(random_state=0, **refusal)
    with pytest.raises(NoReleaseError, match=r"nothing is released: .* gradient_tol=.*outside the guarantee"):
        model.fit(*data)
    assert not [name for name in vars(model) if name.endswith("_") and name != "n_features_in_"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a finite number > 0: got epsilon=0"),
        ({"delta": 1}, r"delta must be inside \(0, 1\): got delta=1"),
        ({"data_norm": -1}, "data_norm must be a finite number > 0: got data_norm=-1"),
        ({"clip_norm": 0}, "clip_norm must be a finite number > 0: got clip_norm=0"),
        ({"gradient_tol": np.nan}, "gradient_tol must be a finite number > 0: got gradient_tol=nan"),
        ({"output_noise_std": 0}, "output_noise_std must be a finite number > 0: got output_noise_std=0"),
        ({"f": "large"}, "f must be a finite number > 0: got f='large'"),
        ({"f": 1.0}, "no l2_reg up to 1e.30 reaches epsilon=1.0"),
    ],
)
def test_bad_parameters(data, bad, message):
    with pytest.raises(ValueError, match=message):
        AMPClassifier(**bad).fit(*data)


def test_bad_labels(data):
    X, _ = data
    with pytest.raises(ValueError, match="y must have two classes"):
        AMPClassifier().fit(X, np.zeros(len(X)))


def test_cloned_with_its_parameters(data):
    model = clone(AMPClassifier(epsilon=2.0, random_state=1).fit(*data))
    assert model.epsilon == 2.0
    assert not hasattr(model, "coef_")
