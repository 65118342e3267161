"""Processes beside this one for what a page waits for: slow curves, of some tens of milliseconds to seconds.

They stay, since starting a process for each answer, as the pool does for a job, takes longer than to compute it. In
threads of this process the same work would hold up every slider: threads share one interpreter. The standard library's
executor would do, but for the semaphores that it leaves behind where a server ends at once.
"""

import pickle
import queue
import threading
import time

from cachetools import LRUCache

from explorer.compute.jobs import WorkerDied, lower_priority, pickled_error
from explorer.compute.pool import process_context

PROCESSES = 2  # so that a long answer does not hold up the short ones
NICENESS = 15  # the curves that follow the hand at once go before these, and these before a fit
REMEMBERED_BYTES = 64 * 2**20
TURN_SECONDS = 0.2  # so often some pieces of a long answer are given


class ComputeProcesses:
    """Computes in processes of its own, and remembers answers for all sessions of this process.

    Work and answers are pickled, so that sessions share no object.

    Parameters
    ----------
    processes : int
    remembered_bytes : int, of answers; those that were not asked for longest are forgotten
    """

    def __init__(self, *, processes=PROCESSES, remembered_bytes=REMEMBERED_BYTES):
        self._free = queue.SimpleQueue()  # _Process, or None for one that is to be started
        for _ in range(processes):
            self._free.put(None)
        self._answers, self._lock = LRUCache(remembered_bytes, getsizeof=len), threading.Lock()

    def run(self, work):
        """The value of a pickled callable of no arguments; waits for a free process, and raises what the work raises.

        Raises
        ------
        WorkerDied, if the process ended meanwhile; the next call starts another
        OSError, if none can be started
        """
        process = self._free.get()
        try:
            process = process or _Process()
            kind, content = process.answer(work)
        except EOFError:
            process.end()
            process = None
            raise WorkerDied("the computing process ended without an answer; ask again") from None
        finally:
            self._free.put(process)
        if kind == "error":
            raise pickle.loads(content)
        return pickle.loads(content)

    def remember(self, key, answer):
        """Keep an answer under a hashable key."""
        answer = pickle.dumps(answer)
        with self._lock:
            if len(answer) <= self._answers.maxsize:
                self._answers[key] = answer

    def recall(self, key):
        """The answer that is kept under this key; raises KeyError if there is none."""
        with self._lock:
            answer = self._answers[key]
        return pickle.loads(answer)


class _Process:
    """A process that answers one question after the other."""

    def __init__(self):
        context = process_context()
        self._connection, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there,), daemon=True)
        self._process.start()
        there.close()
        try:
            self._connection.recv()
        except EOFError:
            self.end()
            raise OSError("the process beside this one ended before it could be asked anything") from None

    def answer(self, work):
        """Kind, "value" or "error", and content, pickled; raises EOFError if the process is gone."""
        try:
            self._connection.send_bytes(work)
            return self._connection.recv()
        except ConnectionError:
            raise EOFError from None

    def end(self):
        self._process.kill()
        self._process.join()
        self._connection.close()


def take_until(piece, pending):
    """The first of the pieces piece(*key), as many as there is time for, at least one; dict by key."""
    end, pieces = time.monotonic() + TURN_SECONDS, {}
    for key in pending:
        pieces[key] = piece(*key)
        if time.monotonic() > end:
            break
    return pieces


def _serve(connection):
    lower_priority(NICENESS)
    connection.send("ready")
    while True:
        work = connection.recv_bytes()
        try:
            answer = "value", pickle.dumps(pickle.loads(work)())
        except Exception as error:
            answer = "error", pickled_error(error)
        connection.send(answer)
