"""The Composition page's numbers, without a page: readings, presets, sampling, and what a theorem forbids."""

import numpy as np
import pytest

from explorer.accounting import (
    CompositionBound,
    ExactBound,
    Gaussian,
    GaussianLowerBound,
    HockeyStickBound,
    PoissonSubsampledGaussian,
    RefinedBound,
    RenyiBound,
    hockey_stick_plds,
    poisson_subsampled_plds,
    profile_plds,
)
from explorer.pages.composition import state as composition
from explorer.pages.composition.computation import ACCURACY, LABELS, LOWER, SHOWN, compose, read
from explorer.pages.composition.state import CompositionState
from explorer.pages.composition.view import CompositionView
from tests.interface.words import said

LOWER_BOUND = LABELS[LOWER]


@pytest.fixture(autouse=True)
def few_runs(monkeypatch):
    """A sweep takes seconds; three numbers of runs, and the chosen one, tell as much."""
    monkeypatch.setattr(composition, "RUNS", (1, 20, 1000))


def test_readings_are_the_accountants():
    state = CompositionState(uses=50, delta=1e-6, epsilon=3.0)
    reading = state.reading("Hockey-stick", 50)
    composed = CompositionBound(state.mechanism, uses=50, plds=hockey_stick_plds, accuracy=ACCURACY)
    assert (reading.epsilon_low, reading.epsilon) == composed.epsilon_interval(1e-6)
    log10_delta = np.array(composed.log_delta_interval(3.0)) / np.log(10)
    assert (reading.log10_delta_low, reading.log10_delta) == tuple(log10_delta)
    refined = CompositionBound(state.mechanism, uses=50, accuracy=ACCURACY)
    assert state.reading("Refined", 50)[:2] == refined.epsilon_interval(1e-6)
    tight = CompositionBound(
        state.mechanism, uses=50, plds=lambda one: profile_plds(one, bound=ExactBound), accuracy=ACCURACY
    )
    assert state.reading("Exact", 50)[:2] == tight.epsilon_interval(1e-6)
    assert state.reading("RDP", 50).epsilon == RenyiBound(state.mechanism, uses=50).epsilon(1e-6)
    lower = GaussianLowerBound(Gaussian(noise_std=8, sensitivity=np.sqrt(50)))
    assert state.reading(LOWER_BOUND, 50).epsilon_low == lower.epsilon(1e-6)


def test_readings_on_samples_are_the_accountants():
    state = CompositionState(uses=50, delta=1e-6, sampling_rate=0.2, monotone_loss=True)
    hockey_stick, refined = HockeyStickBound(state.mechanism), RefinedBound(state.mechanism)
    profiles = {
        "Hockey-stick": (hockey_stick.log_delta, hockey_stick.log_delta),
        "Refined": (refined.log_delta_add, refined.log_delta_remove),
    }
    for name, directed in profiles.items():
        plds = poisson_subsampled_plds(*directed, sampling_rate=0.2)
        composed = CompositionBound(state.mechanism, uses=50, plds=lambda _, plds=plds: plds, accuracy=ACCURACY)
        assert state.reading(name, 50)[:2] == composed.epsilon_interval(1e-6)
    with pytest.raises(ValueError, match=r"sampling_rate must be 1 .* 'renyi': got sampling_rate=0\.2"):
        read(state.question("RDP", 50))


def test_the_table_is_that_of_compose_for_every_bound():
    state = CompositionState(uses=3, exact=True, sampling_rate=0.5, l2_reg=2.0)
    arguments = state.arguments()
    assert arguments["bounds"] == [key for key in SHOWN if key not in ("renyi", "adaptive")]
    arguments["runs"] = [3]
    table = compose(**arguments).set_index("bound")
    assert list(table.index) == [name for name in state.names() if name not in ("RDP", "Exact, adaptive")]
    for name, row in table.drop(columns="runs").iterrows():
        assert tuple(row) == state.reading(name, 3)


def test_table_is_ordered_narrow_and_grows_with_the_runs():
    state = CompositionState(uses=7, delta=1e-10)
    table = state.tables()["composition"]
    assert state.runs() == (1, 7, 20, 1000)
    epsilon = table.pivot(index="runs", columns="bound", values="epsilon")
    assert list(epsilon.index) == list(state.runs())
    assert (epsilon[LOWER_BOUND] < epsilon["Refined"]).all()
    assert (epsilon["Refined"] < epsilon["Hockey-stick"]).all()
    assert (epsilon["Hockey-stick"] < epsilon["RDP"]).all()
    assert (epsilon.diff().iloc[1:] > 0).all(axis=None)
    width = (table["epsilon"] - table["epsilon_low"]) / table["epsilon"]
    assert (width >= 0).all()
    assert width.max() < 1e-3


def test_preset_sets_every_parameter_of_its_name():
    ((name, values),) = CompositionState.presets.items()
    state = CompositionState(noise_std=2.0, l2_reg=0.5, sampling_rate=0.2, uses=3, delta=1e-3)
    state.apply_preset(name)
    assert {k: getattr(state, k) for k in values} == values
    assert {"noise_std", "l2_reg", "smoothness", "lipschitz", "monotone_loss", "sampling_rate", "uses", "delta"} == set(
        values
    )


def test_the_exact_analysis_is_computed_on_demand_and_is_the_best():
    state = CompositionState(uses=3)
    assert not {"Exact", "Exact, adaptive"} & set(state.names())
    state.exact = True
    assert {"Exact", "Exact, adaptive"} < set(state.names())
    exact, truth = (state.reading(name, 3) for name in ("Exact", "Exact, adaptive"))
    assert state.reading(LOWER_BOUND, 3).epsilon < truth.epsilon_low < truth.epsilon < exact.epsilon_low
    assert truth.epsilon - truth.epsilon_low < 0.02 * truth.epsilon
    assert exact.epsilon < state.reading("Refined", 3).epsilon_low


def test_the_recursion_is_computed_for_few_runs():
    state = CompositionState(uses=65, exact=True)
    assert not state.applies("Exact, adaptive", 65) and state.applies("Exact, adaptive", 64)
    with pytest.raises(ValueError, match="runs must be at most 64 for the bound 'adaptive': got runs=65"):
        read(state.question("Exact, adaptive", 65))
    assert "computed up to 64 runs" in said(CompositionView(state).readouts)


@pytest.mark.parametrize("name", ["Hockey-stick", "Refined", LOWER_BOUND])
def test_a_sample_is_more_private_and_all_records_are_its_limit(name):
    whole, almost, sample = (CompositionState(sampling_rate=q).reading(name, 20) for q in (1.0, 1 - 1e-9, 0.1))
    assert almost.epsilon == pytest.approx(whole.epsilon, rel=1e-3)
    assert sample.epsilon < whole.epsilon_low
    assert sample.log10_delta < -12 or sample.log10_delta < whole.log10_delta


def test_a_samples_lower_bound_is_the_sampled_gaussian():
    state = CompositionState(sampling_rate=0.1, lipschitz=2.0, delta=1e-5)
    sgd = PoissonSubsampledGaussian(noise_multiplier=4, sampling_rate=0.1, steps=30)
    low, high = CompositionBound(sgd).epsilon_interval(1e-5)
    reading = state.reading(LOWER_BOUND, 30)
    assert reading.epsilon_low <= high
    assert low <= reading.epsilon
    assert high < state.reading("Refined", 30).epsilon_low


def test_what_is_forbidden_is_refused_with_its_reason():
    assert CompositionState().refusals() == {}
    assert set(CompositionState(sampling_rate=0.5).refusals()) == {"RDP"}
    refused = CompositionState(l2_reg=0.5).refusals()
    assert set(refused) == {"RDP", "Hockey-stick"}
    assert all("l2_reg must exceed smoothness" in reason for reason in refused.values())
    table = CompositionState(l2_reg=0.5, sampling_rate=0.5).tables()["composition"]
    assert set(table["bound"]) == {"Refined", LOWER_BOUND}
    assert np.isfinite(table["epsilon"]).all()


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    "name", ["noise_std", "l2_reg", "smoothness", "lipschitz", "sampling_rate", "epsilon", "delta"]
)
def test_every_corner_of_the_sliders_has_numbers(name, side):
    state = CompositionState(**{name: CompositionState.param[name].bounds[side]})
    for bound in [bound for bound in state.names() if bound not in state.refusals()]:
        for runs in (1, 1000):
            reading = state.reading(bound, runs)
            assert np.isfinite([reading.epsilon_low, reading.epsilon, reading.log10_delta]).all()
            assert reading.epsilon_low <= reading.epsilon
            assert reading.log10_delta_low <= reading.log10_delta <= 0


def test_view_draws_the_readings_and_hides_what_is_refused():
    state = CompositionState(uses=5)
    view = CompositionView(state)  # without an event loop everything is there at once
    assert not view.progress.visible
    for name in state.names():
        readings = [state.reading(name, k) for k in state.runs()]
        drawn = [r.epsilon_low if name == LOWER_BOUND else r.epsilon for r in readings]
        np.testing.assert_allclose(view.source.data[name], np.log10(drawn), rtol=1e-12)
    state.param.update(l2_reg=0.5, delta_on_y_axis=True)
    assert not view.lines["Hockey-stick"].visible
    assert "does not apply here" in said(view.readouts)
    assert "Hidden: RDP, Hockey-stick, because λ must exceed β" in view.notes.object
    expected = [state.reading("Refined", k).log10_delta for k in state.runs()]
    np.testing.assert_allclose(view.source.data["Refined"], expected, rtol=1e-12)


def test_view_computes_only_what_the_moved_parameter_changes(monkeypatch):
    asked = []

    def asking(question):
        asked.append(question)
        return read(question)

    monkeypatch.setattr("explorer.pages.composition.view.read", asking)
    view = CompositionView(CompositionState(uses=5))
    state = view.state
    every = [state.question(name, k) for name in state.names() for k in state.runs()]
    assert set(asked) == set(every)
    asked.clear()
    state.delta_on_y_axis = True
    assert asked == []
    state.uses = 6
    assert set(asked) == {state.question(name, 6) for name in state.names()}
    asked.clear()
    state.delta = 1e-6
    assert set(asked) == {state.question(name, k) for name in state.names() for k in state.runs()}
    assert set(view.readings.known) == {(question,) for question in asked}
