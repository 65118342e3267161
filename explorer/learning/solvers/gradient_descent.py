"""Gradient descent with the constant step that is sure to converge."""

from explorer.learning.solvers.tracing import Run


def gradient_descent(objective, *, gradient_tol, start=None, max_passes=10_000, random_state=None, callback=None):
    """theta <- theta - grad J(theta) / L, with L = `objective.gradient_lipschitz()`.

    Between two points the mean Hessian lies in [lambda, L], hence |grad| shrinks by at least 1 - lambda / L in each
    pass, and by no more than that along a direction that no record touches.

    Parameters and result: as every solver, see `explorer.learning.solvers`; random_state is not used.

    References: Nesterov 2018, Section 2.1.
    """
    run = Run(objective, gradient_tol=gradient_tol, start=start, max_passes=max_passes, callback=callback)
    with run:
        theta, step = run.start, 1 / objective.gradient_lipschitz()
        while True:
            theta = theta - step * run.gradient(theta)
    return run.result()
