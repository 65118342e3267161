"""Stochastic variance-reduced gradient, loopless: the snapshot moves after a random number of steps."""

import numpy as np

from explorer.learning.solvers.finite_sum import FiniteSum
from explorer.learning.solvers.tracing import Run


def svrg(
    objective,
    *,
    gradient_tol,
    start=None,
    max_passes=10_000,
    random_state=None,
    callback=None,
    batch_size=None,
    step_factor=1 / 6,
):
    """theta <- theta - s (grad J(w) + N (grad F_j(theta) - grad F_j(w)) + lambda (theta - w)) with a snapshot w.

    j is one of the N blocks of batch_size consecutive records. After each step, with probability 1 / N, the snapshot w
    becomes theta, and its gradient of the whole objective is verified. Its slopes are kept block by block as they are
    needed first, within the cost of that gradient: a step costs the block's records once. s = step_factor / L with
    L = `FiniteSum.lipschitz`.

    Parameters and result: as every solver, see `explorer.learning.solvers`, and

    batch_size : int >= 1, 1 being the textbook's, or None for the largest up to 64 with smoothness at most lambda. Up
        to there the number of records drawn hardly depends on it, and the number of steps falls
    step_factor : float > 0; convergence is proved for 1/6

    Raises
    ------
    ValueError if the records cannot be read in any order.

    References: Johnson & Zhang 2013; Kovalev, Horvath, Richtarik 2020, Theorem 5 (the loopless form and its step).
    """
    run = Run(objective, gradient_tol=gradient_tol, start=start, max_passes=max_passes, callback=callback)
    data = FiniteSum(objective, batch_size=batch_size, solver="svrg")
    rng, step, n_blocks = np.random.default_rng(random_state), step_factor / data.lipschitz, len(data.sizes)
    theta = run.start
    with run:
        while True:
            snapshot, gradient, slopes = theta, run.gradient(theta), [None] * n_blocks
            for j in rng.integers(n_blocks, size=rng.geometric(1 / n_blocks)):
                if slopes[j] is None:
                    slopes[j] = data.slopes(j, snapshot)
                change = n_blocks * data.gradient(j, data.slopes(j, theta) - slopes[j])
                theta = theta - step * (gradient + change + objective.l2_reg * (theta - snapshot))
                run.count(data.sizes[j])
    return run.result()
