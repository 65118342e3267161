"""The pool: answers, progress, errors, cancel, a dead worker, and its bound."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from explorer.workers import JobCancelled, PoolFull, WorkerDied, WorkerPool, shared_pool

PATIENCE = 60  # seconds; generous, since starting a process on a busy machine can take a few


@pytest.fixture(scope="module")
def pool():
    return WorkerPool(max_workers=2, max_queued=2)


def square(*, report, x):
    report("squaring")
    report(x)
    return x * x


def fail(*, report):
    raise ValueError("x must be positive: got x=-1")


def sleep(*, report):
    report(os.getpid())
    time.sleep(PATIENCE)


def first_message(job):
    deadline = time.monotonic() + PATIENCE
    while not job.messages and time.monotonic() < deadline:
        time.sleep(0.02)
    return job.messages.popleft()


def test_value_and_progress_in_order(pool):
    job = pool.submit(square, x=7)
    assert job.result(PATIENCE) == 49
    assert list(job.messages) == ["squaring", 7]
    assert job.done()


def test_error_of_the_function_is_raised_here(pool):
    with pytest.raises(ValueError, match="x must be positive: got x=-1"):
        pool.submit(fail).result(PATIENCE)


def test_cancel_stops_the_process(pool):
    job = pool.submit(sleep)
    pid = first_message(job)
    job.cancel()
    with pytest.raises(JobCancelled):
        job.result(PATIENCE)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_dead_worker_is_an_error_and_others_notice_nothing(pool):
    other, job = pool.submit(sleep), pool.submit(sleep)
    first_message(other)
    os.kill(first_message(job), signal.SIGKILL)
    with pytest.raises(WorkerDied, match="run it again"):
        job.result(PATIENCE)
    assert not other.done()
    other.cancel()
    assert pool.submit(square, x=3).result(PATIENCE) == 9


def test_full_pool_refuses_and_recovers(pool):
    jobs = [pool.submit(sleep) for _ in range(4)]
    with pytest.raises(PoolFull, match="the worker pool is full"):
        pool.submit(square, x=1)
    for job in jobs:
        job.cancel()
    for job in jobs:
        with pytest.raises(JobCancelled):
            job.result(PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            assert pool.submit(square, x=2).result(PATIENCE) == 4
            return
        except PoolFull:  # the room is given back just after the result is
            time.sleep(0.02)
    raise AssertionError("the pool did not recover")


def test_one_pool_for_all_sessions():
    assert shared_pool() is shared_pool()


def test_a_program_that_ends_does_not_wait_for_its_jobs():
    code = "from explorer.workers import WorkerPool; from tests.test_workers import sleep; WorkerPool().submit(sleep)"
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1], check=True, timeout=0.9 * PATIENCE)
