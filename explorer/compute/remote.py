"""One engine for several server processes of a machine, in a process of its own to which each server is connected.

Both ends pass on work, messages and values as bytes, over `multiprocessing.connection` on a Unix socket: a message
queue would be a service to install and to watch. When a server ends, its jobs are cancelled; when the engine's process
ends, its servers' jobs fail with PoolLost, and the next one that is submitted connects again.
"""

import contextlib
import itertools
import os
import pickle
import queue
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from functools import partial
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, TypeVar

from explorer.compute.interface import Engine, Priority
from explorer.compute.job import Job, Kind, PoolFull, PoolLost, pack
from explorer.compute.queued import QueuedEngine, Task

T = TypeVar("T")
LOST = (EOFError, OSError, AuthenticationError)


def serve_engine(engine: QueuedEngine, *, address: str, authkey: bytes) -> None:
    """Run jobs for every process that connects and knows the key, until this process is ended.

    Parameters
    ----------
    address : path of the Unix socket
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(address)  # of a process that was killed
    with Listener(address, family="AF_UNIX", authkey=authkey) as listener:
        while True:
            try:
                connection = listener.accept()
            except LOST:
                time.sleep(0.1)
                continue
            threading.Thread(target=_Served(engine, connection).listen, daemon=True).start()


class _Served:
    """The engine's end of a connection to one server process."""

    def __init__(self, engine: QueuedEngine, connection: Connection) -> None:
        self.engine, self.connection = engine, connection
        self.tasks: dict[int, Task] = {}
        self.outgoing: queue.SimpleQueue = queue.SimpleQueue()  # so that a slow server delays only its own messages
        threading.Thread(target=self._send, daemon=True).start()

    def listen(self) -> None:
        with contextlib.suppress(*LOST):
            while True:
                match self.connection.recv():
                    case "submit", number, work, session, priority:
                        self._submit(number, work, session, priority)
                    case "cancel", number if number in self.tasks:
                        self.engine.cancel(self.tasks[number])
                    case "ready", number:
                        self._deliver(number, "value", pickle.dumps(self.engine.ready()))
        for task in list(self.tasks.values()):
            self.engine.cancel(task)
        self.outgoing.put(None)

    def _submit(self, number: int, work: bytes, session: Hashable, priority: int) -> None:
        # Sessions of different servers are different; those without a name share one place in the fair queue.
        session = None if session is None else (id(self), session)
        deliver = partial(self._deliver, number)
        self.tasks[number] = task = Task(work, session=session, deliver=deliver, priority=priority)
        self.engine.enqueue(task)

    def _deliver(self, number: int, kind: Kind, content: Any) -> None:
        if kind in ("value", "error"):
            self.tasks.pop(number, None)
        self.outgoing.put((number, kind, content))

    def _send(self) -> None:
        with contextlib.suppress(*LOST):
            while (message := self.outgoing.get()) is not None:
                self.connection.send(message)
        self.connection.close()


class RemoteEngine(Engine):
    """Submits jobs to the engine that another process runs by `serve_engine`; answers come from a second engine.

    Parameters
    ----------
    address : path of the Unix socket
    authkey : bytes
    answers : Engine of this process that computes answers; None computes them in threads of this process
    on_cluster : bool, whether the other process sends the jobs to a cluster
    """

    def __init__(
        self, address: str, *, authkey: bytes, answers: Engine | None = None, on_cluster: bool = False
    ) -> None:
        super().__init__()
        self.address, self.authkey, self.answers, self.on_cluster = address, authkey, answers, on_cluster
        self._jobs: dict[int, Job] = {}  # by number, until they are done
        self._numbers = itertools.count()
        self._outgoing: queue.SimpleQueue[tuple] = queue.SimpleQueue()
        self._connection: Connection | None = None
        threading.Thread(target=self._send, name="explorer-remote", daemon=True).start()

    def submit(
        self,
        function: Callable[..., Any],
        /,
        *,
        session: Hashable = None,
        priority: int = Priority.NORMAL,
        **arguments: Any,
    ) -> Job:
        work = pack(function, arguments)
        if self._refused is not None:
            job = Job()
            job.fail(PoolFull(self._refused))
            return job
        return self._ask("submit", work, session, int(priority))

    def answer(self, work: Callable[[], T], *, here: bool = False, replaces: Future | None = None) -> "Future[T]":
        if self.answers is None:
            return super().answer(work, here=here, replaces=replaces)
        return self.answers.answer(work, here=here, replaces=replaces)

    def recall(self, work: Callable[[], T]) -> T:
        return super().recall(work) if self.answers is None else self.answers.recall(work)

    def prepare(self) -> None:
        if self.answers is not None:
            self.answers.prepare()

    def ready(self, *, timeout: float = 2) -> bool:
        job = self._ask("ready")
        try:
            return job.result(timeout)
        except (PoolLost, TimeoutError):
            return False

    def unfinished(self) -> int:
        return len(self._jobs)

    def _ask(self, action: str, *content: Any) -> Job:
        job, number = Job(), next(self._numbers)
        job.on_cancel(lambda: self._outgoing.put(("cancel", number)))
        self._jobs[number] = job
        self._outgoing.put((action, number, *content))
        return job

    def _send(self) -> None:
        while True:
            message = self._outgoing.get()
            if message[0] != "cancel" and message[1] not in self._jobs:
                continue  # cancelled or failed meanwhile
            try:
                if self._connection is None:
                    self._connection = Client(self.address, family="AF_UNIX", authkey=self.authkey)
                    threading.Thread(target=self._listen, args=(self._connection,), daemon=True).start()
                self._connection.send(message)
            except LOST:
                self._connection = None
                self._lose([message[1]])

    def _listen(self, connection: Connection) -> None:
        with contextlib.suppress(*LOST):
            while True:
                number, kind, content = connection.recv()
                job = self._jobs.pop(number, None) if kind in ("value", "error") else self._jobs.get(number)
                if job is not None:
                    job.receive(kind, content)
        lost = list(self._jobs)
        if self._connection is connection:
            self._connection = None
        self._lose(lost)

    def _lose(self, numbers: list[int]) -> None:
        for number in numbers:
            job = self._jobs.pop(number, None)
            if job is not None:
                job.fail(PoolLost("the computing process was lost and is starting again; try again in a moment"))
