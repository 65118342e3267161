"""Many draws of Algorithm 1 as the Fit page makes them, and their baselines."""

import gc
import pickle
import warnings
import weakref

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from explorer import datasets
from explorer.accounting import InfeasibleTarget
from explorer.learning import AMPClassifier
from explorer.pages.fit.computation import (
    ROW_NORM,
    clipping_margin,
    decision_line,
    loss_curves,
    run_fit,
    steepest_slope,
)
from explorer.pages.fit.state import FitState
from explorer.uploads import read_csv
from explorer.vocabulary import DATASETS

CSV = "\n".join(["height,weight,kind", *(f"{i % 17},{i % 5},{'ab'[i % 17 > 8]}" for i in range(200))]).encode()


def result_of(**parameters):
    return run_fit(**FitState(**parameters).arguments())


def test_every_dataset_can_be_chosen():
    assert set(DATASETS) == set(datasets.DATASETS)


def test_demo_data_has_unit_rows_and_two_classes():
    data = datasets.breast_cancer()
    assert (data.X_train.shape, data.X_test.shape) == ((455, 30), (114, 30))
    for X in (data.X_train, data.X_test):
        np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, rtol=1e-12)
    assert set(data.y_train) == set(data.y_test) == {0, 1}
    assert "standardised" in data.unaccounted


def test_every_draw_is_what_the_library_gives_for_its_noise():
    result = result_of(draws=3, epsilon=2.0, accountant="refined", f=2.0, output_noise_std=0.3, clip_norm=0.5, seed=4)
    data, rng = datasets.breast_cancer(), np.random.default_rng(4)
    learner = {"epsilon": 2.0, "accountant": "refined", "f": 2.0, "output_noise_std": 0.3, "clip_norm": 0.5}
    models = [AMPClassifier(**learner, random_state=rng).fit(data.X_train, data.y_train) for _ in range(3)]
    assert result.draws["accuracy"].tolist() == [model.score(data.X_test, data.y_test) for model in models]
    assert result.draws["gradient_norm"].tolist() == [model.privacy_.gradient_norm for model in models]
    assert result.draws["gradient_evaluations"].tolist() == [model.n_gradient_evaluations_ for model in models]
    assert result.draws.index.tolist() == [1, 2, 3]
    assert result.plan == models[0].plan(data.X_train, data.y_train)
    assert result.plan.mechanism.lipschitz == 0.5 * (1 + 2**-30)
    bound = result.draws.loc[1, "gradient_norm"]  # at the last iterate, with what rounding may add
    assert bound * (1 - 1e-6) < result.trace["gradient_norm"].iloc[-1] < bound
    np.testing.assert_array_equal(result.band, np.quantile(result.draws["accuracy"], [0.05, 0.5, 0.95]))


def test_more_draws_go_on_where_fewer_stopped_and_the_given_regularisation_is_used():
    few, many = (result_of(draws=n, l2_reg=30.0) for n in (2, 4))
    assert many.draws.iloc[:2].equals(few.draws)
    assert few.plan.mechanism.l2_reg == 30.0
    assert few.plan.mechanism.noise_std < result_of(draws=1).plan.mechanism.noise_std


def test_what_it_is_compared_with():
    result, data = result_of(draws=1), datasets.breast_cancer()
    plain = LogisticRegression(max_iter=1000).fit(data.X_train, data.y_train)
    assert result.non_private_accuracy == plain.score(data.X_test, data.y_test)
    assert result.majority_accuracy == np.mean(data.y_test == 1)
    assert (result.data, result.plane) == ("Breast cancer", None)
    assert "standardised" in result.unaccounted


def test_reports_lead_to_the_result(monkeypatch):
    monkeypatch.setattr("explorer.pages.fit.computation.REPORT_SECONDS", -1.0)  # every report is due
    seen = []
    result = run_fit(**FitState(draws=3).arguments(), report=seen.append)
    assert pickle.loads(pickle.dumps(result)).draws.equals(result.draws)
    done = [len(each.draws) for each in seen]
    assert (done[0], done[-1]) == (0, 3)
    assert done == sorted(done)
    lengths = [len(each.trace) for each in seen if len(each.draws) == 0]
    assert lengths == list(range(len(result.trace) + 1))
    assert seen[-1].draws.equals(result.draws)


def test_refusal_releases_nothing():
    result = result_of(gradient_tol=1e-16, draws=2)  # below what floating point can verify
    assert result.released.size == 0
    assert np.isnan(result.band).all()
    assert all("nothing is released" in text for text in result.draws["refusal"])
    assert (result.draws["gradient_norm"] > 1e-16).all()


def test_ten_classes_need_more_noise_and_are_told_how_much():
    state = FitState(dataset="digits", draws=1, accountant="hockey_stick")
    with pytest.raises(InfeasibleTarget) as refusal:
        run_fit(**state.arguments())
    name, least, value = state.remedy(refusal.value)
    assert name == "f" and state.f < least < value < 1.06 * least
    state.f = value
    assert run_fit(**state.arguments()).released.size == 1
    assert state.remedy(ValueError("of another kind")) is None
    assert state.remedy(InfeasibleTarget("f beyond its bounds", {"f": 1e6})) is None


def test_ten_classes():
    result = result_of(dataset="digits", epsilon=16.0, f=3.0, draws=1)
    assert result.plan.uses == 10
    assert result.released.size == 1
    assert result.majority_accuracy < result.released[0] < result.non_private_accuracy
    with pytest.raises(ValueError, match="two features are drawn for two classes: Digits has 10"):
        result_of(dataset="digits", two_features=True, draws=1)


def test_two_features():
    state = FitState(two_features=True, first_feature=3, second_feature=28, draws=4, epsilon=0.5, seed=2)
    result = run_fit(**state.arguments())
    plane, data = result.plane, datasets.two_columns(datasets.breast_cancer(), (2, 27))
    names = datasets.column_names("breast_cancer")
    assert plane.names == (names[2], names[27])
    np.testing.assert_array_equal(plane.points[["x1", "x2"]], data.X_train[: len(plane.points)])
    np.testing.assert_array_equal(plane.points["class"], data.y_train[: len(plane.points)])
    for accuracy, *theta in result.draws[["accuracy", "theta_1", "theta_2", "intercept"]].to_numpy():
        assert accuracy == np.mean((data.X_test @ theta[:2] + theta[2] > 0) == data.y_test)
    mechanism = result.plan.mechanism
    design, signs = np.column_stack([data.X_train, np.ones(len(data.y_train))]), 2 * data.y_train - 1

    def gradient(theta):
        slopes = -signs / (1 + np.exp(signs * (design @ theta)))
        return design.T @ slopes + mechanism.l2_reg * theta

    assert np.linalg.norm(gradient(plane.without_b)) < 1e-5
    tilted = result.plane.contours.query("objective == 'with b'")
    centre = tilted[tilted["level"] == tilted["level"].min()][["theta_1", "theta_2"]].iloc[:-1].mean().to_numpy()
    released = result.draws.loc[1, ["theta_1", "theta_2", "intercept"]].to_numpy(float)
    assert np.abs(released[:2] - centre).max() < 5 * mechanism.output_noise_std
    assert (np.sort(plane.contours.query("objective == 'without b'")["level"].unique()) > 0).all()


def test_levels_pass_through_what_b_makes_of_the_minimum():
    """For a quadratic objective the tilted minimum lies on the outermost level line; here nearly, for b is small."""
    result = result_of(dataset="two_clouds", epsilon=20.0, draws=1, output_noise_std=0.001, gradient_tol=1e-6, f=2.0)
    levels, plane = result.plane.contours, result.plane
    outer = levels[(levels["objective"] == "without b") & (levels["level"] == levels["level"].max())]
    shift = result.draws.loc[1, ["theta_1", "theta_2"]].to_numpy(float) - plane.without_b[:2]
    points = outer[["theta_1", "theta_2"]].to_numpy() - plane.without_b[:2]
    along = points @ shift / np.linalg.norm(shift)
    assert np.linalg.norm(shift) <= 1.05 * along.max()  # inside or on it: the intercept takes its part of the level
    assert shift @ plane.b[:2] < 0
    assert np.linalg.norm(shift) < np.linalg.norm(plane.b) / result.plan.mechanism.l2_reg


@given(theta=st.lists(st.floats(-50, 50), min_size=3, max_size=3))
def test_decision_line(theta):
    ends = decision_line(theta)
    if theta[0] == theta[1] == 0:
        assert np.isnan(ends).all()
        return
    length = np.hypot(theta[0], theta[1])
    if length < 1e-100:
        return
    scale = abs(theta[2]) + length * np.abs(ends).max()
    np.testing.assert_allclose(ends @ theta[:2] + theta[2], 0, atol=1e-9 * scale)
    assert np.linalg.norm(ends[1] - ends[0]) == pytest.approx(6, rel=1e-6) or np.abs(ends).max() > 1e6


@pytest.mark.parametrize("clip_norm", [0.0, 0.2, 1.0, 1.4, 5.0])
def test_clipped_loss_has_the_slope_that_clipping_allows(clip_norm):
    table = FitState(clip_norm=clip_norm).tables()["fit_loss"]
    clip_norm = clip_norm or None
    pd.testing.assert_frame_equal(table, loss_curves(clip_norm=clip_norm))
    slopes = np.diff(table["clipped loss"]) / np.diff(table["margin"])
    bound = 1 if clip_norm is None else min(clip_norm / ROW_NORM, 1)
    assert steepest_slope(clip_norm) == bound
    assert slopes.min() >= -bound - 1e-12
    np.testing.assert_allclose(table["loss"], np.log1p(np.exp(-table["margin"])), rtol=1e-12)
    margin = clipping_margin(clip_norm)
    right = table["margin"] >= margin
    np.testing.assert_allclose(table["clipped loss"][right], table["loss"][right], rtol=1e-12)
    assert (table["clipped loss"] <= table["loss"] + 1e-12).all()
    if bound < 1:
        assert 1 / (1 + np.exp(margin)) == pytest.approx(bound)
        assert slopes[table["margin"][1:] <= margin] == pytest.approx(-bound)
    else:
        assert margin == -np.inf


def test_an_upload_is_learned_from_and_forgotten():
    state = FitState(upload=read_csv(CSV, name="people.csv"), class_column="kind", draws=2, epsilon=8.0)
    result = run_fit(**state.arguments())
    assert (result.data, result.plane.names) == ("people.csv", ("height", "weight"))
    assert result.released.min() > result.majority_accuracy
    assert result.unaccounted == ""
    assert {"upload", "class_column"} <= set(state.inputs())
    assert state.to_query().keys() == {"draws", "epsilon"}
    assert "people" not in str(state.to_query())
    state.dataset = "two_clouds"
    assert (state.upload, state.class_column) == (None, None)


def test_a_result_is_of_its_upload_and_class_column():
    table = read_csv(CSV)
    state = FitState(upload=table, draws=1, epsilon=8.0)
    state.result = result = run_fit(**state.arguments())
    state.param.update(first_feature=2, second_feature=1)  # not used: the file has two features
    assert state.result is result
    state.class_column = "weight"
    assert state.result is None
    state.class_column = None
    state.result = result
    state.upload = read_csv(CSV, name="other.csv")
    assert state.result is None
    state.result = result
    state.upload = None
    assert state.result is None


def test_no_upload_is_kept_by_the_result_of_it():
    state = FitState(upload=read_csv(CSV), draws=1, epsilon=8.0)
    state.result = run_fit(**state.arguments())
    kept = weakref.ref(state.upload)
    state.remove_upload()
    gc.collect()
    assert kept() is None


def test_an_upload_that_cannot_be_learned_from():
    state = FitState(upload=read_csv(CSV), class_column="height")
    with pytest.raises(ValueError, match="different values: 'height' has 17"):
        run_fit(**state.arguments())


def test_refusals_are_told_before_a_run(monkeypatch, tmp_path):
    monkeypatch.setenv("EXPLORER_DATA_HOME", str(tmp_path))
    state = FitState(dataset="adult")
    assert state.refusal().startswith("Adult is not on this machine")
    with pytest.raises(ValueError, match="Adult is not on this machine"):
        run_fit(**state.arguments())
    state.upload = read_csv(CSV)
    assert state.refusal() == ""  # the upload takes Adult's place
    state.param.update(dataset="breast_cancer", two_features=True, first_feature=31)
    assert state.refusal() == "Choose two different features: these data have 30."
    state.second_feature = 31
    assert "two different features" in state.refusal()
    state.param.update(first_feature=1, second_feature=30)
    assert state.refusal() == ""
    assert state.features() == (0, 29)
    state.dataset = "two_clouds"  # all it has are two
    assert (state.refusal(), state.features()) == ("", None)


def test_nothing_is_fetched(monkeypatch):
    monkeypatch.delenv("EXPLORER_DATA_HOME", raising=False)
    monkeypatch.setattr("explorer.datasets.fetch_openml", lambda **_: pytest.fail("asked the network"))
    for name in datasets.DATASETS:
        if name not in datasets.BUILT_IN:
            with pytest.raises(ValueError, match="EXPLORER_DATA_HOME"):
                run_fit(**FitState(dataset=name).arguments())


def corner(bounds, soft):
    low, high = bounds if soft is None else soft
    return st.sampled_from([low, high])


@settings(max_examples=12)
@given(data=st.data())
def test_every_corner_of_the_sliders_fits_or_says_why(data):
    names = ("epsilon", "delta", "gradient_tol", "output_noise_std", "f", "l2_reg", "clip_norm")
    parameters = {n: data.draw(corner(FitState.param[n].bounds, FitState.param[n].softbounds), label=n) for n in names}
    accountant = data.draw(st.sampled_from(["hockey_stick", "renyi", "refined", "kifer"]))
    state = FitState(**parameters, accountant=accountant, draws=1, dataset="two_clouds")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            result = run_fit(**state.arguments())
        except ValueError as error:
            assert str(error)
            return
    assert result.released.size == (result.draws["refusal"] == "").sum()
    assert np.isfinite(result.plane.contours[["theta_1", "theta_2"]]).all(axis=None)
