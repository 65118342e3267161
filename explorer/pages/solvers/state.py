"""The Solvers page's parameters: an objective on made-up records, the solvers that run on it, and the last answers."""

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
    l2_reg = parameters.l2_reg(
        1.0,
        bounds=(0.001, 1000),
        doc="Weight of the ridge penalty on the sum of losses. Larger is more private, and quicker to minimise. "
        "One record’s curvature is at most β = 1/4 here.",
    )
    noise_std = parameters.noise_std(
        doc="Standard deviation of the random linear term. Larger is more private, and moves the minimum further out.",
    )
    gradient_tol = parameters.gradient_tol(
        doc="Whoever brings the gradient norm down to this has finished. Smaller needs less output noise for the same "
        "privacy, and more work.",
    )
    max_passes = param.Integer(
        1000,
        bounds=(10, 100_000),
        label="m  limit in passes",
        doc="Whoever has spent m gradients for each record without getting to τ did not finish. No effect on privacy.",
    )
    seed = parameters.seed(
        label="Seed of everything random",
        doc="Of the records, of the linear term and of the solvers’ samples. A real release keeps its seed secret.",
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
