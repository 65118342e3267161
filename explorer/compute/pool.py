"""One bounded pool for long work: each job runs in a process of its own, reports progress and can be stopped.

A job is a module-level function called as function(report=report, **arguments) in a fresh process; whatever it passes
to `report` reaches `Job.messages` in the caller's process, in order. Cancelling ends the process, so it works however
deep in a library the job is; a process that dies takes nothing else with it.
"""

import multiprocessing
import os
import pickle
import sys
import threading
import time
from collections import Counter, deque
from multiprocessing import forkserver

from explorer.compute.jobs import Job, JobCancelled, JobTimedOut, PoolFull, WorkerDied, pack, perform

_POLL_SECONDS = 0.05


class Task:
    """Packed work in a pool's queue.

    Parameters
    ----------
    work : bytes
    session : hashable, who asks; None for a caller without a limit of its own
    deliver : callable as deliver(kind, content), see Job.receive; it must not block
    """

    def __init__(self, work, *, session, deliver):
        self.work, self.session, self.deliver = work, session, deliver
        self.cancelled = threading.Event()


class WorkerPool:
    """Runs at most `max_workers` jobs at a time, queues at most `max_queued`, and is fair to sessions.

    What starts next is a job of the session with the fewest running; among equals, of the one that was served longest
    ago. One session's jobs start in the order in which they came.

    Parameters
    ----------
    max_workers : int or None for the number of cores
    max_queued : int
    max_per_session : int, running and queued together
    timeout_seconds : float, that one job may run
    """

    def __init__(self, *, max_workers=None, max_queued=32, max_per_session=4, timeout_seconds=600):
        self.max_workers = max_workers or os.cpu_count() or 1
        self.max_queued, self.max_per_session, self.timeout_seconds = max_queued, max_per_session, timeout_seconds
        self._changed = threading.Condition()
        self._waiting = {}  # deque of Task by session, the session that was served longest ago first
        self._running = Counter()  # jobs by session
        self._context = process_context()
        # Daemons, like the processes they start: a program that ends does not wait for its jobs.
        for _ in range(self.max_workers):
            threading.Thread(target=self._serve, name="explorer-job", daemon=True).start()

    def submit(self, function, /, *, session=None, **arguments):
        """Queue function(report=..., **arguments), both picklable, for a session; returns a Job at once.

        Where there is no room, `result()` of the job raises PoolFull.
        """
        job = Job()
        task = Task(pack(function, arguments), session=session, deliver=job.receive)
        job.on_cancel(lambda: self.cancel(task))
        self.enqueue(task)
        return job

    def ready(self):
        """Whether jobs can be submitted."""
        return True

    def enqueue(self, task):
        """Take a task, or deliver PoolFull as its error."""
        with self._changed:
            refusal = self._refusal(task.session)
            if refusal is None:
                self._waiting.setdefault(task.session, deque()).append(task)
                self._tell_places()
                self._changed.notify()
        if refusal is not None:
            task.deliver("error", pickle.dumps(refusal))

    def cancel(self, task):
        """Take a task out of the queue, or end its process."""
        task.cancelled.set()
        with self._changed:
            queued = task in self._waiting.get(task.session, ())
            if queued:
                self._take(task)
                self._tell_places()
        if queued:
            task.deliver("error", pickle.dumps(JobCancelled("cancelled before it started")))

    def _refusal(self, session):
        running, queued = self._running.total(), sum(map(len, self._waiting.values()))
        if running + queued >= self.max_workers + self.max_queued:
            return PoolFull("the worker pool is full: wait until a running fit has finished, then try again")
        own = self._running[session] + len(self._waiting.get(session, ()))
        if session is not None and own >= self.max_per_session:
            return PoolFull(f"{own} computations of this session run or wait already: wait for one, or cancel one")
        return None

    def _take(self, task):
        self._waiting[task.session].remove(task)
        if not self._waiting[task.session]:
            del self._waiting[task.session]

    def _tell_places(self):
        for place, task in enumerate(fair_order(self._waiting, self._running)):
            task.deliver("ahead", place)

    def _serve(self):
        while True:
            self._finish(self._start_next())  # while waiting for the next nothing is held of the last, nor its data

    def _finish(self, task):
        try:
            outcome = self._outcome(task)
        except Exception as error:
            outcome = "error", pickle.dumps(error)
        with self._changed:
            self._running[task.session] -= 1
            self._running += Counter()  # forgets the sessions at zero
        task.deliver(*outcome)

    def _start_next(self):
        with self._changed:
            while not self._waiting:
                self._changed.wait()
            task = next(fair_order(self._waiting, self._running))
            self._take(task)
            if task.session in self._waiting:
                self._waiting[task.session] = self._waiting.pop(task.session)  # to the end
            self._running[task.session] += 1
            self._tell_places()
            return task

    def _outcome(self, task):
        here, there = self._context.Pipe(duplex=False)
        process = self._context.Process(target=perform, args=(there, task.work), daemon=True)
        try:
            process.start()
        except OSError as error:
            raise WorkerDied(f"no worker process could be started ({error.strerror}); try again later") from None
        there.close()
        task.deliver("started", process.pid)
        try:
            return self._listen(task, here)
        finally:
            process.kill()
            process.join()
            process.close()
            here.close()

    def _listen(self, task, connection):
        deadline = time.monotonic() + self.timeout_seconds
        while not task.cancelled.is_set():
            if time.monotonic() > deadline:
                raise JobTimedOut(f"stopped after {self.timeout_seconds:g} s, the longest that one computation may run")
            if not connection.poll(_POLL_SECONDS):
                continue
            try:
                kind, content = connection.recv()
            except (EOFError, OSError):
                raise WorkerDied("the worker process ended without an answer; nothing was lost, run it again") from None
            if kind != "message":
                return kind, content
            task.deliver(kind, content)
        raise JobCancelled("cancelled while it ran")


def fair_order(waiting, running):
    """Yield the queued tasks in the order in which they start if none finishes meanwhile.

    Parameters
    ----------
    waiting : dict of deques of Task by session, the session that was served longest ago first
    running : Counter of sessions
    """
    waiting, running = {session: deque(tasks) for session, tasks in waiting.items()}, Counter(running)
    while waiting:
        session = min(waiting, key=running.__getitem__)
        tasks = waiting.pop(session)
        yield tasks.popleft()
        running[session] += 1
        if tasks:
            waiting[session] = tasks


def process_context():
    """How processes for work are started."""
    # A fork server has the libraries loaded once and starts a job in milliseconds; Windows can only spawn.
    if "forkserver" not in multiprocessing.get_all_start_methods() or sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["explorer.learning", "explorer.datasets", "explorer.uploads", "param"])
    return context


def prepare_processes():
    """Load now what takes seconds, so that the first job does not wait for it, nor those who are here by then."""
    if process_context().get_start_method() == "forkserver":
        forkserver.ensure_running()
