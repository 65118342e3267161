"""Newton's method: a Hessian and its Cholesky factor in each step."""

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import OptimizeResult

from explorer.learning.solvers.line_search import line_search
from explorer.learning.solvers.tracing import Run


def newton(objective, *, gradient_tol, start=None, max_passes=10_000, random_state=None, callback=None):
    """theta <- theta - t H(theta)^-1 grad J(theta) with t from `line_search`, which makes it converge from anywhere.

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


def cholesky(hessian):
    """scipy's Cholesky factor of a Hessian (d, d), moved away from the indefinite by as much as rounding moves it."""
    rounding = np.finfo(float).eps * np.trace(hessian)
    return cho_factor(hessian + rounding * np.eye(len(hessian)), check_finite=False)
