"""Algorithm 1 as an estimator: certificate, guarantee, refusals, and scikit-learn's estimator checks."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from explorer.accounting import (
    AMPBound,
    CompositionBound,
    ExactBound,
    Gaussian,
    HockeyStickBound,
    InfeasibleTarget,
    RefinedBound,
    RenyiBound,
    calibrate_amp,
    profile_plds,
)
from explorer.learning import (
    AMPClassifier,
    AMPRegressor,
    Huber,
    Logistic,
    NoReleaseError,
    PerturbedObjective,
    PrivacyWarning,
    Records,
    Squared,
)
from explorer.learning.grid import GridNoise
from explorer.learning.noise import draw_noise
from explorer.learning.sampling.bits import bits_of


@pytest.fixture
def no_noise(monkeypatch):
    """The mechanism without its noise and without its privacy, for comparing fits."""

    def draw_noise(step, *, dimension, bits):
        return GridNoise(np.zeros(dimension, np.int64), grid=2.0**-60)

    monkeypatch.setattr("explorer.learning.learners.minimum.draw_noise", draw_noise)


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    return X / np.linalg.norm(X, axis=1)[:, None], y


@parametrize_with_checks([AMPClassifier(random_state=0), AMPRegressor(random_state=0)])
def test_scikit_learn_estimator(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("choice", "bound"),
    [({}, ExactBound), ({"accountant": "hockey_stick"}, HockeyStickBound)],
    ids=["default", "paper"],
)
def test_guarantee_is_the_exact_or_the_published_bound_with_the_output_step(data, choice, bound):
    privacy = AMPClassifier(epsilon=0.7, delta=1e-6, random_state=0, **choice).fit(*data).privacy_
    name = f"{bound.__name__}, composed with the output step"
    assert (privacy.epsilon, privacy.bound, privacy.uses) == (0.7, name, 1)
    assert privacy.delta <= 1e-6
    assert AMPBound(privacy.mechanism, bound=bound).epsilon(1e-6) <= 0.7 * (1 + 1e-12)
    assert bound(privacy.mechanism.objective).delta(0.7) < privacy.delta  # the output step costs something
    assert privacy.mechanism.lipschitz == pytest.approx(np.sqrt(2))  # unit rows and the constant column
    assert privacy.mechanism.smoothness == pytest.approx(0.5)
    assert privacy.mechanism.monotone_loss
    assert privacy.gradient_norm <= privacy.mechanism.gradient_tol == 0.01
    assert privacy.leaked == ()


@pytest.mark.parametrize(
    "accountant",
    ["renyi", "refined", "exact", RenyiBound, RefinedBound, lambda mechanism: AMPBound(mechanism, bound=ExactBound)],
)
def test_any_accountant_by_name_class_or_callable(data, accountant):
    """The weaker the proof, the more regularisation it asks for at the same noise."""
    published = AMPClassifier(accountant="hockey_stick", random_state=0).fit(*data).privacy_
    other = AMPClassifier(accountant=accountant, random_state=0).fit(*data).privacy_
    assert other.delta <= 1e-5
    assert other.mechanism.noise_std == published.mechanism.noise_std
    weaker = accountant in ("renyi", RenyiBound)
    assert (other.mechanism.l2_reg > published.mechanism.l2_reg) == weaker


def test_a_given_regularisation_sets_the_noise_instead(data):
    rule = AMPClassifier(random_state=0).fit(*data).privacy_.mechanism
    given = AMPClassifier(l2_reg=rule.l2_reg, random_state=0).fit(*data).privacy_.mechanism
    assert given.noise_std == pytest.approx(rule.noise_std, rel=1e-6)
    more = AMPClassifier(l2_reg=10 * rule.l2_reg, f=None, random_state=0).fit(*data).privacy_.mechanism
    assert more.l2_reg == 10 * rule.l2_reg
    assert more.noise_std < rule.noise_std
    with pytest.raises(InfeasibleTarget, match="l2_reg"):
        AMPClassifier(l2_reg=0.4, gradient_tol=1e-4, accountant="hockey_stick").fit(*data)
    AMPClassifier(l2_reg=0.4, gradient_tol=1e-4, random_state=0).fit(*data)


def test_same_seed_same_fit_and_fresh_noise_otherwise(data):
    many = [np.tile(part, (20, 1)[: part.ndim]) for part in data]  # enough for solvers that begin with a sample
    for pair in (data, many):
        first, second = (AMPClassifier(random_state=5).fit(*pair).coef_ for _ in range(2))
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


@pytest.mark.parametrize("sparse_data", [False, True])
def test_without_noise_it_is_scikit_learns_fit(data, sparse_data, no_noise):
    """With sigma = sigma_out = 0: the ones column, fit_intercept=False, C = 1 / lambda, to 1e-8."""
    X, y = data
    ours = AMPClassifier(l2_reg=2.0, gradient_tol=1e-8)
    ours.fit(sparse.csr_array(X) if sparse_data else X, y)
    ones = np.hstack([X, np.ones((len(X), 1))])
    theirs = LogisticRegression(C=1 / 2.0, fit_intercept=False, solver="newton-cholesky", tol=1e-12).fit(ones, y)
    np.testing.assert_allclose(np.append(ours.coef_, ours.intercept_), theirs.coef_[0], atol=1e-8)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(ones), atol=1e-8)


def test_without_noise_several_classes_are_one_against_rest(no_noise):
    X, y = load_iris(return_X_y=True)
    X = X / np.linalg.norm(X, axis=1)[:, None]
    ours = AMPClassifier(l2_reg=2.0, gradient_tol=1e-8).fit(X, y)
    ones = np.hstack([X, np.ones((len(X), 1))])
    plain = LogisticRegression(C=1 / 2.0, fit_intercept=False, solver="newton-cholesky", tol=1e-12)
    theirs = OneVsRestClassifier(plain).fit(ones, y)
    coefficients = np.array([e.coef_[0] for e in theirs.estimators_])
    np.testing.assert_allclose(np.column_stack([ours.coef_, ours.intercept_]), coefficients, atol=1e-8)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(ones))
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(ones), atol=1e-8)


def test_without_noise_regression_is_ridge_and_huber(no_noise):
    X, y = load_diabetes(return_X_y=True)
    X, y = X / np.linalg.norm(X, axis=1)[:, None], y / 100
    setting = {"l2_reg": 3.0, "epsilon": 10.0, "gradient_tol": 1e-9}
    ours = AMPRegressor(loss=Squared(), clip_norm=1e6, **setting).fit(X, y)
    ones = np.hstack([X, np.ones((len(X), 1))])
    ridge = np.linalg.solve(ones.T @ ones + 3.0 * np.eye(11), ones.T @ y)
    np.testing.assert_allclose(np.append(ours.coef_, ours.intercept_), ridge, atol=1e-8)
    huber = AMPRegressor(loss=Huber(threshold=0.3), **setting).fit(X, y)
    residuals = huber.predict(X) - y
    theta = np.append(huber.coef_, huber.intercept_)
    np.testing.assert_allclose(ones.T @ np.clip(residuals, -0.3, 0.3) + 3.0 * theta, 0, atol=1e-8)
    assert (np.abs(residuals) > 0.3).any()


def test_several_classes_are_composed(data):
    X, y = load_iris(return_X_y=True)
    X = X / np.linalg.norm(X, axis=1)[:, None]
    fit = AMPClassifier(epsilon=4.0, random_state=0).fit(X, y)
    privacy = fit.privacy_
    assert (fit.coef_.shape, fit.intercept_.shape, privacy.uses) == ((3, 4), (3,), 3)
    assert privacy.delta <= 1e-5
    composed = CompositionBound(privacy.mechanism, uses=3, plds=partial(profile_plds, bound=ExactBound))
    assert composed.delta(4.0) <= 1e-5
    alone = AMPClassifier(epsilon=4.0, random_state=0).fit(X, y == 1).privacy_
    assert privacy.mechanism.noise_std > 1.5 * alone.mechanism.noise_std
    assert "3 uses together" in str(privacy)


def test_named_classes_are_not_read_off_the_data(data):
    X, y = data
    fit = AMPClassifier(classes=[0, 1], random_state=0).fit(X[y == 1], y[y == 1])
    np.testing.assert_array_equal(fit.classes_, [0, 1])
    with pytest.raises(ValueError, match=r"labels named in classes=\[1, 2\]: got 0"):
        AMPClassifier(classes=[1, 2]).fit(X, y)


def test_a_norm_from_the_data_is_leaked_aloud(data):
    X, y = data
    X = X * np.linspace(1, 3, len(X))[:, None]
    with pytest.warns(PrivacyWarning, match="largest row norm, 3, from the data"):
        fit = AMPClassifier(data_norm="max", random_state=0).fit(X, y)
    assert "largest row norm" in fit.privacy_.leaked[0]
    assert "NOT covered: data_norm='max'" in str(fit.privacy_)
    assert fit.privacy_.mechanism.lipschitz == pytest.approx(np.sqrt(10))


def test_nothing_else_is_taken_from_the_data(data):
    """The mechanism is settled by the parameters and the number of features alone."""
    X, _ = data
    rng = np.random.default_rng(0)
    other = rng.normal(size=(50, X.shape[1])) * 100, rng.integers(2, size=50)
    first, second = (AMPClassifier(random_state=0).fit(*pair).privacy_.mechanism for pair in (data, other))
    assert first == second


def test_copies_of_the_data_change_only_the_loss(data):
    X, y = data
    signs = 2.0 * y - 1
    rng = np.random.default_rng(0)
    b, theta = rng.normal(size=(2, X.shape[1]))
    setting = {"loss": Logistic(), "l2_reg": 2.5, "linear_term": b}
    once = PerturbedObjective(Records(X, signs), **setting).gradient(theta)
    thrice = PerturbedObjective(Records(np.tile(X, (3, 1)), np.tile(signs, 3)), **setting).gradient(theta)
    np.testing.assert_allclose(thrice - once, 2 * (once - 2.5 * theta - b), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_released_point_is_the_perturbed_minimum_plus_output_noise(data, fit_intercept):
    """Redraw b and the output noise from the seed: what is released lies within tau / lambda of their sum."""
    X, y = data
    fit = AMPClassifier(epsilon=1.0, random_state=11, fit_intercept=fit_intercept).fit(X, y)
    mechanism = fit.privacy_.mechanism
    design = np.hstack([X, np.ones((len(X), 1))]) if fit_intercept else X
    bits, d = bits_of(11), design.shape[1]
    b = draw_noise(Gaussian(noise_std=mechanism.noise_std), dimension=d, bits=bits).value
    output_noise = draw_noise(mechanism.output_step, dimension=d, bits=bits).value
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


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_a_row_whose_norm_overflows_does_not_spoil_the_fit_for_others(data, kind):
    X, y = data
    longest = X.copy()
    longest[0] = np.where(np.arange(X.shape[1]) % 2, 1.7e308, -1.7e308)
    with np.errstate(over="ignore", invalid="ignore"):
        fit = AMPClassifier(random_state=0).fit(kind(longest), y)
    X = X.copy()
    X[0] = 0
    np.testing.assert_allclose(fit.coef_, AMPClassifier(random_state=0).fit(X, y).coef_, atol=0.01)


def test_clip_norm_lowers_the_sensitivity_and_the_noise(data):
    loose, tight = (AMPClassifier(clip_norm=c, random_state=0).fit(*data).privacy_.mechanism for c in (None, 0.2))
    assert tight.lipschitz == 0.2 * (1 + 2**-30)  # what computed norms may be too small by
    assert tight.noise_std == pytest.approx(loose.noise_std * 0.2 / np.sqrt(2), rel=1e-9)
    assert AMPClassifier(clip_norm=100.0, random_state=0).fit(*data).privacy_.mechanism == loose


def test_sparse_and_dense_agree(data):
    X, y = data
    X = np.where(np.abs(X) > 0.15, X, 0.0)
    dense = AMPClassifier(random_state=0, clip_norm=0.5).fit(X, y)
    csr = AMPClassifier(random_state=0, clip_norm=0.5).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(dense.coef_, csr.coef_, atol=1e-8)
    np.testing.assert_array_equal(dense.predict(X), csr.predict(sparse.csr_array(X)))


def test_below_the_floor_of_floating_point_nothing_is_released(data):
    model = AMPClassifier(random_state=0, gradient_tol=1e-15)
    with pytest.raises(NoReleaseError, match=r"nothing is released: .* gradient_tol=1e-15.*outside the guarantee"):
        model.fit(*data)
    assert not [name for name in vars(model) if name.endswith("_") and name != "n_features_in_"]


@pytest.mark.parametrize("solver", ["gradient_descent", "accelerated", "sag", "svrg", "lbfgs", "newton", "newton_cg"])
def test_a_solver_that_gives_up_early_is_followed_by_one_that_does_not(data, solver):
    """The same noise, the same minimum: within 2 tau / lambda of one another, for any solver."""
    reference = AMPClassifier(random_state=0).fit(*data)
    fit = AMPClassifier(random_state=0, solver=solver, max_passes=2).fit(*data)
    assert fit.privacy_.gradient_norm <= 0.01
    distance = np.linalg.norm(np.append(fit.coef_ - reference.coef_, fit.intercept_ - reference.intercept_))
    assert distance <= 2 * 0.01 / fit.privacy_.mechanism.l2_reg


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
        ({"f": 0.9}, "f must exceed .*: got f=0.9"),
        ({"l2_reg": 0}, "l2_reg must be a finite number > 0: got l2_reg=0"),
        ({"loss": "hinge"}, "loss must be .*: got loss='hinge'"),
        ({"loss": "huber"}, "loss must be .*: got loss='huber'"),
        ({"loss": "probit"}, "clip_norm must be given for a loss whose slope is unbounded"),
        ({"solver": "magic"}, "solver must be .*: got solver='magic'"),
        ({"accountant": "guess"}, "accountant must be .*: got accountant='guess'"),
        ({"data_norm": "mean"}, "data_norm must be a finite number > 0 or 'max': got data_norm='mean'"),
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


def test_a_target_is_calibrated_once_for_many_fits(monkeypatch):
    calls = []

    def counted(**target):
        calls.append(target)
        return calibrate_amp(**target)

    monkeypatch.setattr("explorer.learning.learners.amp.calibrate_amp", counted)
    X, y = np.eye(6), [0, 1] * 3
    epsilon = 1.23456  # not in the cache
    fits = [AMPClassifier(epsilon, random_state=seed).fit(X, y) for seed in (0, 0, 1)]
    assert len(calls) == 1
    assert fits[0].privacy_.mechanism == fits[2].privacy_.mechanism
    assert (fits[0].coef_ == fits[1].coef_).all() and (fits[0].coef_ != fits[2].coef_).all()
    AMPClassifier(epsilon, accountant="refined", random_state=0).fit(X, y)
    AMPClassifier(epsilon, gradient_tol=0.02, random_state=0).fit(X, y)
    assert len(calls) == 3
    with pytest.raises(ValueError, match="delta must be"):
        AMPClassifier(epsilon, delta=[0.0], random_state=0).fit(X, y)
