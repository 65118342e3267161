"""Limited-memory BFGS (scipy's), stopped by the verified l2 norm of the gradient."""

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from explorer.learning.objective import PerturbedObjective
from explorer.learning.solvers.tracing import Callback, Finished, Run
from explorer.learning.types import Array, RandomState


def lbfgs(
    objective: PerturbedObjective,
    *,
    gradient_tol: float,
    start: Array | None = None,
    max_passes: float = 10_000,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> OptimizeResult:
    """scipy's L-BFGS-B without bounds, from the last ten steps; ends early if its line search finds no lower value.

    Parameters and result: as every solver, see `explorer.learning.solvers`; random_state is not used. The trace
    includes the points that the line search tried.

    References: Zhu et al. 1997, as implemented in scipy.
    """
    run = Run(objective, gradient_tol=gradient_tol, start=start, max_passes=max_passes, callback=callback)

    def evaluate(theta: Array) -> tuple[float, Array]:
        value, gradient = objective.value_and_gradient(theta)
        run.evaluated(theta, gradient)
        return value, gradient

    options = {"maxiter": np.inf, "maxfun": np.inf, "gtol": 0.0, "ftol": 0.0}
    with run:
        raise Finished(minimize(evaluate, run.start, jac=True, method="L-BFGS-B", options=options).message)
    return run.result()
