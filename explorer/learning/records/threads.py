"""Both cores for passes over the records, with results that do not depend on which thread was faster."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, reduce

import joblib
from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_AHEAD = 16  # how many results may wait for a slower thread's: they can be large


@contextmanager
def own_threads():
    """Yield how many threads the caller may start; meanwhile the linear algebra in each is held to one.

    It is as many as linear algebra would have used: one inside joblib's workers, under OMP_NUM_THREADS=1 or
    threadpoolctl's limits, and when another thread of this process has already taken them.
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
def _machine():
    return ThreadpoolController().select(user_api="blas").lib_controllers, joblib.cpu_count()


def ordered_total(function, items, *, threads=1):
    """Sum over `items` of the tuple function(item), entry by entry.

    Always added in the order of `items`, so that the same bits come out whatever the number and the timing of the
    threads. What a function raises is raised.
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


def add_parts(sums, part):
    """The tuple sums + part, entry by entry."""
    return tuple(a + b for a, b in zip(sums, part, strict=True))


class _OrderedTotal:
    def __init__(self, function, items):
        self.sums = None
        self._function, self._todo = function, iter(enumerate(items))
        self._added, self._waiting, self._changed = 0, {}, threading.Condition()

    def work(self):
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
                self._todo, self._added = iter(()), math.inf  # nobody waits for this part
                self._changed.notify_all()
            raise

    def _next(self):
        with self._changed:
            task = next(self._todo, None)
            while task is not None and task[0] >= self._added + _AHEAD:
                self._changed.wait()
            return task

    def _add(self):
        while self._added in self._waiting:
            part = self._waiting.pop(self._added)
            self.sums = part if self.sums is None else add_parts(self.sums, part)
            self._added += 1
            self._changed.notify_all()
