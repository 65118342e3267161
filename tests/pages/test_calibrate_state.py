"""The Calibrate page's numbers, without a page: frontiers, noise limits, least risk, what a click picks."""

from functools import partial

import numpy as np
import pytest

from explorer.accounting import (
    ApproximateMinimaPerturbation,
    amp_accountant,
    calibrate_amp,
    calibrate_gaussian,
)
from explorer.learning import AMPClassifier, best_private_parameters
from explorer.pages.calibrate import computation
from explorer.pages.calibrate.computation import CHUNKS, F_RANGE, LABELS, LEAST, PARTS, POINT, compute_part
from explorer.pages.calibrate.state import CalibrateState
from explorer.pages.calibrate.view import CalibrateView
from explorer.pages.fit.state import FitState
from explorer.pages.state import BOUND_KEYS
from tests.interface.words import said

QUICK = ["Hockey-stick", "Refined"]
SLIDERS = [
    name
    for name in CalibrateState.shared()
    if name not in ("accountant", "monotone_loss", "n_records", "dimension", "optimum_norm", "f")
]


@pytest.fixture(scope="module", autouse=True)
def few_points():
    """A frontier of 24 points takes a tenth of a second and more; nine tell as much."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(computation, "POINTS", {"few": (2, 3, 2), "many": (3, 5, 4)})
        yield


def achieved_delta(state, name, noise_std, l2_reg):
    fixed = {key: getattr(state, key) for key in ("lipschitz", "smoothness", "gradient_tol", "output_noise_std")}
    mechanism = ApproximateMinimaPerturbation(
        noise_std=noise_std, l2_reg=l2_reg, monotone_loss=state.monotone_loss, **fixed
    )
    return float(amp_accountant(BOUND_KEYS[name])(mechanism).delta(state.epsilon))


@pytest.mark.parametrize("name", [*QUICK, "RDP"])
def test_every_point_is_private_and_hardly_less_would_do(name):
    state = CalibrateState(epsilon=2.0, delta=1e-6, lipschitz=1.0, smoothness=0.25)
    curve = state.curve(name)
    assert (np.diff(curve["noise_std"]) > 0).all()
    assert (np.diff(curve["l2_reg"]) < 0).all()
    for noise, l2_reg in curve[["noise_std", "l2_reg"]].iloc[3::3].to_numpy():
        assert (
            achieved_delta(state, name, noise, l2_reg) <= 1e-6 < achieved_delta(state, name, noise, l2_reg * (1 - 1e-3))
        )
    risk = state.settings.risk(curve["noise_std"], curve["l2_reg"])
    np.testing.assert_allclose(curve["risk"], risk.total)


def test_the_chosen_point_is_the_papers_rule():
    state = CalibrateState(f=1.4)
    summary = state.summary(state.parts(QUICK))
    fixed = {key: getattr(state, key) for key in ("lipschitz", "smoothness", "gradient_tol", "output_noise_std")}
    for name in QUICK:
        target = {"epsilon": 1.0, "delta": 1e-5, "f": 1.4, "monotone_loss": True, "bound": BOUND_KEYS[name]}
        assert summary.loc[name, "l2_reg"] == pytest.approx(calibrate_amp(**target, **fixed).value, rel=1e-8)


def test_no_frontier_is_below_the_gaussian_limit_and_each_says_which_f_it_needs():
    state = CalibrateState(f=1.0)
    assert state.gaussian == calibrate_gaussian(epsilon=1.0, delta=1e-5, sensitivity=np.sqrt(2)).value
    names = [*QUICK, "RDP"]
    parts = {state.question(name, part): state.part(name, part) for name in names for part in (POINT, 0)}
    summary = state.summary(parts)
    for name in names:
        least = summary.loc[name, "least_f"]
        assert least >= 1 - 1e-9
        assert np.isnan(summary.loc[name, "l2_reg"])
        assert f"f must exceed {least:.6g}: got f=1.0" in summary.loc[name, "refusal"]
        beyond, short = (CalibrateState(f=least * x).part(name, POINT).l2_reg for x in (1.001, 0.999))
        assert np.isfinite(beyond)
        assert short == np.inf
    assert summary.loc["Refined", "least_f"] == pytest.approx(1, abs=1e-9)  # of a monotone loss
    assert summary.loc["RDP", "least_f"] > summary.loc["Hockey-stick", "least_f"] > 1


@pytest.mark.parametrize("problem", [{}, {"n_records": 100_000, "dimension": 2000, "optimum_norm": 0.5}])
def test_least_risk_is_what_the_search_over_all_private_parameters_finds(problem):
    state = CalibrateState(accountant="hockey_stick", output_noise_std=0.01, gradient_tol=1e-4, **problem)
    fixed = {key: getattr(state, key) for key in ("lipschitz", "smoothness", "gradient_tol", "output_noise_std")}
    expected = best_private_parameters(
        amp_accountant("hockey_stick"),
        partial(ApproximateMinimaPerturbation, monotone_loss=True, **fixed),
        epsilon=1.0,
        delta=1e-5,
        **{key: getattr(state, key) for key in ("n_records", "dimension", "optimum_norm")},
    )
    least = state.part("Hockey-stick", LEAST)
    assert least.risk.total == pytest.approx(expected.risk.total, rel=1e-3)
    assert least.risk.total == state.curve("Hockey-stick")["risk"].min()  # the curve goes through its star
    state.go_to_least()
    assert 0 <= state.f * state.gaussian / least.noise_std - 1 <= 1e-3
    assert state.f == float(f"{state.f:.4g}")  # as its field shows it


def test_a_click_chooses_the_nearest_frontier_there():
    state = CalibrateState()
    curves = {name: state.curve(name) for name in QUICK}
    for name in QUICK[::-1]:
        for row in (4, 7, 10):
            point = curves[name].iloc[row]
            for column in ("l2_reg", "risk"):
                state.pick(column, point["noise_std"] * 1.0001, point[column] * 1.001, curves)
                assert state.chosen == name
                assert state.f == pytest.approx(point["f"], rel=2e-3)
    between = np.sqrt(curves["Refined"][["noise_std", "l2_reg"]].iloc[4:6].prod().to_numpy())
    state.pick("l2_reg", *between, curves)
    assert curves["Refined"]["f"].iloc[4] < state.f < curves["Refined"]["f"].iloc[5]
    before = state.to_query()
    state.pick("l2_reg", -1.0, 3.0, curves)
    assert state.to_query() == before
    state.pick("l2_reg", 1e9, 1e-9, curves)
    assert state.f == pytest.approx(F_RANGE[1])


def test_fit_takes_the_point_and_finds_the_same_noise():
    state = CalibrateState(epsilon=1.5, f=1.25, accountant="refined")
    values = state.fit_parameters()
    assert {"epsilon", "delta", "accountant", "gradient_tol", "output_noise_std", "clip_norm", "l2_reg"} == set(values)
    fit = FitState(**values)
    assert fit.to_query() == {
        name: str(value) for name, value in values.items() if value != FitState.param[name].default
    }
    X = np.random.default_rng(0).normal(size=(200, 30))
    y = np.where(X[:, 0] > 0, 1, -1)
    plan = AMPClassifier(**values, random_state=0).plan(X, y)
    assert plan.mechanism.lipschitz == pytest.approx(np.sqrt(2))
    assert plan.mechanism.l2_reg == values["l2_reg"]
    assert plan.mechanism.noise_std == pytest.approx(1.25 * state.gaussian, rel=1e-7)
    with pytest.raises(ValueError, match=r"f must exceed 1: got f=0\.9, at which no l2_reg"):
        CalibrateState(f=0.9).fit_parameters()


@pytest.mark.parametrize("name", CalibrateState.presets)
def test_preset_is_the_papers_rule_for_logistic_loss(name):
    state, calls = CalibrateState(f=5.0, lipschitz=3.0, smoothness=2.0, monotone_loss=False, gradient_tol=1.0), []
    state.param.watch(lambda *events: calls.append(events), ["epsilon", "f", "accountant"])
    state.apply_preset(name)
    assert len(calls) == 1
    assert all(getattr(state, key) == value for key, value in state.presets[name].items())
    model = AMPClassifier(state.epsilon, accountant="renyi", f=1.3, gradient_tol=0.01, output_noise_std=0.15)
    X = np.eye(10)
    mechanism = model.plan(X, np.where(np.arange(10) > 4, 1, -1)).mechanism
    for key in ("lipschitz", "smoothness", "gradient_tol", "output_noise_std", "monotone_loss"):
        assert getattr(state, key) == pytest.approx(getattr(mechanism, key), rel=1e-8)  # a reserve for rounding
    point = state.part("RDP", POINT)
    assert (point.noise_std, point.l2_reg) == pytest.approx((mechanism.noise_std, mechanism.l2_reg), rel=1e-8)


@pytest.mark.parametrize("corner", [0, 1])
@pytest.mark.parametrize("name", SLIDERS)
def test_every_corner_of_the_sliders_has_numbers(name, corner):
    state = CalibrateState(**{name: CalibrateState.param[name].bounds[corner]})
    parts = state.parts(QUICK)
    assert np.isfinite(state.curve("Refined", parts)).all(axis=None)
    assert np.isfinite(state.curve("Hockey-stick", parts)).all(axis=None)
    summary = state.summary(parts).drop(columns="refusal")
    assert np.isfinite(summary[["least_f", "best_noise_std", "best_l2_reg", "best_risk"]]).all(axis=None)


@pytest.fixture
def view(monkeypatch):
    monkeypatch.setattr("explorer.pages.calibrate.view.FASTEST_FIRST", tuple(BOUND_KEYS[name] for name in QUICK))
    monkeypatch.setattr(CalibrateState, "names", lambda self: QUICK)
    return CalibrateView(fit=lambda values: None)


def test_view_draws_its_state_and_keeps_what_still_holds(view, monkeypatch):
    state = view.state
    for name in QUICK:
        curve = state.curve(name)
        np.testing.assert_array_equal(view.frontiers.sources[name].data[name], curve["l2_reg"])
        np.testing.assert_array_equal(view.risks.sources[name].data[name], curve["risk"])
    assert not view.progress.visible
    asked = []

    def asking(target, part, given):
        asked.append(part)
        return compute_part(target, part, given)

    monkeypatch.setattr("explorer.pages.calibrate.view.compute_part", asking)
    state.f = 2.0
    assert set(asked) == {POINT}
    assert view.frontiers.chosen.location == pytest.approx(2 * state.gaussian)
    asked.clear()
    state.dimension = 5
    assert set(asked) == {LEAST}
    np.testing.assert_array_equal(view.risks.sources["Refined"].data["Refined"], state.curve("Refined")["risk"])
    asked.clear()
    state.accountant = "refined"
    assert asked == []
    state.epsilon = 2.0
    assert set(asked) == set(PARTS)
    assert len(asked) == len(QUICK) * (CHUNKS + 2)


def test_view_says_why_there_is_no_point_and_does_not_offer_to_fit(view):
    view.state.param.update(f=0.95, accountant="hockey_stick")
    assert "Needed: Hockey-stick f > 1.042" in view.notes.object
    assert "f must exceed 1.042" in said(view.readouts)
    assert view.fit_button.disabled
    assert len(view.points.data["name"]) == 0
    view.state.f = 1.3
    assert not view.fit_button.disabled
    assert not view.notes.visible
    assert list(view.points.data["name"]) == QUICK


def test_parts_are_kept_by_all_that_they_depend_on(view):
    """Each parameter changes the question of exactly the parts whose numbers it changes."""
    state = view.state
    frontier = {*state.shared()} - {"f", "accountant", "n_records", "dimension", "optimum_norm"}
    moves = {
        **{name: set(PARTS) for name in frontier},
        **{name: {LEAST} for name in ("n_records", "dimension", "optimum_norm")},
        "f": {POINT},
        "accountant": set(),
    }
    assert set(moves) == set(state.shared())
    for name, changed in moves.items():
        before = {part: state.question("Refined", part) for part in PARTS}
        value = getattr(state, name)
        other = "refined" if name == "accountant" else not value if isinstance(value, bool) else type(value)(value * 2)
        after = CalibrateState(**{name: other})
        assert {part for part in PARTS if after.question("Refined", part) != before[part]} == changed, name


def test_labels_are_those_of_the_shared_bounds():
    assert {label: key for key, label in LABELS.items()} == BOUND_KEYS
