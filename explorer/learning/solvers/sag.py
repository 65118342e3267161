"""Stochastic average gradient."""

import numpy as np
from scipy.optimize import OptimizeResult

from explorer.learning.objective import PerturbedObjective
from explorer.learning.solvers.finite_sum import FiniteSum
from explorer.learning.solvers.tracing import Callback, Run
from explorer.learning.types import Array, RandomState

_EPOCHS_BETWEEN_CHECKS = 4


def sag(
    objective: PerturbedObjective,
    *,
    gradient_tol: float,
    start: Array | None = None,
    max_passes: float = 10_000,
    random_state: RandomState = None,
    callback: Callback | None = None,
    batch_size: int | None = None,
    step_factor: float = 1.0,
) -> OptimizeResult:
    """theta <- theta - s (G + lambda theta + b), where G = sum_j of the gradient of F_j when block j was last drawn.

    Each step draws one of the N blocks of batch_size consecutive records, updates its part of G, and costs one gradient
    of each of its records. The table of past gradients holds n numbers f', since a record's gradient is f' times its
    row. While only k blocks have been drawn, G is scaled by N / k. The regulariser and the linear term are exact.
    s = step_factor / L with L = `FiniteSum.lipschitz`.

    The gradient of the whole objective is verified at the end of an epoch of N steps if |G + lambda theta + b| <=
    gradient_tol, and every fourth epoch in any case.

    Parameters and result: as every solver, see `explorer.learning.solvers`, and

    batch_size : int >= 1, 1 in the textbook form, or None for the largest up to 64 with smoothness at most 4 lambda.
        Up to that size the number of records drawn hardly depends on it, while the number of steps falls
    step_factor : float > 0. Linear convergence is proved for 1/16, with the regulariser inside the table; 1 is the
        value of other implementations, with which all tests converge

    Raises
    ------
    ValueError if the records do not offer random access.

    References: Schmidt, Le Roux & Bach 2017.
    """
    run = Run(objective, gradient_tol=gradient_tol, start=start, max_passes=max_passes, callback=callback)
    data = FiniteSum(objective, batch_size=batch_size, solver="sag")
    rng, step, n_blocks = np.random.default_rng(random_state), step_factor / data.lipschitz, len(data.sizes)
    theta, total = run.start, np.zeros(objective.dimension)
    direction = total
    slopes: dict[int, Array] = {}
    with run:
        while True:
            run.gradient(theta)
            for _ in range(_EPOCHS_BETWEEN_CHECKS):
                for j in rng.integers(n_blocks, size=n_blocks):
                    fresh = data.slopes(j, theta)
                    total = total + data.gradient(j, fresh - slopes[j] if j in slopes else fresh)
                    slopes[j] = fresh
                    direction = total * (n_blocks / len(slopes)) + objective.l2_reg * theta + objective.linear_term
                    theta = theta - step * direction
                    run.count(data.sizes[j])
                if np.linalg.norm(direction) <= gradient_tol:
                    break
    return run.result()
