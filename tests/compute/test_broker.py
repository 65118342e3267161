"""One pool for two servers: what WorkerPool promises holds across them, and either side may die."""

import multiprocessing
import os
import signal

import pytest
from work import PATIENCE, fail, first_message, gone, sleep, square, stop, until

from explorer.compute import PoolFull, PoolLost, RemotePool, WorkerDied, WorkerPool, serve_pool

SPAWN = multiprocessing.get_context("spawn")
KEY = b"a key of the test"


def run_pool(address):
    serve_pool(WorkerPool(max_workers=2, max_queued=2, max_per_session=3), address=address, authkey=KEY)


def submit_and_wait(address, connection):
    """A server process: it submits two jobs for the same session, says who does the first, and waits to be killed."""
    pool = RemotePool(address, authkey=KEY)
    jobs = [pool.submit(sleep, session="one") for _ in range(2)]
    connection.send(first_message(jobs[0]))
    connection.recv()


class Broker:
    def __init__(self, address):
        self.address = address
        self.start()

    def start(self):
        self.process = SPAWN.Process(target=run_pool, args=(self.address,))
        self.process.start()
        client = RemotePool(self.address, authkey=KEY)
        until(client.ready)

    def kill(self):
        self.process.kill()
        self.process.join()


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    broker = Broker(str(tmp_path_factory.mktemp("pool") / "socket"))
    yield broker
    broker.kill()


@pytest.fixture
def client(broker):
    return RemotePool(broker.address, authkey=KEY)


def test_values_messages_and_errors_come_through(client):
    job = client.submit(square, x=7)
    assert job.result(PATIENCE) == 49
    assert list(job.messages) == ["squaring", 7]
    with pytest.raises(ValueError, match="x must be positive: got x=-1"):
        client.submit(fail).result(PATIENCE)
    assert client.unfinished() == 0


def test_the_bounds_hold_across_servers(broker, client):
    other = RemotePool(broker.address, authkey=KEY)
    mine = [client.submit(sleep, session="one") for _ in range(3)]
    until(lambda: mine[2].ahead == 0 and mine[1].started)
    with pytest.raises(PoolFull, match="3 computations of this session"):
        client.submit(sleep, session="one").result(PATIENCE)
    theirs = other.submit(square, session="one", x=2)  # another server's session of that name is another session
    until(lambda: mine[2].ahead == 1)  # and has its turn first
    with pytest.raises(PoolFull, match="the worker pool is full"):
        other.submit(square, x=1).result(PATIENCE)
    pid = first_message(mine[0])
    stop(mine[0])
    assert theirs.result(PATIENCE) == 4
    until(lambda: gone(pid))
    stop(*mine[1:])


def test_a_dead_worker_is_its_own_session_s_error(broker, client):
    other = RemotePool(broker.address, authkey=KEY).submit(sleep)
    first_message(other)
    job = client.submit(sleep)
    os.kill(first_message(job), signal.SIGKILL)
    with pytest.raises(WorkerDied, match="run it again"):
        job.result(PATIENCE)
    assert client.submit(square, x=3).result(PATIENCE) == 9
    assert not other.done()
    stop(other)


def test_a_server_that_dies_takes_its_jobs_along(broker, client):
    here, there = SPAWN.Pipe()
    server = SPAWN.Process(target=submit_and_wait, args=(broker.address, there))
    server.start()
    assert here.poll(PATIENCE)
    pid = here.recv()
    server.kill()
    server.join()
    until(lambda: gone(pid))

    def all_the_room_is_there():
        jobs = [client.submit(square, x=x) for x in range(4)]
        try:
            return [job.result(PATIENCE) for job in jobs] == [0, 1, 4, 9]
        except PoolFull:  # the second job ends a moment after the first
            return False

    until(all_the_room_is_there)


def test_a_pool_that_dies_is_an_error_and_its_successor_is_used(broker, client):
    job = client.submit(sleep)
    pid = first_message(job)
    broker.kill()
    with pytest.raises(PoolLost, match="try again in a moment"):
        job.result(PATIENCE)
    until(lambda: gone(pid))  # the job's own process does not outlive the pool
    assert not client.ready()
    with pytest.raises(PoolLost):
        client.submit(square, x=5).result(PATIENCE)
    broker.start()
    assert client.ready()
    assert client.submit(square, x=5).result(PATIENCE) == 25


def test_a_stranger_is_refused_and_disturbs_no_one(broker, client):
    with pytest.raises(PoolLost):
        RemotePool(broker.address, authkey=b"a guess").submit(square, x=1).result(PATIENCE)
    assert client.submit(square, x=1).result(PATIENCE) == 1


def test_a_closed_client_refuses_and_finishes(client):
    job = client.submit(square, x=6)
    client.close("the server is stopping")
    with pytest.raises(PoolFull, match="the server is stopping"):
        client.submit(square, x=6).result(PATIENCE)
    assert job.result(PATIENCE) == 36
