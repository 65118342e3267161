"""DP-SGD: the distribution of its samples and noise, its steps against a naive loop, its guarantee."""

from fractions import Fraction
from functools import partial
from itertools import pairwise

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

from explorer.accounting import CompositionBound, RenyiBound
from explorer.learning import DPGDClassifier, DPSGDClassifier, DPSGDRegressor
from explorer.learning.learners.optimizers import SGD, Adam, Momentum
from explorer.learning.sampling.bits import bits_of
from explorer.learning.sampling.coins import poisson_samples
from explorer.learning.sampling.rounded_normal import rounded_normal

NOISELESS = {"epsilon": None, "noise_multiplier": 1e-12}


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    return X / np.linalg.norm(X, axis=1)[:, None], y


@parametrize_with_checks([DPSGDClassifier(epochs=5, random_state=0), DPSGDRegressor(epochs=5, random_state=0)])
def test_scikit_learn_estimator(estimator, check):
    check(estimator)


# What the accounting assumes: every record by a coin of its own, in every step.


@given(
    n_records=st.integers(1, 60),
    steps=st.integers(1, 40),
    sampling_rate=st.floats(1e-12, 1.0),
    seed=st.integers(0, 2**32 - 1),
)
def test_samples_are_sets_of_records(n_records, steps, sampling_rate, seed):
    samples = poisson_samples(bits_of(seed), n_records=n_records, sampling_rate=sampling_rate, steps=steps)
    assert len(samples) == steps
    for sample in samples:
        assert (np.diff(sample) > 0).all()
        assert not len(sample) or (sample[0] >= 0 and sample[-1] < n_records)
        assert sampling_rate < 1 or len(sample) == n_records


@pytest.mark.parametrize("sampling_rate", [0.004, 0.1, 0.45, 0.9])
def test_samples_have_the_law_of_independent_coins(sampling_rate):
    n, steps = 40, 30_000
    samples = poisson_samples(bits_of(0), n_records=n, sampling_rate=sampling_rate, steps=steps)
    coins = np.zeros((steps, n))
    for row, sample in zip(coins, samples, strict=True):
        row[sample] = 1
    frequency = coins.sum(axis=0)
    deviation = np.sqrt(steps * sampling_rate * (1 - sampling_rate))
    assert stats.chi2.sf(np.sum(((frequency - steps * sampling_rate) / deviation) ** 2), n) > 1e-3
    sizes = np.bincount(coins.sum(axis=1).astype(int), minlength=n + 1)
    expected = steps * stats.binom.pmf(np.arange(n + 1), n, sampling_rate)
    often = expected > 10
    observed = np.append(sizes[often], sizes[~often].sum() + 1e-9)
    assert stats.chisquare(observed, np.append(expected[often], expected[~often].sum() + 1e-9)).pvalue > 1e-3
    centred = (coins - sampling_rate) / np.sqrt(sampling_rate * (1 - sampling_rate))
    across_records = (centred.T @ centred)[np.triu_indices(n, 1)] / np.sqrt(steps)  # each about N(0, 1) for fair coins
    across_steps = np.sum(centred[1:] * centred[:-1], axis=0) / np.sqrt(steps - 1)
    assert abs(np.mean(across_records**2) - 1) < 0.2
    assert abs(np.mean(across_steps**2) - 1) < 5 * np.sqrt(2 / n)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_empty_samples_are_steps_of_noise(data, kind):
    X, y = data
    iterates = []
    model = DPSGDClassifier(
        epsilon=None, noise_multiplier=1.0, batch_size=0.5, epochs=1, learning_rate=0.01, random_state=0
    )
    model.set_params(callback=lambda step, theta: iterates.append(theta)).fit(kind(X), y)
    assert len(iterates) == model.privacy_.mechanism.steps == 2 * len(X)
    assert model.n_gradient_evaluations_ < len(iterates)  # so some samples were empty
    assert all((before != after).any() for before, after in pairwise(iterates))


# The step, against the definition.


def naive_fit(model, design, signs, clip_norm, optimizer_step):
    """Every single gradient formed and clipped, in doubles; the random numbers are those of the fit."""
    n, d = design.shape
    bits = bits_of(model.random_state)
    mechanism = model.privacy_.mechanism
    batch, theta = model.batch_size, np.zeros(d)
    at_once = int(2**13 / batch)
    for start in range(0, mechanism.steps, at_once):
        steps = min(at_once, mechanism.steps - start)
        noise = rounded_normal(Fraction(mechanism.noise_multiplier * clip_norm) * 2**42, steps * d, bits)
        noise = noise.reshape(steps, d) / 2**42
        samples = poisson_samples(bits, n_records=n, sampling_rate=batch / n, steps=steps)
        for t, (sample, draw) in enumerate(zip(samples, noise, strict=True), start=start + 1):
            total = draw.copy()
            for x, y in zip(design[sample], signs[sample], strict=True):
                gradient = -y * x / (1 + np.exp(y * (x @ theta)))
                total += gradient * min(1.0, clip_norm / np.linalg.norm(gradient))
            theta = theta - optimizer_step(t, total / batch + model.l2_reg / n * theta)
    return theta


def plain_step(rate):
    return lambda t, g: rate * g


def momentum_step(rate, decay):
    history = []

    def step(t, g):
        history.append(g)
        return rate * sum(decay**age * old for age, old in enumerate(reversed(history)))

    return step


def adam_step(rate, decay, square_decay):
    history = []

    def step(t, g):
        history.append(g)
        weights = [decay ** (t - 1 - k) for k in range(t)]
        square_weights = [square_decay ** (t - 1 - k) for k in range(t)]
        mean = sum(w * old for w, old in zip(weights, history, strict=True)) / sum(weights)
        square = sum(w * old**2 for w, old in zip(square_weights, history, strict=True)) / sum(square_weights)
        return rate * mean / (np.sqrt(square) + 1e-8)

    return step


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    ("optimizer", "naive_step"),
    [
        ("sgd", partial(plain_step, 0.5)),
        (SGD(), partial(plain_step, 0.5)),
        ("momentum", partial(momentum_step, 0.5, 0.9)),
        (Momentum(decay=0.5), partial(momentum_step, 0.5, 0.5)),
        ("adam", partial(adam_step, 0.5, 0.9, 0.999)),
        (Adam(decay=0.8, square_decay=0.95), partial(adam_step, 0.5, 0.8, 0.95)),
    ],
    ids=lambda value: value.func.__name__ if isinstance(value, partial) else str(value),
)
@pytest.mark.parametrize("clip_norm", [None, 0.3])
def test_fit_is_the_definition_step_by_step(data, kind, optimizer, naive_step, clip_norm):
    X, y = data
    X = X[:100] * np.linspace(0.2, 3, 100)[:, None]
    X[7] = 0
    model = DPSGDClassifier(
        clip_norm=clip_norm, optimizer=optimizer, learning_rate=0.5, batch_size=20, epochs=4, l2_reg=3.0, random_state=3
    ).fit(kind(X), y[:100])
    rows = X / np.maximum(np.linalg.norm(X, axis=1), 1)[:, None]
    design = np.hstack([rows, np.ones((100, 1))])
    theta = naive_fit(model, design, 2.0 * y[:100] - 1, clip_norm or np.sqrt(2), naive_step())
    np.testing.assert_allclose(
        np.append(model.coef_, model.intercept_), theta, rtol=1e-4, atol=1e-4
    )  # six digits of each record


def test_noise_has_the_stated_deviation():
    """Rows of zeros have no gradient: two steps leave nothing but noise."""
    model = DPSGDClassifier(
        epsilon=None,
        noise_multiplier=1.7,
        clip_norm=0.4,
        fit_intercept=False,
        batch_size=8,
        epochs=1,
        learning_rate=0.5,
    ).set_params(random_state=0)
    theta = model.fit(np.zeros((16, 20_000)), np.arange(16) % 2).coef_[0]
    assert stats.kstest(theta / (0.5 / 8 * 1.7 * 0.4 * np.sqrt(2)), "norm").pvalue > 1e-3


def test_one_record_moves_a_step_by_its_clipped_gradient(data):
    """All records in every sample, no noise: leaving one out changes the sum of gradients by C at most."""
    X, y = data
    setting = {**NOISELESS, "clip_norm": 0.2, "batch_size": 1e9, "epochs": 1, "learning_rate": 1.0, "random_state": 0}
    everyone = DPSGDClassifier(**setting).fit(X, y)
    others = DPSGDClassifier(**setting).fit(X[1:], y[1:])
    n = len(X)
    change = n * np.append(everyone.coef_, everyone.intercept_)
    change -= (n - 1) * np.append(others.coef_, others.intercept_)
    assert np.linalg.norm(change) == pytest.approx(0.2, rel=2e-6)  # the slope 1/2 at theta = 0 is beyond the clip
    assert np.linalg.norm(change) <= 0.2 * (1 + 1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.filterwarnings("ignore:invalid value encountered in reduce")  # by scikit-learn's check of X
@pytest.mark.parametrize("learner", [DPSGDClassifier(epochs=20, random_state=0), DPGDClassifier(random_state=0)])
def test_one_record_cannot_spoil_a_fit_by_overflow(data, kind, learner):
    X, y = data[0].copy(), data[1]
    X[0] = np.where(np.arange(X.shape[1]) % 2, 1.7e308, -1.7e308)
    assert np.linalg.norm(learner.fit(kind(X), y).coef_) < 100


def test_rows_longer_than_the_norm_are_scaled_and_sparse_rows_are_too(data):
    X, y = data
    X = np.where(np.abs(X) > 0.15, X, 0.0)
    longer = X * np.linspace(1, 50, len(X))[:, None]
    setting = {"random_state": 0, "epochs": 3, "data_norm": 0.5}
    coefficients = [
        DPSGDClassifier(**setting).fit(rows, y).coef_
        for rows in (longer, sparse.csr_array(longer), sparse.csr_matrix(longer), longer * 7)
    ]
    for other in coefficients[1:]:
        np.testing.assert_allclose(other, coefficients[0], rtol=1e-9, atol=1e-12)


# What is promised.


def public_epsilon(privacy, delta, orders=range(2, 257)):
    mechanism = privacy.mechanism
    step = dp_accounting.PoissonSampledDpEvent(
        mechanism.sampling_rate, dp_accounting.GaussianDpEvent(mechanism.noise_multiplier)
    )
    return RdpAccountant(orders).compose(step, mechanism.steps * privacy.uses).get_epsilon(delta)


def test_guarantee_holds_for_another_accountant(data):
    privacy = DPSGDClassifier(epsilon=0.7, delta=1e-6, batch_size=50, epochs=3, random_state=0).fit(*data).privacy_
    assert (privacy.epsilon, privacy.bound, privacy.gradient_norm) == (0.7, "RenyiBound", None)
    assert privacy.delta <= 1e-6
    assert privacy.mechanism.steps == 3 * 12
    assert privacy.mechanism.sampling_rate == 50 / 569
    assert public_epsilon(privacy, 1e-6) == pytest.approx(0.7, rel=1e-6)
    assert any("number of records is public" in text for text in privacy.assumptions)


@pytest.mark.parametrize(("name", "n_records", "batch_size"), [("synthetic_l", 8000, 256), ("adult", 36176, 256)])
def test_reference_noise_multipliers(experiments_reference, name, n_records, batch_size):
    reference = experiments_reference["dp_sgd_noise_multiplier_integer_orders_2_256"][name]
    X, y = np.zeros((n_records, 2)), np.arange(n_records) % 2
    for epsilon, noise_multiplier in reference["dishonest"].items():
        mechanism = DPSGDClassifier(epsilon=float(epsilon), batch_size=batch_size).plan(X, y).mechanism
        assert mechanism.sampling_rate == pytest.approx(reference["sampling_rate"], rel=1e-12)
        assert mechanism.steps == reference["steps"]
        assert mechanism.noise_multiplier == pytest.approx(noise_multiplier, rel=1e-5)


def test_several_classes_compose():
    X, y = load_iris(return_X_y=True)
    model = DPSGDClassifier(epsilon=1.0, batch_size=30, epochs=2, random_state=0).fit(X, y)
    assert model.privacy_.uses == 3
    assert model.coef_.shape == (3, 4)
    assert public_epsilon(model.privacy_, 1e-5) == pytest.approx(1.0, rel=1e-6)
    assert len(np.unique(model.coef_[:, 0])) == 3  # noise of its own in each


def test_given_noise_is_accounted_for(data):
    model = DPSGDClassifier(epsilon=None, noise_multiplier=2.0, batch_size=50, epochs=3, random_state=0).fit(*data)
    assert model.privacy_.mechanism.noise_multiplier == 2.0
    assert model.privacy_.epsilon == pytest.approx(public_epsilon(model.privacy_, 1e-5), rel=1e-6)
    assert DPSGDClassifier(epsilon=model.privacy_.epsilon, batch_size=50, epochs=3).plan(
        *data
    ).mechanism.noise_multiplier == pytest.approx(2.0, rel=1e-9)


def test_accountants(data):
    setting = {"batch_size": 200, "epochs": 1}
    renyi, profile, continuous = (
        DPSGDClassifier(accountant=accountant, **setting).plan(*data) for accountant in ("renyi", "profile", RenyiBound)
    )
    multipliers = [plan.mechanism.noise_multiplier for plan in (profile, continuous, renyi)]
    assert multipliers == sorted(multipliers)
    assert profile.bound == "CompositionBound"
    assert CompositionBound(profile.mechanism).epsilon(1e-5) <= 1.0


def test_plan_equals_the_statement_of_a_fit(data):
    model = DPSGDClassifier(batch_size=50, epochs=1, random_state=0)
    plan = model.plan(*data)
    assert not hasattr(model, "coef_")
    assert model.fit(*data).privacy_ == plan
    X, y = data
    assert model.plan(X * 5 + 1, y) == plan  # nothing but the shape and the labels


# What it does otherwise.


def test_same_seed_same_fit_and_fresh_noise_otherwise(data):
    first, second = (DPSGDClassifier(epochs=1, random_state=5).fit(*data).coef_ for _ in range(2))
    np.testing.assert_array_equal(first, second)
    fresh = [DPSGDClassifier(epochs=1).fit(*data).coef_ for _ in range(2)]
    assert not np.allclose(*fresh)
    before = np.random.mtrand._rand.get_state()[1].copy()
    DPSGDClassifier(epochs=1).fit(*data)
    assert np.array_equal(before, np.random.mtrand._rand.get_state()[1])


def test_callback_sees_every_step_and_may_stop_the_fit(data):
    seen = []
    model = DPSGDClassifier(epochs=2, batch_size=100, random_state=0, callback=lambda *what: seen.append(what))
    model.fit(*data)
    assert [step for step, _ in seen] == list(range(1, 13))
    np.testing.assert_array_equal(seen[-1][1], np.append(model.coef_, model.intercept_))

    def stop(step, theta):
        raise KeyboardInterrupt

    stopped = DPSGDClassifier(epochs=2, callback=stop)
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(*data)
    assert not hasattr(stopped, "coef_")


def test_regression_with_clipped_squares():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(4000, 2))
    y = X @ [0.7, -0.4] + 0.2 + rng.standard_cauchy(4000) / 100  # outliers that only clipping withstands
    model = DPSGDRegressor(loss="squared", clip_norm=0.1, epsilon=2.0, learning_rate=2.0, random_state=0).fit(X, y)
    np.testing.assert_allclose([*model.coef_, model.intercept_], [0.7, -0.4, 0.2], atol=0.05)


@pytest.mark.parametrize("bad", [{"learning_rate": 1e308}, {"learning_rate": 1e6, "l2_reg": 100.0}])
def test_overflow_is_an_error(data, bad):
    model = DPSGDClassifier(epochs=60, batch_size=50, random_state=0, **bad)
    with pytest.raises(FloatingPointError, match=r"theta overflowed at step \d+; learning_rate or l2_reg must"):
        model.fit(*data)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a finite number > 0: got epsilon=0"),
        (
            {"epsilon": None},
            "one of epsilon and noise_multiplier must be given, .*: got epsilon=None, noise_m",
        ),
        (
            {"noise_multiplier": 1.0},
            "one of epsilon and noise_multiplier must be given, the other be None: got eps",
        ),
        ({"epsilon": None, "noise_multiplier": 0}, "noise_multiplier must be a finite number > 0: got"),
        ({"delta": 1}, r"delta must be inside \(0, 1\): got delta=1"),
        ({"data_norm": -1}, "data_norm must be a finite number > 0: got data_norm=-1"),
        ({"clip_norm": 0}, "clip_norm must be a finite number > 0: got clip_norm=0"),
        ({"batch_size": 0}, "batch_size must be a finite number > 0: got batch_size=0"),
        ({"epochs": 1.5}, "epochs must be an integer >= 1: got epochs=1.5"),
        ({"learning_rate": np.nan}, "learning_rate must be a finite number > 0: got learning_rate=nan"),
        ({"l2_reg": -1}, "l2_reg must be a finite number >= 0: got l2_reg=-1"),
        ({"optimizer": "newton"}, "optimizer must be one of .*'adam', 'momentum', 'sgd'.*: got optimizer='newton'"),
        ({"accountant": "moments"}, "accountant must be one of .*'profile', 'renyi'.*: got accountant='moments'"),
    ],
)
def test_bad_parameters(data, bad, message):
    with pytest.raises(ValueError, match=message):
        DPSGDClassifier(**bad).fit(*data)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Momentum(decay=1.0), r"decay must be inside \[0, 1\): got decay=1.0"),
        (lambda: Adam(square_decay=-0.1), r"square_decay must be inside \[0, 1\): got square_decay=-0.1"),
        (lambda: Adam(stabiliser=0), "stabiliser must be a finite number > 0: got stabiliser=0"),
    ],
)
def test_bad_optimizer(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_cloned_with_its_parameters(data):
    model = clone(DPSGDClassifier(epsilon=2.0, epochs=1, optimizer=Adam(), random_state=1).fit(*data))
    assert (model.epsilon, model.optimizer) == (2.0, Adam())
    assert not hasattr(model, "coef_")
