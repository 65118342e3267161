"""One bounded pool for long work: each job runs in a process of its own, reports progress and can be stopped.

A job is a module-level function called as function(report=report, **arguments) in a fresh process; whatever it passes
to `report` reaches `Job.messages` in the caller's process, in order. Cancelling ends the process, so it works however
deep in a library the job is; a process that dies takes nothing else with it.
"""

import multiprocessing
import os
import queue
import sys
import threading
from collections import deque
from concurrent.futures import Future

_POLL_SECONDS = 0.05


class JobCancelled(Exception):
    """The job was cancelled before it finished."""


class PoolFull(RuntimeError):
    """The pool runs and queues as much as it may; try again when a job has finished."""


class WorkerDied(RuntimeError):
    """The job's process ended without an answer, for instance because the system killed it."""


class Job:
    """Work handed to a pool: `messages` (a deque, drained by the caller), `done()`, `result()` and `cancel()`."""

    def __init__(self, function, arguments):
        self.function, self.arguments = function, arguments
        self.messages = deque()
        self.process = None
        self._future = Future()
        self._cancelled = threading.Event()

    def cancel(self):
        """Stop the job, queued or running; `result()` then raises JobCancelled. No effect once it has finished."""
        self._cancelled.set()

    def done(self):
        """Whether `result()` returns or raises at once."""
        return self._future.done()

    def result(self, timeout=None):
        """The function's value; raises what the function raised, JobCancelled, WorkerDied, or TimeoutError."""
        return self._future.result(timeout)


class WorkerPool:
    """At most `max_workers` jobs run at a time and `max_queued` wait, first come, first served.

    Parameters
    ----------
    max_workers : int or None for the number of cores
    max_queued : int
    """

    def __init__(self, *, max_workers=None, max_queued=32):
        self.max_workers = max_workers or os.cpu_count() or 1
        self._room = threading.BoundedSemaphore(self.max_workers + max_queued)
        self._waiting = queue.SimpleQueue()
        self._context = _process_context()
        # Daemons, like the processes they start: a program that ends does not wait for its jobs.
        for _ in range(self.max_workers):
            threading.Thread(target=self._serve, name="explorer-job", daemon=True).start()

    def submit(self, function, /, **arguments):
        """Queue function(report=..., **arguments), both picklable; returns a Job or raises PoolFull."""
        if not self._room.acquire(blocking=False):
            raise PoolFull("the worker pool is full: wait until a running fit has finished, then try again")
        job = Job(function, arguments)
        self._waiting.put(job)
        return job

    def _serve(self):
        while True:
            self._run(self._waiting.get())

    def _run(self, job):
        try:
            job._future.set_result(self._outcome(job))
        except BaseException as error:
            job._future.set_exception(error)
        finally:
            self._room.release()

    def _outcome(self, job):
        if job._cancelled.is_set():
            raise JobCancelled("cancelled before it started")
        here, there = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_work, args=(there, job.function, job.arguments), daemon=True)
        process.start()
        job.process = process
        there.close()
        try:
            return _listen(job, here)
        finally:
            process.kill()
            process.join()
            process.close()
            here.close()


def _listen(job, connection):
    while not job._cancelled.is_set():
        if not connection.poll(_POLL_SECONDS):
            continue
        try:
            kind, content = connection.recv()
        except EOFError:
            raise WorkerDied("the worker process ended without an answer; nothing was lost, run it again") from None
        if kind == "message":
            job.messages.append(content)
        elif kind == "error":
            raise content
        else:
            return content
    raise JobCancelled("cancelled while it ran")


def _work(connection, function, arguments):
    try:
        value = function(report=lambda message: connection.send(("message", message)), **arguments)
        connection.send(("value", value))
    except Exception as error:
        connection.send(("error", error))


def _process_context():
    # A fork server has the libraries loaded once and starts a job in milliseconds; Windows can only spawn.
    if "forkserver" not in multiprocessing.get_all_start_methods() or sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["explorer.learning"])
    return context


_shared = None
_shared_lock = threading.Lock()


def shared_pool():
    """The pool of this server process, made at first use and shared by all its sessions."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = WorkerPool()
        return _shared
