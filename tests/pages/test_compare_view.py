"""The Compare page's view: stored curves, the paper's values, live trials as they are reported, no table at all."""

import asyncio

import numpy as np
import pytest

from explorer.compute import Priority
from explorer.compute.local import LocalEngine
from explorer.pages.compare.computation import LABELS, Results
from explorer.pages.compare.state import CompareState
from explorer.pages.compare.view import CompareView
from explorer.study import EPSILONS, run_cells, summarise
from tests.interface.event_loop import job, run_concurrently
from tests.interface.words import said

METHODS = ["amp_rdp", "output_perturbation", "non_private"]
PATIENCE = 120


def state(**parameters):
    options = {"dataset": "breast_cancer", "methods": METHODS, "live_methods": METHODS, "epsilon": 1.0, "trials": 2}
    return CompareState(**{**options, **parameters})


@pytest.fixture(scope="module")
def results():
    """Two trials at every epsilon, computed here."""
    return Results(run_cells(state(all_epsilons=True).cells()))


def test_stored_means_are_curves_with_a_band(results):
    view = CompareView(state(stored=results))
    columns = view.source.data
    table = summarise(results.frame).set_index(["method", "epsilon"])
    np.testing.assert_array_equal(columns["epsilon"], EPSILONS)
    for method in METHODS[:2]:
        expected = 100 * table.loc[method].loc[list(EPSILONS), ["accuracy", "margin"]].to_numpy().T
        np.testing.assert_allclose(columns[LABELS[method]], expected[0])
        np.testing.assert_allclose(columns[f"{LABELS[method]} high"], expected.sum(axis=0))
    np.testing.assert_allclose(columns["Not private"], 100 * table.loc[("non_private", np.inf), "accuracy"])
    assert np.isnan(columns["DP-SGD, dishonest"]).all()
    low, high = view.plot.y_range.start, view.plot.y_range.end
    assert low < np.nanmin(columns["Algorithm 1, Rényi low"])
    assert np.nanmax(columns["Not private"]) <= high <= 100


def test_only_chosen_methods_are_drawn_and_in_the_legend(results):
    view = CompareView(state(stored=results))
    view.state.methods = ["amp_rdp"]
    assert [method for method, models in view.drawn.items() if all(model.visible for model in models)] == ["amp_rdp"]
    assert [item.label.value for item in view.plot.legend[0].items if item.visible] == ["Algorithm 1, Rényi"]
    view.state.methods = []
    assert not view.plot.legend[0].visible
    assert np.isfinite([view.plot.y_range.start, view.plot.y_range.end]).all()


def test_live_runs_start_after_fits_that_wait():
    assert CompareView(state()).runner.priority == Priority.LOW


def test_readouts_follow_epsilon(results):
    view = CompareView(state(stored=results, epsilon=8.0))
    best, accuracy, _ = view.state.best()
    headline = f"At ε = 8 on Breast cancer (stored trials) the best honest method is <b>{LABELS[best]}"
    assert headline in said(view.readouts)
    assert f"{100 * accuracy:.2f} %" in said(view.readouts)
    before = view.readouts.object
    view.state.epsilon = 0.025
    assert view.mark.location == 0.025
    assert view.readouts.object != before


def test_without_a_table_it_says_so_and_draws_the_papers_values():
    view = CompareView(CompareState(stored=None))
    assert "no stored results yet" in view.notes.object
    assert view.notes.visible
    assert np.isnan(view.source.data["Algorithm 1, Rényi"]).all()
    assert sorted(view.paper.data["accuracy"][1:])[:2] == pytest.approx([77.34, 90.05])
    assert "No results on Synthetic-L at ε = 0.5 yet" in said(view.readouts)
    view.state.dataset = "adult"
    assert "cannot be run live" in view.plan.object
    view.state.dataset = "gisette"
    assert points(view.paper) == 0


def points(source):
    """How many are drawn; the first is blank."""
    assert np.isnan(source.data["accuracy"][0])
    return len(source.data["accuracy"]) - 1


def drive(view, act=lambda: asyncio.sleep(0)):
    """Run the view's live run and `act`, a coroutine function, beside it."""
    run_concurrently(job(view.runner, view.run), act, seconds=PATIENCE)


def test_live_trials_are_drawn_and_repeat_the_stored_ones(results):
    view = CompareView(state(stored=results, methods=["non_private"]), engine=LocalEngine(max_workers=1, max_queued=0))
    drive(view)
    assert view.state.methods == METHODS  # methods that are run are shown
    assert view.runner.status.object == "Done. The stored table has 6 of the live fits, with exactly the same accuracy."
    table = summarise(results.frame).set_index(["method", "epsilon"])["accuracy"]
    drawn = dict(zip(view.live.data["text"][1:], view.live.data["accuracy"][1:], strict=True))
    assert len(drawn) == 3
    for text, accuracy in drawn.items():
        method = next(name for name in METHODS if text.startswith(f"{LABELS[name]}:"))
        assert accuracy == pytest.approx(100 * table[method].get(1.0, table[method].iloc[-1]))
    assert "Live: Output perturbation" in said(view.readouts)
    view.state.methods = ["amp_rdp"]
    assert points(view.live) == 1
    view.state.dataset = "synthetic_l"
    assert points(view.live) == 0
    assert not view.runner.status.visible
    assert "Live:" not in said(view.readouts)
    view.state.dataset = "breast_cancer"
    view.clear_live()
    assert points(view.live) == 0


def test_cancelled_run_keeps_what_was_done(results):
    view = CompareView(state(stored=None, trials=20, live_methods=["non_private"]), engine=LocalEngine(max_workers=1))

    async def cancel():
        while view.state.live is None:
            await asyncio.sleep(0.05)
        view.runner.cancel()

    drive(view, cancel)
    assert view.runner.status.object == "Cancelled. Trials that were drawn are kept."
    assert 1 <= len(view.state.live.frame) < 20
    assert "(live trials)" not in said(view.readouts)  # nothing private was run


def test_another_dataset_cancels_and_nothing_to_run_is_explained():
    view = CompareView(state(stored=None, trials=20), engine=LocalEngine(max_workers=1))

    async def move():
        while view.runner.job is None:
            await asyncio.sleep(0.05)
        view.state.dataset = "adult"

    drive(view, move)
    assert view.runner.status.object.startswith("Cancelled.")
    drive(view)
    assert "python -m explorer.study --dataset adult" in view.runner.status.object


def test_a_failing_cell_is_told(monkeypatch):
    view = CompareView(state(stored=None))
    failing = run_cells(view.state.cells()[:2]).assign(accuracy=np.nan, error="ValueError: no such thing")
    view._show(failing)
    assert view.runner.status.object == "2 of 2 cells failed: ValueError: no such thing"
    assert points(view.live) == 0
