"""The line search of the Newton-like solvers. It uses gradients alone: values lose their digits near the minimum."""

import numpy as np

from explorer.learning.solvers.tracing import Finished

_SHORTEST, _LONGEST = 0.1, 0.9  # of the step that failed


def line_search(run, theta, gradient, direction):
    """theta + t direction, where t = 1 or shorter makes sure progress, and the gradient there.

    With phi(t) = J(theta + t direction) and phi'(0) < 0, a step is accepted if phi'(t) <= 0, or if its gradient norm
    is at most half the smallest so far; the next t aims a little before the zero of the line through phi'(0) and
    phi'(t).

    Why this converges for every direction = -B^-1 gradient with B between two positive multiples of I, also where the
    second derivative of J jumps: phi' grows by at most L |direction|^2 t, so that every t <= t0 = |phi'(0)| /
    (L |direction|^2) is accepted, and the accepted one is 1 or at least t0 / 10. phi' does not decrease (J is convex):
    where phi'(t) <= 0, J has fallen all the way, by at least t |phi'(0)| / 2 if t <= t0 and |phi'(0)| t0 / 2 beyond,
    which is at least a constant times |gradient|^2, hence times J - min J. Halving steps may raise J, but there are at
    most log2(|first gradient| / tau) of them.

    Returns
    -------
    theta (d,), gradient (d,)
    """
    slope, smallest, t = gradient @ direction, run.best.gradient_norm, 1.0
    while True:
        point = theta + t * direction
        if np.array_equal(point, theta):
            raise Finished(f"gradient norm {smallest:.3g} is at the floating-point floor: no step changes theta")
        there = run.gradient(point)
        slope_there = there @ direction
        if slope_there <= 0 or np.linalg.norm(there) <= smallest / 2:
            return point, there
        zero = slope / (slope - slope_there)  # nan if the step ended where the gradient overflows
        t *= np.clip(0.9 * zero, _SHORTEST, _LONGEST) if np.isfinite(zero) else _SHORTEST
