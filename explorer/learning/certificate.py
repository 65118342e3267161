"""Minimisation with a verified gradient norm, on which approximate-minimum guarantees depend."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import OptimizeResult

from explorer.learning.objective import PerturbedObjective
from explorer.learning.privacy import NEIGHBOURS, RANDOMNESS, NoReleaseError
from explorer.learning.solvers import Solver, minimise

ASSUMPTIONS = (
    f"{NEIGHBOURS}; the number of records is not used",
    "the class labels and the number of features are public",
    *RANDOMNESS,
    "whether the fit refuses to release is not part of the guarantee",
)


def certified_minimum(
    objective: PerturbedObjective,
    *,
    gradient_tol: float,
    solver: str | Solver = "auto",
    max_passes: float = 10_000,
    callback: Callable[[int, float], object] | None = None,
) -> OptimizeResult:
    """A point where |gradient|_2 <= gradient_tol, recomputed there; within gradient_tol / l2_reg of the minimiser.

    Parameters
    ----------
    objective : PerturbedObjective
    gradient_tol : float > 0, tau
    solver, max_passes, callback : as in `explorer.learning.solvers.minimise`

    Returns
    -------
    scipy's OptimizeResult of the solver, with gradient_norm replaced by the verified one

    Raises
    ------
    NoReleaseError if the norm at the solver's point is larger.
    """
    solution = minimise(
        objective,
        solver=solver,
        gradient_tol=gradient_tol,
        max_passes=max_passes,
        random_state=0,  # the solver's own randomness needs no secrecy; fixed, the same noise gives the same fit
        callback=callback,
    )
    solution.gradient_norm = norm = float(np.linalg.norm(objective.gradient(solution.x)))
    if not norm <= gradient_tol:
        raise NoReleaseError(
            f"nothing is released: the gradient norm must be <= gradient_tol={gradient_tol!r}, "
            f"got {norm:.3g} after {solution.n_gradient_evaluations} single-record gradients ({solution.message}). "
            "The noise is not redrawn; choose a larger gradient_tol, which floating-point arithmetic can reach. That "
            "this fit refused depends on the data: a refusal that others can observe is itself outside the guarantee."
        )
    return solution
