"""The queue in front of the engines that run jobs: limits, priorities and turns by session, the same for all."""

import pickle
import threading
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from explorer.compute.interface import Engine, Priority
from explorer.compute.job import Job, JobCancelled, Kind, PoolFull, WorkerDied, pack, pickled_error

Deliver = Callable[[Kind, Any], None]
Waiting = dict[int, dict[Hashable, "deque[Task]"]]


class Task:
    """Packed work in an engine's queue.

    Parameters
    ----------
    work : bytes, see job.pack
    session : hashable, who asks; None for a caller without a limit of its own
    deliver : callable as deliver(kind, content), see Job.receive; it must not block
    priority : int
    """

    def __init__(self, work: bytes, *, session: Hashable, deliver: Deliver, priority: int = Priority.NORMAL) -> None:
        self.work, self.session, self.deliver, self.priority = work, session, deliver, priority
        self.cancelled, self.started = threading.Event(), threading.Event()


class QueuedEngine(Engine):
    """An engine that runs a limited number of jobs at a time and queues the others.

    The next job to start is one of the highest priority; among those, one of the session with the fewest running jobs;
    among those, one of the session whose turn was longest ago. Jobs of one session and priority start in their order.

    Parameters
    ----------
    max_queued : int, jobs that wait
    max_per_session : int, jobs that run or wait
    timeout_seconds : float, that one job may run
    """

    def __init__(
        self, *, max_queued: int = 32, max_per_session: int = 4, timeout_seconds: float = 600, **options: Any
    ) -> None:
        super().__init__(**options)
        self.max_queued, self.max_per_session, self.timeout_seconds = max_queued, max_per_session, timeout_seconds
        self._changed = threading.Condition()
        self._waiting: Waiting = {}  # by priority, then by session, the one whose turn was longest ago first
        self._running: Counter[Hashable] = Counter()  # jobs by session
        self._dispatcher: threading.Thread | None = None

    @abstractmethod
    def capacity(self) -> int:
        """How many jobs may run at a time."""

    @abstractmethod
    def _run(self, task: Task) -> tuple[Kind, bytes]:
        """Run a task to its end and return "value" or "error" and the pickled content; deliver what comes before."""

    def submit(
        self,
        function: Callable[..., Any],
        /,
        *,
        session: Hashable = None,
        priority: int = Priority.NORMAL,
        **arguments: Any,
    ) -> Job:
        job = Job()
        task = Task(pack(function, arguments), session=session, priority=priority, deliver=job.receive)
        job.on_cancel(lambda: self.cancel(task))
        self.enqueue(task)
        return job

    def enqueue(self, task: Task) -> None:
        """Take a task, or deliver PoolFull as its error."""
        with self._changed:
            refusal = self._refusal(task.session)
            if refusal is None:
                self._waiting.setdefault(task.priority, {}).setdefault(task.session, deque()).append(task)
                self._tell_places()
                self._start_dispatcher()
                self._changed.notify_all()
        if refusal is not None:
            task.deliver("error", pickle.dumps(refusal))

    def cancel(self, task: Task) -> None:
        """Take a task out of the queue, or stop it."""
        task.cancelled.set()
        with self._changed:
            queued = task in self._waiting.get(task.priority, {}).get(task.session, ())
            if queued:
                self._take(task)
                self._tell_places()
        if queued:
            task.deliver("error", pickle.dumps(JobCancelled("cancelled before it started")))

    def unfinished(self) -> int:
        with self._changed:
            return self._running.total() + sum(1 for _ in self._queued())

    def _queued(self) -> Iterator[Task]:
        return (task for sessions in self._waiting.values() for tasks in sessions.values() for task in tasks)

    def _refusal(self, session: Hashable) -> Exception | None:
        if self._refused is not None:
            return PoolFull(self._refused)
        queued = list(self._queued())
        if self._running.total() + len(queued) >= self.capacity() + self.max_queued:
            return PoolFull("the worker pool is full: wait until a running fit has finished, then try again")
        own = self._running[session] + sum(task.session == session for task in queued)
        if session is not None and own >= self.max_per_session:
            return PoolFull(f"{own} computations of this session run or wait already: wait for one, or cancel one")
        return None

    def _take(self, task: Task) -> None:
        sessions = self._waiting[task.priority]
        sessions[task.session].remove(task)
        if not sessions[task.session]:
            del sessions[task.session]
        if not sessions:
            del self._waiting[task.priority]

    def _tell_places(self) -> None:
        for place, task in enumerate(fair_order(self._waiting, self._running)):
            task.deliver("ahead", place)

    def _start_dispatcher(self) -> None:
        if self._dispatcher is None:
            # Daemons, like the processes that they start: a program that ends does not wait for its jobs.
            self._dispatcher = threading.Thread(target=self._dispatch, name="explorer-jobs", daemon=True)
            self._dispatcher.start()

    def _dispatch(self) -> None:
        while True:
            self._start_next()  # a call of its own, so that no task and none of its data is referenced while waiting

    def _start_next(self) -> None:
        with self._changed:
            while not self._waiting or self._running.total() >= self.capacity():
                self._changed.wait()
            task = next(fair_order(self._waiting, self._running))
            self._take(task)
            for sessions in self._waiting.values():
                if task.session in sessions:
                    sessions[task.session] = sessions.pop(task.session)  # to the end
            self._running[task.session] += 1
            self._tell_places()
        try:
            threading.Thread(target=self._finish, args=(task,), name="explorer-job", daemon=True).start()
        except RuntimeError as error:  # the limit of threads of this system
            self._release(task)
            task.deliver("error", pickled_error(WorkerDied(f"the job could not be started ({error}); try again later")))

    def _finish(self, task: Task) -> None:
        try:
            outcome = self._run(task)
        except Exception as error:
            outcome = "error", pickled_error(error)
        self._release(task)
        task.deliver(*outcome)

    def _release(self, task: Task) -> None:
        with self._changed:
            self._running[task.session] -= 1
            self._running += Counter()  # forgets the sessions at zero
            self._changed.notify_all()


def fair_order(waiting: Mapping[int, Mapping[Hashable, "deque[Task]"]], running: Counter) -> Iterator[Task]:
    """Yield the queued tasks in the order in which they start if none finishes meanwhile.

    Parameters
    ----------
    waiting : by priority, then by session, deques of tasks; the session whose turn was longest ago first
    running : Counter of sessions
    """
    running = Counter(running)
    for priority in sorted(waiting, reverse=True):
        sessions = {session: deque(tasks) for session, tasks in waiting[priority].items()}
        while sessions:
            session = min(sessions, key=running.__getitem__)
            tasks = sessions.pop(session)
            yield tasks.popleft()
            running[session] += 1
            if tasks:
                sessions[session] = tasks
