"""What every page's state can do: an address that restores it exactly, and a script that computes its numbers."""

import contextlib
import io

import numpy as np
import param
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.state import composition
from explorer.state.bounds import BoundsState
from explorer.state.compare import QUESTIONS, CompareState, Results, run_live
from explorer.state.composition import CompositionState
from explorer.state.fit import FitState, run_fit
from explorer.state.glm import DIMENSIONS, GLM, OTHER, RATIO, GLMState
from explorer.state.half_normal import HalfNormalState
from explorer.state.renyi import RenyiState

STATES = [BoundsState, RenyiState, HalfNormalState, CompositionState, GLMState, CompareState, FitState]


def values(parameter):
    """Values that a parameter accepts."""
    if isinstance(parameter, param.Boolean):
        return st.booleans()
    if isinstance(parameter, param.Integer):
        return st.integers(*parameter.bounds)
    if isinstance(parameter, param.ListSelector):
        return st.lists(st.sampled_from(list(parameter.objects)), unique=True)
    if isinstance(parameter, param.Selector):
        return st.sampled_from(list(parameter.objects))
    return st.floats(*parameter.bounds)


@pytest.mark.parametrize("kind", STATES)
@settings(max_examples=30)
@given(data=st.data())
def test_an_address_restores_every_parameter_exactly(kind, data):
    chosen = {name: data.draw(values(kind.param[name])) for name in kind.shared()}
    state, other = kind(**chosen), kind()
    assert other.from_query(state.to_query()) == []
    assert {name: getattr(other, name) for name in kind.shared()} == chosen
    assert all(isinstance(text, str) for text in state.to_query().values())


@pytest.mark.parametrize("kind", STATES)
def test_defaults_have_an_empty_address_and_come_back_with_it(kind):
    state = kind()
    assert state.to_query() == {}
    name = kind.shared()[0]
    parameter = kind.param[name]
    setattr(state, name, list(parameter.objects)[-1] if isinstance(parameter, param.Selector) else parameter.bounds[1])
    assert state.from_query({}) == []
    assert getattr(state, name) == kind.param[name].default


@pytest.mark.parametrize("kind", STATES)
@given(text=st.text(max_size=60))
@settings(max_examples=60)
def test_whatever_an_address_says_the_state_stays_valid(kind, text):
    for name in (*kind.shared(), "no_such_parameter"):
        state = kind()
        refused = state.from_query({name: text})
        if refused:
            assert refused == [f"{name}={text[:40]}"]
            assert state.to_query() == {}
        kind(**{n: getattr(state, n) for n in kind.shared()})


@pytest.mark.parametrize(
    ("kind", "query"),
    [
        (BoundsState, {"noise_std": "nan"}),
        (BoundsState, {"noise_std": "inf"}),
        (BoundsState, {"noise_std": "-1"}),
        (BoundsState, {"noise_std": "1e9"}),
        (BoundsState, {"noise_std": "five"}),
        (BoundsState, {"monotone_loss": "True"}),
        (BoundsState, {"bounds": "{}"}),
        (CompositionState, {"sampling_rate": "0"}),
        (CompositionState, {"uses": "2000"}),
        (FitState, {"seed": "1.5"}),
        (FitState, {"seed": "99999999999999999999"}),
        (FitState, {"result": "1"}),
    ],
)
def test_a_bad_value_is_named_and_the_default_kept(kind, query):
    state = kind()
    ((name, text),) = query.items()
    assert state.from_query({**query, "delta": "0.001"}) == [f"{name}={text}"]
    assert state.to_query() == {"delta": "0.001"}


@pytest.mark.parametrize(
    ("name", "text"),
    [("dataset", "iris"), ("dataset", "Adult"), ("epsilon", "0.3"), ("methods", "amp_rdp,magic"), ("methods", ",")],
)
def test_what_a_list_does_not_offer_is_refused(name, text):
    state = CompareState()
    assert state.from_query({name: text}) == [f"{name}={text}"]
    assert state.to_query() == {}


def run(script):
    """The variables that a script leaves, and what it prints."""
    scope, printed = {}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(script, scope)
    return scope, printed.getvalue()


@pytest.mark.parametrize("parameters", [{}, {"noise_std": 10.0, "l2_reg": 0.5, "monotone_loss": True, "delta": 1e-7}])
def test_script_of_the_bounds_page(parameters):
    state = BoundsState(**parameters)
    scope, printed = run(state.script())
    curves, summary = state.readings()
    np.testing.assert_array_equal(scope["epsilon"], curves["epsilon"])
    for name, curve in scope["curves"].items():
        np.testing.assert_array_equal(curve, curves[name])
    assert set(scope["curves"]) == set(summary.index[summary["refusal"] == ""])
    for name, row in summary.iterrows():
        shown = next(line for line in printed.splitlines() if line.startswith(f"{name}: "))
        assert row["refusal"] in shown
        if not row["refusal"]:
            assert float(shown.split()[-5]) == pytest.approx(row["epsilon"], abs=1e-5 * state.epsilon_max + 1e-9)


@pytest.mark.parametrize(
    "parameters",
    [{"uses": 7, "delta": 1e-6}, {"l2_reg": 0.5, "monotone_loss": True}, {"sampling_rate": 0.2, "uses": 50}],
)
def test_script_of_the_composition_page(parameters, monkeypatch):
    monkeypatch.setattr(composition, "RUNS", (1, 20))  # as right as with all of them, in less time
    state = CompositionState(**parameters)
    scope, printed = run(state.script())
    assert tuple(scope["runs"]) == state.runs()
    assert set(scope["curves"]) == set(state.names()) - set(state.refusals())
    for name, curve in scope["curves"].items():
        readings = [state.reading(name, k) for k in state.runs()]
        assert [(float(low), float(high)) for low, high in curve] == [(r.epsilon_low, r.epsilon) for r in readings]
        chosen = state.reading(name, state.uses)
        assert f"{name}: epsilon from {chosen.epsilon_low:.6f} to {chosen.epsilon:.6f} at" in printed


def test_script_of_the_compare_page(monkeypatch):
    methods = ["amp_rdp", "amp_tight_noise", "dp_sgd_dishonest", "non_private"]
    state = CompareState(stored=None, dataset="breast_cancer", methods=methods, epsilon=2.0, trials=2, first_trial=1)
    state.live_methods = methods
    state.add_live([run_live(cells=state.cells())])
    state.methods = methods[:-1]
    for stored in (None, Results(state.live.frame)):
        if stored is not None:
            monkeypatch.setattr("explorer.study.load_results", lambda frame=stored.frame: frame)
        other = CompareState(**{**state.param.values(), "stored": stored, "name": "other"})
        scope, printed = run(other.script())
        table = other.shown()
        assert set(scope["means"]) == {"paper", "live", *(["stored"] if stored else [])}
        for source, means in scope["means"].items():
            mine = table[table["source"] == source].set_index(["method", "epsilon"])["accuracy"].sort_index()
            assert mine.to_dict() == means.set_index(["method", "epsilon"])["accuracy"].to_dict()
        answers = {pair: other.answers()[question] for question, pair in QUESTIONS.items()}
        answers = {pair: answer for pair, answer in answers.items() if np.isfinite(answer.mean)}
        assert list(answers) == list(scope["differences"]) == [("amp_tight_noise", "amp_rdp")]
        for pair, (mean, error) in scope["differences"].items():
            assert mean == pytest.approx(answers[pair].mean)
            assert error == pytest.approx(answers[pair].standard_error)
            assert f"at epsilon = 2.0: {mean:+.5f} +- {error:.5f}" in printed


def test_script_of_the_compare_page_without_results():
    scope, _ = run(CompareState(stored=None).script())
    assert list(scope["means"]) == ["paper"]
    assert len(scope["means"]["paper"]) == 9


def test_script_of_the_fit_page():
    state = FitState(epsilon=2.0, seed=3)
    scope, printed = run(state.script())
    result = run_fit(**state.arguments())
    assert scope["accuracy"] == result.accuracy
    assert scope["model"].privacy_ == result.privacy
    assert f"accuracy {result.accuracy:.4f}" in printed


@pytest.mark.parametrize("parameters", [{}, {"l2_reg": 0.2, "show_dp_sgd": False, "alpha": 3.5, "alpha_max": 40.0}])
def test_script_of_the_renyi_page(parameters):
    state = RenyiState(**parameters)
    scope, printed = run(state.script())
    curves, summary = state.curves(), state.summary()
    np.testing.assert_array_equal(scope["alpha"], curves["alpha"])
    for name, curve in scope["curves"].items():
        np.testing.assert_array_equal(curve, curves[name])
    assert set(scope["curves"]) == set(summary.index[summary["refusal"] == ""])
    for name, epsilon in summary["epsilon"].dropna().items():
        assert f"{name}: epsilon = {epsilon:.6g} at alpha = {state.alpha}" in printed
    assert ("growth" in scope) == state.show_dp_sgd
    if state.show_dp_sgd:
        assert (scope["order"], scope["growth"]) == (state.leap().order, state.leap().growth)


@pytest.mark.parametrize("parameters", [{}, {"l2_reg": 0.5}, {"noise_std": 0.5, "l2_reg": 1.5, "epsilon": 3.0}])
def test_script_of_the_half_normal_page(parameters):
    state = HalfNormalState(**parameters)
    scope, printed = run(state.script())
    curves, summary = state.curves().set_index("loss"), state.summary()
    assert set(scope["densities"]) == set(summary.index[summary["refusal"] == ""])
    for name, density in scope["densities"].items():
        np.testing.assert_array_equal(density, curves.loc[scope["loss"], name])
        assert scope["log10_tails"][name] == summary.loc[name, "log10_tail"]
        assert scope["log10_deltas"][name] == summary.loc[name, "log10_delta"]
        assert f"log10 delta = {summary.loc[name, 'log10_delta']:.6g}" in printed
    why = summary.loc["Objective perturbation", "refusal"] or f"{summary.loc['Objective perturbation', 'start']:.6g}"
    assert why in printed


@pytest.mark.parametrize("parameters", [{}, {"x": 0.3, "y": 2.0, "alpha": 3.5}, {"l2_reg": 0.5}])
def test_script_of_the_glm_page(parameters):
    state = GLMState(**parameters)
    scope, printed = run(state.script())
    curves, densities = state.curves(), state.densities().set_index("theta")
    np.testing.assert_array_equal(scope["log_ratio"], densities.loc[scope["theta"], RATIO])
    assert scope["dimensions"] == list(DIMENSIONS)
    if state.refusal():
        assert "l2_reg must exceed smoothness" in printed
    else:
        np.testing.assert_allclose(scope["other"], curves[OTHER], rtol=1e-14)
        assert scope["glm"] == pytest.approx(curves[GLM].iloc[0], rel=1e-14)


def test_tables_have_their_names():
    for kind in STATES:
        state = kind()
        assert tuple(state.tables()) == state.table_names
    assert FitState().tables()["fit_trace"].empty
