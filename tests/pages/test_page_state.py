"""What every page's state can do: an address that restores it exactly, and a script that computes its numbers."""

import contextlib
import io

import numpy as np
import pandas as pd
import param
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.accounting import ObjectivePerturbation, RenyiBound
from explorer.learning.densities import log_density
from explorer.pages import PAGES, view_type
from explorer.pages.bounds.state import BoundsState
from explorer.pages.calibrate.state import CalibrateState
from explorer.pages.compare.computation import Results, run_live
from explorer.pages.compare.state import CompareState
from explorer.pages.composition import state as composition
from explorer.pages.composition.state import CompositionState
from explorer.pages.fit.computation import loss_curves, run_fit
from explorer.pages.fit.state import FitState
from explorer.pages.glm.computation import DIMENSIONS, GLM, LOSS, OTHER, RATIO
from explorer.pages.glm.state import GLMState
from explorer.pages.half_normal.state import HalfNormalState
from explorer.pages.renyi.state import RenyiState
from explorer.pages.solvers import state as solvers
from explorer.pages.solvers.computation import run_growth, run_race
from explorer.pages.solvers.state import SolversState
from explorer.pages.spectrum.computation import compare_learners
from explorer.pages.spectrum.state import SpectrumState
from explorer.pages.state import Code, call, imports
from explorer.pages.worst_case.computation import EXACT, NAMES, WORST, log_delta_profiles
from explorer.pages.worst_case.state import WorstCaseState
from explorer.uploads import read_csv

STATES = [view_type(name).state_type for name in PAGES]


def values(parameter):
    """Values that a parameter accepts."""
    if isinstance(parameter, param.Boolean):
        return st.booleans()
    if isinstance(parameter, param.ListSelector):
        return st.lists(st.sampled_from(list(parameter.objects)), unique=True)
    if isinstance(parameter, param.Selector):
        return st.sampled_from(list(parameter.objects))
    if isinstance(parameter, param.Integer):
        return st.integers(*parameter.bounds)
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


WRONG = [
    *("nan", "-nan", "inf", "1e999", "-1e999", "-0", "1e-999", "0x10", "1_0", "1,2", "١", "９", "٣.٥", "½"),
    *("", " ", "\0", "5\0", "[]", "{}", "null", "None", "True", "__class__", "../../etc/passwd", "\ud800"),
    *("9" * 5000, "1" + "0" * 300, "x" * 100_000, "," * 1000),
]
ANYTHING = st.sampled_from(WRONG) | st.text(max_size=20) | st.floats().map(str) | st.integers().map(str)


def lawful(kind, state):
    """Whether every parameter has a value of its kind, within its bounds."""
    for name in kind.shared():
        parameter, value = kind.param[name], getattr(state, name)
        if isinstance(parameter, param.Boolean):
            assert isinstance(value, bool)
        elif isinstance(parameter, param.ListSelector):
            assert all(each in parameter.objects for each in value)
        elif isinstance(parameter, param.Selector):
            assert value in parameter.objects
        else:
            assert isinstance(value, int if isinstance(parameter, param.Integer) else float)
            assert parameter.bounds[0] <= value <= parameter.bounds[1]  # nan is in no bounds
    return True


@pytest.mark.parametrize("kind", STATES)
@given(data=st.data())
@settings(max_examples=40)
def test_an_address_of_many_wrong_values_is_refused_by_name_and_the_rest_is_taken(kind, data):
    names = st.sampled_from([*kind.shared(), "name", "param", "__init__", "presets"]) | st.text(max_size=10)
    query = data.draw(st.dictionaries(names, ANYTHING, max_size=8))
    state = kind()
    refused = state.from_query(query)
    assert lawful(kind, state)
    for name, text in query.items():
        if f"{name}={text[:40]}" in refused:
            if name in kind.shared():
                assert getattr(state, name) == kind.param[name].default
        else:
            assert name in kind.shared()
            assert kind().from_query({name: text}) == []
    assert len(refused) <= len(query)


@pytest.mark.parametrize("kind", STATES)
def test_no_parameter_takes_what_is_no_number_or_too_large(kind):
    for name in kind.shared():
        for text in ("nan", "inf", "-inf", "1e999", "[]", "\0", "x" * 100_000, "9" * 5000):
            state = kind()
            assert state.from_query({name: text}) == [f"{name}={text[:40]}"]
            assert state.to_query() == {}


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
        (WorstCaseState, {"direction": "both"}),
        (CalibrateState, {"accountant": "RDP"}),
        (FitState, {"seed": "1.5"}),
        (FitState, {"seed": "99999999999999999999"}),
        (FitState, {"result": "1"}),
        (FitState, {"dataset": "mnist"}),
        (FitState, {"upload": "mine.csv"}),
        (FitState, {"class_column": "sex"}),
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


def test_a_call_leaves_defaults_out_and_takes_code_as_it_is():
    def function(first, *, second=2, third=True):
        """Something to call."""

    arguments = {"first": Code("mechanism"), "second": 2, "third": 1}
    assert call(function, arguments, result="y") == "y = function(\n    first=mechanism,\n    third=1,\n)\n"
    assert call(function, {"second": 2}, result="y") == "y = function()\n"


def test_imports_are_from_where_a_name_is_exported():
    lines = ("from explorer.accounting import ObjectivePerturbation", f"from {run_race.__module__} import run_race")
    assert imports(run_race, ObjectivePerturbation) == "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("parameters", [{}, {"noise_std": 10.0, "l2_reg": 0.5, "monotone_loss": True, "delta": 1e-7}])
def test_script_of_the_bounds_page(parameters):
    state = BoundsState(**parameters)
    scope, printed = run(state.script())
    summary = state.summary()
    pd.testing.assert_frame_equal(scope["curves"], state.curves())
    pd.testing.assert_frame_equal(scope["summary"], summary)
    applicable, refused = state.applicable()
    assert set(scope["curves"].dropna(axis=1)) == {"epsilon", *applicable}
    for name in summary.index:
        shown = next(line for line in printed.splitlines() if line.startswith(name)).removeprefix(name)
        assert refused.get(name, "") in shown
        if name in applicable:
            exact = float(applicable[name].epsilon(state.delta))
            assert float(shown.split()[0]) == pytest.approx(exact, abs=1e-5 * state.epsilon_max + 1e-6)


@pytest.mark.parametrize(
    "parameters",
    [{"uses": 7, "delta": 1e-6}, {"l2_reg": 0.5, "monotone_loss": True}, {"sampling_rate": 0.2, "uses": 50}],
)
def test_script_of_the_composition_page(parameters, monkeypatch):
    monkeypatch.setattr(composition, "RUNS", (1, 20))  # as right as with all of them, in less time
    state = CompositionState(**parameters)
    scope, printed = run(state.script())
    curves = dict(list(scope["table"].groupby("bound")))
    assert set(curves) == set(state.names()) - set(state.refusals())
    for name, curve in curves.items():
        assert tuple(curve["runs"]) == state.runs()
        readings = [state.reading(name, k) for k in state.runs()]
        drawn = list(curve[["epsilon_low", "epsilon"]].itertuples(index=False, name=None))
        assert drawn == [(r.epsilon_low, r.epsilon) for r in readings]
        chosen = state.reading(name, state.uses)
        assert f"{name}: epsilon from {chosen.epsilon_low:.6f} to {chosen.epsilon:.6f} at" in printed


def test_script_of_the_compare_page(monkeypatch):
    methods = ["amp_rdp", "amp_exact_noise", "non_private"]
    state = CompareState(stored=None, dataset="breast_cancer", methods=methods, epsilon=2.0, trials=2, first_trial=1)
    state.live_methods = methods
    state.add_live([run_live(cells=state.cells())])
    state.methods = methods[:-1]
    for stored in (None, Results(state.live.frame)):
        monkeypatch.setattr("explorer.pages.compare.computation.shipped_results", lambda stored=stored: stored)
        other = CompareState(**{**state.param.values(), "stored": stored, "name": "other"})
        scope, printed = run(other.script())
        assert set(scope["means"]["source"]) == {"live", *(["stored"] if stored else [])}
        pd.testing.assert_frame_equal(scope["means"], other.shown(), rtol=0, atol=0)
        gaps = other.differences()
        assert list(scope["gaps"]) == list(gaps)
        assert [title for title, gap in gaps.items() if np.isfinite(gap.mean)] == ["Exact over the paper's, same λ"]
        for title, gap in gaps.items():
            found = scope["gaps"][title]
            assert (found.mean, found.standard_error) == pytest.approx((gap.mean, gap.standard_error), nan_ok=True)
            assert f"{title}: {gap.mean:+.5f} +- {gap.standard_error:.5f}" in printed
        for source, means in other.shown().groupby("source"):
            assert f"{source}: mean test accuracy by epsilon" in printed
            assert all(name in printed for name in means["method"])


def test_script_of_the_compare_page_without_results():
    state = CompareState(stored=None)
    scope, _ = run(state.script())
    assert set(scope["means"]["source"]) == {"paper"}
    pd.testing.assert_frame_equal(scope["means"], state.shown())
    assert len(scope["means"]) == 9


@pytest.mark.parametrize(
    "parameters",
    [
        {"epsilon": 2.0, "seed": 3},
        {"two_features": True, "first_feature": 3, "accountant": "refined", "clip_norm": 0.5},
        {"dataset": "two_clouds", "l2_reg": 30.0},
        {"gradient_tol": 1e-16},
    ],
)
@pytest.mark.filterwarnings("ignore:All-NaN")
def test_script_of_the_fit_page(parameters):
    state = FitState(draws=3, **parameters)
    scope, printed = run(state.script())
    result = run_fit(**state.arguments())
    pd.testing.assert_frame_equal(scope["result"].draws, result.draws)
    pd.testing.assert_frame_equal(scope["result"].trace, result.trace)
    pd.testing.assert_frame_equal(scope["loss"], loss_curves(clip_norm=state.clip_norm or None))
    assert str(result.plan) in printed
    assert f"accuracy {result.band[1]:.4f}, 5-95 % of the draws {result.band[0]:.4f} to" in printed
    for refusal in filter(None, result.draws["refusal"]):
        assert refusal in printed


def test_script_of_the_fit_page_reads_an_upload_from_the_users_own_file(tmp_path, monkeypatch):
    content = "\n".join(["kind,a,b,c", *(f"{'xy'[i % 2]},{i % 7},{i % 2},{i % 3}" for i in range(60))]).encode()
    state = FitState(upload=read_csv(content, name="it's.csv"), class_column="kind", draws=2, two_features=True)
    (tmp_path / "it's.csv").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    scope, _ = run(state.script())
    pd.testing.assert_frame_equal(scope["result"].draws, run_fit(**state.arguments()).draws)
    assert "# The server has not kept the uploaded file" in state.script()


@pytest.mark.parametrize("parameters", [{}, {"l2_reg": 0.2, "show_dp_sgd": False, "alpha": 3.5, "alpha_max": 40.0}])
def test_script_of_the_renyi_page(parameters):
    state = RenyiState(**parameters)
    scope, printed = run(state.script())
    pd.testing.assert_frame_equal(scope["curves"], state.curves())
    pd.testing.assert_frame_equal(scope["summary"], state.summary())
    known, refused = state.divergences()
    assert set(scope["curves"].dropna(axis=1)) == {"alpha", *known}
    assert set(known) | set(refused) == set(state.names)
    for name in state.names:
        shown = next(line for line in printed.splitlines() if line.startswith(f"{name} ")).removeprefix(name)
        assert refused.get(name, "") in shown
        if name in known:
            assert float(shown.split()[0]) == pytest.approx(float(known[name](state.alpha)), abs=1e-6)
    assert ("steepest" in scope) == state.show_dp_sgd
    if state.show_dp_sgd:
        assert scope["steepest"] == state.steepest()
        assert str(state.steepest()) in printed


@pytest.mark.parametrize("parameters", [{}, {"l2_reg": 0.5}, {"noise_std": 0.5, "l2_reg": 1.5, "epsilon": 3.0}])
def test_script_of_the_half_normal_page(parameters):
    state = HalfNormalState(**parameters)
    scope, printed = run(state.script())
    summary = state.summary()
    pd.testing.assert_frame_equal(scope["densities"], state.curves())
    pd.testing.assert_frame_equal(scope["summary"], summary)
    pd.testing.assert_frame_equal(scope["gap"], state.gap())
    assert summary.to_string() in printed
    known, refused = state.distributions()
    assert set(scope["densities"].dropna(axis=1)) == {"loss", *known}
    for name, distribution in known.items():
        density = np.exp(distribution.log_density(scope["densities"]["loss"]))
        np.testing.assert_array_equal(scope["densities"][name], density)
        for column, of in (("log10_tail", distribution.log_tail), ("log10_delta", distribution.log_delta)):
            assert scope["summary"].loc[name, column] == float(of(state.epsilon)) / np.log(10)
    for name, why in refused.items():
        assert scope["summary"].loc[name, "refusal"] == why


@pytest.mark.parametrize("parameters", [{}, {"x": 0.3, "y": 2.0, "alpha": 3.5}, {"l2_reg": 0.5}])
def test_script_of_the_glm_page(parameters):
    state = GLMState(**parameters)
    scope, printed = run(state.script())
    row, leak = state.readouts()
    pd.testing.assert_frame_equal(scope["divergences"], state.curves())
    pd.testing.assert_frame_equal(scope["densities"], state.densities())
    pd.testing.assert_series_equal(scope["chosen"].iloc[0], row)
    np.testing.assert_equal(scope["leak"], leak)  # nan where the bound does not apply
    assert scope["chosen"].to_string(index=False) in printed
    assert str(leak) in printed
    assert scope["divergences"]["d"].tolist() == list(DIMENSIONS)
    assert scope["divergences"][[GLM, OTHER]].isna().all(axis=None) == bool(state.refusal())
    if not state.refusal():
        assert scope["divergences"][GLM].iloc[0] == RenyiBound(state.mechanism).rdp(state.alpha)
    theta, setting = scope["densities"]["theta"], {"loss": LOSS, "l2_reg": state.l2_reg, "noise_std": state.noise_std}
    with_, without = (log_density(theta, records=records, **setting) for records in ([(state.x, state.y)], []))
    np.testing.assert_array_equal(scope["densities"][RATIO], with_ - without)


@pytest.mark.parametrize("parameters", [{}, {"sampled": False, "steps": 5, "seed": 3}, {"l2_reg": 0.2, "epsilon": 2.0}])
def test_script_of_the_spectrum_page(parameters):
    state = SpectrumState(**parameters)
    scope, printed = run(state.script())
    comparison, script = compare_learners(**state.arguments()), scope["comparison"]
    assert set(script.fits) == set(comparison.fits)
    for name, fit in comparison.fits.items():
        np.testing.assert_array_equal(script.fits[name].path, fit.path)
        np.testing.assert_array_equal(script.fits[name].noise, fit.noise)
        np.testing.assert_array_equal(script.fits[name].covariance, fit.covariance)
        assert f"{name}: noise of standard deviation {np.sqrt(fit.covariance.sum()):.6g} in" in printed
        assert str(fit.privacy) in printed
    pd.testing.assert_frame_equal(script.readouts, comparison.readouts)
    for name, reason in comparison.refusals.items():
        assert reason.startswith("l2_reg must exceed")
        assert f"{name}: {reason}" in printed


@pytest.mark.parametrize("parameters", [{}, {"l2_reg": 0.5, "epsilon": 1.0}, {"direction": "add", "noise_std": 3.0}])
def test_script_of_the_worst_case_page(parameters):
    state = WorstCaseState(**parameters)
    scope, printed = run(state.script())
    curves, loss = state.curves(), scope["loss"]
    assert loss == state.worst()
    assert set(scope["curves"]) == set(curves)
    for key, table in curves.items():
        pd.testing.assert_frame_equal(scope["curves"][key], table)
    np.testing.assert_array_equal(scope["curves"]["loss"][WORST], loss.value(scope["curves"]["loss"]["theta"]))
    np.testing.assert_array_equal(scope["curves"]["map"][WORST], loss.shift(scope["curves"]["map"]["b"]))
    pd.testing.assert_frame_equal(scope["pieces"], state.pieces())
    pd.testing.assert_frame_equal(scope["summary"], state.summary())
    assert scope["pieces"].to_string(index=False) in printed
    profiles, refused = log_delta_profiles(state.mechanism, direction=state.direction)
    for name in NAMES:
        shown = next(line for line in printed.splitlines() if line.startswith(name)).removeprefix(name)
        if name in refused:
            assert refused[name] in shown
        else:
            expected = float(profiles[name](state.epsilon)) / np.log(10)
            assert float(shown.split()[0]) == pytest.approx(expected, abs=1e-6)
    leaked = float(getattr(loss, f"log_delta_{state.direction}")(state.epsilon)) / np.log(10)
    assert leaked == pytest.approx(scope["summary"].loc[EXACT, "log10_delta"], rel=1e-3)


@pytest.mark.parametrize(
    "parameters",
    [{"svrg": False}, {"growing_l2_reg": True, "sag": False, "svrg": False, "gradient_tol": 1.0, "seed": 3}],
)
def test_script_of_the_solvers_page(parameters, monkeypatch):
    monkeypatch.setattr(solvers, "SIZES", (128, 256))
    state = SolversState(n_records=200, dimension=4, l2_reg=0.5, max_passes=50, **parameters)
    scope, printed = run(state.script())
    race = run_race(**state.race_arguments())
    growth = run_growth(**state.growth_arguments())
    pd.testing.assert_frame_equal(scope["race"].standings, race.standings)
    pd.testing.assert_frame_equal(scope["race"].traces, race.traces)
    pd.testing.assert_frame_equal(scope["growth"], growth)
    assert list(race.standings["solver"].sort_values()) == sorted(solvers.NAMES[name] for name in state.solvers())
    assert len(growth) == 2 * len(state.solvers())
    for table in (race.standings, growth):
        assert table.to_string(index=False) in printed


@pytest.mark.parametrize("parameters", [{}, {"f": 1.05, "monotone_loss": False, "n_records": 50}])
def test_script_of_the_calibrate_page(parameters, monkeypatch):
    names = ["Hockey-stick", "Refined"]  # as right as with all of them, in less time
    monkeypatch.setattr(CalibrateState, "names", lambda self: names)
    state = CalibrateState(**parameters)
    scope, printed = run(state.script())
    curves, summary = state.tables()["calibrate"], state.summary()
    pd.testing.assert_frame_equal(scope["curves"], curves)
    pd.testing.assert_frame_equal(scope["points"], summary)
    assert list(scope["curves"]["bound"].unique()) == list(summary.index) == names
    for name, row in summary.iterrows():
        own = curves[curves["bound"] == name].drop(columns="bound").reset_index(drop=True)
        pd.testing.assert_frame_equal(own, state.curve(name))
        chosen = row["refusal"] or f"lambda = {row['l2_reg']:.6g} at sigma = {state.f * state.gaussian:.6g}"
        assert f"{name}: {chosen}; sigma must exceed {row['least_f'] * state.gaussian:.6g}" in printed
        assert f"{name}: least risk {row['best_risk']:.4g} at sigma = {row['best_noise_std']:.4g}" in printed


def test_tables_have_their_names():
    for kind in STATES:
        state = kind()
        assert tuple(state.tables()) == state.table_names
    tables = FitState().tables()
    assert tables["fit_trace"].empty and tables["fit_draws"].empty
    state = FitState(draws=2)
    state.result = run_fit(**state.arguments())
    assert state.tables()["fit_draws"]["draw"].tolist() == [1, 2]
