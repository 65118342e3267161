"""The local engine's jobs: values, progress, errors, cancelling, a dead worker, limits, priorities and turns."""

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

from explorer.compute import JobTimedOut, PoolFull, Priority, WorkerDied
from explorer.compute.local import LocalEngine
from explorer.compute.queued import fair_order


@pytest.fixture(scope="module")
def engine():
    return LocalEngine(max_workers=2, max_queued=3, max_per_session=3)


def test_value_and_progress_in_order(engine):
    job = engine.submit(square, x=7)
    assert job.result(PATIENCE) == 49
    assert list(job.messages) == ["squaring", 7]
    assert job.done() and job.started


def test_error_of_the_function_is_raised_here(engine):
    with pytest.raises(ValueError, match="x must be positive: got x=-1"):
        engine.submit(fail).result(PATIENCE)
    with pytest.raises(RuntimeError, match="Unreadable: no third way"):
        engine.submit(fail_unreadably).result(PATIENCE)


def test_cancel_stops_the_process(engine):
    job = engine.submit(sleep)
    pid = first_message(job)
    assert pid == job.pid
    stop(job)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_dead_worker_is_an_error_and_others_notice_nothing(engine):
    other, job = engine.submit(sleep), engine.submit(sleep)
    first_message(other)
    os.kill(first_message(job), signal.SIGKILL)
    with pytest.raises(WorkerDied, match="run it again"):
        job.result(PATIENCE)
    assert not other.done()
    stop(other)
    assert engine.submit(square, x=3).result(PATIENCE) == 9


def test_full_pool_refuses_and_recovers(engine):
    jobs = [engine.submit(sleep) for _ in range(5)]
    with pytest.raises(PoolFull, match="the worker pool is full"):
        engine.submit(square, x=1).result(PATIENCE)
    stop(*jobs)
    assert engine.submit(square, x=2).result(PATIENCE) == 4


def test_a_session_has_its_limit_and_others_keep_theirs(engine):
    greedy = [engine.submit(sleep, session="greedy") for _ in range(3)]
    with pytest.raises(PoolFull, match="3 computations of this session"):
        engine.submit(square, session="greedy", x=1).result(PATIENCE)
    until(lambda: [job.started for job in greedy] == [True, True, False])
    modest = engine.submit(stamp, session="modest")
    assert (greedy[2].ahead, modest.ahead) == (1, 0)  # later, and yet first: the other session runs two
    greedy[0].cancel()
    modest.result(PATIENCE)
    stop(*greedy)


def test_a_job_that_takes_too_long_is_stopped():
    job = LocalEngine(max_workers=1, timeout_seconds=0.5).submit(sleep)
    with pytest.raises(JobTimedOut, match=r"stopped after 0\.5 s, the longest"):
        job.result(PATIENCE)


def test_a_higher_priority_starts_first(engine):
    blockers = [engine.submit(sleep) for _ in range(2)]
    until(lambda: all(job.started for job in blockers))
    study = engine.submit(stamp, session="early", priority=Priority.LOW)
    fit = engine.submit(stamp, session="late")
    assert (study.ahead, fit.ahead) == (1, 0)
    stop(blockers[0])
    assert fit.result(PATIENCE) < study.result(PATIENCE)
    stop(blockers[1])


def test_a_closed_engine_refuses_and_finishes():
    engine = LocalEngine(max_workers=1)
    job = engine.submit(square, x=6)
    engine.close("the server is stopping")
    with pytest.raises(PoolFull, match="the server is stopping"):
        engine.submit(square, x=6).result(PATIENCE)
    assert job.result(PATIENCE) == 36
    until(lambda: engine.unfinished() == 0)


@given(
    st.dictionaries(st.integers(0, 5), st.lists(st.integers(0, 5), min_size=1, max_size=3), max_size=6),
    st.dictionaries(st.integers(0, 5), st.integers(0, 3)),
)
def test_fair_order_serves_everyone_and_lets_no_one_run_ahead(queued, running):
    waiting = {}  # by priority and session
    for session, priorities in queued.items():
        for number, priority in enumerate(sorted(priorities, reverse=True)):
            waiting.setdefault(priority, {}).setdefault(session, deque()).append((priority, session, number))
    order = list(fair_order(waiting, Counter(running)))
    assert [priority for priority, *_ in order] == sorted((p for ps in queued.values() for p in ps), reverse=True)
    served = Counter(running)
    left = {priority: Counter({s: len(tasks) for s, tasks in each.items()}) for priority, each in waiting.items()}
    for session, priorities in queued.items():
        assert [task[2] for task in order if task[1] == session] == list(range(len(priorities)))  # its own in order
    for priority, session, _ in order:
        assert served[session] == min(served[s] for s, n in left[priority].items() if n)
        served[session] += 1
        left[priority][session] -= 1


def test_a_program_that_ends_does_not_wait_for_its_jobs():
    code = "from explorer.compute import engine; from work import sleep; engine().submit(sleep)"
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), str(here.parents[1])])}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=0.9 * PATIENCE)
