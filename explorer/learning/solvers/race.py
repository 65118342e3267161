"""Several solvers on one objective, in step with each other."""

import threading
from concurrent.futures import ThreadPoolExecutor
from heapq import heappop, heappush

from explorer.learning.solvers.dispatch import SOLVERS


def race(objective, *, solvers=SOLVERS, gradient_tol, max_passes=10_000, random_state=None, callback=None):
    """Run every solver to gradient_tol; at each moment the one that has spent the fewest evaluations moves.

    So the calls of `callback` come in the order of their evaluations, as if all ran at one evaluation a tick.

    Parameters
    ----------
    objective : PerturbedObjective
    solvers : dict of solvers by name
    gradient_tol, max_passes : as for every solver
    random_state : None or int, for each solver anew
    callback : callable (name, n_gradient_evaluations, gradient_norm) or None, called after each gradient of the whole
        objective; what it raises ends that solver, and is passed on when the others have ended

    Returns
    -------
    dict of OptimizeResult by name, each what its solver gives alone

    Raises
    ------
    ValueError for parameters out of range.
    """
    turns = _Turns(len(solvers))

    def run(i, name, solver):
        def follow(evaluations, norm):
            turns.spent(i, evaluations)
            if callback is not None:
                callback(name, evaluations, norm)

        turns.wait(i)
        try:
            return solver(
                objective,
                gradient_tol=gradient_tol,
                max_passes=max_passes,
                random_state=random_state,
                callback=follow,
            )
        finally:
            turns.pass_on()

    with ThreadPoolExecutor(max(len(solvers), 1)) as pool:
        running = {name: pool.submit(run, i, name, solver) for i, (name, solver) in enumerate(solvers.items())}
        turns.pass_on()
    return {name: future.result() for name, future in running.items()}


class _Turns:
    """Lets one of n threads run at a time: the one that has spent least, of equals the first."""

    def __init__(self, n):
        self._waiting = [(0, i) for i in range(n)]  # a heap of (evaluations, thread)
        self._turn = [threading.Event() for _ in range(n)]

    def pass_on(self):
        """Wake the next thread, if any waits."""
        if self._waiting:
            self._turn[heappop(self._waiting)[1]].set()

    def wait(self, i):
        """Block thread i until it is woken."""
        self._turn[i].wait()
        self._turn[i].clear()

    def spent(self, i, evaluations):
        """Block thread i until no other has spent less."""
        heappush(self._waiting, (evaluations, i))
        self.pass_on()
        self.wait(i)
