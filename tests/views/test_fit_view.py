"""The Fit page around its worker: a result, a cancel, a dead process, a full pool, parameters that move meanwhile."""

import asyncio
import os
import signal
import time

import pytest

from explorer.state.fit import FitState
from explorer.views import FitView, fit
from explorer.workers import WorkerPool

PATIENCE = 60


@pytest.fixture
def view():
    return FitView(FitState(), pool=WorkerPool(max_workers=1, max_queued=0))


def slow_fit(*, report, **arguments):
    report((455, 100.0))
    time.sleep(PATIENCE)


def drive(view, act):
    """Run the view's fit and `act`, a coroutine function, beside it, as a page's event loop does."""

    async def both():
        running = asyncio.create_task(view.run())
        await act()
        await asyncio.wait_for(running, PATIENCE)

    asyncio.run(both())
    assert (view.runner.run_button.disabled, view.runner.cancel_button.disabled, view.runner.progress.visible) == (
        False,
        True,
        False,
    )
    assert view.runner.job is None


async def started(view):
    for _ in range(PATIENCE * 20):
        if len(view.source.data["evaluations"]):
            assert (
                view.runner.run_button.disabled,
                view.runner.cancel_button.disabled,
                view.runner.progress.visible,
            ) == (True, False, True)
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the fit reported nothing")


def test_result_and_trace(view):
    async def wait():
        return None

    drive(view, wait)
    assert "of accuracy in this draw" in view.readouts.object
    assert "holds" in view.readouts.object
    assert view.source.data["gradient norm"][-1] <= 0.01
    view.state.epsilon = 2.0
    assert "Press <b>Train</b>" in view.readouts.object
    assert len(view.source.data["evaluations"]) == 0


def test_cancel(view, monkeypatch):
    monkeypatch.setattr(fit, "run_fit", slow_fit)

    async def cancel():
        await started(view)
        view.runner.cancel()

    drive(view, cancel)
    assert view.runner.status.object == "Cancelled. Nothing was released."
    assert "Press <b>Train</b>" in view.readouts.object


def test_moving_a_parameter_cancels(view, monkeypatch):
    monkeypatch.setattr(fit, "run_fit", slow_fit)

    async def move():
        await started(view)
        view.state.gradient_tol = 0.1

    drive(view, move)
    assert view.runner.status.object == "Cancelled. Nothing was released."


def test_dead_worker_is_reported_and_the_next_fit_runs(view, monkeypatch):
    monkeypatch.setattr(fit, "run_fit", slow_fit)

    async def kill():
        await started(view)
        os.kill(view.runner.job.pid, signal.SIGKILL)

    drive(view, kill)
    assert view.runner.status.object.startswith("The fit failed and released nothing: the worker process ended")
    monkeypatch.undo()
    test_result_and_trace(view)


def test_full_pool_and_bad_target_are_explained(view, monkeypatch):
    view.runner.pool.submit(slow_fit)
    drive(view, lambda: asyncio.sleep(0))
    assert "the worker pool is full" in view.runner.status.object
