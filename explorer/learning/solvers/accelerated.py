"""Nesterov's accelerated gradient descent for strongly convex functions."""

import numpy as np

from explorer.learning.solvers.tracing import Run


def accelerated(objective, *, gradient_tol, start=None, max_passes=10_000, random_state=None, callback=None):
    """x <- y - grad J(y) / L, then y <- x + m (x - previous x), with m = (1 - sqrt q) / (1 + sqrt q), q = lambda / L.

    L is `objective.gradient_lipschitz()`. J(x) - min J shrinks by 1 - sqrt q in each pass, whatever the data; the norm
    of the gradient, taken at y, ripples on its way down.

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
