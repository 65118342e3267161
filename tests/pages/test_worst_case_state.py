"""The Worst case page's numbers, without a page: the loss drawn is the one that leaks what the bounds tell."""

import numpy as np
import pytest

from explorer.accounting import ExactBound, GaussianLowerBound, RefinedBound
from explorer.pages.worst_case.computation import (
    ADD,
    DIRECTIONS,
    EXACT,
    GAUSSIAN,
    HOCKEY_STICK,
    LINEAR,
    NAMES,
    NO_RECORD,
    REFINED,
    WORST,
)
from explorer.pages.worst_case.state import WorstCaseState
from explorer.pages.worst_case.view import WorstCaseView
from tests.interface.words import said

SLIDERS = ("noise_std", "l2_reg", "smoothness", "lipschitz", "epsilon", "delta")


def preset(name):
    state = WorstCaseState()
    state.apply_preset(name)
    return state


@pytest.mark.parametrize("name", WorstCaseState.presets)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_area_drawn_is_the_delta_of_the_bound(name, direction):
    state = preset(name)
    state.direction = direction
    excess = state.curves()["excess"]
    bounds = {WORST: ExactBound(state.mechanism), LINEAR: GaussianLowerBound(state.mechanism)}
    for drawn, bound in bounds.items():
        profile = getattr(bound, f"log_delta_{direction}", bound.log_delta)
        area = np.trapezoid(excess[drawn], excess["b"])
        assert area == pytest.approx(np.exp(profile(state.epsilon)), rel=0.03)


@pytest.mark.parametrize("name", WorstCaseState.presets)
def test_the_densities_of_the_table_leak_the_delta_of_the_bound(name):
    """From the downloaded table: (p - e^epsilon q)_+ by the trapezoidal rule."""
    state = preset(name)
    noise = state.tables()["worst_case_noise"]
    p, q = (np.exp(noise[column]) for column in (f"log density with, {WORST}", "log density without"))
    p, q = (q, p) if state.direction == ADD else (p, q)
    delta = np.trapezoid(np.maximum(p - np.exp(state.epsilon) * q, 0), noise["b"])
    assert delta == pytest.approx(10 ** state.summary().loc[EXACT, "log10_delta"], rel=0.03)
    moved = noise[f"T(b), {WORST}"]
    assert (np.diff(moved) >= 0).all()  # values of b one rounding apart may meet
    assert (np.diff(moved) <= (1 + state.mechanism.curvature_ratio) * np.diff(noise["b"]) * (1 + 1e-6) + 1e-12).all()


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_readouts_are_the_accountants(direction):
    state = WorstCaseState(direction=direction, delta=1e-6)
    summary = state.summary()
    assert tuple(summary.index) == NAMES
    for name, bound in {REFINED: RefinedBound, EXACT: ExactBound}.items():
        profile = getattr(bound(state.mechanism), f"log_delta_{direction}")
        row = summary.loc[name]
        assert row["log10_delta"] == pytest.approx(profile(state.epsilon) / np.log(10), rel=1e-12)
        past, before = profile(row["epsilon"] + 1e-3), profile(row["epsilon"] - 1e-3)
        assert past < np.log(state.delta) < before
        assert profile(row["epsilon"]) <= np.log(state.delta)
    assert summary.loc[GAUSSIAN, "epsilon"] == GaussianLowerBound(state.mechanism).epsilon(1e-6)
    for column in ("log10_delta", "epsilon"):
        assert (np.diff(summary[column]) <= 1e-9).all()  # from the loosest bound down to the Gaussian
    assert summary.loc[EXACT, "log10_ratio"] == 0


def test_hubers_loss_and_a_straight_one():
    state = preset("Huber’s loss")
    pieces = state.pieces()
    assert pieces["curvature"].tolist() == [0, 1, 0]
    assert pieces["slope from"].tolist() == [-1, -1, 1]
    assert (pieces["from"].iloc[1], pieces["to"].iloc[1]) == (-1, 1)
    loss = state.curves()["loss"]
    theta = loss["theta"]
    np.testing.assert_allclose(loss[WORST], np.where(np.abs(theta) <= 1, theta**2 / 2, np.abs(theta) - 0.5), atol=1e-12)
    np.testing.assert_allclose(loss[LINEAR], -theta, atol=1e-12)
    assert (loss[NO_RECORD] == 0).all()
    state.monotone_loss = True
    assert state.pieces()["curvature"].eq(0).all()
    view = WorstCaseView(state)
    assert "It is linear" in said(view.readouts)
    assert "no loss leaks more." in said(view.readouts)


def test_the_view_draws_the_state_and_shades_what_counts():
    view = WorstCaseView(WorstCaseState(direction=ADD))
    state = view.state
    state.l2_reg = 3.0
    curves = state.curves()
    for key, source in view.sources.items():
        for name in source.data:
            np.testing.assert_array_equal(source.data[name], curves[key][name])
    shade = view.shades["map"].data
    foot = view.figures["map"].y_range.start
    np.testing.assert_array_equal(shade[WORST] > foot, state.bends())
    beyond = view.shades["privacy loss"].data
    assert ((beyond[WORST] > state.epsilon) == (curves["privacy loss"][WORST] > state.epsilon)).all()


def test_forbidden_combination_says_why_and_keeps_the_others():
    view = WorstCaseView(preset("λ below β"))
    assert "λ must exceed β" in view.notes.object
    assert view.notes.visible
    assert "does not apply here" in said(view.readouts)
    summary = view.state.summary()
    assert np.isnan(summary.loc[HOCKEY_STICK, "log10_delta"])
    assert np.isfinite(summary.loc[[REFINED, EXACT, GAUSSIAN], ["log10_delta", "epsilon"]]).all(axis=None)
    view.state.l2_reg = 2.0
    assert not view.notes.visible


@pytest.mark.parametrize("name", WorstCaseState.presets)
def test_preset_sets_every_parameter(name):
    state = WorstCaseState(noise_std=1.0, l2_reg=3.0, epsilon=7.0, delta=0.1, monotone_loss=True)
    state.apply_preset(name)
    assert {key: getattr(state, key) for key in state.shared()} == WorstCaseState.presets[name]


@pytest.fixture(scope="module")
def moved():
    return WorstCaseView()


@pytest.mark.parametrize("corner", [0, 1])
@pytest.mark.parametrize("name", SLIDERS)
def test_every_corner_of_the_sliders_has_numbers(moved, name, corner):
    moved.state.from_query({})
    moved.state.param.update(**{name: WorstCaseState.param[name].bounds[corner]})
    for direction in DIRECTIONS:
        moved.state.direction = direction
        for source in moved.sources.values():
            assert all(np.isfinite(column).all() for column in source.data.values())
        assert "nan" not in moved.readouts.object
        assert all(plot.y_range.start < plot.y_range.end for plot in moved.plots)
