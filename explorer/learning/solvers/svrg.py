"""Stochastic variance-reduced gradient, loopless: the snapshot moves after a random number of steps."""

import numpy as np
from scipy.optimize import OptimizeResult

from explorer.learning.objective import PerturbedObjective
from explorer.learning.solvers.finite_sum import FiniteSum
from explorer.learning.solvers.tracing import Callback, Run
from explorer.learning.types import Array, RandomState


def svrg(
    objective: PerturbedObjective,
    *,
    gradient_tol: float,
    start: Array | None = None,
    max_passes: float = 10_000,
    random_state: RandomState = None,
    callback: Callback | None = None,
    batch_size: int | None = None,
    step_factor: float = 1 / 6,
) -> OptimizeResult:
    """theta <- theta - s (grad J(w) + N (grad F_j(theta) - grad F_j(w)) + lambda (theta - w)) with a snapshot w.

    j is one of the N blocks of batch_size consecutive records. After each step, with probability 1 / N, the snapshot w
    becomes theta, and its gradient of the whole objective is verified. The numbers f' at the snapshot are stored for
    each block on first use; as they are part of that gradient, they are not counted again, and a step costs one
    gradient of each of the block's records. s = step_factor / L with
    L = `FiniteSum.lipschitz`.

    Parameters and result: as every solver, see `explorer.learning.solvers`, and

    batch_size : int >= 1, 1 in the textbook form, or None for the largest up to 64 with smoothness at most lambda. Up
        to that size the number of records drawn hardly depends on it, while the number of steps falls
    step_factor : float > 0; convergence is proved for 1/6

    Raises
    ------
    ValueError if the records do not offer random access.

    References: Johnson & Zhang 2013; Kovalev, Horváth & Richtárik 2020, Theorem 5 (the loopless form and its step).
    """
    run = Run(objective, gradient_tol=gradient_tol, start=start, max_passes=max_passes, callback=callback)
    data = FiniteSum(objective, batch_size=batch_size, solver="svrg")
    rng, step, n_blocks = np.random.default_rng(random_state), step_factor / data.lipschitz, len(data.sizes)
    theta = run.start
    with run:
        while True:
            snapshot, gradient = theta, run.gradient(theta)
            slopes: dict[int, Array] = {}
            for j in rng.integers(n_blocks, size=rng.geometric(1 / n_blocks)):
                if j not in slopes:
                    slopes[j] = data.slopes(j, snapshot)
                change = n_blocks * data.gradient(j, data.slopes(j, theta) - slopes[j])
                theta = theta - step * (gradient + change + objective.l2_reg * (theta - snapshot))
                run.count(data.sizes[j])
    return run.result()
