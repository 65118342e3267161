"""Honest selection accounts for every run and releases nothing of the others; dishonest selection states its leak."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_iris, make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from explorer.accounting import (
    BestOfRuns,
    CompositionBound,
    Gaussian,
    Poisson,
    ScoredRun,
    SelectionProfileBound,
    SelectionRenyiBound,
    TruncatedNegativeBinomial,
    calibrate_gaussian,
)
from explorer.learning import (
    AMPClassifier,
    DishonestSelection,
    DPGDClassifier,
    DPSGDClassifier,
    DPSGDRegressor,
    HonestSelection,
    NoReleaseError,
    PrivacyWarning,
)

RATES = {"learning_rate": [0.1, 1.0, 10.0]}
FEW = TruncatedNegativeBinomial(eta=0.0, gamma=0.5)


class OneRun(Poisson):
    """Accounted for as Poisson(mean), drawn as 1: the calibration of many runs in the time of one."""

    def draw(self, rng):
        return 1


class FixedRuns(Poisson):
    """Accounted for as Poisson(mean), drawn as 3."""

    def draw(self, rng):
        return 3


class Recorder(DPSGDClassifier):
    """A learner that keeps a list of its fits, outside of itself."""

    fits = []  # noqa: RUF012

    def fit(self, X, y):
        super().fit(X, y)
        type(self).fits.append((self.learning_rate, np.column_stack([self.coef_, self.intercept_])))
        return self


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    return X / np.linalg.norm(X, axis=1)[:, None], y


@pytest.fixture
def recorder():
    Recorder.fits.clear()
    return Recorder(batch_size=1000, epochs=1)


@parametrize_with_checks(
    [
        HonestSelection(DPSGDClassifier(epochs=2), candidates=RATES, runs=FEW, random_state=0),
        DishonestSelection(DPSGDClassifier(epochs=2), candidates=RATES, random_state=0),
    ]
)
@pytest.mark.filterwarnings("ignore::explorer.learning.privacy.PrivacyWarning")
def test_scikit_learn_estimator(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("name", "n_records", "batch_size"), [("synthetic_l", 125, 4), ("adult", 2261, 16)])
def test_reference_noise_multipliers(experiments_reference, name, n_records, batch_size):
    """The sampling rate and the number of steps of the experiments, with fewer records."""
    reference = experiments_reference["dp_sgd_noise_multiplier_integer_orders_2_256"][name]
    runs = OneRun(mean=Poisson.with_more_than(10, probability=0.9).mean)
    assert runs.mean == pytest.approx(experiments_reference["mu_poisson_Pr_K_gt_10_is_0.9"], rel=1e-12)
    X, y = np.zeros((n_records, 1)), np.arange(n_records) % 2
    for epsilon, noise_multiplier in reference["honest"].items():
        search = HonestSelection(DPSGDClassifier(batch_size=batch_size), epsilon=float(epsilon), runs=runs)
        mechanism = search.fit(X, y, validation=(X, y)).privacy_.mechanism.run.mechanism
        assert mechanism.sampling_rate == pytest.approx(reference["sampling_rate"], rel=1e-12)
        assert mechanism.steps == reference["steps"]
        assert mechanism.noise_multiplier == pytest.approx(noise_multiplier, rel=1e-5)


def test_guarantee_is_that_of_the_whole_selection(data):
    search = HonestSelection(
        DPSGDClassifier(batch_size=100, epochs=1), candidates=RATES, epsilon=2.0, delta=1e-6, random_state=0
    ).fit(*data)
    privacy = search.privacy_
    assert (privacy.epsilon, privacy.bound, privacy.leaked) == (2.0, "SelectionRenyiBound", ())
    assert isinstance(privacy.mechanism, BestOfRuns)
    run = privacy.mechanism.run
    assert run.score == calibrate_gaussian(epsilon=0.2, delta=1e-6).mechanism
    bound = SelectionRenyiBound(run, runs=Poisson.with_more_than(10, probability=0.9), orders=range(2, 257))
    assert bound.delta(2.0) <= 1e-6
    assert privacy.delta == pytest.approx(bound.delta(2.0))
    assert search.best_estimator_.privacy_ == privacy
    assert any("number of runs is secret" in text for text in privacy.assumptions)
    assert any("adds noise to the number of training records" in text for text in privacy.assumptions)


def test_profile_accounting_needs_less_noise(data):
    def noise(accountant):
        search = HonestSelection(DPGDClassifier(steps=5), runs=FEW, accountant=accountant, random_state=0)
        return search.fit(*data, validation=data).privacy_

    renyi, profile = noise("renyi"), noise("profile")
    assert profile.bound == "SelectionProfileBound"
    assert profile.mechanism.run.mechanism.noise_std < renyi.mechanism.run.mechanism.noise_std
    assert profile.mechanism.run.score is None
    proof = SelectionProfileBound(CompositionBound(profile.mechanism.run), runs=FEW)
    assert proof.delta(1.0) == pytest.approx(profile.delta)
    assert profile.delta <= 1e-5


def test_user_defined_accountant(data):
    def half(run, *, runs):
        return SelectionRenyiBound(ScoredRun(mechanism=run, uses=2), runs=runs)

    setting = {"runs": FEW, "random_state": 0}
    once, twice = (
        HonestSelection(DPGDClassifier(steps=5), accountant=accountant, **setting).fit(*data).privacy_.mechanism
        for accountant in ("renyi", half)
    )
    assert twice.run.mechanism.noise_std > once.run.mechanism.noise_std


def test_several_classes_are_uses_in_every_run():
    X, y = load_iris(return_X_y=True)
    search = HonestSelection(DPSGDClassifier(batch_size=50, epochs=1), runs=FEW, random_state=0).fit(X, y)
    run = search.privacy_.mechanism.run
    assert (run.uses, search.privacy_.uses) == (3, 1)
    assert SelectionRenyiBound(run, runs=FEW, orders=range(2, 257)).delta(1.0) <= 1e-5
    np.testing.assert_array_equal(search.classes_, [0, 1, 2])
    assert search.predict_proba(X).shape == (150, 3)


def test_runs_are_drawn_and_candidates_are_uniform(recorder):
    X, y = make_blobs(20, random_state=0, centers=2)
    runs, counts = Poisson(mean=30.0), []
    for seed in range(8):
        before = len(Recorder.fits)
        HonestSelection(recorder, candidates=RATES, runs=runs, random_state=seed).fit(X, y)
        counts.append(len(Recorder.fits) - before)
    assert len(set(counts)) > 5
    assert abs(sum(counts) - 240) < 5 * np.sqrt(240)
    drawn = [sum(rate == candidate for rate, _ in Recorder.fits) for candidate in RATES["learning_rate"]]
    assert stats.chisquare(drawn).pvalue > 1e-3
    assert len({tuple(coef.ravel()) for _, coef in Recorder.fits}) == len(Recorder.fits)  # noise of its own in each


def test_the_best_by_validation_is_released_and_nothing_of_the_others(recorder, data):
    X, y = data
    search = HonestSelection(recorder, candidates=RATES, runs=Poisson(mean=10.0), random_state=0)
    search.fit(X, y, validation=(X, y))
    assert len(Recorder.fits) > 3
    scores = [np.mean((X @ coef[0, :-1] + coef[0, -1] > 0) == y) for _, coef in Recorder.fits]
    rate, coef = Recorder.fits[int(np.argmax(scores))]
    assert search.best_score_ == max(scores) > min(scores)
    assert search.best_params_ == {"learning_rate": rate}
    np.testing.assert_array_equal(
        np.hstack([search.best_estimator_.coef_[0], search.best_estimator_.intercept_]), coef[0]
    )
    fitted = {name for name in vars(search) if name.endswith("_")}
    assert fitted == {"best_estimator_", "best_params_", "best_score_", "privacy_"}  # in particular not K


def test_the_released_estimator_holds_no_generator(data):
    search = HonestSelection(DPGDClassifier(steps=2, random_state=7), runs=FEW, random_state=0).fit(*data)
    assert search.best_estimator_.random_state is None
    assert search.best_estimator_.accountant == "exact"
    assert search.estimator.random_state == 7
    copied = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(copied.predict(data[0]), search.predict(data[0]))


def test_training_scores_are_noisy_counts(data):
    X, y = data
    scores = []
    for seed in range(80):
        search = HonestSelection(
            DPGDClassifier(steps=1), runs=OneRun(mean=2.0), score_noise_std=25.0, random_state=seed
        ).fit(X, y)
        assert search.privacy_.mechanism.run.score == Gaussian(noise_std=25.0)
        scores.append((search.best_score_ - np.sum(search.predict(X) == y)) / 25.0)
    assert stats.kstest(scores, "norm").pvalue > 1e-3


COLUMNS = [lambda y: y[:, None], lambda y: pd.DataFrame({"y": y}), lambda y: y.astype(object)[:, None].tolist()]


@pytest.mark.filterwarnings("always::sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("validate", [False, True])
def test_a_column_of_labels_counts_each_record_once(data, column, validate):
    X, y = data
    searches = []
    for labels in (y, column(y)):
        search = HonestSelection(DPGDClassifier(steps=1), runs=FixedRuns(mean=2.0), random_state=0)
        with warnings.catch_warnings(record=True) as told:
            searches.append(search.fit(X, labels, validation=(X, y) if validate else None))
        assert len(told) == (labels is not y)  # not once in each run: their number is secret
    assert searches[0].best_score_ == searches[1].best_score_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.filterwarnings("ignore::explorer.learning.privacy.PrivacyWarning")
@pytest.mark.parametrize("column", COLUMNS)
def test_dishonest_scores_of_a_column(data, column):
    X, y = data
    searches = [
        DishonestSelection(DPGDClassifier(steps=1), candidates=RATES, random_state=0).fit(X, labels)
        for labels in (y, column(y))
    ]
    assert searches[0].scores_ == searches[1].scores_


def test_labels_are_compared_as_in_the_fit(data):
    X, y = data
    scores = []
    for zero, one in ((0, 1), (2**53, 2**53 + 1)):
        labels = pd.Series(np.where(y == 1, one, zero)).astype("Int64")
        search = HonestSelection(DPGDClassifier(steps=1), runs=FEW, score_noise_std=25.0, random_state=0)
        search.fit(X, labels)
        scores.append(search.best_score_)
        assert abs(search.best_score_ - np.count_nonzero(search.predict(X) == labels.to_numpy())) < 6 * 25
    assert scores[0] == scores[1]


def test_no_run_no_release(data):
    search = HonestSelection(DPGDClassifier(steps=1), runs=Poisson(mean=1e-9), random_state=0)
    with pytest.raises(NoReleaseError, match=r"nothing is released: K = 0 runs .* does not depend on the data"):
        search.fit(*data)
    assert not [name for name in vars(search) if name.endswith("_")]


def test_a_run_that_overflows_ranks_last(data):
    estimator, regs = DPGDClassifier(steps=5), {"l2_reg": [1e200, 1.0]}
    search = HonestSelection(estimator, candidates=regs, runs=Poisson(mean=20.0), random_state=0).fit(*data)
    assert search.best_params_ == {"l2_reg": 1.0}
    with pytest.raises(FloatingPointError, match="theta overflowed"):
        search.set_params(candidates={"l2_reg": [1e200]}).fit(*data)


def test_algorithm_1_may_be_selected_among_draws(data):
    """f covers the difference between the noise of one Gaussian for (epsilon, delta) and that of many runs."""
    search = HonestSelection(AMPClassifier(f=2.0), epsilon=4.0, runs=FEW, random_state=0).fit(*data)
    run = search.privacy_.mechanism.run
    assert SelectionRenyiBound(run, runs=FEW, orders=range(2, 257)).delta(4.0) <= 1e-5
    assert run.mechanism.l2_reg > AMPClassifier(f=2.0, epsilon=4.0).plan(*data).mechanism.l2_reg


def test_regression_is_selected_by_public_records():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.7, 0.7, size=(3000, 2))
    y = X @ [0.7, -0.4]
    search = HonestSelection(DPSGDRegressor(epochs=5), candidates=RATES, epsilon=2.0, random_state=0)
    search.fit(X, y, validation=(X, y))
    assert search.score(X, y) == search.best_score_ > 0.5
    with pytest.raises(ValueError, match="validation must be given for a regressor"):
        search.fit(X, y)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a finite number > 0: got epsilon=0"),
        ({"delta": 0}, r"delta must be inside \(0, 1\): got delta=0"),
        ({"accountant": "hope"}, "accountant must be one of .*'profile', 'renyi'.*: got accountant='hope'"),
        ({"candidates": []}, r"candidates must name at least one: got candidates=\[\]"),
        ({"candidates": {"epsilon": [1, 2]}}, r"candidates must leave .* to the selection: got \['epsilon'\]"),
        ({"candidates": {"epochs": [1, 2]}}, "candidates must share one mechanism: got .* with {'epochs': 2}"),
        ({"score_noise_std": -1}, "score_noise_std must be a finite number > 0: got score_noise_std=-1"),
    ],
)
def test_bad_parameters(data, bad, message):
    with pytest.raises(ValueError, match=message):
        HonestSelection(DPSGDClassifier(), **bad).fit(*data)


def test_a_learner_without_privacy_is_refused(data):
    with pytest.raises(TypeError, match="estimator must be a private learner of this package: got estimator=Logistic"):
        HonestSelection(LogisticRegression()).fit(*data)


def test_dishonest_selection_fits_all_and_states_what_is_not_covered(recorder, data):
    X, y = data
    search = DishonestSelection(recorder, candidates=RATES, random_state=0)
    with pytest.warns(PrivacyWarning, match=r"among 3 candidates by its score on validation .* does not cover it"):
        search.fit(X, y, validation=(X, y))
    assert [rate for rate, _ in Recorder.fits] == RATES["learning_rate"]
    scores = [np.mean((X @ coef[0, :-1] + coef[0, -1] > 0) == y) for _, coef in Recorder.fits]
    assert search.scores_ == scores
    assert search.best_score_ == max(scores) == search.score(X, y)
    assert search.best_params_["learning_rate"] == RATES["learning_rate"][int(np.argmax(scores))]
    assert search.privacy_.epsilon == 1.0
    assert search.privacy_.mechanism == recorder.plan(X, y).mechanism  # nothing is paid
    assert len(search.privacy_.leaked) == 1
    assert "NOT covered: the fit was chosen among 3" in str(search.privacy_)


@pytest.mark.filterwarnings("ignore::explorer.learning.privacy.PrivacyWarning")
def test_dishonest_selection_skips_fits_that_overflow(data):
    search = DishonestSelection(DPGDClassifier(steps=5), candidates={"l2_reg": [1e200, 1.0]}, random_state=0).fit(*data)
    assert search.best_params_ == {"l2_reg": 1.0}
    assert search.scores_[0] == -np.inf
    with pytest.raises(FloatingPointError, match="theta overflowed"):
        search.set_params(candidates={"l2_reg": [1e200]}).fit(*data)
