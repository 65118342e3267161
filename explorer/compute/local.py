"""The engine of local processes: a fresh one for each job, and a few that stay and compute answers.

Threads would not do: they share one interpreter, so that every slider would wait for what they compute. Of what exists,
`concurrent.futures.ProcessPoolExecutor` cannot stop a running job and loses all jobs when one process dies; `pebble`
can, but loses all jobs when one raises an exception that cannot be unpickled. docs/compute.md has the measurements.
"""

import contextlib
import os
import pickle
import queue
from typing import Any

from explorer.compute.job import Kind, WorkerDied, pickled_error
from explorer.compute.processes import lower_priority, prepare_processes, process_context, run_in_process
from explorer.compute.queued import QueuedEngine, Task

ANSWER_PROCESSES = 2  # so that a long answer does not delay the short ones
ANSWER_NICENESS = 15  # curves that follow the slider at once come first, then these, then jobs


class LocalEngine(QueuedEngine):
    """Runs jobs and computes answers in processes of this machine, which start when they are needed.

    Parameters
    ----------
    max_workers : int or None for the number of cores, jobs that run at a time
    answer_processes : int
    **limits : of QueuedEngine
    """

    def __init__(
        self, *, max_workers: int | None = None, answer_processes: int = ANSWER_PROCESSES, **limits: Any
    ) -> None:
        super().__init__(**limits)
        self.max_workers, self.answer_threads = max_workers or os.cpu_count() or 1, answer_processes
        self._prepared = False
        self._free: queue.SimpleQueue[ComputeProcess | None] = queue.SimpleQueue()  # None: one that is to be started
        for _ in range(answer_processes):
            self._free.put(None)

    def capacity(self) -> int:
        return self.max_workers

    def prepare(self) -> None:
        if not self._prepared:
            self._prepared = True
            prepare_processes()
            self._threads.submit(self._compute, pickle.dumps(bool))

    def _run(self, task: Task) -> tuple[Kind, bytes]:
        return run_in_process(
            task.work, deliver=task.deliver, cancelled=task.cancelled, timeout_seconds=self.timeout_seconds
        )

    def _compute(self, packed: bytes) -> Any:
        process = self._free.get()
        try:
            process = process or ComputeProcess()
            kind, content = process.answer(packed)
        except EOFError:
            if process is not None:
                process.end()
            process = None
            raise WorkerDied("the computing process ended without an answer; ask again") from None
        finally:
            self._free.put(process)
        if kind == "error":
            raise pickle.loads(content)
        return pickle.loads(content)


class ComputeProcess:
    """A process that stays and computes one answer after the other: starting one takes longer than most answers."""

    def __init__(self) -> None:
        context = process_context()
        self._connection, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there,), daemon=True)
        self._process.start()
        there.close()
        try:
            self._connection.recv()
        except EOFError:
            self.end()
            raise OSError("the computing process ended before it was ready") from None

    def answer(self, packed: bytes) -> tuple[Kind, bytes]:
        """ "value" or "error", and the content, pickled; raises EOFError if the process has ended."""
        try:
            self._connection.send_bytes(packed)
            return self._connection.recv()
        except ConnectionError:
            raise EOFError from None

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.join()
        self._connection.close()


def _serve(connection) -> None:
    """In the process: answer until the parent ends."""
    lower_priority(ANSWER_NICENESS)
    with contextlib.suppress(EOFError, ConnectionError):
        connection.send("ready")
        while True:
            packed = connection.recv_bytes()
            connection.send(compute(packed))


def compute(packed: bytes) -> tuple[Kind, bytes]:
    """Do pickled work in this process: "value" or "error", and the content, pickled."""
    try:
        return "value", pickle.dumps(pickle.loads(packed)())
    except Exception as error:
        return "error", pickled_error(error)
