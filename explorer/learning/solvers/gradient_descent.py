"""Gradient descent with a constant step for which convergence is guaranteed."""

from scipy.optimize import OptimizeResult

from explorer.learning.objective import PerturbedObjective
from explorer.learning.solvers.tracing import Callback, Run
from explorer.learning.types import Array, RandomState


def gradient_descent(
    objective: PerturbedObjective,
    *,
    gradient_tol: float,
    start: Array | None = None,
    max_passes: float = 10_000,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> OptimizeResult:
    """theta <- theta - grad J(theta) / L, with L = `objective.gradient_lipschitz()`.

    The mean Hessian between two points lies in [lambda, L], hence each pass multiplies |grad| by at most
    1 - lambda / L; a direction orthogonal to all records attains this factor.

    Parameters and result: as every solver, see `explorer.learning.solvers`; random_state is not used.

    References: Nesterov 2018, Section 2.1.
    """
    run = Run(objective, gradient_tol=gradient_tol, start=start, max_passes=max_passes, callback=callback)
    with run:
        theta, step = run.start, 1 / objective.gradient_lipschitz()
        while True:
            theta = theta - step * run.gradient(theta)
    return run.result()
