"""The Half-normal page's numbers, without a page: densities, tails, ratios and the start-up gap."""

import numpy as np
import pytest

from explorer.accounting import GaussianLowerBound, HockeyStickBound
from explorer.pages.bounds.state import PRESETS
from explorer.pages.half_normal.computation import GAP, HALF_NORMAL, NAMES, NORMAL, PERTURBATION, SHIFT
from explorer.pages.half_normal.state import HalfNormalState
from explorer.pages.half_normal.view import HalfNormalView
from tests.interface.words import said

SLIDERS = ("noise_std", "l2_reg", "smoothness", "lipschitz", "epsilon", "loss_max")


@pytest.mark.parametrize("noise_std", [400.0, 5.0, 0.4])
def test_drawn_densities_have_area_one_however_narrow(noise_std):
    curves = HalfNormalState(noise_std=noise_std, loss_max=30.0).curves()
    for name in NAMES:
        assert np.trapezoid(curves[name], curves["loss"]) == pytest.approx(1, abs=3e-3)


def test_half_normal_starts_at_the_gap_with_twice_the_normals_peak():
    state = HalfNormalState(noise_std=2.0, l2_reg=4.0, smoothness=2.0, loss_max=3.0)
    gap = np.log(2) + 1 / 8
    assert state.summary().loc[PERTURBATION, "start"] == pytest.approx(gap, rel=1e-14)
    curves = state.curves()
    density = curves[PERTURBATION].to_numpy()
    first = int(np.argmax(density > 0))
    assert curves["loss"].iloc[first] == pytest.approx(gap, rel=1e-14)
    assert curves["loss"].iloc[first - 1] == pytest.approx(gap, rel=1e-14)  # a vertical edge, not a slope
    assert density[first] == density.max() == pytest.approx(2 * curves[NORMAL].max(), rel=1e-3)
    state.logarithmic = True
    np.testing.assert_allclose(10 ** state.curves()[list(NAMES)], curves[list(NAMES)], atol=1e-300)
    assert state.density_range()[0] < np.log10(density[first]) < state.density_range()[1]


def test_readouts_are_the_accountants():
    state = HalfNormalState(noise_std=3.0, l2_reg=7.0, epsilon=1.2)
    summary = state.summary()
    delta = 10 ** summary["log10_delta"]
    assert delta[NORMAL] == pytest.approx(GaussianLowerBound(state.mechanism).delta(1.2), rel=1e-12)
    assert delta[PERTURBATION] == pytest.approx(HockeyStickBound(state.mechanism).delta(1.2), rel=1e-12)
    assert delta[HALF_NORMAL] == pytest.approx(2 * delta[NORMAL], rel=1e-12)  # epsilon is beyond s^2/2
    assert 10 ** summary.loc[PERTURBATION, "log10_ratio"] == pytest.approx(delta[PERTURBATION] / delta[NORMAL])
    assert (summary["log10_tail"] > summary["log10_delta"]).all()


def test_gap_closes_as_l2_reg_grows_and_meets_the_readout():
    state = HalfNormalState(noise_std=2.0, l2_reg=3.0, smoothness=0.5)
    gap = state.gap()
    assert (np.diff(gap[GAP]) < 0).all()
    assert (gap["l2_reg"] > 0.5).all()
    assert gap[GAP].iloc[0] > 10
    assert gap[GAP].iloc[-1] == pytest.approx(gap[SHIFT].iloc[-1], rel=1e-3)
    read = np.interp(np.log(3.0), np.log(gap["l2_reg"]), np.log(gap[GAP]))
    assert np.exp(read) == pytest.approx(state.summary().loc[PERTURBATION, "start"], rel=1e-3)


@pytest.mark.parametrize("name", HalfNormalState.presets)
def test_preset_sets_every_parameter_in_one_go_and_shows_all(name):
    state, calls = HalfNormalState(noise_std=1.0, l2_reg=3.0, smoothness=0.3, lipschitz=0.7), []
    state.param.watch(lambda *events: calls.append(events), ["noise_std", "l2_reg", "loss_max"])
    state.apply_preset(name)
    assert len(calls) == 1
    for parameter, value in HalfNormalState.presets[name].items():
        assert getattr(state, parameter) == value
        assert PRESETS.get(name, {}).get(parameter, value) == value
    curves = state.curves()
    assert np.trapezoid(curves[PERTURBATION], curves["loss"]) > 0.99
    assert curves["loss"].iloc[-1] > state.epsilon


def test_forbidden_combination_hides_that_curve_and_says_why():
    view = HalfNormalView(HalfNormalState(l2_reg=0.5))
    summary, curves = view.state.summary(), view.state.curves()
    assert "l2_reg must exceed smoothness" in summary.loc[PERTURBATION, "refusal"]
    assert curves[PERTURBATION].isna().all()
    assert curves[[NORMAL, HALF_NORMAL]].notna().all(axis=None)
    assert [line.visible for line in view.lines.values()] == [area.visible for area in view.areas.values()]
    assert not view.lines[PERTURBATION].visible
    assert "λ must exceed β" in view.notes.object
    assert "∞" in said(view.readouts)
    view.state.l2_reg = 5.0
    assert view.lines[PERTURBATION].visible
    assert not view.notes.visible


def test_shaded_tails_begin_at_epsilon_and_never_below_the_axis():
    view = HalfNormalView(HalfNormalState(logarithmic=True, epsilon=0.3))
    tail = view.tail.data
    assert tail["loss"][0] == 0.3
    for name in NAMES:
        assert (tail[name] >= tail["foot"]).all()


@pytest.mark.parametrize("corner", [0, 1])
@pytest.mark.parametrize("name", SLIDERS)
def test_every_corner_of_the_sliders_has_numbers(name, corner):
    state = HalfNormalState(**{name: HalfNormalState.param[name].bounds[corner]})
    known, _ = state.distributions()
    state.fit_axis()
    view = HalfNormalView(state)
    assert np.isfinite(state.curves()[list(known)]).all(axis=None)
    assert np.isfinite(state.summary().loc[list(known), ["log10_tail", "log10_delta", "log10_ratio"]]).all(axis=None)
    assert np.isfinite(state.gap()).all(axis=None)
    assert "nan" not in said(view.readouts)
