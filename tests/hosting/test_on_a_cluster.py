"""A hosted explorer whose jobs run on a Dask cluster: a fit, a cancel, a worker that is killed, no cluster at all."""

import asyncio
import os
import signal
import time

import pytest

from tests.hosting.conftest import PATIENCE, Host, get, until
from tests.hosting.connection import Document

distributed = pytest.importorskip("distributed")
TOPIC = pytest.importorskip("explorer.compute.cluster").TOPIC

CANCEL_SECONDS = 2


class Cluster:
    """A scheduler with one worker, and what the jobs' workers have reported."""

    def __init__(self):
        self.dask = distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
        )
        self.client = distributed.Client(self.dask, set_as_default=False)

    def started(self):
        """Process ids of all jobs so far."""
        return [pid for _, (_, kind, pid) in self.client.get_events(TOPIC) if kind == "started"]

    def close(self):
        self.client.close()
        self.dask.close()


@pytest.fixture(scope="module")
def cluster():
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def host(cluster, tmp_path_factory):
    host = Host(tmp_path_factory.mktemp("hosted"), servers=1, scheduler=cluster.dask.scheduler_address)
    yield host
    host.stop()


async def said(page, text):
    """Wait for a message that contains the text."""
    while text not in await page.answer():
        pass


async def visit(host):
    page = await Document.visit(host.address, "?page=fit")
    return page, page.component(label="Train")[0], page.component(label="Cancel")[0]


async def held(cluster, page, train):
    """Start a fit and stop its process for a while: none is so slow that a test could count on it; returns its id."""
    before = len(cluster.started())
    await page.click(train)
    while len(pids := cluster.started()) == before:
        await asyncio.sleep(0.01)
    os.kill(pids[-1], signal.SIGSTOP)
    return pids[-1]


def test_a_fit_runs_on_the_cluster_and_is_shown(cluster, host):
    async def run():
        page, train, _ = await visit(host)
        assert "one of its workers hold it until the training ends" in str(page.models)  # of an uploaded file
        await page.click(train)
        await said(page, "in the median of 20 draws")
        page.close()

    until(host.ready, "the cluster is reached")
    before = len(cluster.started())
    asyncio.run(run())
    assert len(cluster.started()) == before + 1


def test_a_cancel_is_answered_in_time_and_the_worker_takes_the_next_fit(cluster, host):
    async def run():
        page, train, cancel = await visit(host)
        pid = await held(cluster, page, train)
        began = time.monotonic()
        await page.click(cancel)
        await said(page, "Cancelled")
        assert time.monotonic() - began < CANCEL_SECONDS
        await page.click(train)
        await said(page, "in the median of 20 draws")
        assert not os.path.exists(f"/proc/{pid}")
        page.close()

    asyncio.run(run())


def test_who_waits_for_a_killed_worker_is_told(cluster, host):
    async def run():
        page, train, _ = await visit(host)
        await held(cluster, page, train)
        (worker,) = cluster.client.run(os.getpid).values()
        os.kill(worker, signal.SIGKILL)
        await said(page, "the Dask worker that ran this was lost")
        page.close()

    asyncio.run(run())
    until(host.ready, "Dask has started another worker")


def test_without_its_cluster_the_host_is_not_ready_and_a_page_says_why(cluster, host):
    async def run():
        page, train, _ = await visit(host)
        await page.click(train)
        await said(page, "cannot be reached; try again in a moment")
        page.close()

    cluster.close()
    until(lambda: not host.ready(), "the loss is noticed")
    assert '"pool": false' in get(f"{host.address}/readyz")[2]
    asyncio.run(asyncio.wait_for(run(), PATIENCE))
    assert host.stop() == 0
    assert "the Dask scheduler cannot be reached" in host.log()
