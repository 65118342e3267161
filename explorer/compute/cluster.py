"""The engine of a Dask cluster: the workers of a scheduler compute jobs and answers, on whatever machines they run.

Dask places and transports; what it does not do is done here, or shared with the local engine. Its queue knows no
sessions, so jobs wait in the queue of QueuedEngine. It cannot stop a task that runs, so a job runs in a process that
its worker starts and can kill. It runs a task again when a worker has died, which for a job that needs too much memory
means one dead worker after the other; so each job is bound to one worker, and is not run again.
"""

import contextlib
import logging
import multiprocessing
import pickle
import threading
import time
import uuid
from collections import Counter
from collections.abc import Hashable
from concurrent.futures import CancelledError
from typing import Any, cast

from explorer.compute.interface import scheduler_address
from explorer.compute.job import JobCancelled, JobTimedOut, Kind, PoolLost, WorkerDied, pickled_error
from explorer.compute.local import compute
from explorer.compute.processes import POLL_SECONDS, run_in_process
from explorer.compute.queued import QueuedEngine, Task

try:
    from distributed import Client, Future, KilledWorker, get_worker, secede
except ImportError as error:
    raise ImportError("a Dask cluster needs the packages of the extra `cluster`: dask and distributed") from error

log = logging.getLogger("explorer.compute")

TOPIC = "objpert-explorer"  # under which workers report; one for all engines, as a scheduler never forgets a topic
CONNECT_SECONDS = 3
LOOK_SECONDS = 0.5  # between two looks at which workers there are
STOP_SECONDS = 10  # within these a worker is asked again and again to kill a cancelled job's process
ANSWER_PRIORITY = 10  # of Dask: before tasks that others submit to the same cluster


class ClusterEngine(QueuedEngine):
    """Runs jobs and computes answers on the workers of a Dask scheduler, which need this package installed.

    Without a scheduler, jobs fail with PoolLost, and answers are computed in threads of this process; the engine
    connects again by itself. Without workers, jobs wait.

    Parameters
    ----------
    scheduler : str, address such as tcp://host:8786
    max_workers : int or None for the number of threads of all workers, jobs that run at a time
    **limits : of QueuedEngine
    """

    answer_threads = 8  # they only wait
    on_cluster = True

    def __init__(self, scheduler: str, *, max_workers: int | None = None, **limits: Any) -> None:
        super().__init__(**limits)
        self.scheduler, self.max_workers = scheduler_address(scheduler), max_workers
        self._client: Client | None = None
        self._workers: dict[str, int] | None = {}  # threads by address; None while the scheduler cannot be reached
        self._looked = threading.Event()
        self._watcher: threading.Thread | None = None
        self._jobs: dict[str, Task] = {}  # those that run, by the name that their worker knows them by
        self._placed: Counter[str] = Counter()  # jobs by the address of their worker
        self._restarted: set[str] = set()

    def capacity(self) -> int:
        threads = sum((self._workers or {}).values())
        return threads if self.max_workers is None else min(threads, self.max_workers)

    def enqueue(self, task: Task) -> None:
        self._start_watcher()
        super().enqueue(task)

    def prepare(self) -> None:
        self._start_watcher()

    def ready(self, *, timeout: float = 2) -> bool:
        """Whether the scheduler can be reached and has a worker."""
        self._start_watcher()
        self._looked.wait(timeout)
        return bool(self._workers)

    def _refusal(self, session: Hashable) -> Exception | None:
        return self._lost() if self._workers is None else super()._refusal(session)

    def _lost(self) -> PoolLost:
        return PoolLost(f"the Dask scheduler at {self.scheduler} cannot be reached; try again in a moment")

    def _start_watcher(self) -> None:
        with self._changed:
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="explorer-cluster", daemon=True)
                self._watcher.start()

    def _watch(self) -> None:
        while True:
            try:
                workers = cast(dict[str, int], self._connected().nthreads())
            except Exception as error:  # OSError, as a rule; whatever it is, the cluster is of no use now
                if self._workers is not None:
                    log.error("the Dask scheduler cannot be reached: %s", type(error).__name__)
                self._lose()
            else:
                if self._workers is None or not self._looked.is_set():
                    log.info("the Dask scheduler has %d workers", len(workers))
                with self._changed:
                    self._workers = dict(workers)
                    self._changed.notify_all()
            self._looked.set()
            time.sleep(LOOK_SECONDS)

    def _connected(self) -> Client:
        """A client that works; connects again if the last one has lost the scheduler."""
        if self._client is not None and self._client.status == "running":
            return self._client
        if self._client is not None:
            with contextlib.suppress(Exception):  # whatever state it is in
                self._client.close(timeout=0)
        self._client = None
        client = Client(self.scheduler, timeout=CONNECT_SECONDS, set_as_default=False, name="objpert-explorer")
        client.subscribe_topic(TOPIC, self._take_in)
        self._client = client
        return client

    def _lose(self) -> None:
        """Fail the jobs that wait; those that run fail in their own threads."""
        with self._changed:
            self._workers = None
            waiting = list(self._queued())
            self._waiting.clear()
        for task in waiting:
            task.deliver("error", pickle.dumps(self._lost()))

    def _take_in(self, event: tuple[float, tuple[str, Kind, Any]]) -> None:
        """What a worker reports of a job, in the order in which it does."""
        name, kind, content = event[1]
        task = self._jobs.get(name)
        if task is None:  # of another engine, or of a job that has ended
            return
        if kind == "started":
            if task.started.is_set():
                self._restarted.add(name)
            task.started.set()
        task.deliver(kind, content)

    def _run(self, task: Task) -> tuple[Kind, bytes]:
        name = uuid.uuid4().hex
        with self._changed:
            if not self._workers:
                raise self._lost()
            address = min(self._workers, key=lambda each: self._placed[each] / max((self._workers or {})[each], 1))
            self._placed[address] += 1
            self._jobs[name] = task
        try:
            return self._run_on(address, name, task)
        finally:
            with self._changed:
                del self._jobs[name]
                self._restarted.discard(name)
                self._placed[address] -= 1
                self._placed += Counter()  # forgets the workers without a job

    def _run_on(self, address: str, name: str, task: Task) -> tuple[Kind, bytes]:
        client = self._client
        if client is None:
            raise self._lost()
        future = client.submit(
            run_job, name, task.work, self.timeout_seconds, key=f"explorer-job-{name}", workers=[address], pure=False
        )
        done = _done(future)
        try:
            while not done.wait(POLL_SECONDS):
                self._check(address, name)
                if task.cancelled.is_set():
                    task.deliver("error", pickle.dumps(JobCancelled("cancelled while it ran")))
                    self._stop(client, address, name, done)
                    raise JobCancelled("cancelled while it ran")
            return _result(future)
        finally:
            with contextlib.suppress(Exception):  # of a client that has lost its scheduler meanwhile
                future.cancel()

    def _check(self, address: str, name: str) -> None:
        workers = self._workers
        if workers is None:
            raise self._lost()
        if address not in workers or name in self._restarted:
            raise WorkerDied("the Dask worker that ran this was lost; nothing else was, run it again")

    def _stop(self, client: Client, address: str, name: str, done: threading.Event) -> None:
        """Have the worker kill the job's process; return when its thread is free again."""
        deadline = time.monotonic() + STOP_SECONDS
        while not done.is_set() and address in (self._workers or {}) and time.monotonic() < deadline:
            with contextlib.suppress(Exception):  # of a worker that is lost just now
                client.run(cancel_job, name, workers=[address], on_error="ignore")
            done.wait(2 * POLL_SECONDS)  # if its process had not started, ask again

    def _compute(self, packed: bytes) -> Any:
        self._start_watcher()
        self._looked.wait(2 * CONNECT_SECONDS)
        client = self._client
        if client is None or not self._workers:
            raise OSError("no Dask worker can be reached")
        future = client.submit(compute, packed, key=f"explorer-answer-{uuid.uuid4().hex}", priority=ANSWER_PRIORITY)
        done = _done(future)
        while not done.wait(POLL_SECONDS):
            if not self._workers:
                raise OSError("no Dask worker can be reached")
        kind, content = _result(future)
        if kind == "error":
            raise pickle.loads(content)
        return pickle.loads(content)


def _done(future: Future) -> threading.Event:
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    return done


def _result(future: Future) -> tuple[Kind, bytes]:
    """Of a future that is done, what the worker's function returned."""
    try:
        return future.result()
    except KilledWorker:
        raise WorkerDied("the Dask worker that ran this was lost; nothing else was, run it again") from None
    except CancelledError:
        raise PoolLost("the Dask scheduler has dropped this computation; try again in a moment") from None
    except Exception as error:
        raise RuntimeError(f"the Dask worker could not start this ({type(error).__name__}: {error})") from error


_cancelled: dict[str, threading.Event] = {}  # on a worker, by name of the jobs that run there


def run_job(name: str, work: bytes, timeout_seconds: float) -> tuple[Kind, bytes]:
    """On a worker: run packed work in a process of its own, and report what it reports under TOPIC."""
    worker = get_worker()
    secede()  # jobs are counted by their engine; the threads of the worker are for answers, which do not wait for jobs
    cancelled = _cancelled[name] = threading.Event()
    _allow_children()
    try:
        return run_in_process(
            work,
            deliver=lambda kind, content: worker.log_event(TOPIC, (name, kind, content)),
            cancelled=cancelled,
            timeout_seconds=timeout_seconds,
        )
    except (JobCancelled, JobTimedOut, WorkerDied) as error:
        return "error", pickled_error(error)
    except AssertionError:  # if `_allow_children` has no effect with a future version
        advice = "start the Dask workers with DASK_DISTRIBUTED__WORKER__DAEMON=False, so that they may start processes"
        return "error", pickled_error(RuntimeError(advice))
    finally:
        del _cancelled[name]


def cancel_job(name: str) -> None:
    """On a worker, in its event loop: have `run_job` kill the process of this job, if it runs here."""
    cancelled = _cancelled.get(name)
    if cancelled is not None:
        cancelled.set()


def _allow_children() -> None:
    """Let a worker that was started by Dask's nanny have processes of its own.

    The nanny starts it as a daemon, and `multiprocessing` forbids daemons to start processes since these would outlive
    a daemon that is killed. Those of `run_in_process` exit with their parent, so the reason does not apply.
    """
    getattr(multiprocessing.current_process(), "_config", {})["daemon"] = False
