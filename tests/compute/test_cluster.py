"""The engine of a Dask cluster, with a scheduler and workers in processes of their own, of which some are killed."""

import os
import pickle
import signal
import threading
import time
from functools import partial

import pytest
from work import (
    PATIENCE,
    count_slowly,
    fail,
    fail_unreadably,
    first_message,
    fit,
    gone,
    sleep,
    square,
    stamp,
    stop,
    until,
)

from explorer.compute import JobCancelled, JobTimedOut, PoolFull, PoolLost, WorkerDied, choose
from explorer.compute.interface import scheduler_address
from explorer.compute.job import pickled_error

LocalCluster = pytest.importorskip("distributed").LocalCluster
ClusterEngine = pytest.importorskip("explorer.compute.cluster").ClusterEngine

CANCEL_SECONDS = 2  # within these a user's cancel is to be answered and the worker to be free


def start_cluster(workers=2, **options):
    return LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0, **options
    )


@pytest.fixture(scope="module")
def cluster():
    with start_cluster() as cluster:
        yield cluster


@pytest.fixture
def engine(cluster):
    engine = ClusterEngine(cluster.scheduler_address, max_queued=3, max_per_session=3)
    until(lambda: engine.ready() and engine.capacity() == 2)
    yield engine
    until(lambda: engine.unfinished() == 0)


def worker_pids(engine):
    return engine._client.run(os.getpid)


def test_a_fit_runs_in_a_process_that_its_worker_started(engine):
    job = engine.submit(fit)
    pid, shape, epsilon = job.result(PATIENCE)
    assert pid == job.pid
    assert pid not in {os.getpid(), *worker_pids(engine).values()}
    assert shape[-1] == 5
    assert epsilon <= 1
    assert list(job.messages) == ["data"]


def test_progress_arrives_in_order_while_the_job_runs(engine):
    job = engine.submit(count_slowly, upto=20)
    assert first_message(job) == 0
    assert not job.done()
    assert job.result(PATIENCE) == 20
    assert list(job.messages) == list(range(1, 20))


def test_errors_are_raised_here(engine):
    with pytest.raises(ValueError, match="x must be positive: got x=-1"):
        engine.submit(fail).result(PATIENCE)
    with pytest.raises(RuntimeError, match="Unreadable: no third way"):
        engine.submit(fail_unreadably).result(PATIENCE)


def test_cancel_answers_and_frees_the_worker_in_time(engine):
    jobs = [engine.submit(sleep) for _ in range(2)]
    pids = [first_message(job) for job in jobs]
    waiting = engine.submit(square, x=3)
    began = time.monotonic()
    jobs[0].cancel()
    with pytest.raises(JobCancelled):
        jobs[0].result(CANCEL_SECONDS)
    until(lambda: gone(pids[0]))
    assert time.monotonic() - began < CANCEL_SECONDS
    assert waiting.result(PATIENCE) == 9
    stop(jobs[1])


def test_a_job_that_waits_is_cancelled_at_once(engine):
    running = [engine.submit(sleep) for _ in range(2)]
    waiting = engine.submit(sleep)
    until(lambda: all(job.started for job in running))
    waiting.cancel()
    with pytest.raises(JobCancelled, match="before it started"):
        waiting.result(0)
    stop(*running)


def test_a_job_that_takes_too_long_is_stopped(cluster):
    engine = ClusterEngine(cluster.scheduler_address, timeout_seconds=0.5)
    with pytest.raises(JobTimedOut, match=r"stopped after 0\.5 s"):
        engine.submit(sleep).result(PATIENCE)


def test_a_dead_process_of_a_job_is_an_error_and_its_worker_stays(engine):
    workers = worker_pids(engine)
    other, job = engine.submit(sleep), engine.submit(sleep)
    first_message(other)
    os.kill(first_message(job), signal.SIGKILL)
    with pytest.raises(WorkerDied, match="run it again"):
        job.result(PATIENCE)
    assert not other.done()
    stop(other)
    assert worker_pids(engine) == workers


def test_a_killed_worker_is_an_error_of_its_own_job_which_is_not_run_again(engine):
    jobs = [engine.submit(sleep) for _ in range(2)]
    for job in jobs:
        first_message(job)
    workers = worker_pids(engine)
    address = next(address for address in workers if _runs(engine, address, jobs[0]))
    os.kill(workers[address], signal.SIGKILL)
    with pytest.raises(WorkerDied, match="the Dask worker that ran this was lost"):
        jobs[0].result(PATIENCE)
    until(lambda: gone(jobs[0].pid))  # the job's process does not outlive its worker
    assert not jobs[1].done()
    assert not jobs[0].messages
    until(lambda: engine.capacity() == 2)  # Dask has started another
    assert engine.submit(square, x=4).result(PATIENCE) == 16
    stop(jobs[1])


def _runs(engine, address, job):
    children = engine._client.run(_parent_of, job.pid, workers=[address])
    return children[address]


def _parent_of(pid):
    """Whether this process has started the process with this id: by its fork server, which is its child."""
    with open(f"/proc/{pid}/stat") as stat:
        fork_server = stat.read().rpartition(")")[2].split()[1]
    with open(f"/proc/{fork_server}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1]) == os.getpid()


def test_the_limits_hold_and_sessions_take_turns(engine):
    greedy = [engine.submit(sleep, session="greedy") for _ in range(3)]
    with pytest.raises(PoolFull, match="3 computations of this session"):
        engine.submit(square, session="greedy", x=1).result(PATIENCE)
    until(lambda: [job.started for job in greedy] == [True, True, False])
    modest = engine.submit(stamp, session="modest")
    assert (greedy[2].ahead, modest.ahead) == (1, 0)  # later, and yet first: the other session runs two
    others = [engine.submit(stamp, session=session) for session in ("third",)]
    with pytest.raises(PoolFull, match="the worker pool is full"):
        engine.submit(stamp, session="fourth").result(PATIENCE)
    greedy[0].cancel()
    modest.result(PATIENCE)
    for job in others:
        job.result(PATIENCE)
    stop(*greedy)


def test_answers_come_from_the_workers_also_while_these_run_jobs(engine):
    jobs = [engine.submit(sleep) for _ in range(2)]
    until(lambda: all(job.started for job in jobs))
    assert engine.answer(os.getpid).result(PATIENCE) in worker_pids(engine).values()
    assert engine.recall(os.getpid) in worker_pids(engine).values()
    with pytest.raises(ValueError, match="invalid literal"):
        engine.answer(partial(int, "seven")).result(PATIENCE)
    uploaded = threading.current_thread()
    assert engine.answer(lambda: (uploaded, os.getpid())).result(PATIENCE) == (uploaded, os.getpid())
    stop(*jobs)


def test_a_scheduler_that_goes_away_is_an_error_and_its_successor_is_used():
    with start_cluster(workers=1) as cluster:
        address = cluster.scheduler_address
        engine = ClusterEngine(address)
        job, waiting = engine.submit(sleep), engine.submit(sleep)
        pid = first_message(job)
    for lost in (job, waiting):
        with pytest.raises((PoolLost, WorkerDied)):  # the workers may be seen to go first
            lost.result(PATIENCE)
    until(lambda: gone(pid))
    until(lambda: not engine.ready())
    with pytest.raises(PoolLost, match=f"{address} cannot be reached; try again"):
        engine.submit(square, x=5).result(PATIENCE)
    assert engine.answer(os.getpid).result(PATIENCE) == os.getpid()  # computed here
    with start_cluster(workers=1, scheduler_port=int(address.rpartition(":")[2])):
        until(engine.ready)
        assert engine.submit(square, x=5).result(PATIENCE) == 25


class DefinedAfterDaskWasLoaded(Exception):
    """An exception that pickle can write and not read, as some of Dask's own are."""

    def __init__(self, first, second):
        super().__init__(first)


def test_an_error_can_be_read_whatever_it_was_raised_from():
    """Dask has exceptions pickled together with what they came from."""
    try:
        try:
            raise DefinedAfterDaskWasLoaded("one", "two")
        except DefinedAfterDaskWasLoaded:
            raise PoolLost("try again") from None
    except PoolLost as error:
        sent = pickle.loads(pickled_error(error))
    assert isinstance(sent, PoolLost) and str(sent) == "try again"


def test_the_address_of_a_scheduler_is_checked_and_chooses_the_engine(monkeypatch):
    with pytest.raises(ValueError, match="must be an address like tcp://host:8786: got scheduler='host:8786'"):
        scheduler_address("host:8786")
    monkeypatch.setenv("EXPLORER_SCHEDULER", "tcp://127.0.0.1:9")
    engine = choose()
    assert isinstance(engine, ClusterEngine) and engine.on_cluster
    assert not engine.ready(timeout=PATIENCE)
