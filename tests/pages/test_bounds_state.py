"""The Bounds page's numbers, without a page: tables, presets, and curves that a theorem forbids."""

import contextlib
import io

import numpy as np
import pandas as pd
import pytest

from explorer.accounting import HockeyStickBound, KiferBound, ProfileBound, RenyiBound
from explorer.pages.bounds.computation import BOUNDS, LOWER_BOUND, POINTS
from explorer.pages.bounds.state import PRESETS, BoundsState
from explorer.pages.bounds.view import BoundsView
from explorer.vocabulary import Style
from tests.interface.words import said


def test_curves_are_the_accountants():
    state = BoundsState(noise_std=7.0, l2_reg=12.0, smoothness=0.5, lipschitz=2.0, epsilon_max=3.0)
    table = state.curves()
    assert list(table) == ["epsilon", *BOUNDS]
    assert len(table) == POINTS
    assert (table["epsilon"].iloc[0], table["epsilon"].iloc[-1]) == (0, 3)
    expected = HockeyStickBound(state.mechanism).log_delta(table["epsilon"]) / np.log(10)
    np.testing.assert_array_equal(table["Hockey-stick"], expected)
    assert np.isfinite(table).all(axis=None)


@pytest.mark.parametrize("name", PRESETS)
def test_preset_sets_every_parameter_of_its_caption(name):
    state = BoundsState(noise_std=1.0, l2_reg=3.0, smoothness=0.3, lipschitz=0.7)
    state.apply_preset(name)
    assert set(PRESETS[name]) == {"noise_std", "l2_reg", "smoothness", "lipschitz", "monotone_loss"}
    for parameter, value in PRESETS[name].items():
        assert getattr(state, parameter) == value
    assert state.epsilon_max > state.summary()["epsilon"].max()  # every curve crosses delta inside the axis


def test_preset_redraws_once():
    state, calls = BoundsState(), []
    state.param.watch(lambda *events: calls.append(events), ["noise_std", "l2_reg", "epsilon_max"])
    state.apply_preset("Figure 1, right")
    assert len(calls) == 1


def test_summary_reads_the_curves():
    state = BoundsState()
    summary = state.summary()
    assert list(summary.index) == list(BOUNDS)
    assert summary.loc[LOWER_BOUND, "ratio"] == pytest.approx(1, rel=1e-9)
    assert (summary["ratio"] >= 1).all()
    upper = summary.drop(index=LOWER_BOUND)
    np.testing.assert_allclose(upper["excess"], 1 - summary.loc["Exact", "epsilon"] / upper["epsilon"], rtol=1e-12)
    assert (upper["excess"] >= 0).all() and upper.loc["Exact", "excess"] == 0
    assert summary.loc["RDP", "epsilon"] == RenyiBound(state.mechanism).epsilon(state.delta)
    at_epsilon = HockeyStickBound(state.mechanism).delta(state.epsilon)
    assert 10 ** summary.loc["Hockey-stick", "log10_delta"] == pytest.approx(at_epsilon)


def test_forbidden_combination_hides_the_curve_and_says_why():
    state = BoundsState(l2_reg=0.5, smoothness=1.0)
    summary, curves = state.summary(), state.curves()
    for name in ("RDP", "Hockey-stick"):
        assert "l2_reg must exceed smoothness" in summary.loc[name, "refusal"]
        assert np.isnan(summary.loc[name, "epsilon"])
        assert curves[name].isna().all()
    for name in ("Kifer et al. 2012", LOWER_BOUND):
        assert summary.loc[name, "refusal"] == ""
        assert curves[name].notna().all()


@pytest.mark.parametrize("noise_std", [0.7, 5.0, 60.0])
def test_bounds_are_read_on_their_safe_side(noise_std):
    """Where epsilon at delta comes from a grid: never too small for an upper bound, nor too large for a lower one."""
    state = BoundsState(noise_std=noise_std, l2_reg=5.0)
    state.fit_axis()
    applicable, _ = state.applicable()
    summary = state.summary()
    for name, bound in applicable.items():
        exact, shown = float(bound.epsilon(state.delta)), summary.loc[name, "epsilon"]
        assert shown == pytest.approx(exact, abs=1e-5 * state.epsilon_max)
        assert (shown >= exact * (1 - 1e-9)) if name != LOWER_BOUND else (shown <= exact * (1 + 1e-9))


def test_split_adds_up_to_the_papers_epsilon():
    state = BoundsState(noise_std=10.0, l2_reg=5.0, smoothness=2.0)
    split = pd.DataFrame.from_dict(state.split(), orient="index")
    summary = state.summary(["RDP", "Hockey-stick"])
    np.testing.assert_allclose(split.sum(axis=1), summary["epsilon"], rtol=1e-12)
    np.testing.assert_allclose(split["jacobian"], -np.log(1 - 2 / 5))
    np.testing.assert_allclose(split["shift"], 1 / 200)
    assert (split["noise"] > 0).all()
    assert BoundsState(l2_reg=0.5).split() == {}


@pytest.mark.parametrize("corner", ["low", "high"])
def test_every_corner_of_the_sliders_has_numbers(corner):
    side = {"low": 0, "high": 1}[corner]
    for name in ("noise_std", "l2_reg", "smoothness", "lipschitz", "epsilon", "delta", "epsilon_max"):
        state = BoundsState(**{name: BoundsState.param[name].bounds[side]})
        applicable, _ = state.applicable()
        assert np.isfinite(state.curves()[list(applicable)]).all(axis=None), name
        summary = state.summary().loc[list(applicable)]
        assert np.isfinite(summary[["epsilon", "log10_delta"]]).all(axis=None), name
        state.fit_axis()


@pytest.mark.parametrize("name", ["noise_std", "delta"])
def test_values_outside_the_sliders_are_refused(name):
    for bad in (0, -1, 1e9, "five"):
        with pytest.raises(ValueError, match=name):
            BoundsState(**{name: bad})


class BestOfTwo(ProfileBound):
    """At every epsilon the better of two bounds."""

    def __init__(self, mechanism):
        self.parts = KiferBound(mechanism), HockeyStickBound(mechanism)

    def log_delta(self, epsilon):
        return np.minimum(*(part.log_delta(epsilon) for part in self.parts))


def test_a_users_own_bound_is_shown_beside_the_others():
    state = BoundsState(bounds={**BOUNDS, "Best of two": BestOfTwo}, l2_reg=1.2)
    curves, summary = state.curves(), state.summary()
    pair = curves[["Kifer et al. 2012", "Hockey-stick"]].min(axis=1)
    np.testing.assert_array_equal(curves["Best of two"], pair)
    assert summary.loc["Best of two", "epsilon"] <= summary.loc["Hockey-stick", "epsilon"] * (1 + 1e-11)
    with pytest.raises(ValueError, match="Best of two"):
        BoundsView(state)
    view = BoundsView(state, styles={"Best of two": Style("#123456", "2 2")})
    assert view.lines["Best of two"].visible
    assert view.lines["Best of two"].glyph.line_color == "#123456"
    assert "Best of two" in said(view.readouts)


def test_the_script_has_a_users_own_bound_where_a_module_has_it():
    bounds = {"Best of two": BestOfTwo, "Hockey-stick": HockeyStickBound, "Nameless": lambda m: KiferBound(m)}
    state, scope = BoundsState(bounds={**bounds, LOWER_BOUND: BOUNDS[LOWER_BOUND]}, l2_reg=1.2), {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(state.script(), scope)
    assert scope["BestOfTwo"] is BestOfTwo
    names = ["Best of two", "Hockey-stick", LOWER_BOUND]
    pd.testing.assert_frame_equal(scope["curves"], state.curves(names))
    pd.testing.assert_frame_equal(scope["summary"], state.summary(names))
    assert "# 'Nameless': left out" in state.script()
