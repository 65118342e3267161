"""The Solvers page: a race to the tolerance, counted in gradients of single records, and how it grows with n.

Everything random follows from one seed: the records, the linear term b, and what the solvers draw.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import param

from explorer import datasets
from explorer.learning import Logistic, PerturbedObjective, Records
from explorer.learning.solvers import SOLVERS, race
from explorer.learning.solvers.complexity import predicted_evaluations
from explorer.pages.state import PageState

NAMES = {
    "gradient_descent": "Gradient descent",
    "accelerated": "Accelerated",
    "sag": "SAG",
    "svrg": "SVRG",
    "lbfgs": "L-BFGS",
    "newton": "Newton",
    "newton_cg": "Newton-CG",
    "subsampled_newton": "Subsampled Newton",
}
SMOOTHNESS = 0.25  # beta of logistic loss on rows of norm 1
SIZES = tuple(2**k for k in range(7, 14))
LINEAR, QUADRATIC = LAWS = ("n log n", "n²")
SPACING = 1.02  # of the evaluations of neighbouring points of a trace: on a logarithmic axis none is missed

_TRACES = ["solver", "evaluations", "gradient_norm"]
_STANDINGS = ["solver", "evaluations", "passes", "finished", "gradient_norm", "theorem", "message"]
_GROWTH = ["n", "l2_reg", "solver", "evaluations", "finished"]


@dataclass(frozen=True)
class Race:
    """One race.

    Attributes
    ----------
    standings : DataFrame, a row for each solver in finishing order, those that did not finish last: "solver",
        "evaluations" spent, "passes" (those divided by n), "finished", the smallest "gradient_norm", "theorem", what
        the theory allows (nan where it gives no number), and "message", why it ended
    traces : DataFrame of "solver", "evaluations" and "gradient_norm"; after each solver's first row and before its last
        only those with SPACING times the evaluations of the row before
    """

    standings: pd.DataFrame
    traces: pd.DataFrame


class SolversState(PageState):
    """An objective on made-up records, who runs on it, and what the last runs gave."""

    presets: ClassVar = {
        "λ ≥ β: linear in n": {
            "n_records": 2048,
            "dimension": 20,
            "elongation": 10.0,
            "l2_reg": 1.0,
            "noise_std": 5.0,
            "gradient_tol": 0.01,
            "max_passes": 1000,
            "growing_l2_reg": False,
        },
        "Weak λ: conditioning bites": {
            "n_records": 1024,
            "dimension": 20,
            "elongation": 30.0,
            "l2_reg": 0.05,
            "noise_std": 5.0,
            "gradient_tol": 0.01,
            "max_passes": 300,
            "growing_l2_reg": False,
        },
        "Worst case for gradient descent": {
            "n_records": 2048,
            "dimension": 2,
            "elongation": 1e4,
            "l2_reg": 1.0,
            "noise_std": 5.0,
            "gradient_tol": 0.01,
            "max_passes": 20_000,
            "growing_l2_reg": False,
        },
    }
    table_names: ClassVar = ("solvers", "solvers_traces", "solvers_growth")

    n_records = param.Integer(
        2048,
        bounds=(32, 16_384),
        label="n  records",
        doc="How many records are learned from. More make each pass longer; no promise of privacy depends on it.",
    )
    dimension = param.Integer(
        20,
        bounds=(1, 100),
        label="d  dimension",
        doc="Number of coefficients. Each makes Newton’s steps dearer; a linear model’s privacy does not depend on it.",
    )
    elongation = param.Number(
        10.0,
        bounds=(1, 1e4),
        label="r  elongation",
        doc="How much longer the cloud of records is in its longest direction than in its shortest, before each record "
        "is scaled to norm 1. Larger is worse conditioned; privacy does not depend on it.",
    )
    l2_reg = param.Number(
        1.0,
        bounds=(0.001, 1000),
        label="λ  regularisation",
        doc="Weight of the ridge penalty on the sum of losses. Larger is more private, and quicker to minimise. "
        "One record’s curvature is at most β = 1/4 here.",
    )
    noise_std = param.Number(
        5.0,
        bounds=(0.05, 1000),
        label="σ  noise",
        doc="Standard deviation of the random linear term. Larger is more private, and moves the minimum further out.",
    )
    gradient_tol = param.Number(
        0.01,
        bounds=(1e-12, 10),
        label="τ  gradient tolerance",
        doc="Whoever brings the gradient norm down to this has finished. Smaller needs less output noise for the same "
        "privacy, and more work.",
    )
    max_passes = param.Integer(
        1000,
        bounds=(10, 100_000),
        label="m  limit in passes",
        doc="Whoever has spent m gradients for each record without getting to τ did not finish. No effect on privacy.",
    )
    seed = param.Integer(
        0,
        bounds=(0, 2**31 - 1),
        label="Seed of everything random",
        doc="Of the records, of the linear term and of what solvers draw. A real release keeps its randomness secret.",
    )
    growing_l2_reg = param.Boolean(
        False,
        label="λ grows like √n",
        doc="In the lower figure, λ is multiplied by √(n / your n): more private and quicker for large n. Without it λ "
        "is your λ for every n.",
    )
    gradient_descent = param.Boolean(
        True,
        label=NAMES["gradient_descent"],
        doc="Follows the whole gradient, with a constant step of at least 1/(nβ + λ).",
    )
    accelerated = param.Boolean(
        True,
        label=NAMES["accelerated"],
        doc="Nesterov’s: gradient descent with momentum. Needs about the root of its passes.",
    )
    sag = param.Boolean(
        True, label=NAMES["sag"], doc="Looks at a few records a step, and remembers the others’ last gradients."
    )
    svrg = param.Boolean(
        True,
        label=NAMES["svrg"],
        doc="Looks at a few records a step; a whole gradient now and then corrects them.",
    )
    lbfgs = param.Boolean(
        True, label=NAMES["lbfgs"], doc="Guesses the curvature from its last ten steps; one pass a step."
    )
    newton = param.Boolean(
        True, label=NAMES["newton"], doc="Uses the whole curvature: few steps, each costing (d + 1)/4 more passes."
    )
    newton_cg = param.Boolean(
        True, label=NAMES["newton_cg"], doc="Newton’s step by conjugate gradients: one more pass for each of those."
    )
    subsampled_newton = param.Boolean(
        True, label=NAMES["subsampled_newton"], doc="Newton on a sample first, then few passes over everybody."
    )

    race = param.ClassSelector(
        class_=Race, default=None, allow_None=True, precedence=-1, doc="The last one with these parameters, if any."
    )
    growth = param.DataFrame(
        default=None, allow_None=True, precedence=-1, doc="What `run_growth` gave with these parameters, if anything."
    )

    def solvers(self):
        """Names in SOLVERS of those that run, list of str."""
        return [name for name in SOLVERS if getattr(self, name)]

    def problem(self):
        """What `make_objective` needs but for n_records and l2_reg, dict."""
        return {name: getattr(self, name) for name in ("dimension", "elongation", "noise_std", "seed")}

    def race_arguments(self):
        """Everything `run_race` needs, picklable, fixed at this moment."""
        return {"n_records": self.n_records, "l2_reg": self.l2_reg, **self._running()}

    def growth_arguments(self):
        """Everything `run_growth` needs, picklable, fixed at this moment."""
        return {"sizes": SIZES, "l2_regs": self.l2_regs(), **self._running()}

    def l2_regs(self):
        """lambda for each of SIZES, list of float."""
        return [self.l2_reg * (n / self.n_records) ** (0.5 * self.growing_l2_reg) for n in SIZES]

    def predictions(self):
        """`predicted_evaluations` of the current objective, dict by the name that the page shows."""
        objective = make_objective(self.n_records, l2_reg=self.l2_reg, **self.problem())
        predicted = predicted_evaluations(objective, gradient_tol=self.gradient_tol)
        return {NAMES[name]: evaluations for name, evaluations in predicted.items()}

    def tables(self):
        """The standings and the traces of the last race, and the growth; empty where there is none."""
        race = self.race or Race(pd.DataFrame(columns=_STANDINGS), pd.DataFrame(columns=_TRACES))
        growth = pd.DataFrame(columns=_GROWTH) if self.growth is None else self.growth
        return dict(zip(self.table_names, (race.standings, race.traces, growth), strict=True))

    def script(self):
        """Python that leaves `results` of the race by solver, `predicted`, and `growth` by n and solver."""
        names = ("n_records", "l2_reg", "gradient_tol", "max_passes")
        values = {name: getattr(self, name) for name in names}
        return _SCRIPT.format(
            solvers=self.solvers(), sizes=list(SIZES), l2_regs=self.l2_regs(), **values, **self.problem()
        )

    def _running(self):
        limits = {"gradient_tol": self.gradient_tol, "max_passes": self.max_passes}
        return {"solvers": self.solvers(), "problem": self.problem(), **limits}


def make_objective(n_records, *, dimension, elongation, l2_reg, noise_std, seed):
    """The perturbed objective of logistic loss on `datasets.elongated` records, with b ~ N(0, noise_std^2 I)."""
    X, y = datasets.elongated(n_records, dimension=dimension, elongation=elongation, seed=seed)
    b = np.random.default_rng(seed).normal(scale=noise_std, size=dimension)
    return PerturbedObjective(Records(X, y), loss=Logistic(), l2_reg=l2_reg, linear_term=b)


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
    return Race(_standings(results, predicted, n_records), pd.DataFrame(rows, columns=_TRACES))


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
    return pd.DataFrame(rows, columns=_GROWTH)


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
    return pd.DataFrame(rows, columns=_STANDINGS)


_SCRIPT = """\
import numpy as np

from explorer import datasets
from explorer.learning import Logistic, PerturbedObjective, Records
from explorer.learning.solvers import SOLVERS, race
from explorer.learning.solvers.complexity import predicted_evaluations

solvers = {{name: SOLVERS[name] for name in {solvers!r}}}
running = {{"gradient_tol": {gradient_tol!r}, "max_passes": {max_passes!r}, "random_state": {seed!r}}}


def make_objective(n, l2_reg):
    X, y = datasets.elongated(n, dimension={dimension!r}, elongation={elongation!r}, seed={seed!r})
    b = np.random.default_rng({seed!r}).normal(scale={noise_std!r}, size={dimension!r})
    return PerturbedObjective(Records(X, y), loss=Logistic(), l2_reg=l2_reg, linear_term=b)


objective = make_objective({n_records!r}, {l2_reg!r})
results = race(objective, solvers=solvers, **running)
predicted = predicted_evaluations(objective, gradient_tol=running["gradient_tol"])
for name, result in results.items():
    end = "finished" if result.success else "did not finish"
    theorem = f", theorem {{predicted[name]:.6g}}" if name in predicted else ""
    print(f"{{name}}: {{end}} after {{result.n_gradient_evaluations}} evaluations{{theorem}}")

growth = {{}}
for n, l2_reg in zip({sizes!r}, {l2_regs!r}):
    objective = make_objective(n, l2_reg)
    for name, solver in solvers.items():
        result = solver(objective, **running)
        growth[n, name] = result.n_gradient_evaluations, result.success
        print(f"n = {{n}}, {{name}}: {{result.n_gradient_evaluations}}{{'' if result.success else ' and not there'}}")
"""
