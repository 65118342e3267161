"""Stochastic average gradient."""

import numpy as np

from explorer.learning.solvers.finite_sum import FiniteSum
from explorer.learning.solvers.tracing import Run

_EPOCHS_BETWEEN_LOOKS = 4


def sag(
    objective,
    *,
    gradient_tol,
    start=None,
    max_passes=10_000,
    random_state=None,
    callback=None,
    batch_size=None,
    step_factor=1.0,
):
    """theta <- theta - s (G + lambda theta + b), where G = sum_j of the gradient of F_j when block j was last drawn.

    Each step draws one of the N blocks of batch_size consecutive records, updates its part of G, and costs its records.
    The table that makes this possible holds n slopes, since a record's gradient is its slope times its row. As long as
    only k blocks have been drawn, G is scaled by N / k. The regulariser and the linear term are exact.
    s = step_factor / L with L = `FiniteSum.lipschitz`.

    The gradient of the whole objective is verified at the end of an epoch of N steps if |G + lambda theta + b| <=
    gradient_tol, and every fourth epoch in any case.

    Parameters and result: as every solver, see `explorer.learning.solvers`, and

    batch_size : int >= 1, 1 being the textbook's, or None for the largest up to 64 with smoothness at most 4 lambda.
        Up to there the number of records drawn hardly depends on it, and the number of steps falls
    step_factor : float > 0. Linear convergence is proved for 1/16, with the regulariser inside the table; 1 is what
        other implementations use and what every test here finds to converge

    Raises
    ------
    ValueError if the records cannot be read in any order.

    References: Schmidt, Le Roux, Bach 2017.
    """
    run = Run(objective, gradient_tol=gradient_tol, start=start, max_passes=max_passes, callback=callback)
    data = FiniteSum(objective, batch_size=batch_size, solver="sag")
    rng, step, n_blocks = np.random.default_rng(random_state), step_factor / data.lipschitz, len(data.sizes)
    theta, slopes, total, drawn = run.start, [None] * n_blocks, np.zeros(objective.dimension), 0
    with run:
        while True:
            run.gradient(theta)
            for _ in range(_EPOCHS_BETWEEN_LOOKS):
                for j in rng.integers(n_blocks, size=n_blocks):
                    fresh = data.slopes(j, theta)
                    drawn += slopes[j] is None
                    total = total + data.gradient(j, fresh if slopes[j] is None else fresh - slopes[j])
                    slopes[j] = fresh
                    direction = total * (n_blocks / drawn) + objective.l2_reg * theta + objective.linear_term
                    theta = theta - step * direction
                    run.count(data.sizes[j])
                if np.linalg.norm(direction) <= gradient_tol:
                    break
    return run.result()
