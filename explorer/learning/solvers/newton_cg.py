"""Inexact Newton's method: steps by conjugate gradients on Hessian-vector products."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult
from scipy.sparse.linalg import LinearOperator, cg

from explorer.learning.objective import PerturbedObjective
from explorer.learning.solvers.line_search import line_search
from explorer.learning.solvers.tracing import Callback, Run
from explorer.learning.types import Array, RandomState


def newton_cg(
    objective: PerturbedObjective,
    *,
    gradient_tol: float,
    start: Array | None = None,
    max_passes: float = 10_000,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> OptimizeResult:
    """theta <- theta + t p, with |H(theta) p + gradient| <= eta |gradient| and t from `line_search`.

    p comes from conjugate gradients on Hessian-vector products, with the forcing term eta = min(1/2, square root of
    the gradient norm relative to the first), but never below the value that brings the gradient to half of
    gradient_tol. Conjugate gradients started at zero satisfy -gradient.p = p.H p and do at least as well as one step of
    steepest descent, which is all that `line_search` needs for global convergence.

    Parameters and result: as every solver, see `explorer.learning.solvers`; random_state is not used.

    References: Eisenstat & Walker 1996; Nocedal & Wright 2006, Section 7.1.
    """
    run = Run(objective, gradient_tol=gradient_tol, start=start, max_passes=max_passes, callback=callback)
    d = objective.dimension
    with run:
        theta = run.start
        gradient = run.gradient(theta)
        first = norm = np.linalg.norm(gradient)
        while True:
            forcing = max(min(0.5, np.sqrt(norm / first)), gradient_tol / (2 * norm))
            hessian = _operator(d, partial(run.hessian_product, theta))
            direction, _ = cg(hessian, -gradient, rtol=forcing, maxiter=2 * d)
            theta, gradient = line_search(run, theta, gradient, direction)
            norm = np.linalg.norm(gradient)
    return run.result()


def _operator(dimension: int, product: Callable[[Array], Array]) -> Any:
    kind: Any = LinearOperator  # its __new__ takes parameters that its __init__ does not
    return kind((dimension, dimension), matvec=product, dtype=float)
