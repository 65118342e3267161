"""One pool for several server processes: a process of its own runs the jobs, and each server has a connection to it.

Both ends hand on work, messages and results as bytes. A server that goes away has its jobs cancelled; if the pool goes
away, its servers' jobs fail with PoolLost, and the next submission connects again. A queue of another party would bring
a service to install and to watch; this one is `multiprocessing.connection` on a Unix socket.
"""

import contextlib
import itertools
import os
import pickle
import queue
import threading
import time
from functools import partial
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener

from explorer.compute.jobs import Job, PoolFull, PoolLost, pack
from explorer.compute.pool import Task

LOST = (EOFError, OSError, AuthenticationError)


def serve_pool(pool, *, address, authkey):
    """Run a pool for every process that connects and knows the key, until this process is ended.

    Parameters
    ----------
    pool : WorkerPool
    address : str, path of the Unix socket
    authkey : bytes
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(address)  # of a pool that was killed
    with Listener(address, family="AF_UNIX", authkey=authkey) as listener:
        while True:
            try:
                connection = listener.accept()
            except LOST:
                time.sleep(0.1)
                continue
            threading.Thread(target=_Server(pool, connection).listen, daemon=True).start()


class _Server:
    """The pool's end of a connection to one server process."""

    def __init__(self, pool, connection):
        self.pool, self.connection = pool, connection
        self.tasks = {}
        self.outgoing = queue.SimpleQueue()  # so that a slow server holds up its own news alone
        threading.Thread(target=self._send, daemon=True).start()

    def listen(self):
        with contextlib.suppress(*LOST):
            while True:
                match self.connection.recv():
                    case "submit", number, work, session:
                        self._submit(number, work, session)
                    case "cancel", number if number in self.tasks:
                        self.pool.cancel(self.tasks[number])
                    case "ping", number:
                        self._deliver(number, "value", pickle.dumps(True))
        for task in list(self.tasks.values()):
            self.pool.cancel(task)
        self.outgoing.put(None)

    def _submit(self, number, work, session):
        # Sessions of different servers are different; those without a name share one place in the fair queue.
        session = None if session is None else (id(self), session)
        self.tasks[number] = task = Task(work, session=session, deliver=partial(self._deliver, number))
        self.pool.enqueue(task)

    def _deliver(self, number, kind, content):
        if kind in ("value", "error"):
            self.tasks.pop(number, None)
        self.outgoing.put((number, kind, content))

    def _send(self):
        with contextlib.suppress(*LOST):
            while (news := self.outgoing.get()) is not None:
                self.connection.send(news)
        self.connection.close()


class RemotePool:
    """The pool that another process runs by `serve_pool`, with the methods of WorkerPool that a page needs.

    Nothing here blocks: a refusal, like a pool that cannot be reached, is what `Job.result()` raises.

    Parameters
    ----------
    address : str
    authkey : bytes
    """

    def __init__(self, address, *, authkey):
        self.address, self.authkey = address, authkey
        self._jobs, self._numbers = {}, itertools.count()  # Job by number, until it is done
        self._outgoing = queue.SimpleQueue()
        self._connection, self._closed = None, None
        threading.Thread(target=self._send, name="explorer-pool", daemon=True).start()

    def submit(self, function, /, *, session=None, **arguments):
        """Queue function(report=..., **arguments), both picklable, for a session; returns a Job at once."""
        work = pack(function, arguments)
        if self._closed is not None:
            job = Job()
            job.fail(PoolFull(self._closed))
            return job
        return self._ask("submit", work, session)

    def ready(self, *, timeout=2):
        """Whether the pool answers within `timeout` seconds."""
        job = self._ask("ping")
        try:
            return job.result(timeout)
        except (PoolLost, TimeoutError):
            return False

    def unfinished(self):
        """How many of this process's jobs run or wait."""
        return len(self._jobs)

    def close(self, reason):
        """Refuse further jobs for that reason; what runs goes on."""
        self._closed = reason

    def _ask(self, action, *content):
        job, number = Job(), next(self._numbers)
        job.on_cancel(lambda: self._outgoing.put(("cancel", number)))
        self._jobs[number] = job
        self._outgoing.put((action, number, *content))
        return job

    def _send(self):
        while True:
            message = self._outgoing.get()
            if message[0] != "cancel" and message[1] not in self._jobs:
                continue  # given up meanwhile
            try:
                if self._connection is None:
                    self._connection = Client(self.address, family="AF_UNIX", authkey=self.authkey)
                    threading.Thread(target=self._listen, args=(self._connection,), daemon=True).start()
                self._connection.send(message)
            except LOST:
                self._connection = None
                self._lose([message[1]])

    def _listen(self, connection):
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

    def _lose(self, numbers):
        for number in numbers:
            job = self._jobs.pop(number, None)
            if job is not None:
                job.fail(PoolLost("the computing process was lost and is starting again; try again in a moment"))
