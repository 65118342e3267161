"""A job as its caller sees it, and the errors by which it can end."""

import pickle
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Literal

Kind = Literal["ahead", "started", "message", "value", "error"]


class JobCancelled(Exception):
    """The job was cancelled before it finished."""


class JobTimedOut(RuntimeError):
    """The job ran longer than one job may."""


class PoolFull(RuntimeError):
    """The engine, or this session's share of it, runs and queues as many jobs as it may; retry when one has ended."""


class PoolLost(RuntimeError):
    """The process or the scheduler that runs the jobs cannot be reached; the engine connects again by itself."""


class WorkerDied(RuntimeError):
    """The process of the job ended without an answer, for instance because the system was out of memory."""


class Job:
    """Work that was submitted to an engine.

    Attributes
    ----------
    messages : deque of what the work has reported; the caller removes what it has read
    ahead : int, jobs that start before this one by what is known now; 0 once it has started
    pid : int, id of the process that runs it, on the machine where it runs; None until it has started
    """

    def __init__(self) -> None:
        self.messages: deque[Any] = deque()
        self.ahead: int = 0
        self.pid: int | None = None
        self._future: Future[Any] = Future()
        self._stop: Callable[[], None] | None = None

    @property
    def started(self) -> bool:
        """Whether the job has left the queue and runs, or has run."""
        return self.pid is not None

    def cancel(self) -> None:
        """Stop the job, queued or running; `result()` then raises JobCancelled. No effect once it has finished."""
        if self._stop is not None and not self.done():
            self._stop()

    def done(self) -> bool:
        """Whether `result()` returns or raises at once."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> Any:
        """The function's value, or raise what the function raised.

        Raises
        ------
        JobCancelled, JobTimedOut, PoolFull, PoolLost, WorkerDied
        TimeoutError if there is no answer within `timeout` seconds
        """
        return self._future.result(timeout)

    def on_cancel(self, stop: Callable[[], None]) -> None:
        """For engines: set how the job is stopped."""
        self._stop = stop

    def receive(self, kind: Kind, content: Any) -> None:
        """For engines: take in what happened to the job; only the first "value" or "error" counts.

        Parameters
        ----------
        kind : "ahead", "started", "message", "value" or "error"
        content : int for "ahead", the process id for "started", pickled bytes for the others
        """
        if self.done():
            return
        if kind == "ahead":
            self.ahead = content
        elif kind == "started":
            self.ahead, self.pid = 0, content
        else:
            try:
                content = pickle.loads(content)
            except Exception as error:  # a class of the caller's own may raise anything when it is unpickled
                kind, content = "error", error
            self._finish_or_append(kind, content)

    def _finish_or_append(self, kind: Kind, content: Any) -> None:
        if kind == "message":
            self.messages.append(content)
        elif kind == "value":
            self._future.set_result(content)
        else:
            self._future.set_exception(content)

    def fail(self, error: Exception) -> None:
        """For engines: finish the job with an error, unless it has finished."""
        self.receive("error", pickled_error(error))


def pack(function: Callable[..., Any], arguments: dict[str, Any]) -> bytes:
    """A function and its arguments as bytes, which engines pass on without reading them."""
    return pickle.dumps((function, arguments))


def pickled_error(error: BaseException) -> bytes:
    """An exception as bytes that can be unpickled, without the exceptions that it came from.

    Where Dask is loaded, these would be pickled too, and its own cannot be unpickled.
    """
    error.__cause__ = error.__context__ = None
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)  # an exception whose __init__ takes other arguments can be pickled but not unpickled
    except Exception:
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return pickled
