"""The GLM bug page's numbers, without a page: curves over d, exact densities, and what they leak."""

import numpy as np
import pytest

from explorer.accounting import ExactBound, GaussianLowerBound, RefinedBound
from explorer.accounting.bounds.renyi import non_glm_rdp, objective_perturbation_rdp
from explorer.pages.glm.computation import DIMENSIONS, GLM, LOWEST, OTHER, RATIO, WITH, WITHOUT
from explorer.pages.glm.state import GLMState
from explorer.pages.glm.view import GLMView
from tests.interface.words import said

SLIDERS = ("noise_std", "l2_reg", "x", "y", "alpha", "epsilon")


def test_curves_are_the_accountants_and_only_the_other_grows():
    state = GLMState(noise_std=4.0, l2_reg=9.0, x=2.0, alpha=5.0)
    ratios = {"sensitivity_ratio": 0.5, "curvature_ratio": 4 / 9}
    curves = state.curves()
    assert (curves["d"].iloc[0], curves["d"].iloc[-1]) == (1, 10_000)
    assert set(curves[GLM]) == {objective_perturbation_rdp(5.0, **ratios)}
    assert curves[OTHER].iloc[-1] == non_glm_rdp(5.0, dimension=10_000, **ratios)
    assert (np.diff(curves[OTHER]) > 0).all()
    assert curves[OTHER].iloc[0] == pytest.approx(curves[GLM].iloc[0], rel=1e-12)  # in one dimension they agree
    assert (curves[LOWEST] < curves[GLM]).all()


@pytest.mark.parametrize("parameters", [{}, {"l2_reg": 1.1}, {"l2_reg": 0.05, "y": 3.0}, {"x": 10.0, "l2_reg": 0.1}])
def test_densities_have_mass_one_and_their_log_ratio(parameters):
    densities = GLMState(**parameters).densities()
    for name in (WITHOUT, WITH):
        assert np.trapezoid(densities[name], densities["theta"]) == pytest.approx(1, abs=2e-3)
    np.testing.assert_allclose(np.log(densities[WITH] / densities[WITHOUT]), densities[RATIO], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("l2_reg", [20.0, 1.1, 0.5])
def test_no_record_leaks_more_than_its_bounds(l2_reg):
    for y in (0.1, 1.0, 20.0):
        state = GLMState(noise_std=2.0, l2_reg=l2_reg, y=y, epsilon=0.5)
        leak = state.leak()
        assert 10 ** leak["log10_delta"] <= RefinedBound(state.mechanism).delta(0.5) * (1 + 1e-6)
        if not state.refusal():
            assert leak["log10_delta"] < leak["log10_bound"]


def test_a_record_that_bends_far_out_is_the_gaussian_mechanism():
    state = GLMState(noise_std=2.0, x=1.0, y=100.0, epsilon=0.5)
    assert 10 ** state.leak()["log10_delta"] == pytest.approx(GaussianLowerBound(state.mechanism).delta(0.5), rel=1e-4)
    assert ExactBound(state.mechanism).delta(0.5) >= GaussianLowerBound(state.mechanism).delta(0.5)


def test_a_log_ratio_within_epsilon_leaks_nothing():
    state = GLMState(noise_std=1000.0, l2_reg=10_000.0, epsilon=1.0)
    assert state.leak()["log10_delta"] == -np.inf
    assert "δ = 0" in said(GLMView(state).readouts)


def test_forbidden_combination_hides_both_analyses_and_says_why():
    view = GLMView(GLMState(l2_reg=0.5))
    assert view.state.curves()[[GLM, OTHER]].isna().all(axis=None)
    assert [view.lines[name].visible for name in (GLM, OTHER, LOWEST)] == [False, False, True]
    assert "λ must exceed β" in view.notes.object
    assert np.isfinite(view.densities.data[RATIO]).all()
    view.state.l2_reg = 2.0
    assert view.lines[OTHER].visible
    assert not view.notes.visible


@pytest.mark.parametrize("name", GLMState.presets)
def test_preset_sets_every_parameter(name):
    state = GLMState(noise_std=1.0, l2_reg=3.0, x=0.5, y=7.0)
    state.apply_preset(name)
    assert {key: getattr(state, key) for key in GLMState.presets[name]} == GLMState.presets[name]


@pytest.mark.parametrize("corner", [0, 1])
@pytest.mark.parametrize("name", SLIDERS)
def test_every_corner_of_the_sliders_has_numbers(name, corner):
    state = GLMState(**{name: GLMState.param[name].bounds[corner]})
    view = GLMView(state)
    assert np.isfinite(state.densities()).all(axis=None)
    assert np.isfinite(state.curves()[[LOWEST] if state.refusal() else [GLM, OTHER, LOWEST]]).all(axis=None)
    assert not np.isnan(state.leak()["log10_delta"])
    assert "nan" not in said(view.readouts)
    assert len(view.source.data["d"]) == len(DIMENSIONS)
