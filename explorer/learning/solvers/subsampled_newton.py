"""Newton's method on growing random samples, then BFGS on all records from the last sample's Hessian."""

from typing import Any

import numpy as np
from scipy.linalg import cho_solve
from scipy.optimize import OptimizeResult

from explorer.learning.objective import PerturbedObjective
from explorer.learning.solvers.line_search import line_search
from explorer.learning.solvers.newton import cholesky, newton
from explorer.learning.solvers.tracing import Callback, Run
from explorer.learning.types import Array, RandomState

SHARES = (1 / 32, 1 / 8)  # of the records in each sample; its minimum is the start for the next
RECORDS_PER_DIMENSION = 8  # in the smallest useful sample


def subsampled_newton(
    objective: PerturbedObjective,
    *,
    gradient_tol: float,
    start: Array | None = None,
    max_passes: float = 10_000,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> OptimizeResult:
    """Newton's method on subsamples, then a few BFGS steps on all records.

    1. Minimise `objective.subsample(m)` for m = n/32, then n/8 (those with m >= 8 d), each by `newton` from the last
       minimum and only to |first gradient| / sqrt(m), about the sampling error of the gradient.
    2. BFGS on all records, theta <- theta - t B grad J(theta) with t from `line_search`. B begins as the inverse of the
       last Hessian of step 1, and each step's change of the gradient corrects it: one pass a step.

    If no sample is large enough, B begins as the inverse Hessian of all records; if the samples lead to a larger
    gradient than at the start, the start is kept. Step 2 converges globally: the theorem of Byrd & Nocedal requires
    lambda |s|^2 <= s.y and |y|^2 <= L s.y for a step s and its change of gradient y, which J satisfies, and the
    decrease that `line_search` guarantees. Needs d^2 numbers of memory.

    Parameters and result: as every solver, see `explorer.learning.solvers`; random_state draws the samples, whose
    passes are counted but not in the trace.

    References: Roosta-Khorasani & Mahoney 2019 (samples); Byrd & Nocedal 1989 (convergence of BFGS).
    """
    run = Run(objective, gradient_tol=gradient_tol, start=start, max_passes=max_passes, callback=callback)
    with run:
        theta = run.start
        gradient = run.gradient(theta)
        guess, inverse = _from_samples(run, float(np.linalg.norm(gradient)), np.random.default_rng(random_state))
        if not np.array_equal(guess, theta):
            gradient_there = run.gradient(guess)
            if np.linalg.norm(gradient_there) < np.linalg.norm(gradient):
                theta, gradient = guess, gradient_there
        while True:
            direction = -inverse @ gradient
            if gradient @ direction >= 0:  # B is no longer positive definite, by rounding
                inverse = _inverted(cholesky(run.hessian(theta)))
                direction = -inverse @ gradient
            point, gradient_there = line_search(run, theta, gradient, direction)
            inverse = _corrected(inverse, point - theta, gradient_there - gradient)
            theta, gradient = point, gradient_there
    return run.result()


def _from_samples(run: Run, norm: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """The last sample's minimum (d,) and the inverse (d, d) of its Hessian; without samples, of all records."""
    objective, theta, factor = run.objective, run.start, None
    for m in [int(share * objective.n_records) for share in SHARES]:
        if m >= RECORDS_PER_DIMENSION * objective.dimension:
            sample = objective.subsample(m, rng=rng)
            result = newton(sample, gradient_tol=norm / np.sqrt(m), start=theta, max_passes=1000)
            run.count(result.n_gradient_evaluations)
            theta, factor = result.x, result.factor or factor
    return theta, _inverted(factor or cholesky(run.hessian(theta)))


def _inverted(factor: tuple[Array, Any]) -> Array:
    return cho_solve(factor, np.eye(len(factor[0])))


def _corrected(inverse: Array, step: Array, change: Array) -> Array:
    """BFGS: the inverse Hessian nearest to `inverse` that takes the change of the gradient to the step."""
    curvature = step @ change
    if curvature <= np.finfo(float).eps * np.linalg.norm(step) * np.linalg.norm(change):  # only rounding error
        return inverse
    image = inverse @ change
    cross = np.outer(image, step)
    return inverse + ((1 + change @ image / curvature) * np.outer(step, step) - cross - cross.T) / curvature
