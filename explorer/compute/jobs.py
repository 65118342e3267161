"""A job as its caller has it, and as a process of its own does it."""

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from concurrent.futures import Future
from pathlib import Path

NICENESS = 19  # an answer to a slider goes before a fit; there is time between the moves of a hand


class JobCancelled(Exception):
    """The job was cancelled before it finished."""


class JobTimedOut(RuntimeError):
    """The job ran longer than one job may."""


class PoolFull(RuntimeError):
    """The pool, or this session's part of it, runs and queues as much as it may; try again when a job has finished."""


class PoolLost(RuntimeError):
    """The process that runs the jobs of all servers cannot be reached; it is started again at once."""


class WorkerDied(RuntimeError):
    """The job's process ended without an answer, for instance because the system killed it."""


class Job:
    """Work handed to a pool.

    Attributes
    ----------
    messages : deque of what the work has reported, drained by the caller
    ahead : int, jobs that will start before this one by what is known now; 0 when it has started
    pid : int, the id of its process; None until that has started
    """

    def __init__(self):
        self.messages, self.ahead, self.pid = deque(), 0, None
        self._future = Future()
        self._stop = None

    @property
    def started(self):
        """Whether the job's turn has come."""
        return self.pid is not None

    def cancel(self):
        """Stop the job, queued or running; `result()` then raises JobCancelled. No effect once it has finished."""
        if self._stop is not None and not self.done():
            self._stop()

    def done(self):
        """Whether `result()` returns or raises at once."""
        return self._future.done()

    def result(self, timeout=None):
        """The function's value, or raise what the function raised.

        Raises
        ------
        JobCancelled, JobTimedOut, PoolFull, PoolLost, WorkerDied
        TimeoutError if there is no answer within `timeout` seconds
        """
        return self._future.result(timeout)

    def on_cancel(self, stop):
        """Let the pool say how the job is stopped."""
        self._stop = stop

    def receive(self, kind, content):
        """Take news from the pool: "ahead" an int, "started" a process id, "message", "value" or "error" pickled."""
        if self.done():
            return
        if kind == "ahead":
            self.ahead = content
        elif kind == "started":
            self.ahead, self.pid = 0, content
        else:
            try:
                content = pickle.loads(content)
            except Exception as error:  # the work's own classes can have opinions
                kind, content = "error", error
            self._finish_or_append(kind, content)

    def _finish_or_append(self, kind, content):
        if kind == "message":
            self.messages.append(content)
        elif kind == "value":
            self._future.set_result(content)
        else:
            self._future.set_exception(content)

    def fail(self, error):
        """Finish the job with an error, unless it has finished."""
        self.receive("error", pickle.dumps(error))


def pack(function, arguments):
    """Work as bytes, which a pool hands on without looking into them."""
    return pickle.dumps((function, arguments))


def perform(connection, work):
    """Do packed work in this process, which is the work's own, and send what it reports and gives."""
    lower_priority()
    try:
        function, arguments = pickle.loads(work)
        value = function(report=lambda message: connection.send(("message", pickle.dumps(message))), **arguments)
        connection.send(("value", pickle.dumps(value)))
    except Exception as error:
        connection.send(("error", pickled_error(error)))


def end_with_parent(end=lambda: os._exit(1)):
    """Call `end` when the process that started this one is gone, however it ended."""

    def watch():
        multiprocessing.parent_process().join()
        end()

    threading.Thread(target=watch, name="explorer-parent", daemon=True).start()


def lower_priority(niceness=NICENESS):
    """Have this process, which computes for another, go behind it in everything and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then ends its jobs
    end_with_parent()
    if hasattr(os, "nice"):
        os.nice(niceness)
    with contextlib.suppress(OSError):  # where memory runs out, Linux is to take a job and not a server
        Path("/proc/self/oom_score_adj").write_text("500")


def pickled_error(error):
    """An exception as bytes that can be read again."""
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)  # an exception with arguments of its own can be written and not be read
    except Exception:
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return pickled
