"""Nesterov's accelerated gradient descent for strongly convex functions."""

import numpy as np
from scipy.optimize import OptimizeResult

from explorer.learning.objective import PerturbedObjective
from explorer.learning.solvers.tracing import Callback, Run
from explorer.learning.types import Array, RandomState


def accelerated(
    objective: PerturbedObjective,
    *,
    gradient_tol: float,
    start: Array | None = None,
    max_passes: float = 10_000,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> OptimizeResult:
    """x <- y - grad J(y) / L, then y <- x + m (x - previous x), with m = (1 - sqrt q) / (1 + sqrt q), q = lambda / L.

    L is `objective.gradient_lipschitz()`. J(x) - min J shrinks by 1 - sqrt q in each pass, for any data; the norm of
    the gradient, taken at y, does not decrease monotonically.

    Parameters and result: as every solver, see `explorer.learning.solvers`; random_state is not used.

    References: Nesterov 2018, Section 2.2.1, constant step scheme III.
    """
    run = Run(objective, gradient_tol=gradient_tol, start=start, max_passes=max_passes, callback=callback)
    with run:
        lipschitz = objective.gradient_lipschitz()
        root = np.sqrt(objective.l2_reg / lipschitz)
        momentum = (1 - root) / (1 + root)
        x = y = run.start
        while True:
            previous, x = x, y - run.gradient(y) / lipschitz
            y = x + momentum * (x - previous)
    return run.result()
