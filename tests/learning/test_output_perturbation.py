"""Output perturbation: sensitivity of the minimum, distribution of the noise, scikit-learn's estimator checks."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from explorer.accounting import Gaussian, GaussianLowerBound, PureBound, calibrate_gaussian
from explorer.learning import (
    Logistic,
    NoReleaseError,
    OutputPerturbationClassifier,
    OutputPerturbationRegressor,
    PerturbedObjective,
    Records,
)
from explorer.learning.certificate import certified_minimum
from explorer.learning.noise import draw_noise
from explorer.learning.sampling.bits import bits_of


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    return X / np.linalg.norm(X, axis=1)[:, None], y


def iris():
    X, y = load_iris(return_X_y=True)
    return X / np.linalg.norm(X, axis=1)[:, None], y


@parametrize_with_checks(
    [
        OutputPerturbationClassifier(random_state=0),
        OutputPerturbationClassifier(delta=0, random_state=0),
        OutputPerturbationRegressor(random_state=0),
    ]
)
def test_scikit_learn_estimator(estimator, check):
    check(estimator)


def objective(X, y, *, l2_reg, clip_norm=None):
    return PerturbedObjective(
        Records(X, y), loss=Logistic(), l2_reg=l2_reg, linear_term=np.zeros(X.shape[1]), clip_norm=clip_norm
    )


@pytest.mark.parametrize("clip_norm", [None, 0.3])
@pytest.mark.parametrize("seed", range(12))
def test_one_record_moves_the_minimum_by_at_most_lipschitz_over_l2_reg(seed, clip_norm):
    """The record that hurts most: long, against the current prediction."""
    rng = np.random.default_rng(seed)
    n, l2_reg, longest = int(rng.integers(1, 30)), float(10 ** rng.uniform(-1.5, 1)), float(rng.uniform(0.5, 3))
    X, y = rng.normal(size=(n, 3)), rng.choice([-1.0, 1.0], n)
    X *= longest / np.linalg.norm(X, axis=1, keepdims=True)
    lipschitz = longest if clip_norm is None else clip_norm
    before = certified_minimum(objective(X, y, l2_reg=l2_reg, clip_norm=clip_norm), gradient_tol=1e-7).x
    moved = []
    for axis in np.vstack([np.eye(3), before]):
        x = longest * axis / np.linalg.norm(axis)
        joined = np.vstack([X, x]), np.append(y, -1.0 if x @ before > 0 else 1.0)
        after = certified_minimum(objective(*joined, l2_reg=l2_reg, clip_norm=clip_norm), gradient_tol=1e-7).x
        moved.append(np.linalg.norm(after - before))
    assert 0 < max(moved) <= (lipschitz + 2e-7) / l2_reg


def test_a_clipped_record_moves_the_minimum_that_far_and_approximate_minima_lie_farther_apart():
    """Every record on the linear piece of its clipped loss: the bounds L / lambda and (L + 2 tau) / lambda are met."""
    x, tau, l2_reg, clip_norm = np.array([[0.6, 0.8]]), 0.02, 5.0, 0.1
    before, after = (
        objective(np.repeat(x, count, axis=0), np.ones(count), l2_reg=l2_reg, clip_norm=clip_norm) for count in (3, 4)
    )
    minima = [certified_minimum(one, gradient_tol=1e-9).x for one in (before, after)]
    assert np.linalg.norm(minima[1] - minima[0]) == pytest.approx(clip_norm / l2_reg, rel=1e-6)
    short, far = minima[0] - tau / l2_reg * x[0], minima[1] + tau / l2_reg * x[0]
    assert np.linalg.norm(before.gradient(short)) == pytest.approx(tau, rel=1e-6)
    assert np.linalg.norm(after.gradient(far)) == pytest.approx(tau, rel=1e-6)
    fit = OutputPerturbationClassifier(clip_norm=clip_norm, gradient_tol=tau, l2_reg=l2_reg, random_state=0)
    sensitivity = fit.fit(*iris_pair()).privacy_.mechanism.sensitivity
    assert np.linalg.norm(far - short) == pytest.approx(sensitivity, rel=1e-6)


def iris_pair():
    X, y = iris()
    return X[y < 2], y[y < 2]


def test_guarantee_is_the_analytic_gaussian_mechanism(data):
    privacy = OutputPerturbationClassifier(epsilon=0.7, delta=1e-6, l2_reg=3.0, random_state=0).fit(*data).privacy_
    mechanism = privacy.mechanism
    assert mechanism.lipschitz == pytest.approx(np.sqrt(2))  # unit rows and the constant column
    assert mechanism.sensitivity == pytest.approx((np.sqrt(2) + 2 * 0.001) / 3.0)
    expected = calibrate_gaussian(epsilon=0.7, delta=1e-6, sensitivity=mechanism.sensitivity).value
    assert expected < mechanism.noise_std == pytest.approx(expected, rel=1e-9)  # delta has a reserve of 2e-9
    assert (privacy.epsilon, privacy.uses) == (0.7, 1)
    assert privacy.delta == GaussianLowerBound(mechanism.output_step).delta(0.7) * (1 + 2e-9) <= 1e-6
    assert privacy.gradient_norm <= mechanism.gradient_tol == 0.001


@pytest.mark.parametrize("delta", [1e-5, 0])
def test_rule_for_the_regulariser_uses_public_numbers_alone(data, delta):
    X, y = data
    rule = OutputPerturbationClassifier(delta=delta, random_state=0).fit(X, y).privacy_.mechanism
    few = OutputPerturbationClassifier(delta=delta, random_state=0).fit(-X[:99], y[:99]).privacy_.mechanism
    assert rule == few
    spread = rule.noise_std if delta else rule.noise_scale * np.sqrt(31 + 1)
    assert spread == pytest.approx(0.15, rel=1e-9)
    given = OutputPerturbationClassifier(delta=delta, l2_reg=10 * rule.l2_reg, output_noise_std=None, random_state=0)
    more = given.fit(X, y).privacy_.mechanism
    noise = "noise_std" if delta else "noise_scale"
    assert getattr(more, noise) == pytest.approx(getattr(rule, noise) / 10, rel=1e-9)


def test_without_delta_the_noise_is_gamma(data):
    privacy = OutputPerturbationClassifier(epsilon=2.0, delta=0, random_state=0).fit(*data).privacy_
    assert (privacy.epsilon, privacy.delta, privacy.bound) == (2.0, 0, "PureBound")
    assert 2.0 * (1 - 1e-12) < PureBound(privacy.mechanism).pure_epsilon <= 2.0
    assert "(2, 0)-differentially private" in str(privacy)


@pytest.mark.parametrize("delta", [1e-5, 0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_released_point_is_the_minimum_plus_noise(data, fit_intercept, delta):
    """Redraw the noise from the seed: without it, what is released has the verified gradient."""
    X, y = data
    fit = OutputPerturbationClassifier(delta=delta, random_state=11, fit_intercept=fit_intercept).fit(X, y)
    mechanism = fit.privacy_.mechanism
    design = np.hstack([X, np.ones((len(X), 1))]) if fit_intercept else X
    noise = draw_noise(mechanism.output_step, dimension=design.shape[1], bits=bits_of(11)).value
    released = np.append(fit.coef_, fit.intercept_) if fit_intercept else fit.coef_[0]
    gradient = objective(design, 2.0 * y - 1, l2_reg=mechanism.l2_reg).gradient(released - noise)
    assert np.linalg.norm(gradient) <= mechanism.gradient_tol
    assert not fit_intercept or fit.intercept_ != 0


def test_less_noise_comes_to_the_plain_fit(data):
    X, y = data
    private = OutputPerturbationClassifier(epsilon=1e6, l2_reg=2.0, gradient_tol=1e-4, random_state=0).fit(X, y)
    ones = np.hstack([X, np.ones((len(X), 1))])
    plain = LogisticRegression(C=1 / 2.0, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(ones, y)
    coefficients = np.append(private.coef_, private.intercept_)
    assert np.linalg.norm(coefficients - plain.coef_[0]) < 2e-2 < np.linalg.norm(coefficients)


def test_several_classes_are_composed():
    X, y = iris()
    fit = OutputPerturbationClassifier(l2_reg=1.0, random_state=0).fit(X, y)
    privacy = fit.privacy_
    assert (fit.coef_.shape, privacy.uses) == ((3, 4), 3)
    sensitivity = np.sqrt(3) * privacy.mechanism.sensitivity  # of the three vectors as one
    together = Gaussian(noise_std=privacy.mechanism.noise_std, sensitivity=sensitivity)
    assert 0.99e-5 < privacy.delta == pytest.approx(GaussianLowerBound(together).delta(1.0), rel=1e-9)
    assert privacy.delta <= 1e-5
    assert not np.allclose(fit.coef_[0] - fit.coef_[1], 0)
    pure = OutputPerturbationClassifier(delta=0, l2_reg=1.0, random_state=0).fit(X, y).privacy_
    assert 1 - 1e-12 < PureBound(pure.mechanism, uses=3).pure_epsilon <= 1.0


def test_sparse_and_dense_agree(data):
    X, y = data
    X = np.where(np.abs(X) > 0.15, X, 0.0)
    setting = {"clip_norm": 0.5, "gradient_tol": 1e-6, "random_state": 0}
    dense = OutputPerturbationClassifier(**setting).fit(X, y)
    csr = OutputPerturbationClassifier(**setting).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(dense.coef_, csr.coef_, atol=1e-8)


def test_regression(data):
    X, _ = data
    target = X @ np.linspace(-1, 1, 30)
    fit = OutputPerturbationRegressor(epsilon=50.0, l2_reg=1.0, random_state=0).fit(X, target)
    assert fit.score(X, target) > 0.5
    assert fit.privacy_.mechanism.lipschitz == pytest.approx(np.sqrt(2))
    squared = OutputPerturbationRegressor(loss="squared", clip_norm=0.5, random_state=0).fit(X, target)
    assert squared.privacy_.mechanism.lipschitz == 0.5 * (1 + 2**-30)


def test_a_fit_that_does_not_converge_releases_nothing(data):
    model = OutputPerturbationClassifier(random_state=0, gradient_tol=1e-17)
    with pytest.raises(NoReleaseError, match=r"nothing is released: .* gradient_tol=.*outside the guarantee"):
        model.fit(*data)
    assert not [name for name in vars(model) if name.endswith("_") and name != "n_features_in_"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a finite number > 0: got epsilon=0"),
        ({"delta": 1}, r"delta must be inside \[0, 1\): got delta=1"),
        ({"delta": -1e-5}, r"delta must be inside \[0, 1\): got delta=-1e-05"),
        ({"delta": "tiny"}, r"delta must be inside \[0, 1\): got delta='tiny'"),
        ({"clip_norm": 0}, "clip_norm must be a finite number > 0: got clip_norm=0"),
        ({"gradient_tol": np.nan}, "gradient_tol must be a finite number > 0: got gradient_tol=nan"),
        ({"output_noise_std": 0}, "output_noise_std must be a finite number > 0: got output_noise_std=0"),
        ({"l2_reg": 0}, "l2_reg must be a finite number > 0: got l2_reg=0"),
        ({"loss": "probit"}, "clip_norm must be given for a loss whose slope is unbounded"),
    ],
)
def test_bad_parameters(data, bad, message):
    with pytest.raises(ValueError, match=message):
        OutputPerturbationClassifier(**bad).fit(*data)
