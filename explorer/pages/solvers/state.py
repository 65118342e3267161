"""The Solvers page's parameters: an objective on synthetic records, the solvers that minimise it, and the results."""

from typing import ClassVar

import pandas as pd
import param

from explorer.learning.solvers import SOLVERS
from explorer.pages import parameters
from explorer.pages.solvers.computation import (
    GROWTH,
    NAMES,
    SIZES,
    STANDINGS,
    TRACES,
    Race,
    exponents,
    run_growth,
    run_race,
)
from explorer.pages.state import Answer, PageState, call, imports


class SolversState(PageState):
    """An objective on synthetic records, the solvers that minimise it, and the results of the last runs."""

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
        "Weak λ: badly conditioned": {
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
        doc="Number of training records. More make each pass longer; the privacy guarantee does not depend on it.",
    )
    dimension = param.Integer(
        20,
        bounds=(1, 100),
        label="d  dimension",
        doc="Number of coefficients. More make Newton’s steps more expensive; privacy does not depend on it.",
    )
    elongation = param.Number(
        10.0,
        bounds=(1, 1e4),
        label="r  elongation",
        doc="Ratio of the largest to the smallest standard deviation of the features, before each record is scaled "
        "to norm 1. Larger is worse conditioned; privacy does not depend on it.",
    )
    l2_reg = parameters.l2_reg(
        1.0,
        bounds=(0.001, 1000),
        doc="Weight of the ridge penalty on the sum of losses. Larger is more private and faster to minimise. "
        "One record’s curvature is at most β = 1/4 here.",
    )
    noise_std = parameters.noise_std(
        doc="Standard deviation of the random linear term. Larger is more private and moves the minimiser further.",
    )
    gradient_tol = parameters.gradient_tol(
        doc="A solver has converged when the gradient norm is at most τ. Smaller needs more work, and less output "
        "noise for the same privacy.",
    )
    max_passes = param.Integer(
        1000,
        bounds=(10, 100_000),
        label="m  limit, passes",
        doc="A solver that has used m passes without reaching τ stops. No effect on privacy.",
    )
    seed = parameters.seed(
        doc="Of the records, of the linear term and of the solvers’ samples. A real release keeps its seed secret.",
    )
    growing_l2_reg = param.Boolean(
        False,
        label="λ grows like √n",
        doc="In the lower figure, λ is scaled by √(n / n above): more private and faster for large n. Without it λ is "
        "the same for every n.",
    )
    gradient_descent = param.Boolean(
        True,
        label=NAMES["gradient_descent"],
        doc="Full gradient, constant step of at least 1/(nβ + λ).",
    )
    accelerated = param.Boolean(
        True,
        label=NAMES["accelerated"],
        doc="Nesterov’s method: gradient descent with momentum. Work grows with the root of the condition number.",
    )
    sag = param.Boolean(
        True,
        label=NAMES["sag"],
        doc="Stochastic average gradient: a few records a step, and the stored gradients of the others.",
    )
    svrg = param.Boolean(
        True,
        label=NAMES["svrg"],
        doc="Stochastic variance-reduced gradient: a few records a step, corrected by a full gradient now and then.",
    )
    lbfgs = param.Boolean(
        True,
        label=NAMES["lbfgs"],
        doc="Quasi-Newton: estimates the curvature from its last ten steps; one pass a step.",
    )
    newton = param.Boolean(
        True, label=NAMES["newton"], doc="Exact Hessian: few steps, each of which costs (d + 1)/4 more passes."
    )
    newton_cg = param.Boolean(
        True,
        label=NAMES["newton_cg"],
        doc="Newton’s step by conjugate gradients: one more pass for each of their iterations.",
    )
    subsampled_newton = param.Boolean(
        True, label=NAMES["subsampled_newton"], doc="Newton on a sample of the records first, then few passes over all."
    )

    race = Answer("race_arguments", "What `run_race` gave with these parameters, a Race, or None.")
    growth = Answer("growth_arguments", "What `run_growth` gave with these parameters, a DataFrame, or None.")

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

    def prediction_arguments(self):
        """Everything `predictions` needs, picklable, fixed at this moment."""
        names = ("n_records", "l2_reg", "gradient_tol")
        return {"problem": self.problem(), **{name: getattr(self, name) for name in names}}

    def tables(self):
        """The standings and the traces of the last race, and the growth; empty where there is none."""
        race = self.race or Race(pd.DataFrame(columns=STANDINGS), pd.DataFrame(columns=TRACES))
        growth = pd.DataFrame(columns=GROWTH) if self.growth is None else self.growth
        return dict(zip(self.table_names, (race.standings, race.traces, growth), strict=True))

    def script(self):
        """Python that leaves the Race `race`, and `growth` by n and solver."""
        return "".join(
            (
                imports(exponents, run_growth, run_race),
                "\n",
                call(run_race, self.race_arguments(), result="race"),
                "print(race.standings.to_string(index=False))\n\n",
                call(run_growth, self.growth_arguments(), result="growth"),
                'print(growth.to_string(index=False), exponents(growth), sep="\\n")\n',
            )
        )

    def _running(self):
        limits = {"gradient_tol": self.gradient_tol, "max_passes": self.max_passes}
        return {"solvers": self.solvers(), "problem": self.problem(), **limits}
