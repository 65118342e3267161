"""Several solvers on one objective, interleaved by the number of gradient evaluations."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from heapq import heappop, heappush

from scipy.optimize import OptimizeResult

from explorer.learning.objective import PerturbedObjective
from explorer.learning.solvers.dispatch import SOLVERS, Solver


def race(
    objective: PerturbedObjective,
    *,
    solvers: Mapping[str, Solver] = SOLVERS,
    gradient_tol: float,
    max_passes: float = 10_000,
    random_state: int | None = None,
    callback: Callable[[str, int, float], object] | None = None,
) -> dict[str, OptimizeResult]:
    """Run every solver to gradient_tol; at any time the one with the fewest evaluations runs.

    Hence `callback` is called in the order of the number of evaluations, as if all solvers ran at the same speed.

    Parameters
    ----------
    objective : PerturbedObjective
    solvers : dict of solvers by name
    gradient_tol, max_passes : as for every solver
    random_state : None or int, the same for each solver
    callback : callable (name, n_gradient_evaluations, gradient_norm) or None, called after each gradient of the whole
        objective; an exception it raises ends that solver and propagates when the others have ended

    Returns
    -------
    dict of OptimizeResult by name, each the same as of its solver alone

    Raises
    ------
    ValueError for parameters out of range.
    """
    turns = _Turns(len(solvers))

    def run(i: int, name: str, solver: Solver) -> OptimizeResult:
        def follow(evaluations: int, norm: float) -> None:
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
    """Runs one of n threads at a time: the one with the fewest evaluations, the first among equals."""

    def __init__(self, n: int) -> None:
        self._waiting: list[tuple[int, int]] = [(0, i) for i in range(n)]  # a heap of (evaluations, thread)
        self._turn = [threading.Event() for _ in range(n)]

    def pass_on(self) -> None:
        """Wake the next waiting thread, if there is one."""
        if self._waiting:
            self._turn[heappop(self._waiting)[1]].set()

    def wait(self, i: int) -> None:
        """Block thread i until it is woken."""
        self._turn[i].wait()
        self._turn[i].clear()

    def spent(self, i: int, evaluations: int) -> None:
        """Block thread i until no other has fewer evaluations."""
        heappush(self._waiting, (evaluations, i))
        self.pass_on()
        self.wait(i)
