"""Jobs behind buttons: progress, a cancel, a late result, a dead process, a full pool, a function that raises."""

import asyncio
import os
import signal
import time
from functools import partial

import pytest

from explorer.compute.local import LocalEngine
from explorer.interface.job import JobRunner
from tests.interface.event_loop import job, run_concurrently

PATIENCE = 60


def count(*, report, upto, pause=0.0):
    for number in range(1, upto + 1):
        report(number)
        time.sleep(pause)
    return upto


def fail(*, report):
    raise ValueError("no such thing")


class Page:
    """What a page has of a runner, and what it was told."""

    def __init__(self, **options):
        engine = LocalEngine(max_workers=1, max_queued=0)
        self.runner = JobRunner(lambda _: None, cancelled="Stopped.", failed="It failed:", engine=engine, **options)
        self.seen, self.shown = [], []

    def follow(self, messages):
        self.seen = messages
        return messages[-1] / 10

    def drive(self, function, arguments, act=lambda: asyncio.sleep(0)):
        """Run the job and `act`, a coroutine function, beside it."""
        run = partial(self.runner.run, function, arguments, show=self.shown.append, follow=self.follow)
        run_concurrently(job(self.runner, run), act, seconds=PATIENCE)
        runner = self.runner
        assert (runner.run_button.disabled, runner.cancel_button.disabled) == (False, True)
        assert (runner.progress.visible, runner.job) == (False, None)

    async def started(self):
        runner = self.runner
        for _ in range(PATIENCE * 20):
            if self.seen:
                assert (runner.run_button.disabled, runner.cancel_button.disabled) == (True, False)
                assert runner.progress.visible
                return
            await asyncio.sleep(0.05)
        raise AssertionError("the job reported nothing")


@pytest.fixture
def page():
    return Page()


def test_messages_arrive_in_order_and_the_value_is_shown_once(page):
    page.drive(count, {"upto": 10, "pause": 0.02})
    assert page.shown == [10]
    assert page.seen == list(range(1, len(page.seen) + 1))
    assert page.runner.status.visible is False


def test_progress_and_time_left(page, monkeypatch):
    monkeypatch.setattr("explorer.interface.job.PATIENCE_SECONDS", 0.0)
    told = []
    page.runner.status.param.watch(lambda event: told.append(event.new), "object")
    page.runner.progress.param.watch(lambda event: told.append(event.new), "value")
    page.drive(count, {"upto": 5, "pause": 0.3})
    assert 50 in told
    assert any(isinstance(text, str) and text.endswith("s left") for text in told)


def test_a_second_run_waits_for_none_and_does_nothing(page):
    async def again():
        await page.started()
        page.runner.run(count, {"upto": 1}, show=page.shown.append)

    page.drive(count, {"upto": 3, "pause": 0.2}, again)
    assert page.shown == [3]


def test_cancel(page):
    async def cancel():
        await page.started()
        page.runner.cancel()

    page.drive(count, {"upto": 2, "pause": PATIENCE}, cancel)
    assert (page.runner.status.object, page.runner.status.severity) == ("Stopped.", "warning")
    assert page.shown == []


def test_a_job_cancelled_when_it_has_finished_shows_nothing(page, monkeypatch):
    def late(update):  # the document's turn comes after a parameter has moved
        if page.runner.job.done():
            page.runner.cancel()
        update()

    monkeypatch.setattr("explorer.interface.job.on_document", late)
    page.drive(count, {"upto": 1})
    assert (page.shown, page.runner.status.object) == ([], "Stopped.")


def test_dead_worker_is_reported_and_the_next_job_runs(page):
    async def kill():
        await page.started()
        os.kill(page.runner.job.pid, signal.SIGKILL)

    page.drive(count, {"upto": 2, "pause": PATIENCE}, kill)
    assert page.runner.status.object.startswith("It failed: the worker process ended")
    page.drive(count, {"upto": 3})
    assert page.shown == [3]


def test_full_pool_and_errors_are_explained(page):
    page.drive(fail, {})
    assert page.runner.status.object == "It failed: no such thing"
    page.runner.engine.submit(count, upto=1, pause=PATIENCE)
    page.drive(count, {"upto": 1})
    assert "the worker pool is full" in page.runner.status.object
    assert page.shown == []


def test_a_queued_job_says_that_it_waits():
    page = Page()
    page.runner.engine = LocalEngine(max_workers=1, max_queued=1)
    blocker = page.runner.engine.submit(count, upto=1, pause=PATIENCE)

    async def free():
        while not page.runner.status.object.startswith("Waiting until other"):
            await asyncio.sleep(0.05)
        blocker.cancel()

    page.drive(count, {"upto": 4}, free)
    assert page.shown == [4]
