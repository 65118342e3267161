"""DP-FTRL: tree noise against naive sums and least squares, the batches of neighbouring datasets, the estimator."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

from explorer.accounting import Gaussian, GaussianLowerBound, calibrate_gaussian
from explorer.learning import DPFTRLClassifier, DPFTRLRegressor, Logistic, tree_noise_covariance
from explorer.learning.learners.dp_ftrl import independent_batches, prefix_noise, prefix_variance
from explorer.learning.sampling.bits import bits_of
from explorer.learning.sampling.coins import below
from explorer.learning.sampling.rounded_normal import rounded_normal


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    return X / np.linalg.norm(X, axis=1)[:, None], y


@parametrize_with_checks(
    [DPFTRLClassifier(steps=8, epochs=2, random_state=0), DPFTRLRegressor(steps=8, epochs=2, random_state=0)]
)
def test_scikit_learn_estimator(estimator, check):
    check(estimator)


def nodes_of(steps):
    """The complete nodes, as ranges of leaves, in the order in which they complete, small ones first."""
    for end in range(1, steps + 1):
        size = 1
        while end % size == 0:
            yield range(end - size, end)
            size *= 2


@given(steps=st.integers(1, 70))
def test_exact_sums_in_the_nodes_give_the_prefix_sums(steps):
    """The estimates are linear and unbiased: fed with the nodes' true sums they return the true prefixes."""
    leaves = np.random.default_rng(steps).normal(size=steps)
    sums = (leaves[list(node)].sum() for node in nodes_of(steps))
    np.testing.assert_allclose(list(prefix_noise(steps, lambda: next(sums))), np.cumsum(leaves), atol=1e-12)
    assert next(sums, None) is None  # every complete node once


@pytest.mark.parametrize("steps", [1, 2, 3, 8, 13, 32])
def test_variance_is_that_of_least_squares_from_all_nodes_so_far(steps):
    covariance = tree_noise_covariance(steps).cumsum(axis=0).cumsum(axis=1)
    for end in range(1, steps + 1):
        rows = [np.isin(np.arange(end), list(node)) for node in nodes_of(end)]
        incidence = np.array(rows, float)
        best = np.linalg.solve(incidence.T @ incidence, np.ones(end)).sum()
        assert prefix_variance(end) == pytest.approx(best, rel=1e-9)
        assert covariance[end - 1, end - 1] == pytest.approx(best, rel=1e-9)


def test_covariance_over_steps_is_that_of_the_noise_drawn():
    steps, size = 13, 40_000
    rng = np.random.default_rng(0)
    prefixes = np.array(list(prefix_noise(steps, lambda: rng.normal(size=size))))
    drawn = np.diff(prefixes, axis=0, prepend=0)
    expected = tree_noise_covariance(steps)
    error = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / size)
    assert (np.abs(drawn @ drawn.T / size - expected) < 5 * error).all()
    assert expected[0, 1] < -0.1  # a step takes back noise of the one before: not independent
    assert expected.sum() == pytest.approx(prefix_variance(steps))


def test_noise_of_a_prefix_grows_with_the_logarithm():
    assert prefix_variance(1) == 1.0
    assert prefix_variance(2) == pytest.approx(2 / 3)
    assert prefix_variance(2**20) == pytest.approx(0.5, rel=1e-5)
    assert prefix_variance(2**20 - 1) < 0.55 * 20 + 1  # and one for each of its binary digits, where DP-SGD has 2^20


@given(n=st.integers(0, 60), steps=st.integers(1, 9), seed=st.integers(0, 99))
def test_one_record_more_joins_one_batch_and_moves_no_other(n, steps, seed):
    before, after = (independent_batches(m, steps=steps, bits=bits_of(seed)) for m in (n, n + 1))
    assert len(before) == len(after) == steps
    changed = [k for k in range(steps) if not np.array_equal(before[k], after[k])]
    assert len(changed) == 1
    np.testing.assert_array_equal(after[changed[0]], np.append(before[changed[0]], n))
    np.testing.assert_array_equal(np.sort(np.concatenate(after)), np.arange(n + 1))


def test_batches_are_uniform():
    sizes = [len(rows) for rows in independent_batches(9000, steps=9, bits=bits_of(0))]
    assert stats.chisquare(sizes).pvalue > 1e-3


def test_guarantee_is_one_gaussian_mechanism(data):
    fit = DPFTRLClassifier(epsilon=0.7, delta=1e-6, steps=20, epochs=3, random_state=0).fit(*data)
    privacy, mechanism = fit.privacy_, fit.privacy_.mechanism
    assert (privacy.epsilon, privacy.uses, privacy.gradient_norm) == (0.7, 1, None)
    sensitivity = np.sqrt(2) * np.sqrt(3 * 5)  # 20 leaves: nodes of 1, 2, 4, 8 and 16
    expected = calibrate_gaussian(epsilon=0.7, delta=1e-6, sensitivity=sensitivity).value
    assert mechanism.noise_std == pytest.approx(expected, rel=1e-9)
    assert privacy.delta == pytest.approx(GaussianLowerBound(mechanism.gaussian).delta(0.7), rel=1e-9)
    assert privacy.delta <= 1e-6
    assert any("batch is drawn independently" in text for text in privacy.assumptions)
    assert fit.n_gradient_evaluations_ == 3 * len(data[0])


def estimate(noise, node):
    """(value, variance) of a node's noise: its own and its two children's, weighted by inverse variances."""
    own = noise[node.start, node.stop]
    if len(node) == 1:
        return own, 1.0
    middle = (node.start + node.stop) // 2
    parts = [estimate(noise, range(*ends)) for ends in ((node.start, middle), (middle, node.stop))]
    below, variance = parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
    return (own + below / variance) / (1 + 1 / variance), 1 / (1 + 1 / variance)


@pytest.mark.parametrize(("steps", "clip_norm"), [(1, None), (6, 0.4), (8, None)])
def test_released_point_redrawn_from_the_seed(data, steps, clip_norm):
    """Record by record, and node by node of two epochs' trees."""
    X, y = data[0][:60], data[1][:60]
    fit = DPFTRLClassifier(
        epsilon=20.0, steps=steps, epochs=2, clip_norm=clip_norm, learning_rate=0.02, random_state=11
    )
    fit.fit(X, y)
    design, signs = np.hstack([X, np.ones((60, 1))]), 2.0 * y - 1
    bits = bits_of(11)
    batch = below(steps, 60, bits)
    grid = Fraction(2) ** (int(np.floor(np.log2(fit.privacy_.mechanism.lipschitz))) - 42)
    scale = Fraction(fit.privacy_.mechanism.noise_std) / grid
    theta = np.zeros(31)
    for _ in range(2):
        noise = {(node.start, node.stop): rounded_normal(scale, 31, bits) * float(grid) for node in nodes_of(steps)}
        start, total = theta, np.zeros(31)
        for step in range(steps):
            for x, sign in zip(design[batch == step], signs[batch == step], strict=True):
                gradient = Logistic().derivative(x @ theta, sign) * x
                total = total + gradient * min(1, (clip_norm or np.inf) / np.linalg.norm(gradient))
            prefix, left = np.zeros(31), step + 1
            for size in [2**k for k in range(8)]:  # the binary digits of the prefix's length, from the end
                if left & size:
                    prefix = prefix + estimate(noise, range(left - size, left))[0]
                    left -= size
            theta = start - 0.02 * (total + prefix)
    np.testing.assert_allclose(np.append(fit.coef_, fit.intercept_), theta, atol=1e-5)  # six digits


def test_rule_for_the_learning_rate():
    """Rows of almost nothing have no gradient: what is released is noise, of the deviation asked for."""
    X, y = np.full((4, 100), 1e-12), [0, 0, 1, 1]
    setting = {"epsilon": 5.0, "steps": 11, "epochs": 3, "output_noise_std": 0.4, "fit_intercept": False}
    released = [DPFTRLClassifier(**setting, random_state=seed).fit(X, y).coef_ for seed in range(10)]
    assert np.std(released) == pytest.approx(0.4, rel=0.08)


def test_mechanism_uses_public_numbers_alone(data):
    X, y = data
    whole = DPFTRLClassifier(random_state=0).fit(X, y).privacy_.mechanism
    assert whole == DPFTRLClassifier(random_state=0).fit(-X[:99], y[:99]).privacy_.mechanism


def test_learns(data):
    X, y = data
    fit = DPFTRLClassifier(epsilon=8.0, random_state=0).fit(X, y)
    assert fit.score(X, y) > 0.9
    target = X @ np.linspace(-1, 1, 30)
    assert DPFTRLRegressor(epsilon=100.0, random_state=0).fit(X, target).score(X, target) > 0.5
    squared = DPFTRLRegressor(loss="squared", clip_norm=0.5, random_state=0).fit(X, target)
    assert squared.privacy_.mechanism.lipschitz == 0.5 * (1 + 2**-30)


def test_several_classes_are_composed():
    X, y = load_iris(return_X_y=True)
    X = X / np.linalg.norm(X, axis=1)[:, None]
    fit = DPFTRLClassifier(random_state=0).fit(X, y)
    privacy, one = fit.privacy_, fit.privacy_.mechanism.gaussian
    assert (fit.coef_.shape, privacy.uses) == ((3, 4), 3)
    together = Gaussian(noise_std=one.noise_std, sensitivity=np.sqrt(3) * one.sensitivity)
    assert 0.99e-5 < privacy.delta == pytest.approx(GaussianLowerBound(together).delta(1.0), rel=1e-9)
    assert privacy.delta <= 1e-5


def test_sparse_and_dense_agree(data):
    X, y = data
    X = np.where(np.abs(X) > 0.15, X, 0.0)
    dense = DPFTRLClassifier(random_state=0, clip_norm=0.5).fit(X, y)
    csr = DPFTRLClassifier(random_state=0, clip_norm=0.5).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(dense.coef_, csr.coef_, atol=1e-10)


def test_callback_sees_every_step_and_can_abort(data):
    seen = []
    DPFTRLClassifier(steps=5, epochs=2, random_state=0, callback=lambda *step: seen.append(step)).fit(*data)
    assert len(seen) == 10
    assert seen[-1][0] == 2 * len(data[0])

    def abort(evaluations, norm):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        DPFTRLClassifier(callback=abort).fit(*data)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a finite number > 0: got epsilon=0"),
        ({"delta": 0}, r"delta must be inside \(0, 1\): got delta=0"),
        ({"steps": 0}, "steps must be an integer >= 1: got steps=0"),
        ({"epochs": 1.5}, "epochs must be an integer >= 1: got epochs=1.5"),
        ({"learning_rate": 0}, "learning_rate must be a finite number > 0: got learning_rate=0"),
        ({"output_noise_std": 0}, "output_noise_std must be a finite number > 0: got output_noise_std=0"),
        ({"loss": "probit"}, "clip_norm must be given for a loss whose slope is unbounded"),
    ],
)
def test_bad_parameters(data, bad, message):
    with pytest.raises(ValueError, match=message):
        DPFTRLClassifier(**bad).fit(*data)


def test_covariance_of_no_steps():
    with pytest.raises(ValueError, match="steps must be an integer >= 1: got steps=0"):
        tree_noise_covariance(0)
