"""One engine for two servers: its limits hold across them, and either side may die."""

import multiprocessing
import os
import signal

import pytest
from work import PATIENCE, fail, first_message, gone, sleep, square, stop, until

from explorer.compute import PoolFull, PoolLost, WorkerDied
from explorer.compute.local import LocalEngine
from explorer.compute.remote import RemoteEngine, serve_engine

SPAWN = multiprocessing.get_context("spawn")
KEY = b"a key of the test"


def run_engine(address):
    serve_engine(LocalEngine(max_workers=2, max_queued=2, max_per_session=3), address=address, authkey=KEY)


def submit_and_wait(address, connection):
    """A server process: it submits two jobs for one session, sends the process id of one, and waits to be killed."""
    engine = RemoteEngine(address, authkey=KEY)
    jobs = [engine.submit(sleep, session="one") for _ in range(2)]
    connection.send(first_message(jobs[0]))
    connection.recv()


class EngineProcess:
    def __init__(self, address):
        self.address = address
        self.start()

    def start(self):
        self.process = SPAWN.Process(target=run_engine, args=(self.address,))
        self.process.start()
        client = RemoteEngine(self.address, authkey=KEY)
        until(client.ready)

    def kill(self):
        self.process.kill()
        self.process.join()


@pytest.fixture(scope="module")
def process_of_engine(tmp_path_factory):
    process_of_engine = EngineProcess(str(tmp_path_factory.mktemp("pool") / "socket"))
    yield process_of_engine
    process_of_engine.kill()


@pytest.fixture
def client(process_of_engine):
    return RemoteEngine(process_of_engine.address, authkey=KEY)


def test_values_messages_and_errors_come_through(client):
    job = client.submit(square, x=7)
    assert job.result(PATIENCE) == 49
    assert list(job.messages) == ["squaring", 7]
    with pytest.raises(ValueError, match="x must be positive: got x=-1"):
        client.submit(fail).result(PATIENCE)
    assert client.unfinished() == 0


def test_the_limits_hold_across_servers(process_of_engine, client):
    other = RemoteEngine(process_of_engine.address, authkey=KEY)
    mine = [client.submit(sleep, session="one") for _ in range(3)]
    until(lambda: mine[2].ahead == 0 and mine[1].started)
    with pytest.raises(PoolFull, match="3 computations of this session"):
        client.submit(sleep, session="one").result(PATIENCE)
    theirs = other.submit(square, session="one", x=2)  # another server's session of that name is another session
    until(lambda: mine[2].ahead == 1)  # and starts first
    with pytest.raises(PoolFull, match="the worker pool is full"):
        other.submit(square, x=1).result(PATIENCE)
    pid = first_message(mine[0])
    stop(mine[0])
    assert theirs.result(PATIENCE) == 4
    until(lambda: gone(pid))
    stop(*mine[1:])


def test_a_dead_worker_fails_its_own_job_alone(process_of_engine, client):
    other = RemoteEngine(process_of_engine.address, authkey=KEY).submit(sleep)
    first_message(other)
    job = client.submit(sleep)
    os.kill(first_message(job), signal.SIGKILL)
    with pytest.raises(WorkerDied, match="run it again"):
        job.result(PATIENCE)
    assert client.submit(square, x=3).result(PATIENCE) == 9
    assert not other.done()
    stop(other)


def test_the_jobs_of_a_server_that_dies_are_cancelled(process_of_engine, client):
    here, there = SPAWN.Pipe()
    server = SPAWN.Process(target=submit_and_wait, args=(process_of_engine.address, there))
    server.start()
    assert here.poll(PATIENCE)
    pid = here.recv()
    server.kill()
    server.join()
    until(lambda: gone(pid))

    def all_places_are_free():
        jobs = [client.submit(square, x=x) for x in range(4)]
        try:
            return [job.result(PATIENCE) for job in jobs] == [0, 1, 4, 9]
        except PoolFull:  # the second job ends a moment after the first
            return False

    until(all_places_are_free)


def test_an_engine_that_dies_is_an_error_and_its_successor_is_used(process_of_engine, client):
    job = client.submit(sleep)
    pid = first_message(job)
    process_of_engine.kill()
    with pytest.raises(PoolLost, match="try again in a moment"):
        job.result(PATIENCE)
    until(lambda: gone(pid))  # the job's process does not outlive the engine's
    assert not client.ready()
    with pytest.raises(PoolLost):
        client.submit(square, x=5).result(PATIENCE)
    process_of_engine.start()
    assert client.ready()
    assert client.submit(square, x=5).result(PATIENCE) == 25


def test_a_wrong_key_is_refused_and_others_are_served(process_of_engine, client):
    with pytest.raises(PoolLost):
        RemoteEngine(process_of_engine.address, authkey=b"a guess").submit(square, x=1).result(PATIENCE)
    assert client.submit(square, x=1).result(PATIENCE) == 1


def test_a_closed_client_refuses_and_finishes(client):
    job = client.submit(square, x=6)
    client.close("the server is stopping")
    with pytest.raises(PoolFull, match="the server is stopping"):
        client.submit(square, x=6).result(PATIENCE)
    assert job.result(PATIENCE) == 36
