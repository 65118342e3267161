"""The one interface for work that takes longer than a slider may wait; the engines beside this file implement it."""

import pickle
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from enum import IntEnum
from functools import cached_property
from typing import Any, TypeVar

from cachetools import LRUCache

from explorer.compute.job import Job, WorkerDied

T = TypeVar("T")
REMEMBERED_BYTES = 64 * 2**20
TURN_SECONDS = 0.2  # partial results of a long answer are shown at this interval


class Priority(IntEnum):
    """Which of the waiting jobs start first, whoever submitted them; equal ones take turns by session."""

    LOW = -1  # minutes of work: live trials of the study
    NORMAL = 0  # seconds of work: a fit


class Engine(ABC):
    """Computes jobs and answers somewhere else than in the event loop of the caller.

    A *job* takes seconds to minutes: it is queued, reports progress and can be cancelled. An *answer* takes tens of
    milliseconds to a few seconds: its value is awaited, and remembered for all sessions of this process.

    Functions, arguments and values are pickled on the way, so that sessions share no object.

    Parameters
    ----------
    remembered_bytes : int, size of all remembered answers; the least recently used are dropped
    """

    answer_threads = 2  # answers that are computed at a time
    on_cluster = False  # whether jobs, and with them uploaded data, are sent to other machines

    def __init__(self, *, remembered_bytes: int = REMEMBERED_BYTES) -> None:
        self._remembered = AnswerCache(remembered_bytes)
        self._slots = threading.Lock()
        self._refused: str | None = None

    @abstractmethod
    def submit(
        self,
        function: Callable[..., Any],
        /,
        *,
        session: Hashable = None,
        priority: int = Priority.NORMAL,
        **arguments: Any,
    ) -> Job:
        """Queue function(report=report, **arguments) and return its Job at once.

        What the function passes to `report` reaches `Job.messages` in order. A refusal is what `Job.result()` raises.

        Parameters
        ----------
        function : callable at module level
        session : hashable; sessions have a limit and take turns. None for a caller without a limit of its own
        priority : int, higher starts first; see Priority
        """

    def answer(self, work: Callable[[], T], *, here: bool = False, replaces: Future | None = None) -> "Future[T]":
        """Compute work() soon; its Future can be cancelled as long as the computation has not begun.

        Parameters
        ----------
        work : callable without arguments. One that cannot be pickled, as a closure, is computed in a thread of this
            process and not remembered: so uploaded data stay here
        here : bool, compute in a thread of this process whatever the work is
        replaces : Future of an earlier call whose answer nobody awaits any more. If its computation has not begun, it
            is cancelled and the new work takes its place in the queue
        """
        packed = None if here else pickled(work)
        if packed is not None:
            try:
                known = finished(self._remembered.recall(packed))
            except KeyError:
                pass
            else:
                if replaces is not None:
                    replaces.cancel()
                return known
        answer = _Answer(work, packed)
        with self._slots:
            slot = replaces.slot if isinstance(replaces, _Answer) else None
            if slot is not None and replaces is not None and replaces.cancel():
                answer.slot, slot[0] = slot, answer
                return answer
            answer.slot = [answer]
        self._threads.submit(self._run_slot, answer.slot)
        return answer

    def recall(self, work: Callable[[], T]) -> T:
        """The remembered value of work(); raises KeyError if there is none."""
        packed = pickled(work)
        if packed is None:
            raise KeyError(work)
        return self._remembered.recall(packed)

    def prepare(self) -> None:
        """Start now, in the background, what takes seconds to start."""
        return  # nothing, with most engines

    def ready(self, *, timeout: float = 2) -> bool:
        """Whether jobs can be submitted; known within `timeout` seconds."""
        return True

    def unfinished(self) -> int:
        """How many jobs of this process run or wait."""
        return 0

    def close(self, reason: str = "the engine is closed") -> None:
        """Refuse further jobs with PoolFull(reason); jobs that run or wait go on."""
        self._refused = reason

    def _compute(self, packed: bytes) -> Any:
        """The value of pickled work, computed outside of this process; blocks.

        Raises
        ------
        WorkerDied if the process ended meanwhile; a second call may succeed
        OSError if no process can be reached, ImportError or AttributeError if it has not got the work's code
        Exception, whatever the work raises
        """
        raise OSError("this engine computes answers in this process")

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.answer_threads, thread_name_prefix="explorer-answers")

    def _run_slot(self, slot: list["_Answer"]) -> None:
        with self._slots:
            answer = slot[0]
            if not answer.set_running_or_notify_cancel():
                return
        try:
            answer.set_result(self._value(answer.work, answer.packed))
        except BaseException as error:
            answer.set_exception(error)

    def _value(self, work: Callable[[], T], packed: bytes | None) -> T:
        if packed is None:
            return work()
        try:
            return self._remembered.recall(packed)  # another session may have asked meanwhile
        except KeyError:
            pass
        try:
            try:
                value = self._compute(packed)
            except WorkerDied:
                value = self._compute(packed)
        except (OSError, ImportError, AttributeError):  # no process, or one without the code, as of a notebook's bound
            return work()
        self._remembered.remember(packed, value)
        return value


class _Answer(Future):
    """An awaited value and its place in the queue: a list of one, in which a newer answer can replace it."""

    def __init__(self, work: Callable[[], Any], packed: bytes | None) -> None:
        super().__init__()
        self.work, self.packed = work, packed
        self.slot: list[_Answer] = []


class AnswerCache:
    """Values of answers by their pickled work; the least recently used are dropped.

    Parameters
    ----------
    max_bytes : int, of all pickled values
    """

    def __init__(self, max_bytes: int) -> None:
        self._answers: LRUCache = LRUCache(max_bytes, getsizeof=len)
        self._lock = threading.Lock()

    def remember(self, key: Hashable, value: Any) -> None:
        """Keep a value, unless it is larger than all that may be kept."""
        packed = pickle.dumps(value)
        with self._lock:
            if len(packed) <= self._answers.maxsize:
                self._answers[key] = packed

    def recall(self, key: Hashable) -> Any:
        """A copy of the value that is kept under this key; raises KeyError if there is none."""
        with self._lock:
            packed = self._answers[key]
        return pickle.loads(packed)


def pickled(work: Callable[[], Any]) -> bytes | None:
    """The work as bytes, or None if it cannot be pickled."""
    try:
        return pickle.dumps(work)
    except (pickle.PicklingError, AttributeError, TypeError):  # all three mean that it cannot
        return None


def finished(value: T) -> "Future[T]":
    """A Future that has this value."""
    future: Future[T] = Future()
    future.set_result(value)
    return future


def take_until(piece: Callable[..., T], pending: Iterable[tuple]) -> dict[tuple, T]:
    """The first of the values piece(*key), at least one and as many as TURN_SECONDS allow; dict by key."""
    end, pieces = time.monotonic() + TURN_SECONDS, {}
    for key in pending:
        pieces[key] = piece(*key)
        if time.monotonic() > end:
            break
    return pieces


def scheduler_address(address: str) -> str:
    """A Dask scheduler's address; raises ValueError if it cannot be one."""
    if not re.fullmatch(r"(tcp|tls|ws|wss|ucx)://[^\s/]+:\d+/?", address):
        raise ValueError(f"scheduler must be an address like tcp://host:8786: got scheduler={address!r}")
    return address
