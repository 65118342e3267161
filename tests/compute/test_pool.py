"""The pool: answers, progress, errors, cancel, a dead worker, its bounds, and whose turn it is."""

import os
import signal
import subprocess
import sys
from collections import Counter, deque
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from work import PATIENCE, fail, fail_unreadably, first_message, sleep, square, stamp, stop, until

from explorer.compute import JobTimedOut, PoolFull, WorkerDied, WorkerPool, shared_pool
from explorer.compute.pool import fair_order


@pytest.fixture(scope="module")
def pool():
    return WorkerPool(max_workers=2, max_queued=3, max_per_session=3)


def test_value_and_progress_in_order(pool):
    job = pool.submit(square, x=7)
    assert job.result(PATIENCE) == 49
    assert list(job.messages) == ["squaring", 7]
    assert job.done() and job.started


def test_error_of_the_function_is_raised_here(pool):
    with pytest.raises(ValueError, match="x must be positive: got x=-1"):
        pool.submit(fail).result(PATIENCE)
    with pytest.raises(RuntimeError, match="Unreadable: no third way"):
        pool.submit(fail_unreadably).result(PATIENCE)


def test_cancel_stops_the_process(pool):
    job = pool.submit(sleep)
    pid = first_message(job)
    assert pid == job.pid
    stop(job)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_dead_worker_is_an_error_and_others_notice_nothing(pool):
    other, job = pool.submit(sleep), pool.submit(sleep)
    first_message(other)
    os.kill(first_message(job), signal.SIGKILL)
    with pytest.raises(WorkerDied, match="run it again"):
        job.result(PATIENCE)
    assert not other.done()
    stop(other)
    assert pool.submit(square, x=3).result(PATIENCE) == 9


def test_full_pool_refuses_and_recovers(pool):
    jobs = [pool.submit(sleep) for _ in range(5)]
    with pytest.raises(PoolFull, match="the worker pool is full"):
        pool.submit(square, x=1).result(PATIENCE)
    stop(*jobs)
    assert pool.submit(square, x=2).result(PATIENCE) == 4


def test_a_session_has_its_limit_and_others_keep_theirs(pool):
    greedy = [pool.submit(sleep, session="greedy") for _ in range(3)]
    with pytest.raises(PoolFull, match="3 computations of this session"):
        pool.submit(square, session="greedy", x=1).result(PATIENCE)
    until(lambda: [job.started for job in greedy] == [True, True, False])
    modest = pool.submit(stamp, session="modest")
    assert (greedy[2].ahead, modest.ahead) == (1, 0)  # later, and yet first: the other session runs two
    greedy[0].cancel()
    modest.result(PATIENCE)
    stop(*greedy)


def test_a_job_that_takes_too_long_is_stopped():
    job = WorkerPool(max_workers=1, timeout_seconds=0.5).submit(sleep)
    with pytest.raises(JobTimedOut, match=r"stopped after 0\.5 s, the longest"):
        job.result(PATIENCE)


@given(
    st.dictionaries(st.integers(0, 5), st.integers(1, 5), max_size=6),
    st.dictionaries(st.integers(0, 5), st.integers(0, 3)),
)
def test_fair_order_serves_everyone_and_lets_no_one_run_ahead(queued, running):
    waiting = {s: deque((s, i) for i in range(n)) for s, n in queued.items()}
    order = list(fair_order(waiting, Counter(running)))
    assert sorted(order) == sorted(task for tasks in waiting.values() for task in tasks)
    for session in waiting:
        assert [task for task in order if task[0] == session] == list(waiting[session])  # its own in order
    served, left = Counter(running), Counter(queued)
    for session, _ in order:
        assert served[session] == min(served[s] for s in left if left[s])
        served[session] += 1
        left[session] -= 1


def test_one_pool_for_all_sessions():
    assert shared_pool() is shared_pool()


def test_a_program_that_ends_does_not_wait_for_its_jobs():
    code = "from explorer.compute import WorkerPool; from work import sleep; WorkerPool().submit(sleep)"
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), str(here.parents[1])])}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=0.9 * PATIENCE)
