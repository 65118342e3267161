"""Sums over blocks of records in several threads, with results that do not depend on their timing."""

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, reduce
from typing import Any

import joblib
from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_AHEAD = 16  # results that may wait for an earlier one: they can be large


@contextmanager
def own_threads() -> Iterator[int]:
    """Yield the number of threads the caller may start; within the context, BLAS is limited to one thread in each.

    It is the number that BLAS would have used: one inside joblib's workers, under OMP_NUM_THREADS=1 or threadpoolctl's
    limits, and within another thread's `own_threads`.
    """
    libraries, cores = _machine()
    with _lock:
        numbers = [library.get_num_threads() for library in libraries]
        threads = min(*numbers, cores) if numbers else 1
        if threads > 1:
            for library in libraries:
                library.set_num_threads(1)
    try:
        yield threads
    finally:
        if threads > 1:
            for library, number in zip(libraries, numbers, strict=True):
                library.set_num_threads(number)


@cache
def _machine() -> tuple[list, int]:
    return ThreadpoolController().select(user_api="blas").lib_controllers, joblib.cpu_count()


def ordered_total(function: Callable[[Any], tuple], items: Iterable, *, threads: int = 1) -> tuple:
    """Sum over `items` of the tuple function(item), entry by entry.

    Results are added in the order of `items`, so the sum is bitwise the same for any number and timing of threads.
    Exceptions raised by `function` propagate.
    """
    if threads == 1:
        return reduce(add_parts, map(function, items))
    total = _OrderedTotal(function, items)
    with ThreadPoolExecutor(threads - 1) as pool:  # starting threads costs less than a block or two
        others = [pool.submit(total.work) for _ in range(threads - 1)]
        total.work()
    for other in others:
        other.result()
    return total.sums


def add_parts(sums: tuple, part: tuple) -> tuple:
    """The tuple sums + part, entry by entry."""
    return tuple(a + b for a, b in zip(sums, part, strict=True))


class _OrderedTotal:
    def __init__(self, function: Callable[[Any], tuple], items: Iterable) -> None:
        self.sums: tuple = ()
        self._function, self._todo = function, iter(enumerate(items))
        self._added: float = 0  # infinite after an error
        self._waiting: dict[float, tuple] = {}
        self._changed = threading.Condition()

    def work(self) -> None:
        """Take the next item until none is left."""
        try:
            while (task := self._next()) is not None:
                number, item = task
                part = self._function(item)
                with self._changed:
                    self._waiting[number] = part
                    self._add()
        except BaseException:
            with self._changed:
                self._todo, self._added = iter(()), math.inf  # release threads that wait for this result
                self._changed.notify_all()
            raise

    def _next(self) -> tuple[int, Any] | None:
        with self._changed:
            task = next(self._todo, None)
            while task is not None and task[0] >= self._added + _AHEAD:
                self._changed.wait()
            return task

    def _add(self) -> None:
        while self._added in self._waiting:
            part = self._waiting.pop(self._added)
            self.sums = add_parts(self.sums, part) if self._added else part
            self._added += 1
            self._changed.notify_all()
