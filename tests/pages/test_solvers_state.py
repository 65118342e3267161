"""The Solvers page's numbers, without a page: standings and traces of a race, growth with n, laws and exponents."""

import numpy as np
import pandas as pd
import pytest

from explorer.learning import Logistic
from explorer.learning.solvers import SOLVERS
from explorer.learning.solvers.complexity import predicted_evaluations
from explorer.pages.solvers.computation import (
    LAWS,
    LINEAR,
    NAMES,
    QUADRATIC,
    SIZES,
    SMOOTHNESS,
    SPACING,
    exponents,
    growth_table,
    laws,
    make_objective,
    predictions,
    run_growth,
    run_race,
)
from explorer.pages.solvers.state import SolversState

SLIDERS = ("n_records", "dimension", "elongation", "l2_reg", "noise_std", "gradient_tol", "max_passes")
FAST = {"svrg": False, "sag": False}


def objective_of(state):
    return make_objective(state.n_records, l2_reg=state.l2_reg, **state.problem())


@pytest.fixture(scope="module")
def raced():
    """A race that one solver does not finish, and what was reported of it."""
    state, reported = SolversState(n_records=300, dimension=5, l2_reg=0.5, max_passes=60), []
    return state, run_race(**state.race_arguments(), report=reported.append), reported


def test_names_and_smoothness_are_the_librarys():
    assert list(NAMES) == list(SOLVERS)
    assert SolversState().solvers() == list(SOLVERS)
    objective = objective_of(SolversState(n_records=50))
    assert objective.loss.smoothness * objective.records.norms.max() ** 2 == pytest.approx(SMOOTHNESS)
    assert isinstance(objective.loss, Logistic)


def test_b_has_its_deviation_and_is_not_the_records():
    state = SolversState(dimension=100, noise_std=7.0, n_records=50)
    objective = objective_of(state)
    assert np.std(objective.linear_term) == pytest.approx(7, rel=0.3)
    assert abs(objective.records.X[0] @ objective.linear_term) < 5 * 7


def test_standings_are_the_solvers_own_counts(raced):
    state, race, _ = raced
    objective = objective_of(state)
    predicted = predicted_evaluations(objective, gradient_tol=state.gradient_tol)
    rows = race.standings.set_index("solver")
    assert set(rows.index) == set(NAMES.values())
    for name, solver in SOLVERS.items():
        alone = solver(objective, gradient_tol=state.gradient_tol, max_passes=60, random_state=state.seed)
        row = rows.loc[NAMES[name]]
        assert (row["evaluations"], row["finished"]) == (alone.n_gradient_evaluations, alone.success)
        assert row["passes"] == alone.n_gradient_evaluations / 300
        assert row["gradient_norm"] == alone.gradient_norm
        np.testing.assert_equal(row["theorem"], predicted.get(name, np.nan))


def test_who_does_not_finish_comes_last_and_says_why(raced):
    _, race, _ = raced
    assert not race.standings["finished"].all()
    finished = race.standings[race.standings["finished"]]
    assert race.standings["finished"].is_monotonic_decreasing
    assert finished["evaluations"].is_monotonic_increasing
    short = race.standings[~race.standings["finished"]].set_index("solver")
    assert "max_passes spent" in short.loc["Gradient descent", "message"]
    assert (short["evaluations"] >= 60 * 300).all()
    assert (short["gradient_norm"] > 0.01).all()


def test_traces_are_thinned_and_reported_in_the_order_of_evaluations(raced):
    state, race, reported = raced
    rows = list(race.traces.itertuples(index=False, name=None))
    assert rows[: len(reported)] == reported
    assert [row[1] for row in reported] == sorted(row[1] for row in reported)
    objective = objective_of(state)
    for name, solver in SOLVERS.items():
        whole = solver(objective, gradient_tol=state.gradient_tol, max_passes=60, random_state=state.seed).trace
        thin = race.traces.loc[race.traces["solver"] == NAMES[name], ["evaluations", "gradient_norm"]].to_numpy()
        assert set(map(tuple, thin)) <= set(map(tuple, whole))
        np.testing.assert_array_equal(thin[[0, -1]], whole[[0, -1]])
        assert (thin[1:-1, 0] >= SPACING * thin[:-2, 0]).all()


def test_growth_counts_what_solvers_give_alone():
    state = SolversState(n_records=128, l2_reg=0.5, growing_l2_reg=True, max_passes=200, **FAST)
    arguments, reported = {**state.growth_arguments(), "sizes": (128, 512), "l2_regs": state.l2_regs()[:3:2]}, []
    table = run_growth(**arguments, report=reported.append)
    pd.testing.assert_frame_equal(table, growth_table(reported))
    assert arguments["l2_regs"] == [0.5, 1.0]  # sqrt(512 / 128) times the chosen one
    for row in table.itertuples():
        objective = make_objective(row.n, l2_reg=row.l2_reg, **state.problem())
        name = next(name for name in NAMES if NAMES[name] == row.solver)
        alone = SOLVERS[name](objective, gradient_tol=0.01, max_passes=200, random_state=0)
        assert (row.evaluations, row.finished) == (alone.n_gradient_evaluations, alone.success)
    assert len(table) == 2 * len(state.solvers())


def test_lambda_over_n():
    assert SolversState(l2_reg=0.3).l2_regs() == [0.3] * len(SIZES)
    growing = SolversState(l2_reg=0.3, n_records=512, growing_l2_reg=True).l2_regs()
    np.testing.assert_allclose(growing, 0.3 * np.sqrt(np.array(SIZES) / 512))


def test_worst_case_grows_as_the_theorems_say():
    state = SolversState(svrg=False, seed=1)
    state.apply_preset("Worst case for gradient descent")
    arguments = {**state.growth_arguments(), "sizes": SIZES[:5], "l2_regs": state.l2_regs()[:5]}
    table = run_growth(**arguments)
    assert table["finished"].all()
    grown = exponents(table)
    assert 1.9 < grown["Gradient descent"] < 2.2  # n^2 log n
    assert 1.4 < grown["Accelerated"] < 1.7  # n^1.5 log n
    assert 0.9 < grown["SAG"] < 1.3  # n log n


def test_laws_and_exponents_of_known_powers():
    rows = [(n, 1.0, label, c * n**p, True) for n in SIZES for label, c, p in (("SAG", 3, 1), ("Newton", 12, 2))]
    table = growth_table(rows)
    np.testing.assert_allclose(exponents(table)[["SAG", "Newton"]], [1, 2])
    law = laws(table)
    start = np.sqrt(3 * 128 * 12 * 128**2)
    np.testing.assert_allclose(law.iloc[0][list(LAWS)], start)
    np.testing.assert_allclose(law[QUADRATIC].iloc[-1], start * 64**2)
    np.testing.assert_allclose(law[LINEAR].iloc[-1], start * 64 * 13 / 7)
    table["finished"] = False
    assert laws(table)[list(LAWS)].isna().all(axis=None)
    assert exponents(table).empty


def test_predictions_are_at_least_what_was_needed(raced):
    state, race, _ = raced
    predicted, rows = predictions(**state.prediction_arguments()), race.standings.set_index("solver")
    assert list(predicted) == ["Gradient descent", "Accelerated", "SAG", "SVRG"]
    for label, most in predicted.items():
        assert rows.loc[label, "theorem"] == most
        assert not rows.loc[label, "finished"] or rows.loc[label, "evaluations"] <= most


@pytest.mark.parametrize("name", SolversState.presets)
def test_preset_sets_every_parameter(name):
    state = SolversState(
        n_records=77, dimension=3, elongation=2.0, l2_reg=9.0, noise_std=1.0, gradient_tol=0.5, max_passes=11
    )
    state.growing_l2_reg = True
    state.apply_preset(name)
    expected = SolversState.presets[name]
    assert {key: getattr(state, key) for key in expected} == expected
    assert set(expected) == set(state.shared()) - set(SOLVERS) - {"seed"}


@pytest.mark.parametrize("corner", [0, 1])
@pytest.mark.parametrize("name", SLIDERS)
def test_every_corner_of_the_sliders_has_a_race_and_predictions(name, corner):
    bound = SolversState.param[name].bounds[corner]
    state = SolversState(**{"n_records": 100, "dimension": 4, "max_passes": 30, **FAST, name: bound})
    if name == "max_passes" and corner:
        state.gradient_descent = state.accelerated = False
    assert all(value >= state.n_records for value in predictions(**state.prediction_arguments()).values())
    standings = run_race(**state.race_arguments()).standings
    assert len(standings) == len(state.solvers())
    assert np.isfinite(standings[["evaluations", "passes", "gradient_norm"]].astype(float)).all(axis=None)


def test_nobody_may_be_chosen():
    state = SolversState(**dict.fromkeys(SOLVERS, False))
    assert run_race(**state.race_arguments()).standings.empty
    assert "solvers=[]" in state.script()


def test_tables_hold_the_last_runs(raced):
    state, race, _ = raced
    state.race = race
    tables = state.tables()
    assert tables["solvers"] is race.standings
    assert tables["solvers_traces"] is race.traces
    assert tables["solvers_growth"].empty
    assert list(tables["solvers_growth"].columns) == ["n", "l2_reg", "solver", "evaluations", "finished"]
    assert SolversState().tables()["solvers"].empty
