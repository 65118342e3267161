"""The process that `python -m explorer host` is: it starts the pool and the servers, and starts again what died."""

import logging
import multiprocessing
import os
import secrets
import signal
import tempfile
import time
from functools import partial
from multiprocessing.connection import wait

from explorer.compute import WorkerPool, prepare_processes, serve_pool
from explorer.compute.jobs import end_with_parent
from explorer.hosting.logs import configure_logging
from explorer.hosting.server import run_server

log = logging.getLogger("explorer.hosting")

LOOK_SECONDS = 0.5
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 30  # before starting again what died, and died again
GRACE_SECONDS = 5


def host(settings):
    """Run a hosted explorer until SIGTERM or Ctrl-C.

    Parameters
    ----------
    settings : Settings
    """
    configure_logging()
    stopping = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: stopping.append(number))
    with tempfile.TemporaryDirectory(prefix="explorer-") as folder:  # only this user can look into it
        address, secret = os.path.join(folder, "pool"), secrets.token_hex(32)
        servers = [
            Supervisor(f"server {i}", partial(run_server, settings, index=i, pool_address=address, secret=secret))
            for i in range(settings.servers)
        ]
        pool = Supervisor("pool", partial(run_pool, settings, address))
        log.info("hosting for %s with %d servers; stop with SIGTERM", settings.origin, settings.servers)
        while not stopping:
            for supervisor in (pool, *servers):
                supervisor.keep_running()
            wait([supervisor.process.sentinel for supervisor in (pool, *servers) if supervisor.process], LOOK_SECONDS)
        _stop(servers, settings.stop_seconds + GRACE_SECONDS)
        _stop([pool], GRACE_SECONDS)
    log.info("stopped")


def run_pool(settings, address):
    """The process of the pool, which ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    configure_logging()
    end_with_parent()
    pool = WorkerPool(
        max_workers=settings.workers,
        max_queued=settings.queued,
        max_per_session=settings.queued_per_session,
        timeout_seconds=settings.job_seconds,
    )
    prepare_processes()
    log.info("the pool runs %d computations at a time", pool.max_workers)
    serve_pool(pool, address=address, authkey=bytes(multiprocessing.current_process().authkey))


class Supervisor:
    """Keeps one process running; if it dies again and again, with growing pauses.

    Parameters
    ----------
    name : str
    target : picklable callable without arguments
    """

    def __init__(self, name, target):
        self.name, self.target = name, target
        self.process = None
        self.pause, self.start_at, self.started_at = 0.0, 0.0, 0.0

    def keep_running(self):
        """Start the process if it does not run and its pause is over."""
        now = time.monotonic()
        if self.process is not None and not self.process.is_alive():
            log.error("%s ended with exit code %s and is started again", self.name, self.process.exitcode)
            healthy = now - self.started_at > 2 * LONGEST_PAUSE_SECONDS
            self.pause = FIRST_PAUSE_SECONDS if healthy else min(max(2 * self.pause, 0.5), LONGEST_PAUSE_SECONDS)
            self.process, self.start_at = None, now + self.pause
        if self.process is None and now >= self.start_at:
            # A fresh interpreter: a copy of this process would share its signals and its random numbers.
            self.process = multiprocessing.get_context("spawn").Process(target=self.target, name=self.name)
            self.process.start()
            self.started_at = now


def _stop(supervisors, patience_seconds):
    processes = [supervisor.process for supervisor in supervisors if supervisor.process is not None]
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + patience_seconds
    for process in processes:
        process.join(max(deadline - time.monotonic(), 0))
        if process.is_alive():
            log.error("%s did not stop in time", process.name)
            process.kill()
            process.join()
