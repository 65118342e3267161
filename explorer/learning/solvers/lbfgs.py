"""Limited-memory BFGS (scipy's), stopped by the verified l2 norm of the gradient."""

import numpy as np
from scipy.optimize import OptimizeResult, minimize


def lbfgs(objective, *, gradient_tol, start=None, max_passes=10_000, callback=None):
    """Minimise `objective` until |gradient|_2 <= gradient_tol at an evaluated point.

    Parameters
    ----------
    objective : PerturbedObjective
    gradient_tol : float > 0, tau
    start : ndarray (d,) or None for zeros
    max_passes : int, limit on evaluations of the whole objective
    callback : callable (n_gradient_evaluations, gradient_norm) or None, after each iteration; whatever it raises
        ends the solver

    Returns
    -------
    scipy's OptimizeResult: x (d,), fun, jac (d,), gradient_norm, success (whether the norm at x was reached), message,
    n_gradient_evaluations (of single records), and trace, ndarray (iterations + 1, 2) of single-record evaluations and
    gradient norms.

    References: Zhu, Byrd, Lu, Nocedal 1997, in scipy.
    """
    n, passes = objective.n_records, 0
    best = OptimizeResult(gradient_norm=np.inf)
    trace = []

    def evaluate(theta):
        nonlocal passes
        passes += 1
        value, gradient = objective.value_and_gradient(theta)
        norm = np.linalg.norm(gradient)
        if norm < best.gradient_norm:
            best.update(x=theta.copy(), fun=value, jac=gradient, gradient_norm=norm)
        if passes == 1:
            report()
        return value, gradient

    def report(_=None):
        trace.append((passes * n, best.gradient_norm))
        if callback is not None:
            callback(*trace[-1])
        if best.gradient_norm <= gradient_tol:
            raise StopIteration

    theta = np.zeros(objective.dimension) if start is None else start
    options = {"maxiter": max_passes, "maxfun": max_passes, "gtol": 0.0, "ftol": 0.0}
    try:
        message = minimize(evaluate, theta, jac=True, method="L-BFGS-B", callback=report, options=options).message
    except StopIteration:  # already at the minimum
        message = ""
    success = bool(best.gradient_norm <= gradient_tol)
    return OptimizeResult(
        best,
        success=success,
        message=f"gradient norm {best.gradient_norm:.3g} reached" if success else message,
        n_gradient_evaluations=passes * n,
        trace=np.array(trace),
    )
