"""Limited-memory BFGS (scipy's), stopped by the verified l2 norm of the gradient."""

import numpy as np
from scipy.optimize import minimize

from explorer.learning.solvers.tracing import Finished, Run


def lbfgs(objective, *, gradient_tol, start=None, max_passes=10_000, random_state=None, callback=None):
    """scipy's L-BFGS-B without bounds, from the last ten steps; ends early if its line search finds no lower value.

    Parameters and result: as every solver, see `explorer.learning.solvers`; random_state is not used. The trace has
    the points that the line search tried, too.

    References: Zhu, Byrd, Lu, Nocedal 1997, in scipy.
    """
    run = Run(objective, gradient_tol=gradient_tol, start=start, max_passes=max_passes, callback=callback)

    def evaluate(theta):
        value, gradient = objective.value_and_gradient(theta)
        run.evaluated(theta, gradient)
        return value, gradient

    options = {"maxiter": np.inf, "maxfun": np.inf, "gtol": 0.0, "ftol": 0.0}
    with run:
        raise Finished(minimize(evaluate, run.start, jac=True, method="L-BFGS-B", options=options).message)
    return run.result()
