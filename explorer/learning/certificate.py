"""Minimisation with a proven bound on the gradient norm, on which approximate-minimum guarantees depend.

The guarantee needs |grad J(theta) + b| <= tau over the reals at the point that receives the output noise, b being the
real noise. What is proved is U + eta <= tau: U bounds the gradient with the stored linear term b', all errors of
floating-point arithmetic included (`PerturbedObjective.gradient_bound`), and eta bounds |b - b'|. theta is on the
release's grid before it is certified, so its rounding costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import OptimizeResult

from explorer.learning.grid import to_grid
from explorer.learning.losses import Loss
from explorer.learning.objective import PerturbedObjective, gamma
from explorer.learning.privacy import NoReleaseError
from explorer.learning.solvers import Solver, minimise

_AIM = 0.99  # of tau, for the solver: the rest is for rounding errors
_ATTEMPTS = 6  # of solvers to leave more room for them
_LARGEST_N = 2**30  # of the proof


def certified_minimum(
    objective: PerturbedObjective,
    *,
    gradient_tol: float,
    grid: float | None = None,
    linear_error: float = 0.0,
    n_max: int = 0,
    solver: str | Solver = "auto",
    max_passes: float = 10_000,
    callback: Callable[[int, float], object] | None = None,
) -> OptimizeResult:
    """A point on the grid where |gradient|_2 <= gradient_tol is proved; within gradient_tol / l2_reg of the minimiser.

    The solver runs to a little below gradient_tol, its point is rounded to the grid, and the bound is evaluated there.
    Where it is too large, solvers continue from there with the tolerance that the bound leaves. If they cannot reach
    it, gradient descent goes on until the bound holds; that is proved to happen for up to n_max records
    (`largest_number_of_records`), and for more records nothing is released.

    Parameters
    ----------
    objective : PerturbedObjective
    gradient_tol : float > 0, tau
    grid : float, a power of two, or None for no rounding
    linear_error : float >= 0, eta, a bound on the distance from the objective's linear term to the real one
    n_max : int >= 0
    solver, max_passes, callback : as in `explorer.learning.solvers.minimise`

    Returns
    -------
    scipy's OptimizeResult of the solver, with x on the grid and gradient_norm = U + eta, the proven bound there

    Raises
    ------
    NoReleaseError if the bound is larger.
    """
    given = {"grid": grid, "linear_error": linear_error, "gradient_tol": gradient_tol}
    spent, solution, bound = 0, None, np.inf
    tol = max(_AIM * gradient_tol - linear_error, gradient_tol / 2)
    for _ in range(_ATTEMPTS):
        solution = minimise(
            objective,
            solver=solver,
            gradient_tol=tol,
            start=None if solution is None else solution.x,
            max_passes=max_passes,
            random_state=0,  # the solver's own randomness needs no secrecy; fixed, the same noise gives the same fit
            callback=_counted_from(spent, callback),
        )
        solution.n_gradient_evaluations += spent + objective.n_records  # the bound takes a pass
        spent = solution.n_gradient_evaluations
        reached, bound = solution.gradient_norm, _certify(objective, solution, **given)
        if bound <= gradient_tol:
            return solution
        tol = _AIM * (gradient_tol - (bound - reached))
        if not (solution.success and tol > 0):
            break
    if objective.n_records <= n_max:
        return _descended(objective, solution, spent=spent, callback=callback, **given)
    raise NoReleaseError(
        f"nothing is released: the gradient norm must be <= gradient_tol={gradient_tol!r}, of which {linear_error:.3g} "
        f"are for the rounding of the noise; its proven bound is {bound:.3g} after {spent} single-record gradients "
        f"({'' if solution is None else solution.message}). "
        "The noise is not redrawn; choose a larger gradient_tol, which floating-point arithmetic can reach. That "
        "this fit refused depends on the data: a refusal that others can observe is itself outside the guarantee."
    )


def largest_number_of_records(
    *,
    loss: Loss,
    dimension: int,
    lipschitz: float,
    smoothness: float,
    row_norm: float,
    l2_reg: float,
    gradient_tol: float,
    grid: float,
    linear_norm: float = 0.0,
    linear_error: float = 0.0,
) -> int:
    """The number of records up to which `certified_minimum` is proved to find a point; from public numbers alone.

    The largest n at which E(n), the rounding to the grid and eta are each at most tau / 9, with

        E(n) = n (gamma_(n+5) L + e_rel L + e_abs B + gamma_(d+2) beta R) + gamma_3 (n L + lambda R + |b|),
        R = 2 (n L + |b|) / lambda.

    Parameters
    ----------
    loss : Loss
    dimension : int, d
    lipschitz, smoothness, row_norm : float, L and beta of a record's loss in theta, and B
    l2_reg, gradient_tol, grid : float, lambda, tau, and the release's grid
    linear_norm, linear_error : float >= 0, bounds on |b|, for all but negligible draws, and eta
    """
    rel, absolute = loss.relative_error, loss.absolute_error

    def certain(n: int) -> bool:
        radius = 2 * (n * lipschitz + linear_norm) / l2_reg
        term = (gamma(n + 5) + rel) * lipschitz + absolute * row_norm + gamma(dimension + 2) * smoothness * radius
        error = n * term + gamma(3) * (n * lipschitz + l2_reg * radius + linear_norm)
        rounding = (l2_reg + n * smoothness) * grid * np.sqrt(dimension) / 2
        return 9 * max(error, rounding, linear_error) <= gradient_tol

    low, high = 0, _LARGEST_N
    if certain(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if certain(middle) else (low, middle)
    return low


def _certify(
    objective: PerturbedObjective, solution: OptimizeResult, *, grid: float | None, linear_error: float, **_: float
) -> float:
    """Round the solution's x to the grid, and set gradient_norm to U + eta there; infinite if that is not finite."""
    if grid is not None:
        solution.x = to_grid(solution.x, grid)
    bound = (objective.gradient_bound(solution.x) + linear_error) * (1 + 2.0**-40)
    solution.gradient_norm = bound if np.isfinite(bound) else np.inf
    return solution.gradient_norm


def _descended(
    objective: PerturbedObjective,
    solution: OptimizeResult | None,
    *,
    spent: int,
    callback: Callable[[int, float], object] | None,
    grid: float | None,
    linear_error: float,
    gradient_tol: float,
) -> OptimizeResult:
    """Gradient descent with step 1 / Lambda until the bound holds, without a limit: proved to end for n <= n_max.

    It starts from the solver's point if the gradient there is at most that at 0, which the proof needs, and from 0
    otherwise.
    """
    theta, step = np.zeros(objective.dimension), 1 / objective.gradient_lipschitz()
    if solution is not None and solution.x.shape == theta.shape:
        norms = [float(np.linalg.norm(objective.gradient(point))) for point in (solution.x, theta)]
        theta = solution.x if norms[0] <= norms[1] else theta
    while True:
        gradient, spent = objective.gradient(theta), spent + objective.n_records
        norm = float(np.linalg.norm(gradient))
        if callback is not None:
            callback(spent, norm)
        if norm + linear_error <= gradient_tol:
            spent += objective.n_records
            found = OptimizeResult(x=theta, success=True, message="gradient descent", n_gradient_evaluations=spent)
            if _certify(objective, found, grid=grid, linear_error=linear_error) <= gradient_tol:
                return found
        theta = theta - step * gradient


def _counted_from(spent: int, callback: Callable[[int, float], object] | None) -> Callable[[int, float], object] | None:
    if callback is None or not spent:
        return callback
    return lambda evaluations, norm: callback(spent + evaluations, norm)
