"""Processes of this machine that compute for another process: how they start, what they may disturb, when they end."""

import contextlib
import importlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.compute.job import JobCancelled, JobTimedOut, Kind, WorkerDied, pickled_error

if TYPE_CHECKING:  # Windows has no ForkServerContext
    from multiprocessing.context import ForkServerContext, SpawnContext

importlib.import_module("_multiprocessing")  # ImportError where there are no processes, as in Pyodide

JOB_NICENESS = 19  # an answer to a slider is computed before a job: moves of a slider are followed by idle time
POLL_SECONDS = 0.05
# What takes seconds to import. A fork server loads it once, and starts a job's process in milliseconds.
PRELOADED = ["explorer.learning", "explorer.datasets", "explorer.uploads", "param"]


def process_context() -> "ForkServerContext | SpawnContext":
    """How processes for work are started: by a fork server, or where there is none, as on Windows, by spawning."""
    if "forkserver" not in multiprocessing.get_all_start_methods() or sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def prepare_processes() -> None:
    """Start the fork server now, so that the first job does not wait for its imports."""
    if process_context().get_start_method() == "forkserver":
        from multiprocessing import forkserver

        forkserver.ensure_running()


def run_in_process(
    work: bytes, *, deliver: Callable[[Kind, Any], None], cancelled: threading.Event, timeout_seconds: float
) -> tuple[Kind, bytes]:
    """Run packed work in a fresh process, and kill it when it is cancelled or takes too long.

    A process for each job: cancelling works however deep in a library the job is, a crash ends nothing else, and
    nothing of one session's data stays for the next.

    Parameters
    ----------
    work : bytes, see job.pack
    deliver : callable as deliver(kind, content), for "started" and "message"
    cancelled : Event
    timeout_seconds : float

    Returns
    -------
    "value" or "error", and the pickled content

    Raises
    ------
    JobCancelled, JobTimedOut, WorkerDied
    """
    context = process_context()
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_perform, args=(there, work), daemon=True)
    try:
        process.start()
    except OSError as error:
        raise WorkerDied(f"no worker process could be started ({error.strerror}); try again later") from None
    there.close()
    deliver("started", process.pid)
    try:
        return _listen(here, deliver, cancelled, timeout_seconds)
    finally:
        process.kill()
        process.join()
        process.close()
        here.close()


def _listen(connection, deliver, cancelled, timeout_seconds) -> tuple[Kind, bytes]:
    deadline = time.monotonic() + timeout_seconds
    while not cancelled.is_set():
        if time.monotonic() > deadline:
            raise JobTimedOut(f"stopped after {timeout_seconds:g} s, the longest that one computation may run")
        if not connection.poll(POLL_SECONDS):
            continue
        try:
            kind, content = connection.recv()
        except (EOFError, OSError):
            raise WorkerDied("the worker process ended without an answer; nothing was lost, run it again") from None
        if kind != "message":
            return kind, content
        deliver(kind, content)
    raise JobCancelled("cancelled while it ran")


def _perform(connection, work: bytes) -> None:
    """In the job's process: do packed work, and send what it reports and returns."""
    lower_priority()
    try:
        function, arguments = pickle.loads(work)
        value = function(report=lambda message: connection.send(("message", pickle.dumps(message))), **arguments)
        connection.send(("value", pickle.dumps(value)))
    except Exception as error:
        connection.send(("error", pickled_error(error)))


def exit_with_parent(end: Callable[[], object] = lambda: os._exit(1)) -> None:
    """Call `end` when the process that started this one has ended, however it ended."""

    def watch():
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
        end()

    threading.Thread(target=watch, name="explorer-parent", daemon=True).start()


def lower_priority(niceness: int = JOB_NICENESS) -> None:
    """Run this process, which computes for another, at lower priority, and exit when its parent exits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then ends its jobs
    exit_with_parent()
    if hasattr(os, "nice"):
        os.nice(niceness)
    with contextlib.suppress(OSError):  # when memory runs out, Linux is to kill a job and not a server
        Path("/proc/self/oom_score_adj").write_text("500")
