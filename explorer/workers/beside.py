"""Processes beside this one for what a page waits for: slow curves, of some tens of milliseconds to seconds.

They stay, since starting a process for each answer, as the pool does for a job, takes longer than to compute it. In
threads of this process the same work would hold up every slider: threads share one interpreter.
"""

import pickle
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from cachetools import LRUCache

from explorer.workers.jobs import WorkerDied, be_modest
from explorer.workers.pool import process_context

PROCESSES = 2  # so that a long answer does not hold up the short ones
NICENESS = 15  # the curves that follow the hand at once go before these, and these before a fit
REMEMBERED_BYTES = 64 * 2**20
TURN_SECONDS = 0.2  # so often some pieces of a long answer are given


class Beside:
    """Computes in processes of its own, and remembers answers for all sessions of this process.

    Work and answers are pickled, so that sessions share no object.

    Parameters
    ----------
    processes : int
    remembered_bytes : int, of answers; those that were not asked for longest are forgotten
    """

    def __init__(self, *, processes=PROCESSES, remembered_bytes=REMEMBERED_BYTES):
        self.processes = processes
        self._answers = LRUCache(remembered_bytes, getsizeof=len)
        self._executor, self._lock = None, threading.Lock()

    def run(self, work):
        """The value of a pickled callable of no arguments; raises what it raises.

        Raises
        ------
        WorkerDied, if its process ended or could not be started; the next call starts processes again
        """
        with self._lock:
            if self._executor is None:
                self._executor = ProcessPoolExecutor(
                    self.processes, mp_context=process_context(), initializer=be_modest, initargs=(NICENESS,)
                )
            executor = self._executor
        try:
            return self._submit(executor, work).result()
        except BrokenProcessPool:
            with self._lock:
                if self._executor is executor:
                    self._executor = None
            raise WorkerDied("the computing process ended without an answer; ask again") from None

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

    @staticmethod
    def _submit(executor, work):
        try:
            return executor.submit(_perform, work)
        except OSError as error:
            raise BrokenProcessPool(error.strerror) from None


def some_of(piece, pending):
    """The first of the pieces piece(*key), as many as there is time for, at least one; dict by key."""
    end, pieces = time.monotonic() + TURN_SECONDS, {}
    for key in pending:
        pieces[key] = piece(*key)
        if time.monotonic() > end:
            break
    return pieces


def _perform(work):
    return pickle.loads(work)()
