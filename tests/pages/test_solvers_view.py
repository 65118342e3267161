"""The Solvers page around its workers: a race as it runs, who did not finish, a cancel, moved parameters, growth."""

import asyncio
import time

import numpy as np
import pytest

from explorer.compute.local import LocalEngine
from explorer.learning.solvers import SOLVERS
from explorer.pages.solvers import view as solvers
from explorer.pages.solvers.computation import LAWS, NAMES, SIZES, predictions, run_growth, run_race
from explorer.pages.solvers.state import SolversState
from explorer.pages.solvers.view import SolversView
from tests.interface.event_loop import job, run_concurrently
from tests.interface.words import said

PATIENCE = 300


@pytest.fixture(scope="module")
def pool():
    return LocalEngine(max_workers=1, max_queued=2)


def small(pool, **parameters):
    chosen = dict.fromkeys(SOLVERS, False) | {"gradient_descent": True, "sag": True, "newton": True}
    setting = {"n_records": 200, "dimension": 4, "max_passes": 40, "l2_reg": 0.5}
    return SolversView(SolversState(**(chosen | setting | parameters)), engine=pool)


def slow_race(*, report, **arguments):
    report(("Newton", 200, 50.0))
    report(("Newton", 2000, 0.001))
    report(("SAG", 200, 50.0))
    time.sleep(PATIENCE)


def shown(marks, kind):
    """Where the marks of a kind are, by solver."""
    return {
        label: (x, y)
        for label, source in marks.items()
        for x, y, k in zip(*(source.data[column] for column in ("x", "y", "kind")), strict=True)
        if k == kind
    }


def raced(view, act):
    """Run the view's race and `act`, a coroutine function of the view, beside it."""
    run_concurrently(job(view.runner, view.run), lambda: act(view), seconds=PATIENCE)


async def wait(view):
    return None


async def started(view):
    for _ in range(PATIENCE * 20):
        if "SAG" in view.entries:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the race reported nothing")


def test_race_is_drawn_and_who_did_not_finish_is_not_dropped(pool):
    view = small(pool)
    raced(view, wait)
    race = run_race(**view.state.race_arguments())
    for label in ("Gradient descent", "SAG", "Newton"):
        expected = race.traces[race.traces["solver"] == label]
        np.testing.assert_array_equal(view.sources[label].data["evaluations"], expected["evaluations"])
        np.testing.assert_array_equal(view.sources[label].data[label], expected["gradient_norm"])
    standings = race.standings.set_index("solver")
    assert list(standings["finished"]) == [True, True, False]
    assert {label: x for label, (x, _) in shown(view.marks, "converged").items()} == dict(standings["evaluations"][:2])
    assert list(shown(view.marks, "did not converge")) == ["Gradient descent"]
    assert "<b>Did not converge:</b> Gradient descent." in said(view.readouts)
    first, second = standings.index[:2]
    assert f"<b>{first}</b> needs the least work: <b>{standings['evaluations'].iloc[0]:,}</b>" in said(view.readouts)
    assert f"2. {second}" in said(view.readouts)
    assert "limit reached at gradient norm" in said(view.readouts)
    assert view.state.tables()["solvers"].equals(race.standings)


def test_theorems_stand_beside_and_follow_the_parameters(pool):
    view = small(pool)
    for l2_reg in (0.5, 2.0):
        view.state.l2_reg = l2_reg
        predicted = predictions(**view.state.prediction_arguments())
        assert shown(view.marks, "theorem: at most") == {
            label: (predicted[label], 0.01) for label in ("Gradient descent", "SAG")
        }
        assert f"theorem: ≤ {predicted['Gradient descent']:,.0f}" in said(view.readouts)


def test_a_moved_parameter_leaves_nothing_stale(pool):
    view = small(pool)
    raced(view, wait)
    view.state.gradient_tol = 0.1
    assert view.state.race is None
    assert all(np.isnan(source.data["evaluations"]).all() for source in view.sources.values())
    assert not shown(view.marks, "converged") | shown(view.marks, "did not converge")
    assert "Press <b>Compare solvers</b>" in said(view.readouts)


def test_a_running_race_shows_who_is_where_and_can_be_cancelled(pool, monkeypatch):
    monkeypatch.setattr(solvers, "run_race", slow_race)
    view = small(pool)

    async def cancel(view):
        await started(view)
        view.runner.cancel_button.clicks += 1

    raced(view, cancel)
    assert view.runner.status.object == "Cancelled."
    assert "Converged so far: Newton (2,000)." in said(view.readouts)
    assert "gradient norm 50 after 200" in said(view.readouts)
    assert view.state.race is None


def test_a_parameter_that_moves_during_a_race_ends_it(pool, monkeypatch):
    monkeypatch.setattr(solvers, "run_race", slow_race)
    view = small(pool)

    async def move(view):
        await started(view)
        view.state.seed = 5

    raced(view, move)
    assert view.entries == {}
    assert "Press <b>Compare solvers</b>" in said(view.readouts)


def test_growth_is_drawn_with_its_laws_and_what_is_missing(pool):
    view = small(pool, max_passes=30, sag=False)
    asyncio.run(job(view.growth_runner, view.run_growth))
    table = run_growth(**view.state.growth_arguments())
    assert view.state.growth.equals(table)
    data = view.growth_source.data
    for row in table.itertuples():
        drawn = data[row.solver][SIZES.index(row.n)]
        assert drawn == row.evaluations if row.finished else np.isnan(drawn)
    short = table[~table["finished"]]
    assert 0 < len(short) == sum(len(source.data["x"]) for source in view.growth_marks.values())
    assert np.isfinite([data[law] for law in LAWS]).all()
    assert "did not converge for n = " in said(view.growth_readouts)
    view.state.growing_l2_reg = True
    assert view.state.growth is None
    assert np.isnan(view.growth_source.data["Newton"]).all()


def test_the_growth_law_of_lambda_keeps_the_race(pool):
    view = small(pool)
    raced(view, wait)
    view.state.growing_l2_reg = True
    assert view.state.race is not None
    assert "needs the least work" in said(view.readouts)


def test_nobody_chosen_is_explained(pool):
    view = SolversView(SolversState(**dict.fromkeys(SOLVERS, False)), engine=pool)
    raced(view, wait)
    assert view.runner.status.object == "Choose at least one solver."
    assert not any(line.visible for line in view.lines.values())


def test_lines_are_those_of_the_chosen(pool):
    view = small(pool)
    chosen = {NAMES[name] for name in view.state.solvers()}
    assert {label for label, line in view.lines.items() if line.visible} == chosen
    view.state.newton = False
    assert not view.lines["Newton"].visible
    assert not view.growth_lines["Newton"].visible
    assert all(view.growth_lines[law].visible for law in LAWS)


@pytest.mark.parametrize("corner", [0, 1])
@pytest.mark.parametrize("name", ["n_records", "dimension", "elongation", "l2_reg", "noise_std", "gradient_tol"])
def test_every_corner_of_the_sliders_is_drawn_and_read_out(pool, name, corner):
    view = small(pool, **{name: SolversState.param[name].bounds[corner]})
    state, tau = view.state, view.state.gradient_tol
    view._show(run_race(**{**state.race_arguments(), "solvers": ["newton"], "max_passes": 10}))
    assert "nan" not in said(view.readouts)
    assert view.plot.y_range.start < tau < view.plot.y_range.end
    assert view.plot.x_range.start < state.n_records < view.limit.location < view.plot.x_range.end
    assert sum(len(source.data["x"]) for source in view.marks.values()) == 3  # Newton's end, and two theorems
