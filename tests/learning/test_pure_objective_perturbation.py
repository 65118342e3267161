"""Gamma-norm objective perturbation: exact densities against the claimed epsilon, and the estimator."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp
from scipy.stats import laplace
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from explorer.accounting import GammaNoise, InfeasibleTarget, PureBound, PureObjectivePerturbation
from explorer.learning import (
    Huber,
    Logistic,
    NoReleaseError,
    PerturbedObjective,
    PureObjectivePerturbationClassifier,
    PureObjectivePerturbationRegressor,
    Records,
)
from explorer.learning.densities import minimiser_log_density
from explorer.learning.noise import draw_noise
from explorer.learning.sampling.bits import bits_of

CASES = [  # loss with labels that may join, and records that are there before
    (Logistic(), [-1.0, 1.0], []),
    (Logistic(), [-1.0, 1.0], [(0.3, 1.0), (-1.0, 1.0)]),
    (Huber(threshold=1.0), np.linspace(-12, 12, 49), []),
    (Huber(threshold=1.0), np.linspace(-12, 12, 49), [(0.5, 2.0), (1.0, -1.0)]),
]


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    return X / np.linalg.norm(X, axis=1)[:, None], y


@parametrize_with_checks(
    [PureObjectivePerturbationClassifier(random_state=0), PureObjectivePerturbationRegressor(random_state=0)]
)
def test_scikit_learn_estimator(estimator, check):
    check(estimator)


def mechanism_of(*, noise_scale, l2_reg, smoothness, gradient_tol=1e-12, output_noise_scale=1.0):
    return PureObjectivePerturbation(
        noise_scale=noise_scale,
        l2_reg=l2_reg,
        lipschitz=1.0,
        smoothness=smoothness,
        gradient_tol=gradient_tol,
        output_noise_scale=output_noise_scale,
    )


def log_density(theta, *, loss, records, mechanism):
    """Of the exact minimiser in one dimension, where Gamma-norm noise is Laplace's."""
    log_noise = laplace(scale=mechanism.noise_scale).logpdf
    return minimiser_log_density(theta, loss=loss, records=records, l2_reg=mechanism.l2_reg, log_noise=log_noise)


@pytest.mark.parametrize("kappa", [0.1, 1.0, 5.0])
@pytest.mark.parametrize(("loss", "labels", "records"), CASES)
def test_log_densities_differ_by_at_most_epsilon(loss, labels, records, kappa):
    """With the record over without: between -L/scale and L/scale + log(1 + kappa), at every theta."""
    mechanism = mechanism_of(noise_scale=1.3, l2_reg=loss.smoothness / kappa, smoothness=loss.smoothness)
    claimed = PureBound(mechanism).pure_epsilon
    width = 40 / mechanism.l2_reg
    theta = np.sort(np.r_[np.linspace(-width, width, 20_001), np.linspace(-14, 14, 20_001)])
    setting = {"loss": loss, "mechanism": mechanism}
    without = log_density(theta, records=records, **setting)
    low, high = np.inf, -np.inf
    for y in labels:
        for x in (-1.0, 0.4, 1.0):
            ratio = log_density(theta, records=[*records, (x, y)], **setting) - without
            low, high = min(low, ratio.min()), max(high, ratio.max())
    assert low >= -1 / 1.3 - 1e-9
    assert high <= claimed + 1e-9
    assert low < -0.99 / 1.3
    if isinstance(loss, Huber) and not records:  # reaches its largest slope on its steepest bend: nothing to spare
        assert high > 0.99 * claimed


@pytest.mark.parametrize("l2_reg", [2.0, 20.0])
def test_printed_constants_cost_half_of_their_epsilon_here(l2_reg):
    """For means and replaced records the paper prints zeta = epsilon'/2, epsilon' = epsilon - 2 log(1 + kappa).

    Adding or removing one record is then epsilon / 2. Replacing one is both, of which log(1 + kappa) is not needed:
    the determinants of two rank-one changes differ by the factor 1 + kappa only.
    """
    epsilon, kappa = 2.0, 1 / l2_reg
    printed = mechanism_of(noise_scale=2 / (epsilon - 2 * np.log1p(kappa)), l2_reg=l2_reg, smoothness=1.0)
    assert PureBound(printed).pure_epsilon == pytest.approx(epsilon / 2, rel=1e-9)
    theta = np.linspace(-3, 3, 40_001)
    logs = [
        log_density(theta, loss=Huber(threshold=1.0), records=[(1.0, y)], mechanism=printed)
        for y in np.linspace(-5, 5, 21)
    ]
    worst = max((one - other).max() for one in logs for other in logs)
    assert 0.99 * (epsilon - np.log1p(kappa)) < worst <= epsilon - np.log1p(kappa) + 1e-9


def test_approximate_minima_are_pure_only_with_output_noise():
    """A solver within tau / lambda may round to a grid of its dataset's own: outputs that no epsilon covers."""
    tau, l2_reg = 0.1, 0.5
    mechanism = mechanism_of(
        noise_scale=2.0, l2_reg=l2_reg, smoothness=1.0, gradient_tol=tau, output_noise_scale=2 * tau / l2_reg / 0.3
    )
    theta = np.linspace(-80, 80, 160_001)
    step = 2 * tau / l2_reg
    outputs = []
    for records, offset in (([], 0.0), ([(1.0, -1.5)], step / 2)):
        log_mass = log_density(theta, loss=Huber(threshold=1.0), records=records, mechanism=mechanism)
        found = np.round((theta - offset) / step) * step + offset
        assert np.abs(found - theta).max() <= tau / l2_reg + 1e-12
        grid = np.unique(found.round(9))
        at = np.searchsorted(grid, found.round(9))
        log_grid = np.log(np.bincount(at, weights=np.exp(log_mass)))
        outputs.append((grid, log_grid - logsumexp(log_grid)))
    assert not np.isclose(outputs[0][0][:, None], outputs[1][0]).any()  # disjoint, before the output noise
    released = np.linspace(-30, 30, 2001)
    without, joined = (
        logsumexp(log_grid - np.abs(released[:, None] - grid) / mechanism.output_noise_scale, axis=1)
        for grid, log_grid in outputs
    )
    claimed = PureBound(mechanism).pure_epsilon
    assert 0.25 * claimed < np.abs(joined - without).max() <= claimed


def test_guarantee_is_the_sum_of_its_parts(data):
    privacy = PureObjectivePerturbationClassifier(epsilon=0.7, random_state=0).fit(*data).privacy_
    mechanism = privacy.mechanism
    assert (privacy.epsilon, privacy.delta, privacy.bound, privacy.uses) == (0.7, 0.0, "PureBound", 1)
    assert 0.7 * (1 - 1e-12) < PureBound(mechanism).pure_epsilon <= 0.7
    assert mechanism.lipschitz == pytest.approx(np.sqrt(2))
    assert mechanism.smoothness == pytest.approx(0.5)
    assert mechanism.noise_scale == pytest.approx(1.3 * np.sqrt(2) / (0.99 * 0.7))  # f times that of a linear loss
    assert mechanism.output_step.sensitivity / mechanism.output_noise_scale == pytest.approx(0.01 * 0.7)
    assert privacy.gradient_norm <= mechanism.gradient_tol == 1e-4


def test_a_given_regularisation_sets_the_noise_instead(data):
    rule = PureObjectivePerturbationClassifier(random_state=0).fit(*data).privacy_.mechanism
    given = PureObjectivePerturbationClassifier(l2_reg=rule.l2_reg, f=None, random_state=0).fit(*data).privacy_
    assert given.mechanism.noise_scale == pytest.approx(rule.noise_scale, rel=1e-9)
    more = PureObjectivePerturbationClassifier(l2_reg=100.0, random_state=0).fit(*data).privacy_.mechanism
    assert more.noise_scale < rule.noise_scale
    needed = 0.5 / np.expm1(0.99)
    with pytest.raises(InfeasibleTarget, match=rf"l2_reg must exceed {needed:.5}.*got l2_reg=0.29") as refusal:
        PureObjectivePerturbationClassifier(l2_reg=0.29).fit(*data)
    PureObjectivePerturbationClassifier(l2_reg=1.0001 * refusal.value.needed["l2_reg"], random_state=0).fit(*data)


def test_mechanism_uses_public_numbers_alone(data):
    X, y = data
    whole = PureObjectivePerturbationClassifier(random_state=0).fit(X, y).privacy_.mechanism
    assert whole == PureObjectivePerturbationClassifier(random_state=0).fit(-X[:99], y[:99]).privacy_.mechanism


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_released_point_is_the_perturbed_minimum_plus_output_noise(data, fit_intercept):
    X, y = data
    fit = PureObjectivePerturbationClassifier(random_state=11, fit_intercept=fit_intercept).fit(X, y)
    mechanism = fit.privacy_.mechanism
    design = np.hstack([X, np.ones((len(X), 1))]) if fit_intercept else X
    bits, d = bits_of(11), design.shape[1]
    b = draw_noise(GammaNoise(noise_scale=mechanism.noise_scale), dimension=d, bits=bits).value
    output_noise = draw_noise(mechanism.output_step, dimension=d, bits=bits).value
    released = np.append(fit.coef_, fit.intercept_) if fit_intercept else fit.coef_[0]
    objective = PerturbedObjective(
        Records(design, 2.0 * y - 1), loss=Logistic(), l2_reg=mechanism.l2_reg, linear_term=b
    )
    assert np.linalg.norm(objective.gradient(released - output_noise)) <= mechanism.gradient_tol


def test_less_noise_comes_to_the_plain_fit(data):
    X, y = data
    private = PureObjectivePerturbationClassifier(epsilon=1e6, l2_reg=2.0, random_state=0).fit(X, y)
    ones = np.hstack([X, np.ones((len(X), 1))])
    plain = LogisticRegression(C=1 / 2.0, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(ones, y)
    np.testing.assert_allclose(np.append(private.coef_, private.intercept_), plain.coef_[0], atol=1e-3)


def test_several_classes_share_epsilon():
    X, y = load_iris(return_X_y=True)
    X = X / np.linalg.norm(X, axis=1)[:, None]
    fit = PureObjectivePerturbationClassifier(epsilon=3.0, random_state=0).fit(X, y)
    assert (fit.coef_.shape, fit.privacy_.uses) == ((3, 4), 3)
    assert 3 * (1 - 1e-12) < PureBound(fit.privacy_.mechanism, uses=3).pure_epsilon <= 3.0
    alone = PureObjectivePerturbationClassifier(epsilon=1.0, random_state=0).fit(X, y == 1).privacy_.mechanism
    assert fit.privacy_.mechanism.noise_scale == pytest.approx(alone.noise_scale, rel=1e-12)


def test_sparse_and_dense_agree(data):
    X, y = data
    X = np.where(np.abs(X) > 0.15, X, 0.0)
    setting = {"clip_norm": 0.5, "gradient_tol": 1e-6, "random_state": 0}
    dense = PureObjectivePerturbationClassifier(**setting).fit(X, y)
    csr = PureObjectivePerturbationClassifier(**setting).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(dense.coef_, csr.coef_, atol=1e-7)


def test_regression(data):
    X, _ = data
    target = X @ np.linspace(-1, 1, 30)
    fit = PureObjectivePerturbationRegressor(epsilon=200.0, l2_reg=1.0, random_state=0).fit(X, target)
    assert fit.score(X, target) > 0.5
    squared = PureObjectivePerturbationRegressor(loss="squared", clip_norm=0.5, random_state=0).fit(X, target)
    assert squared.privacy_.mechanism.lipschitz == 0.5 * (1 + 2**-30)


def test_a_fit_that_does_not_converge_releases_nothing(data):
    model = PureObjectivePerturbationClassifier(random_state=0, gradient_tol=1e-17)
    with pytest.raises(NoReleaseError, match=r"nothing is released: .* gradient_tol=.*outside the guarantee"):
        model.fit(*data)
    assert not [name for name in vars(model) if name.endswith("_") and name != "n_features_in_"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a finite number > 0: got epsilon=0"),
        ({"output_share": 1}, r"output_share must be inside \(0, 1\): got output_share=1"),
        ({"f": 1.0}, "f must be a finite number > 1: got f=1.0"),
        ({"gradient_tol": np.nan}, "gradient_tol must be a finite number > 0: got gradient_tol=nan"),
        ({"l2_reg": 0}, "l2_reg must be a finite number > 0: got l2_reg=0"),
        ({"loss": "probit"}, "clip_norm must be given for a loss whose slope is unbounded"),
    ],
)
def test_bad_parameters(data, bad, message):
    with pytest.raises(ValueError, match=message):
        PureObjectivePerturbationClassifier(**bad).fit(*data)
