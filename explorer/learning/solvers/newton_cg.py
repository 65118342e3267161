"""Newton's method without the Hessian: steps by conjugate gradients, as exact as is worth it."""

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from explorer.learning.solvers.line_search import line_search
from explorer.learning.solvers.tracing import Run


def newton_cg(objective, *, gradient_tol, start=None, max_passes=10_000, random_state=None, callback=None):
    """theta <- theta + t p, with |H(theta) p + gradient| <= eta |gradient| and t from `line_search`.

    p comes from conjugate gradients on Hessian-vector products, with the forcing term eta = min(1/2, square root of
    the gradient norm relative to the first), but never below what brings the gradient to half of gradient_tol. Started
    at zero, conjugate gradients have -gradient.p = p.H p and do no worse than one step of steepest descent, which is
    all that `line_search` needs to converge from anywhere.

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
            hessian = LinearOperator((d, d), matvec=lambda v, at=theta: run.hessian_product(at, v), dtype=float)
            direction, _ = cg(hessian, -gradient, rtol=forcing, maxiter=2 * d)
            theta, gradient = line_search(run, theta, gradient, direction)
            norm = np.linalg.norm(gradient)
    return run.result()
