"""Upper bounds of convergence theorems on single-record gradient evaluations, to compare with measured ones.

All are bounds for reaching |grad J| <= tau from a point where |grad J| = `initial_norm`, given lambda and bounds on
smoothness, for any data (for `sag` and `svrg` on the steps after which the expectation is at most tau). Every argument
broadcasts; results are floats, since some exceed any integer type.
"""

from typing import Any

import numpy as np

from explorer.learning.objective import PerturbedObjective
from explorer.learning.solvers.finite_sum import partition


def predicted_evaluations(objective: PerturbedObjective, *, gradient_tol: float) -> dict[str, float]:
    """The theorems' bounds for each solver that has one, starting from zero.

    Parameters
    ----------
    objective : PerturbedObjective
    gradient_tol : float > 0, tau

    Returns
    -------
    dict of float by the solver's name in SOLVERS; with the block sizes that `sag` and `svrg` choose by default. `sag`
    uses 16 times the step of its theorem.
    """
    known = {
        "l2_reg": objective.l2_reg,
        "initial_norm": np.linalg.norm(objective.gradient(np.zeros(objective.dimension))),
        "gradient_tol": gradient_tol,
    }
    predicted = {
        name: law(objective.n_records, lipschitz=objective.gradient_lipschitz(), **known)
        for name, law in (("gradient_descent", gradient_descent_evaluations), ("accelerated", accelerated_evaluations))
    }
    for name, law in (("sag", sag_evaluations), ("svrg", svrg_evaluations)):
        size, lipschitz = partition(objective, batch_size=None, solver=name)
        predicted[name] = law(objective.n_records, lipschitz=lipschitz, batch_size=size, **known)
    return {name: float(evaluations) for name, evaluations in predicted.items()}


def gradient_descent_evaluations(
    n_records: Any, *, lipschitz: Any, l2_reg: Any, initial_norm: Any, gradient_tol: Any
) -> Any:
    """n (1 + K) with (1 - lambda / L)^K initial_norm = tau: K is about (L / lambda) log(initial_norm / tau).

    L is the objective's `gradient_lipschitz`, at most n beta + lambda: with lambda fixed this is n^2 log n. It is
    attained along a direction orthogonal to all records.
    """
    return n_records * (1 + _steps(initial_norm / gradient_tol, l2_reg / lipschitz))


def accelerated_evaluations(
    n_records: Any, *, lipschitz: Any, l2_reg: Any, initial_norm: Any, gradient_tol: Any
) -> Any:
    """n (2 + K) with (1 - sqrt q)^(K/2) 3 sqrt(2) initial_norm / q = tau and q = lambda / L.

    From J(x_k) - min J <= 2 (1 - sqrt q)^k (J(x_0) - min J) and 2 lambda (J(x_0) - min J) <= initial_norm^2 follows
    |x_k - x*| <= sqrt(2) (1 - sqrt q)^(k/2) initial_norm / lambda; the gradient at y_k = x_k + m (x_k - x_(k-1)) is at
    most L |y_k - x*| <= 3 L times the larger of two such distances.
    """
    q = l2_reg / lipschitz
    return n_records * (2 + 2 * _steps(3 * np.sqrt(2) * initial_norm / q / gradient_tol, np.sqrt(q)))


def sag_evaluations(
    n_records: Any, *, lipschitz: Any, l2_reg: Any, initial_norm: Any, gradient_tol: Any, batch_size: Any = 1
) -> Any:
    """n + batch_size K with (1 - min(lambda / (16 L), 1 / (8 N)))^K 2 L C = tau^2, for steps of 1 / (16 L).

    N = n / batch_size and L = `FiniteSum.lipschitz` = N max_j L_j + lambda. C = 3/2 (J(theta_0) - min J) +
    (4 L / N) |theta_0 - theta*|^2 <= initial_norm^2 (3 / (4 lambda) + 4 L / (N lambda^2)), for a table initialised, as
    in the theorem, with deviations from the mean gradient; the squared gradient norm is at most 2 L (J - min J).

    References: Schmidt, Le Roux & Bach 2017, Theorem 1.
    """
    blocks = n_records / batch_size
    constant = initial_norm**2 * (0.75 / l2_reg + 4 * lipschitz / (blocks * l2_reg**2))
    rate = np.minimum(l2_reg / (16 * lipschitz), 1 / (8 * blocks))
    return n_records + batch_size * _steps(2 * lipschitz * constant / gradient_tol**2, rate)


def svrg_evaluations(
    n_records: Any, *, lipschitz: Any, l2_reg: Any, initial_norm: Any, gradient_tol: Any, batch_size: Any = 1
) -> Any:
    """n + 2 batch_size K with (1 - min(lambda / (6 L), 1 / (2 N)))^K L^2 C = tau^2, for steps of 1 / (6 L).

    N and L as for `sag_evaluations`; with probability 1 / N a step costs another n evaluations. C is the theorem's
    |theta_0 - theta*|^2 + (1 / 9 L^2) sum_j |grad h_j(theta_0) - grad h_j(theta*)|^2, with the h_j whose mean is J, at
    most (1 + N / 9) |theta_0 - theta*|^2 <= (1 + N / 9) (initial_norm / lambda)^2.

    References: Kovalev, Horváth & Richtárik 2020, Theorem 5.
    """
    blocks = n_records / batch_size
    constant = (1 + blocks / 9) * (initial_norm / l2_reg) ** 2
    rate = np.minimum(l2_reg / (6 * lipschitz), 1 / (2 * blocks))
    return n_records + 2 * batch_size * _steps(lipschitz**2 * constant / gradient_tol**2, rate)


def _steps(ratio: Any, rate: Any) -> Any:
    """The least integer K >= 0 with (1 - rate)^K ratio <= 1."""
    return np.maximum(np.ceil(np.log(ratio) / -np.log1p(-np.asarray(rate, float))), 0)
