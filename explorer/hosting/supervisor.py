"""The main process of `python -m explorer host`: it starts the engine and the servers, and restarts those that die."""

import logging
import multiprocessing
import os
import secrets
import signal
import tempfile
import time
from functools import partial
from multiprocessing.connection import wait

from explorer import compute
from explorer.compute.processes import exit_with_parent
from explorer.compute.remote import serve_engine
from explorer.hosting.logs import configure_logging
from explorer.hosting.server import run_server

log = logging.getLogger("explorer.hosting")

LOOK_SECONDS = 0.5
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 30  # before a restart; longer after each restart that fails
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
    with tempfile.TemporaryDirectory(prefix="explorer-") as folder:  # readable for this user alone
        address, secret = os.path.join(folder, "jobs"), secrets.token_hex(32)
        servers = [
            Supervisor(f"server {i}", partial(run_server, settings, index=i, jobs_address=address, secret=secret))
            for i in range(settings.servers)
        ]
        jobs = Supervisor("engine", partial(run_jobs, settings, address))
        log.info("hosting for %s with %d servers; stop with SIGTERM", settings.origin, settings.servers)
        while not stopping:
            for supervisor in (jobs, *servers):
                supervisor.keep_running()
            wait([supervisor.process.sentinel for supervisor in (jobs, *servers) if supervisor.process], LOOK_SECONDS)
        _stop(servers, settings.stop_seconds + GRACE_SECONDS)
        _stop([jobs], GRACE_SECONDS)
    log.info("stopped")


def run_jobs(settings, address):
    """Run the jobs of all servers; exits with its parent process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    engine = compute.choose(
        settings.scheduler,
        max_workers=settings.workers or None,
        max_queued=settings.queued,
        max_per_session=settings.queued_per_session,
        timeout_seconds=settings.job_seconds,
    )
    configure_logging()  # after the engine's libraries, which may have set up handlers
    exit_with_parent()
    engine.prepare()
    log.info("the engine runs the jobs of all servers%s", " on a Dask cluster" if settings.scheduler else "")
    serve_engine(engine, address=address, authkey=bytes(multiprocessing.current_process().authkey))


class Supervisor:
    """Restarts one process whenever it ends, with growing pauses if it keeps ending.

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
        """Start the process if it does not run and the pause before a restart is over."""
        now = time.monotonic()
        if self.process is not None and not self.process.is_alive():
            log.error("%s ended with exit code %s and is restarted", self.name, self.process.exitcode)
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
