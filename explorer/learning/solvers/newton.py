"""Newton's method, with a Cholesky factorisation of the Hessian in each step."""

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import OptimizeResult

from explorer.learning.objective import PerturbedObjective
from explorer.learning.solvers.line_search import line_search
from explorer.learning.solvers.tracing import Callback, Run
from explorer.learning.types import Array, RandomState


def newton(
    objective: PerturbedObjective,
    *,
    gradient_tol: float,
    start: Array | None = None,
    max_passes: float = 10_000,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> OptimizeResult:
    """theta <- theta - t H(theta)^-1 grad J(theta) with t from `line_search`, which ensures global convergence.

    Needs d^2 numbers of memory and d^3 / 3 multiplications a step.

    Parameters and result: as every solver, see `explorer.learning.solvers`; random_state is not used. The result also
    has `factor`, that of the last Hessian as scipy's cho_solve takes it, None if there was no step.

    References: Nocedal & Wright 2006, Section 3.3.
    """
    run = Run(objective, gradient_tol=gradient_tol, start=start, max_passes=max_passes, callback=callback)
    factor = None
    with run:
        theta = run.start
        gradient = run.gradient(theta)
        while True:
            factor = cholesky(run.hessian(theta))
            theta, gradient = line_search(run, theta, gradient, -cho_solve(factor, gradient))
    return OptimizeResult(run.result(), factor=factor)


def cholesky(hessian: Array) -> tuple[Array, Any]:
    """scipy's Cholesky factor of a Hessian (d, d), after adding a multiple of I of the size of its rounding error."""
    rounding = np.finfo(float).eps * np.trace(hessian)
    return cho_factor(hessian + rounding * np.eye(len(hessian)), check_finite=False)
