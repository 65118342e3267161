"""The Spectrum page: equal privacy for all, noise of the stated law, paths of the learners themselves, refusals."""

from itertools import pairwise
from math import ceil

import numpy as np
import pytest

from explorer.accounting import (
    AMPBound,
    ExactBound,
    GaussianLowerBound,
    RenyiBound,
    TreeAggregation,
    calibrate_gaussian,
)
from explorer.learning import tree_noise_covariance
from explorer.learning.learners.dp_ftrl import prefix_variance
from explorer.learning.learners.dp_sgd import ORDERS
from explorer.pages.spectrum.computation import (
    ALGORITHM_1,
    DP_FTRL,
    DP_SGD,
    LEARNERS,
    WINDOW,
    compare_learners,
    excess,
    landscape,
    minimum,
    plane,
    specifications,
    summarise,
    window,
)
from explorer.pages.spectrum.state import SpectrumState
from explorer.pages.spectrum.view import SpectrumView
from tests.interface.words import said

SMALL = {"steps": 8, "sampled": False}


def fit_all(state):
    """The fits of a state and the reasons of those refused."""
    comparison = compare_learners(**state.arguments())
    return comparison.fits, comparison.refusals


@pytest.fixture(scope="module")
def fits():
    """Of a small state that is not changed."""
    fits, refused = fit_all(SpectrumState(**SMALL))
    assert refused == {}
    return fits


def test_all_three_guarantee_what_was_asked_by_their_accountants():
    state = SpectrumState(steps=16, epsilon=0.7, delta=1e-6)
    fits, _ = fit_all(state)
    mechanisms = {name: fit.privacy.mechanism for name, fit in fits.items()}
    bounds = {
        DP_SGD: RenyiBound(mechanisms[DP_SGD], orders=ORDERS),
        DP_FTRL: GaussianLowerBound(mechanisms[DP_FTRL].gaussian),
        ALGORITHM_1: AMPBound(mechanisms[ALGORITHM_1], bound=ExactBound),
    }
    assert (mechanisms[DP_SGD].steps, mechanisms[DP_FTRL].steps) == (16, 16)
    for name in LEARNERS:
        assert fits[name].privacy.epsilon == 0.7
        assert 0.99e-6 < bounds[name].delta(0.7) <= 1e-6  # none more private than the others


def test_noise_of_the_sum_is_the_mechanisms(fits):
    """With all records at each step, the noise of T fresh draws adds up to that of a single release, for any T."""
    once = calibrate_gaussian(epsilon=1.0, delta=1e-5, sensitivity=1.0).value
    tree = calibrate_gaussian(epsilon=1.0, delta=1e-5, sensitivity=2.0).value  # 8 leaves, each in 4 nodes
    table = summarise(fits, {})
    assert table.loc[DP_SGD, "final_std"] == pytest.approx(once, rel=1e-6)
    assert table.loc[DP_SGD, "step_std"] == pytest.approx(once / np.sqrt(8), rel=1e-6)
    assert table.loc[DP_FTRL, "final_std"] == pytest.approx(tree * np.sqrt(prefix_variance(8)), rel=1e-9)
    assert table.loc[ALGORITHM_1, "final_std"] == pytest.approx(
        fits[ALGORITHM_1].privacy.mechanism.noise_std, rel=1e-12
    )
    assert once < table.loc[ALGORITHM_1, "final_std"] < 1.3 * once
    assert table["draws"].tolist() == [8, 15, 2]
    assert table["successive_correlation"].tolist() == pytest.approx([0, -0.39, 1], abs=0.05)
    assert (table["epsilon"] == 1.0).all()


def test_covariances_are_fresh_the_trees_and_constant(fits):
    shapes = {DP_SGD: np.eye(8), DP_FTRL: tree_noise_covariance(8), ALGORITHM_1: np.ones((8, 8))}
    for name, shape in shapes.items():
        covariance = fits[name].covariance
        np.testing.assert_allclose(covariance / covariance[0, 0], shape / shape[0, 0], atol=1e-12)
        ends = fits[name].prefix_covariance
        assert ends[-1, -1] == pytest.approx(covariance.sum())
        assert ends[2, 4] == pytest.approx(covariance[:3, :5].sum())


def test_noise_shown_is_what_moved_the_paths(fits):
    """A step's noise is what it did less what the gradient asked for, counted 1/8; b is the slope left at the end."""
    X, y = plane()
    state, signs, n = SpectrumState(**SMALL), 2 * y - 1, len(y)

    def gradient(theta):
        return X.T @ (-signs / (1 + np.exp(signs * (X @ theta))))

    path = fits[DP_SGD].path
    moved = [-(after - before) * n / state.learning_rate for before, after in pairwise(path)]
    noise = np.array(moved) - [gradient(theta) for theta in path[:-1]]
    np.testing.assert_allclose(fits[DP_SGD].noise, noise[:, 0] / 8, atol=1e-4)  # gradients are of six digits
    least = fits[ALGORITHM_1].path[-2]
    left = -(gradient(least) + state.l2_reg * least)
    np.testing.assert_allclose(fits[ALGORITHM_1].noise, np.full(8, left[0] / 8), atol=1e-4)
    first = fits[DP_FTRL].path[1]  # of one batch, whose gradient's mean is an eighth of all records'
    batch = -first * n / (8 * state.learning_rate) - [fits[DP_FTRL].noise[0], 0]
    assert abs(batch[0] - gradient(np.zeros(2))[0] / 8) < 5 * np.sqrt(n / 8) / 4


def test_paths_are_the_learners_own(fits):
    state = SpectrumState(**SMALL)
    for name, (kind, parameters) in specifications(**state.arguments()).items():
        path = fits[name].path
        np.testing.assert_array_equal(path[0], [0, 0])
        np.testing.assert_array_equal(path[-1], kind(**parameters).fit(*plane()).coef_[0])
    assert [len(fits[name].path) for name in (DP_SGD, DP_FTRL)] == [9, 9]
    assert 0 < np.linalg.norm(fits[ALGORITHM_1].path[-1] - fits[ALGORITHM_1].path[-2]) < 0.06  # the output noise


def test_the_records_allow_every_number_of_steps_in_one_pass():
    """A sample of n / T records in expectation, for which the learner's ceil(n / batch_size) has to be T."""
    n = len(plane()[1])
    low, high = SpectrumState.param.steps.bounds
    assert all(ceil(n / (n / steps)) == steps for steps in range(low, high + 1))


def test_loss_over_the_plane():
    X, y = plane()
    theta = np.array([1.0, -2.0])
    signs = 2 * y - 1
    plain = np.log1p(np.exp(-signs * (X @ theta))).mean() - np.log1p(np.exp(-signs * (X @ minimum()))).mean()
    assert excess(theta) == pytest.approx(plain, rel=1e-9)
    slope = X.T @ (signs / (1 + np.exp(signs * (X @ minimum()))))
    assert np.linalg.norm(slope) < 1e-8
    first, second, values = landscape(WINDOW)
    assert values[3, 20] == pytest.approx(excess([first[20], second[3]]))
    assert (values >= 0).all()


def test_window_holds_the_paths_up_to_its_limit(fits):
    assert window({}) == WINDOW
    (left, right), (low, high) = window(fits)
    for fit in fits.values():
        assert (fit.path >= [left, low]).all()
        assert (fit.path <= [right, high]).all()
    wild, _ = fit_all(SpectrumState(epsilon=0.1, learning_rate=8.0, steps=16, seed=1))
    assert np.abs(window(wild)).max() == 15


def test_what_is_shown_is_relative_or_absolute(fits):
    state = SpectrumState(**SMALL)
    for prefix in (False, True):
        state.prefix_sums, fit = prefix, fits[DP_FTRL]
        state.absolute = False
        np.testing.assert_allclose(np.diag(fit.shown_matrix(**state.shown())), 1)
        shown, std = fit.shown_noise(**state.shown())
        assert (std == 1).all()
        state.absolute = True
        noise, std = fit.shown_noise(**state.shown())
        np.testing.assert_allclose(noise, fit.noise.cumsum() if prefix else fit.noise)
        np.testing.assert_allclose(shown, noise / std)
        np.testing.assert_allclose(np.diag(fit.shown_matrix(**state.shown())), std**2)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"l2_reg": 0.01}, "l2_reg must exceed 0.0746"),
        ({"l2_reg": 0.3, "epsilon": 0.1}, "l2_reg must exceed 0.61"),
    ],
)
def test_a_lambda_too_small_refuses_algorithm_1_alone(parameters, reason):
    state = SpectrumState(**SMALL, **parameters)
    fits, refused = fit_all(state)
    assert set(refused) == {ALGORITHM_1}
    assert reason in refused[ALGORITHM_1]
    table = summarise(fits, refused)
    assert np.isnan(table.loc[ALGORITHM_1, "final_std"])
    assert table.loc[ALGORITHM_1, "refusal"] == refused[ALGORITHM_1]
    assert set(state.tables()["spectrum_noise"]["learner"]) == {DP_SGD, DP_FTRL}


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("name", ["steps", "epsilon", "delta", "learning_rate", "l2_reg", "seed"])
@pytest.mark.parametrize("sampled", [True, False])
def test_every_corner_of_the_sliders_has_numbers(name, side, sampled):
    state = SpectrumState(sampled=sampled, **{name: SpectrumState.param[name].bounds[side]})
    fits, refused = fit_all(state)
    assert {DP_SGD, DP_FTRL} <= set(fits)
    assert set(fits) | set(refused) == set(LEARNERS)
    table = summarise(fits, refused).loc[list(fits)].drop(columns=["bound", "refusal"])
    assert np.isfinite(table.astype(float)).all(axis=None)
    assert (table["excess"] >= 0).all()
    assert all(np.isfinite(fit.path).all() for fit in fits.values())


def test_presets_set_what_they_name():
    for name, values in SpectrumState.presets.items():
        state = SpectrumState(steps=3, epsilon=2.0, delta=1e-3)
        state.apply_preset(name)
        assert {key: getattr(state, key) for key in values} == values


def test_tables_are_tidy_and_of_the_same_fits():
    state = SpectrumState(**SMALL)
    noise, covariance, paths, readouts = state.tables().values()
    assert len(noise) == 3 * 8
    assert len(covariance) == 3 * 64
    last = noise.groupby("learner").last()
    ends = covariance[(covariance["step"] == 8) & (covariance["other_step"] == 8)].set_index("learner")
    finals = readouts.set_index("learner")["final_std"]
    for name in LEARNERS:
        assert last.loc[name, "prefix_std"] == pytest.approx(finals[name])
        assert ends.loc[name, "prefix_covariance"] == pytest.approx(finals[name] ** 2)
    assert (paths.groupby("learner").first()[["theta_1", "theta_2"]] == 0).all(axis=None)


def test_view_draws_the_fits_and_hides_what_is_refused():
    view = SpectrumView(SpectrumState(**SMALL))  # without an event loop everything is there at once
    state = view.state
    fits, _ = fit_all(state)
    for absolute in (False, True):
        state.absolute = absolute
        assert view.maps.data["learner"] == list(LEARNERS)
        for name, value in zip(LEARNERS, view.maps.data["value"], strict=True):
            np.testing.assert_allclose(value, fits[name].shown_matrix(**state.shown()), rtol=1e-5, atol=1e-7)
            np.testing.assert_allclose(view.noise.data[name], fits[name].shown_noise(**state.shown())[0], rtol=1e-12)
            path = np.column_stack([view.paths[name].data["theta_1"], view.paths[name].data[name]])
            np.testing.assert_array_equal(path, fits[name].path)
    assert "<b>one draw</b> for all steps" in said(view.readouts)
    assert "NOT covered" not in view.statements.object
    assert "TreeAggregation" in view.statements.object
    state.l2_reg = 0.01
    assert view.maps.data["learner"] == [DP_SGD, DP_FTRL]
    assert np.isnan(view.noise.data[ALGORITHM_1]).all()
    assert len(view.paths[ALGORITHM_1].data["theta_1"]) == 0
    assert "Hidden: Algorithm 1, because λ must exceed" in view.notes.object
    assert "cannot guarantee this ε and δ here" in said(view.readouts)


def test_switches_redraw_without_new_fits(monkeypatch):
    view = SpectrumView(SpectrumState(**SMALL))

    def none(**arguments):
        raise AssertionError("a switch asked for new fits")

    monkeypatch.setattr("explorer.pages.spectrum.view.compare_learners", none)
    view.state.param.update(prefix_sums=True, absolute=True)
    assert view.plot.title.text == "Covariance of the noise in the sums up to steps s and t"
    mechanism = view.state.comparison.fits[DP_FTRL].privacy.mechanism
    assert isinstance(mechanism, TreeAggregation)
    assert view.maps.data["value"][1][0, 0] == pytest.approx(mechanism.noise_std**2, rel=1e-6)


def test_tables_and_view_share_the_fits_until_a_parameter_moves():
    view = SpectrumView(SpectrumState(**SMALL))
    state = view.state
    first = state.comparison
    state.param.update(prefix_sums=True, absolute=True)
    assert state.comparison is first
    assert state.tables()["spectrum_readouts"]["final_std"].tolist() == first.readouts["final_std"].tolist()
    state.epsilon = 2.0
    assert state.comparison is not first
    assert (state.comparison.readouts["epsilon"] == 2.0).all()
    assert (state.tables()["spectrum_readouts"]["epsilon"] == 2.0).all()
