"""The line search of the Newton-type solvers. It uses gradients alone: values lose precision near the minimum."""

import numpy as np

from explorer.learning.solvers.tracing import Finished, Run
from explorer.learning.types import Array

_SHORTEST, _LONGEST = 0.1, 0.9  # of the rejected step


def line_search(run: Run, theta: Array, gradient: Array, direction: Array) -> tuple[Array, Array]:
    """theta + t direction with t <= 1 such that progress is guaranteed, and the gradient there.

    With phi(t) = J(theta + t direction) and phi'(0) < 0, a step is accepted if phi'(t) <= 0, or if its gradient norm
    is at most half the smallest so far; the next t is 0.9 times the zero of the line through phi'(0) and phi'(t), but
    between 0.1 and 0.9 of the rejected t.

    This converges for every direction = -B^-1 gradient with B between two positive multiples of I, also where the
    second derivative of J is discontinuous: phi' grows by at most L |direction|^2 t, so that every t <= t0 =
    |phi'(0)| / (L |direction|^2) is accepted, and the accepted one is 1 or at least t0 / 10. phi' does not decrease (J
    is convex): where phi'(t) <= 0, J decreases all along the step, by at least t |phi'(0)| / 2 if t <= t0 and
    |phi'(0)| t0 / 2 beyond, which is at least a constant times |gradient|^2, hence times J - min J. Steps that halve
    the gradient norm may increase J, but there are at most log2(|first gradient| / tau) of them.

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
