"""Work of each solver to reach the tolerance, in gradients of single records, and its growth with n.

Everything random follows from one seed: the records, the linear term b, and what the solvers draw.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from explorer import datasets, vocabulary
from explorer.learning import Logistic, PerturbedObjective, Records
from explorer.learning.solvers import SOLVERS, race
from explorer.learning.solvers.complexity import predicted_evaluations

NAMES = vocabulary.labels(vocabulary.SOLVERS)
SMOOTHNESS = 0.25  # beta of logistic loss on rows of norm 1
SIZES = tuple(2**k for k in range(7, 14))
LINEAR, QUADRATIC = LAWS = (
    vocabulary.CURVES["n_log_n"].label,
    vocabulary.CURVES["n_squared"].label,
)
SPACING = 1.02  # of the evaluations of neighbouring points of a trace: on a logarithmic axis none is missed

TRACES = ["solver", "evaluations", "gradient_norm"]
STANDINGS = ["solver", "evaluations", "passes", "finished", "gradient_norm", "theorem", "message"]
GROWTH = ["n", "l2_reg", "solver", "evaluations", "finished"]


@dataclass(frozen=True)
class Race:
    """One race.

    Attributes
    ----------
    standings : DataFrame, a row for each solver in order of its work, those that did not converge last: "solver",
        "evaluations" spent, "passes" (those divided by n), "finished", the smallest "gradient_norm", "theorem", the
        upper bound of its theorem (nan where there is none), and "message", why it ended
    traces : DataFrame of "solver", "evaluations" and "gradient_norm"; after each solver's first row and before its last
        only those with SPACING times the evaluations of the row before
    """

    standings: pd.DataFrame
    traces: pd.DataFrame


def make_objective(n_records, *, dimension, elongation, l2_reg, noise_std, seed):
    """The perturbed objective of logistic loss on `datasets.elongated` records, with b ~ N(0, noise_std^2 I)."""
    X, y = datasets.elongated(n_records, dimension=dimension, elongation=elongation, seed=seed)
    b = np.random.default_rng(seed).normal(scale=noise_std, size=dimension)
    return PerturbedObjective(Records(X, y), loss=Logistic(), l2_reg=l2_reg, linear_term=b)


def predictions(*, n_records, l2_reg, problem, gradient_tol):
    """`predicted_evaluations` of `make_objective`'s objective, dict by the solver's label."""
    objective = make_objective(n_records, l2_reg=l2_reg, **problem)
    predicted = predicted_evaluations(objective, gradient_tol=gradient_tol)
    return {NAMES[name]: evaluations for name, evaluations in predicted.items()}


def run_race(*, n_records, l2_reg, solvers, problem, gradient_tol, max_passes, report=lambda message: None):
    """Race the solvers from zero to gradient_tol, in step by their evaluations.

    Parameters
    ----------
    n_records, l2_reg, problem : as for `make_objective`; problem is a dict of its other parameters
    solvers : list of names in SOLVERS
    gradient_tol, max_passes : as for every solver
    report : callable, receives (solver, evaluations, gradient_norm), the rows of `Race.traces`, in the order of
        evaluations; each solver's last row may be missing where it did not finish

    Returns
    -------
    Race
    """
    objective, rows, last = make_objective(n_records, l2_reg=l2_reg, **problem), [], {}

    def follow(name, evaluations, norm):
        if norm <= gradient_tol or evaluations >= SPACING * last.get(name, 0):
            last[name] = evaluations
            rows.append((NAMES[name], evaluations, norm))
            report(rows[-1])

    results = race(
        objective,
        solvers={name: SOLVERS[name] for name in solvers},
        gradient_tol=gradient_tol,
        max_passes=max_passes,
        random_state=problem["seed"],
        callback=follow,
    )
    for name, result in results.items():
        evaluations, norm = result.trace[-1]
        if evaluations != last[name]:
            rows.append((NAMES[name], int(evaluations), float(norm)))
    predicted = predicted_evaluations(objective, gradient_tol=gradient_tol)
    return Race(_standings(results, predicted, n_records), pd.DataFrame(rows, columns=TRACES))


def run_growth(*, sizes, l2_regs, solvers, problem, gradient_tol, max_passes, report=lambda message: None):
    """Run each solver on the first n of the same records for each n of `sizes`, with the lambda of `l2_regs`.

    Parameters
    ----------
    solvers, problem, gradient_tol, max_passes : as for `run_race`
    report : callable, receives each row of what is returned, a tuple

    Returns
    -------
    DataFrame of "n", "l2_reg", "solver", "evaluations" spent, and "finished"
    """
    rows = []
    for n, l2_reg in zip(sizes, l2_regs, strict=True):
        objective = make_objective(n, l2_reg=l2_reg, **problem)
        for name in solvers:
            result = SOLVERS[name](
                objective, gradient_tol=gradient_tol, max_passes=max_passes, random_state=problem["seed"]
            )
            rows.append((n, l2_reg, NAMES[name], result.n_gradient_evaluations, bool(result.success)))
            report(rows[-1])
    return growth_table(rows)


def growth_table(rows):
    """The rows that `run_growth` has reported so far as the DataFrame that it returns."""
    return pd.DataFrame(rows, columns=GROWTH)


def laws(growth):
    """n log n and n^2, both scaled to meet the geometric mean of what finished at the least n of `growth`.

    Returns
    -------
    DataFrame: "n", SIZES, and one column for each of LAWS; nan throughout where nothing finished
    """
    n, done = np.array(SIZES, float), growth[growth["finished"]]
    first = done[done["n"] == done["n"].min()]
    start = np.exp(np.log(first["evaluations"].astype(float)).mean()) if len(first) else np.nan
    at = first["n"].min()
    return pd.DataFrame({"n": n, LINEAR: start * n * np.log(n) / (at * np.log(at)), QUADRATIC: start * (n / at) ** 2})


def exponents(growth):
    """p of the n^p that fits each solver's evaluations best: slope of least squares of their logarithms.

    Returns
    -------
    Series of float by solver, of those that finished for at least three n
    """
    slopes = {}
    for solver, rows in growth[growth["finished"]].groupby("solver", sort=False):
        if len(rows) >= 3:
            slopes[solver] = np.polyfit(np.log(rows["n"].astype(float)), np.log(rows["evaluations"].astype(float)), 1)[
                0
            ]
    return pd.Series(slopes, dtype=float)


def _standings(results, predicted, n_records):
    rows = [
        (
            NAMES[name],
            result.n_gradient_evaluations,
            result.n_gradient_evaluations / n_records,
            bool(result.success),
            result.gradient_norm,
            predicted.get(name, np.nan),
            result.message,
        )
        for name, result in results.items()
    ]
    rows.sort(key=lambda row: (not row[3], row[1] if row[3] else row[4]))
    return pd.DataFrame(rows, columns=STANDINGS)
