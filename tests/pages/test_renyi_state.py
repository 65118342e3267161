"""The Rényi page's numbers, without a page: the accountants', presets, a forbidden combination, DP-SGD."""

import asyncio

import numpy as np
import pytest

from explorer.accounting import ExactBound, RefinedBound, RenyiBound, poisson_subsampled_gaussian_rdp
from explorer.accounting.bounds.renyi import linearised_rdp
from explorer.pages.renyi.computation import DP_SGD, NAMES, NORMAL, POINTS, UPPER_BOUNDS, linearised_end
from explorer.pages.renyi.state import PRESETS, RenyiState
from explorer.pages.renyi.view import RenyiView
from tests.interface.words import said

NUMBERS = [name for name in RenyiState.shared() if name not in ("monotone_loss", "show_dp_sgd")]


def test_curves_are_the_accountants():
    state = RenyiState(noise_std=3.0, l2_reg=8.0, smoothness=0.5, lipschitz=2.0, steps=7, alpha_max=50.0)
    table = state.curves()
    assert list(table) == ["alpha", *NAMES]
    assert len(table) == POINTS
    alpha = table["alpha"].to_numpy()
    assert (alpha[0], alpha[-1]) == (1, 50)
    s, kappa = 2 / 3, 0.5 / 8
    np.testing.assert_allclose(table["Normal"], alpha * s**2 / 2, rtol=1e-14)
    gap = table["Objective perturbation"] - table["Half-normal"]
    np.testing.assert_allclose(gap, -np.log(1 - kappa), rtol=1e-9)
    np.testing.assert_array_equal(table["Refined"], RefinedBound(state.mechanism).rdp(alpha))
    np.testing.assert_array_equal(
        table["Linearised"], linearised_rdp(alpha, sensitivity_ratio=s, curvature_ratio=kappa)
    )
    assert linearised_end(state.mechanism) == 9
    np.testing.assert_array_equal(np.isinf(table["Linearised"]), alpha >= 9)
    step = poisson_subsampled_gaussian_rdp(alpha, noise_multiplier=1.0, sampling_rate=0.1)
    np.testing.assert_array_equal(table[DP_SGD], 7 * step)


@pytest.mark.parametrize("name", PRESETS)
def test_preset_sets_every_parameter_of_its_caption(name):
    state = RenyiState(noise_std=2.0, l2_reg=3.0, smoothness=0.3, lipschitz=0.7, monotone_loss=False, alpha_max=33.0)
    state.apply_preset(name)
    for parameter, value in PRESETS[name].items():
        assert getattr(state, parameter) == value
    assert (state.lipschitz, state.smoothness) == (1, 0.25)
    curves = state.curves()
    assert np.isfinite(curves[list(state.names)].drop(columns="Linearised")).all(axis=None)
    bounds = curves[list(UPPER_BOUNDS)]
    assert (bounds.ge(curves[NORMAL] * (1 - 1e-12), axis=0)).all(axis=None)
    if state.show_dp_sgd:
        assert state.steps * state.sampling_rate**2 == pytest.approx(1)
        assert state.noise_multiplier == pytest.approx(state.sampling_rate * state.noise_std)
        assert 1 < state.steepest().order < state.alpha_max  # the panel shows where it grows fastest


def test_summary_reads_the_curves():
    state = RenyiState(alpha=17.0)
    summary = state.summary()
    assert list(summary.index) == list(NAMES)
    assert summary.loc["Objective perturbation", "epsilon"] == RenyiBound(state.mechanism).rdp(17.0)
    assert summary.loc[DP_SGD, "epsilon"] == RenyiBound(state.dp_sgd).rdp(17.0)
    assert summary.loc[NORMAL, "ratio"] == 1
    assert DP_SGD not in RenyiState(show_dp_sgd=False).summary().index


def test_the_exact_curves_are_the_mechanisms_and_lie_between_normal_and_bounds():
    state = RenyiState(l2_reg=1.0)
    curves, bound = state.curves(), ExactBound(state.mechanism)
    np.testing.assert_array_equal(curves["Exact, removing"], bound.rdp_remove(curves["alpha"]))
    np.testing.assert_array_equal(curves["Exact, adding"], bound.rdp_add(curves["alpha"]))
    exact = curves[["Exact, removing", "Exact, adding"]].max(axis=1)
    assert (exact >= curves[NORMAL] * (1 - 1e-12)).all()
    assert (curves[list(UPPER_BOUNDS)].min(axis=1) >= exact * (1 - 1e-9)).all()


def test_the_conversion_loses_what_its_readout_tells():
    state = RenyiState(delta=1e-6)
    conversion, bound = state.conversion(), ExactBound(state.mechanism)
    assert conversion.exact == bound.epsilon(1e-6)
    alpha = np.geomspace(1.5, 1e4, 2000)  # by hand: the conversion of Canonne, Kamath and Steinke at each order
    rest = (np.log(1e-6) + np.log(alpha)) / (alpha - 1)
    by_hand = np.min(bound.rdp(alpha) + np.log1p(-1 / alpha) - rest)
    assert conversion.converted == pytest.approx(by_hand, rel=1e-4)
    more = 100 * (conversion.converted / conversion.exact - 1)
    view = RenyiView(state)
    assert f"{more:.3g} % more than the mechanism’s own" in said(view.readouts)
    state.delta = 1e-3
    assert f"{more:.3g} %" not in said(view.readouts)


def test_forbidden_combination_hides_two_bounds_and_says_why():
    state = RenyiState(l2_reg=0.25, smoothness=0.25)
    summary, curves = state.summary(), state.curves()
    for name in ("Objective perturbation", "Linearised"):
        assert "l2_reg must exceed smoothness" in summary.loc[name, "refusal"]
        assert np.isnan(summary.loc[name, "epsilon"])
        assert curves[name].isna().all()
    for name in (NORMAL, "Half-normal", "Refined", DP_SGD):
        assert summary.loc[name, "refusal"] == ""
        assert np.isfinite(curves[name]).all()
    view = RenyiView(state)
    assert [name for name, line in view.lines.items() if not line.visible] == ["Objective perturbation", "Linearised"]
    assert "Hidden: Objective perturbation, Linearised, because λ must exceed β" in view.notes.object


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("side", [0, 1])
def test_every_corner_of_the_sliders_has_numbers(name, side):
    state = RenyiState(**{name: RenyiState.param[name].bounds[side]})
    known, _ = state.divergences()
    curves, summary = state.curves()[list(known)], state.summary().loc[list(known)]
    assert (curves > 0).all(axis=None)
    assert (summary["epsilon"] > 0).all()
    finite = [curve for curve in known if curve != "Linearised"]
    assert np.isfinite(curves[finite]).all(axis=None)
    steepest = state.steepest()
    assert np.isnan(steepest.order) if state.sampling_rate == 1 else steepest.growth > 1
    view = RenyiView(state)
    assert 0 < view.plot.y_range.start < view.plot.y_range.end < np.inf


@pytest.mark.parametrize("name", NUMBERS)
def test_values_outside_the_sliders_are_refused(name):
    for bad in (0, -1, 1e9, "five"):
        with pytest.raises(ValueError, match=name):
            RenyiState(**{name: bad})


def test_the_point_marked_lies_on_the_curve_where_it_is_steepest():
    state = RenyiState(noise_multiplier=2.0, sampling_rate=0.05, steps=10)
    steepest, log_alpha = state.steepest(), np.linspace(0, np.log(200), 4001)
    slope = np.diff(np.log(RenyiBound(state.dp_sgd).rdp(np.exp(log_alpha)))) / np.diff(log_alpha)
    assert steepest.growth == pytest.approx(slope.max(), rel=1e-4)
    assert np.log(steepest.order) == pytest.approx(log_alpha[slope.argmax()], abs=0.01)
    assert steepest.epsilon == RenyiBound(state.dp_sgd).rdp(steepest.order)
    view = RenyiView(state)
    assert view.steepest_source.data == {"alpha": [steepest.order], "epsilon": [steepest.epsilon]}
    state.sampling_rate = 1.0
    assert view.steepest_source.data["alpha"] == []
    assert not view.steepest_mark.visible
    assert "nothing is sampled" in said(view.readouts)


def test_dp_sgd_is_never_drawn_beside_other_parameters():
    """On a page its curve comes from a thread: until it is there nothing is drawn, and what is overtaken never is."""
    view = RenyiView()

    async def move():
        before = np.array(view.source.data[DP_SGD])
        view.state.noise_std = 20.0
        np.testing.assert_array_equal(view.source.data[DP_SGD], before)  # it does not depend on that
        for steps in (200, 100, 300):  # there and back: the known curve was forgotten
            view.state.steps = steps
            assert np.isnan(view.source.data[DP_SGD]).all()
            assert view.steepest_source.data["alpha"] == []
        await asyncio.sleep(0)
        view.state.alpha = 20.0
        for _ in range(200):
            if np.isfinite(view.source.data[DP_SGD]).all():
                break
            await asyncio.sleep(0.05)
        np.testing.assert_array_equal(view.source.data[DP_SGD], view.state.curves()[DP_SGD])

    asyncio.run(move())
    assert view.state.steps == 300
    assert "DP-SGD grows fastest at α = 5.83" in said(view.readouts)
