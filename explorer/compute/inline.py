"""The engine without processes and threads, for places that have none, as Python in a browser: everything runs at once.

A page shows the same with it, but it does not react while it computes. An engine for browsers that keeps the page
reacting, by a second interpreter in a web worker, would stand beside this one.
"""

import os
import pickle
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

from explorer.compute.interface import Engine, Priority, finished, pickled
from explorer.compute.job import Job, PoolFull, pack

T = TypeVar("T")


class InlineEngine(Engine):
    """Runs each job before `submit` returns, and computes each answer before `answer` returns."""

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
        if self._refused is not None:
            job.fail(PoolFull(self._refused))
            return job
        job.receive("started", os.getpid())
        # Copies, as with the other engines, so that a page cannot rely on sharing objects with its jobs.
        function, arguments = pickle.loads(pack(function, arguments))
        try:
            value = function(report=lambda message: job.receive("message", pickle.dumps(message)), **arguments)
            job.receive("value", pickle.dumps(value))
        except Exception as error:
            job.fail(error)
        return job

    def answer(self, work: Callable[[], T], *, here: bool = False, replaces: Future | None = None) -> "Future[T]":
        packed = None if here else pickled(work)
        if packed is None:
            return _outcome(work)
        try:
            return finished(self._remembered.recall(packed))
        except KeyError:
            answer = _outcome(work)
        if answer.exception() is None:
            self._remembered.remember(packed, answer.result())
        return answer


def _outcome(work: Callable[[], T]) -> "Future[T]":
    answer: Future[T] = Future()
    try:
        answer.set_result(work())
    except Exception as error:
        answer.set_exception(error)
    return answer
