"""The choice of a solver, by name or by the shape of the data, and the fallback where it does not converge."""

from typing import Protocol

import numpy as np
from scipy.optimize import OptimizeResult

from explorer.learning.objective import PerturbedObjective
from explorer.learning.solvers.accelerated import accelerated
from explorer.learning.solvers.gradient_descent import gradient_descent
from explorer.learning.solvers.lbfgs import lbfgs
from explorer.learning.solvers.newton import newton
from explorer.learning.solvers.newton_cg import newton_cg
from explorer.learning.solvers.sag import sag
from explorer.learning.solvers.subsampled_newton import RECORDS_PER_DIMENSION, SHARES, subsampled_newton
from explorer.learning.solvers.svrg import svrg
from explorer.learning.solvers.tracing import Callback
from explorer.learning.types import Array, RandomState


class Solver(Protocol):
    """The signature of a solver; `explorer.learning.solvers` documents the parameters and the result."""

    def __call__(
        self,
        objective: PerturbedObjective,
        *,
        gradient_tol: float,
        start: Array | None = None,
        max_passes: float = 10_000,
        random_state: RandomState = None,
        callback: Callback | None = None,
    ) -> OptimizeResult: ...


SOLVERS: dict[str, Solver] = {
    "gradient_descent": gradient_descent,
    "accelerated": accelerated,
    "sag": sag,
    "svrg": svrg,
    "lbfgs": lbfgs,
    "newton": newton,
    "newton_cg": newton_cg,
    "subsampled_newton": subsampled_newton,
}
_SMALL_DIMENSION = 300  # up to here one Hessian of all records costs less than the passes it saves
_LARGEST_DIMENSION = 1000  # up to here one Hessian of a sample does


def choose(objective: PerturbedObjective) -> Solver:
    """The fastest solver for the objective's number of records n and dimension d, a function.

    By the times of tests/benchmarks/solvers.py: `subsampled_newton` for d <= 300, and for d <= 1000 where n is large
    enough for its samples to approximate the Hessian; else `newton_cg`.
    """
    n, d = objective.n_records, objective.dimension
    sampled = n * max(SHARES) >= RECORDS_PER_DIMENSION * d
    return subsampled_newton if d <= (_LARGEST_DIMENSION if sampled else _SMALL_DIMENSION) else newton_cg


def minimise(
    objective: PerturbedObjective,
    *,
    solver: str | Solver = "auto",
    gradient_tol: float,
    start: Array | None = None,
    max_passes: float = 10_000,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> OptimizeResult:
    """Minimise by `solver`; where it misses gradient_tol, continue from its best point with one that always converges.

    The fallback is `subsampled_newton` or, for d > 1000, `newton_cg`, without a limit on passes: it ends with success
    or at the floating-point floor of the gradient norm, and the message says which.

    Parameters
    ----------
    objective : PerturbedObjective
    solver : "auto", which is `choose`; a name in SOLVERS; or a function of the same signature
    gradient_tol, start, max_passes, random_state, callback : as for every solver; max_passes limits `solver` alone

    Returns
    -------
    OptimizeResult as of every solver, with the counts and traces of both joined.

    Raises
    ------
    ValueError for an unknown name and for parameters out of range.
    """
    first = _resolve(solver, objective)(
        objective,
        gradient_tol=gradient_tol,
        start=start,
        max_passes=max_passes,
        random_state=random_state,
        callback=callback,
    )
    if first.success:
        return first
    spent = first.n_gradient_evaluations
    later = None if callback is None else lambda evaluations, norm: callback(spent + evaluations, norm)
    small = objective.dimension <= _LARGEST_DIMENSION
    name, fallback = ("subsampled_newton", subsampled_newton) if small else ("newton_cg", newton_cg)
    second = fallback(
        objective,
        gradient_tol=gradient_tol,
        start=first.x,
        max_passes=np.inf,
        random_state=random_state,
        callback=later,
    )
    second.message = f"{second.message}, by {name} (before: {first.message})"
    second.n_gradient_evaluations += spent
    second.trace = np.concatenate([first.trace, second.trace + np.array([spent, 0])])
    return second


def _resolve(solver: str | Solver, objective: PerturbedObjective) -> Solver:
    if solver == "auto":
        return choose(objective)
    if isinstance(solver, str) and solver in SOLVERS:
        return SOLVERS[solver]
    if callable(solver):
        return solver
    names = ", ".join(map(repr, SOLVERS))
    raise ValueError(f"solver must be 'auto', one of {names}, or a function: got solver={solver!r}")
