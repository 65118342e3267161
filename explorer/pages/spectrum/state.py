"""The Spectrum page: three learners of equal privacy, whose noise is fresh at each step, a tree's, or one draw for all.

All noise is counted for steps that together make one pass over the records, S_t being the sum of the first t steps'
gradients: a step on all records counts 1/T, a step on about n/T of them counts 1. Then the noise of S_T is what was
added to the sum of all records' gradients, in units of the bound L = 1 on a single one.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import pandas as pd
import param

from explorer import datasets
from explorer.accounting import BoundNotApplicable, InfeasibleTarget, PoissonSubsampledGaussian
from explorer.learning import (
    AMPClassifier,
    DPFTRLClassifier,
    DPGDClassifier,
    DPSGDClassifier,
    Logistic,
    PerturbedObjective,
    PrivacyStatement,
    Records,
    tree_noise_covariance,
)
from explorer.learning.solvers import newton
from explorer.pages.state import PageState

FRESH, TREE, ONCE = LEARNERS = ("DP-SGD", "DP-FTRL", "Algorithm 1")
GRADIENT_TOL, OUTPUT_NOISE_STD = 1e-4, 0.01  # of Algorithm 1; small, so that nearly all of its noise is b
WINDOW = (-1.0, 6.0), (-4.5, 1.5)  # of the two coefficients, in the picture at least
FARTHEST = 15.0  # and at most
GRID = 31  # values of each coefficient at which the loss is computed for its contours


@dataclass(frozen=True)
class NoisyFit:
    """One fit and its noise, in the unit of the module's docstring.

    Attributes
    ----------
    privacy : PrivacyStatement
    covariance : ndarray (T, T), of one coordinate of the steps' noise
    noise : ndarray (T,), that of the first coordinate in this fit
    path : ndarray (k, 2), the start, the iterates and last the released coefficients
    draws : int, random vectors in all, with output noise
    """

    privacy: PrivacyStatement
    covariance: np.ndarray
    noise: np.ndarray
    path: np.ndarray
    draws: int

    @property
    def prefix_covariance(self):
        """That of the noise of S_1, ..., S_T."""
        return self.covariance.cumsum(axis=0).cumsum(axis=1)


class SpectrumState(PageState):
    """Parameters of the three learners, and what the pictures show of their noise."""

    presets: ClassVar = {
        "One pass in 64 samples": {"steps": 64, "sampled": True, "epsilon": 1.0, "delta": 1e-5},
        "All records 64 times": {"steps": 64, "sampled": False, "epsilon": 1.0, "delta": 1e-5},
        "Two steps": {"steps": 2, "sampled": False, "epsilon": 1.0, "delta": 1e-5},
    }
    table_names: ClassVar = ("spectrum_noise", "spectrum_covariance", "spectrum_paths", "spectrum_readouts")

    steps = param.Integer(
        64,
        bounds=(2, 128),
        label="T  steps",
        doc="Steps of DP-SGD and DP-FTRL. More steps would be less private and so get more noise. Those of Algorithm 1 "
        "are free.",
    )
    epsilon = param.Number(
        1.0,
        bounds=(0.1, 20),
        label="ε  privacy budget",
        doc="Of each learner. How much one record may change the odds of any outcome. Smaller is more private.",
    )
    delta = param.Number(
        1e-5,
        bounds=(1e-10, 0.1),
        label="δ  failure probability",
        doc="Of each learner. How often the ε promise may fail. Smaller is more private.",
    )
    learning_rate = param.Number(
        1.5,
        bounds=(0.01, 8),
        label="η  learning rate",
        doc="Of DP-SGD and DP-FTRL, for the mean gradient. Costs no privacy; larger moves faster and shakes more.",
    )
    l2_reg = param.Number(
        2.0,
        bounds=(0.01, 1000),
        label="λ  regularisation",
        doc="Of Algorithm 1. Larger lets it do with a little less noise for the same privacy, but pulls its minimum "
        "towards zero.",
    )
    seed = param.Integer(
        0,
        bounds=(0, 2**31 - 1),
        label="Seed of the noise",
        doc="Repeats a demonstration exactly. A seed that others know voids privacy: real releases use none.",
    )
    sampled = param.Boolean(
        True,
        label="Samples in DP-SGD",
        doc="Each step of DP-SGD takes a random sample, a share 1/T of the records; without it all of them (DP-GD). "
        "Sampling hides who took part, which is worth privacy: the step's noise may be smaller.",
    )
    prefix_sums = param.Boolean(
        False,
        label="Prefix sums",
        doc="Show the noise in the sum of the steps so far instead of that in single steps. Privacy is the same.",
    )
    absolute = param.Boolean(
        False,
        label="Covariances",
        doc="Show covariances instead of correlations, and the noise in units of one record's largest gradient instead "
        "of its own standard deviation. Privacy is the same.",
    )

    @property
    def names_of_fits(self):
        """The parameters that the fits depend on; the others only choose what is shown."""
        return [name for name in self.shared() if name not in ("prefix_sums", "absolute")]

    def specifications(self):
        """Class and parameters of the three learners, by name."""
        n = len(plane()[1])
        given = {"epsilon": self.epsilon, "delta": self.delta, "fit_intercept": False, "random_state": self.seed}
        descent = {**given, "learning_rate": self.learning_rate}
        passes = {"batch_size": n / self.steps, "epochs": 1} if self.sampled else {"steps": self.steps}
        on_sums = {**given, "learning_rate": self.learning_rate * self.steps / n}
        certified = {"gradient_tol": GRADIENT_TOL, "output_noise_std": OUTPUT_NOISE_STD, "solver": "gradient_descent"}
        return {
            FRESH: (DPSGDClassifier if self.sampled else DPGDClassifier, {**descent, **passes}),
            TREE: (DPFTRLClassifier, {**on_sums, "steps": self.steps, "epochs": 1}),
            ONCE: (AMPClassifier, {**given, "l2_reg": self.l2_reg, **certified}),
        }

    def fits(self):
        """NoisyFits by name, and the reason by name where a learner cannot meet the target."""
        fits, refused = {}, {}
        for name, (kind, parameters) in self.specifications().items():
            try:
                fits[name] = self._watched(name, kind(**parameters))
            except InfeasibleTarget as reason:
                needed = reason.needed.get("l2_reg")
                refused[name] = f"l2_reg must exceed {needed:.6g} for this ε and δ" if needed else str(reason)
            except BoundNotApplicable as reason:
                refused[name] = str(reason)
        return fits, refused

    def picture(self):
        """All that takes time: the fits, the refusals, the readouts, and the loss over the window that shows them."""
        fits, refused = self.fits()
        shown = window(fits)
        return fits, refused, self.readouts(fits, refused), shown, landscape(shown)

    def _watched(self, name, learner):
        seen = []
        learner.set_params(watch=lambda *what: seen.append(what)).fit(*plane())
        thetas, noise = (np.array(column) for column in zip(*seen, strict=True))
        if name == ONCE:  # watched from the start to the last point before the output noise
            path, noise = np.vstack([thetas, learner.coef_]), np.tile(noise[0], (self.steps, 1))
        else:
            path = np.vstack([np.zeros(2), thetas])
        mechanism, weight = learner.privacy_.mechanism, self.weights()[name]
        sampled = isinstance(mechanism, PoissonSubsampledGaussian)
        std = mechanism.noise_multiplier if sampled else mechanism.noise_std  # L = 1
        return NoisyFit(
            privacy=learner.privacy_,
            covariance=(weight * std) ** 2 * _OVER_STEPS[name](self.steps),
            noise=weight * noise[:, 0],
            path=path,
            draws=_DRAWS[name](self.steps),
        )

    def weights(self):
        """What a step of each learner counts, float by name."""
        return {name: 1.0 if name == TREE or (name == FRESH and self.sampled) else 1 / self.steps for name in LEARNERS}

    def matrix(self, fit):
        """What the heat map of a NoisyFit shows, ndarray (T, T)."""
        covariance = fit.prefix_covariance if self.prefix_sums else fit.covariance
        return covariance if self.absolute else _correlation(covariance)

    def trace(self, fit):
        """The noise of one coordinate against step as shown, and its standard deviation: two ndarrays (T,)."""
        noise = fit.noise.cumsum() if self.prefix_sums else fit.noise
        std = np.sqrt(np.diag(fit.prefix_covariance if self.prefix_sums else fit.covariance))
        return (noise, std) if self.absolute else (noise / std, np.ones(self.steps))

    def readouts(self, fits, refused):
        """What there is to say of each learner.

        Returns
        -------
        DataFrame indexed by learner: "step_std" and "final_std", standard deviations of the noise in a step (root mean
        square over the steps) and in S_T; "draws"; "successive_correlation", the mean over successive steps; "excess",
        by how much the mean loss at the released point exceeds its minimum, in nats; "epsilon", "delta", "bound"; and
        "refusal", why a learner cannot meet the target (then the numbers are nan) or ""
        """
        rows = {}
        for name in LEARNERS:
            rows[name] = {"refusal": refused.get(name, "")}
            if name in fits:
                fit = fits[name]
                rows[name] |= {
                    "step_std": np.sqrt(np.diag(fit.covariance).mean()),
                    "final_std": np.sqrt(fit.covariance.sum()),
                    "draws": fit.draws,
                    "successive_correlation": np.diag(_correlation(fit.covariance), 1).mean(),
                    "excess": float(excess(fit.path[-1])),
                    "epsilon": fit.privacy.epsilon,
                    "delta": fit.privacy.delta,
                    "bound": fit.privacy.bound,
                }
        columns = ["step_std", "final_std", "draws", "successive_correlation", "excess", "epsilon", "delta", "bound"]
        return pd.DataFrame.from_dict(rows, orient="index").reindex(columns=[*columns, "refusal"])

    def tables(self):
        """The noise against step, the covariances, the paths and the readouts."""
        fits, refused = self.fits()
        steps = np.arange(1, self.steps + 1)
        noise, covariance, paths = ([pd.DataFrame(columns=["learner"])] for _ in range(3))
        for name, fit in fits.items():
            prefix = fit.prefix_covariance
            columns = {
                "step": steps,
                "noise": fit.noise,
                "std": np.sqrt(np.diag(fit.covariance)),
                "prefix_noise": fit.noise.cumsum(),
                "prefix_std": np.sqrt(np.diag(prefix)),
            }
            noise.append(pd.DataFrame({"learner": name, **columns}))
            pairs = {"step": np.repeat(steps, self.steps), "other_step": np.tile(steps, self.steps)}
            values = {"covariance": fit.covariance.ravel(), "prefix_covariance": prefix.ravel()}
            covariance.append(pd.DataFrame({"learner": name, **pairs, **values}))
            path = {"step": np.arange(len(fit.path)), "theta_1": fit.path[:, 0], "theta_2": fit.path[:, 1]}
            paths.append(pd.DataFrame({"learner": name, **path}))
        tidy = [pd.concat(parts[1:] or parts, ignore_index=True) for parts in (noise, covariance, paths)]
        readouts = self.readouts(fits, refused).rename_axis("learner").reset_index()
        return dict(zip(self.table_names, (*tidy, readouts), strict=True))

    def script(self):
        """Python that fits the learners and leaves `paths`, `noise` and `covariance` by name."""
        learners = self.specifications()
        return _SCRIPT.format(
            names="".join(f"    {kind},\n" for kind in sorted(kind.__name__ for kind, _ in learners.values())),
            steps=self.steps,
            learners="".join(
                f"    {name!r}: {kind.__name__}(\n"
                + "".join(f"        {parameter}={value!r},\n" for parameter, value in parameters.items())
                + "    ),\n"
                for name, (kind, parameters) in learners.items()
            ),
            weights="".join(f"    {name!r}: {weight!r},\n" for name, weight in self.weights().items()),
        )


_OVER_STEPS = {FRESH: np.eye, TREE: tree_noise_covariance, ONCE: lambda steps: np.ones((steps, steps))}
_DRAWS = {
    FRESH: lambda steps: steps,
    TREE: lambda steps: sum(steps >> level for level in range(steps.bit_length())),  # a draw for each complete node
    ONCE: lambda steps: 2,  # b and the output noise
}

_SCRIPT = """\
import numpy as np

from explorer.datasets import logistic_plane
from explorer.learning import (
{names}    tree_noise_covariance,
)

X, y = logistic_plane()
steps = {steps}
learners = {{
{learners}}}
weights = {{  # of a step, so that all steps together count as one pass over the records
{weights}}}
shapes = {{
    "DP-SGD": np.eye(steps),
    "DP-FTRL": tree_noise_covariance(steps),
    "Algorithm 1": np.ones((steps, steps)),
}}
paths, noise, covariance = {{}}, {{}}, {{}}
for name, learner in learners.items():
    seen = []
    learner.set_params(watch=lambda *what: seen.append(what))
    try:
        learner.fit(X, y)
    except ValueError as reason:
        print(f"{{name}}: {{reason}}")
        continue
    thetas, draws = (np.array(column) for column in zip(*seen))
    mechanism = learner.privacy_.mechanism
    std = mechanism.noise_std if hasattr(mechanism, "noise_std") else mechanism.noise_multiplier
    covariance[name] = (weights[name] * std) ** 2 * shapes[name]
    if name == "Algorithm 1":
        paths[name], draws = np.vstack([thetas, learner.coef_]), np.tile(draws[0], (steps, 1))
    else:
        paths[name] = np.vstack([np.zeros(2), thetas])
    noise[name] = weights[name] * draws[:, 0]
    print(f"{{name}}: noise of standard deviation {{np.sqrt(covariance[name].sum()):.6g}} in the sum of all steps")
    print(learner.privacy_)
"""


def _correlation(covariance):
    std = np.sqrt(np.diag(covariance))
    return covariance / np.outer(std, std)


@lru_cache(maxsize=1)
def plane():
    """The made-up records, X and y."""
    return datasets.logistic_plane()


@lru_cache(maxsize=1)
def minimum():
    """The coefficients without privacy or regularisation, ndarray (2,)."""
    X, y = plane()
    records = Records(X, np.where(y == 1, 1.0, -1.0), data_norm=1.0, constant=False)
    objective = PerturbedObjective(records, loss=Logistic(), l2_reg=0.0, linear_term=np.zeros(2))
    return newton(objective, gradient_tol=1e-9).x


def excess(theta):
    """By how much the mean loss of the records exceeds its minimum: theta (..., 2) to ndarray (...), nats."""
    X, y = plane()
    signs = np.where(y == 1, 1.0, -1.0)
    here, least = (Logistic().value(np.asarray(point) @ X.T, signs).mean(axis=-1) for point in (theta, minimum()))
    return here - least


@lru_cache(maxsize=32)
def landscape(window):
    """`excess` over ((low, high), (low, high)): two ndarrays (GRID,) and one (GRID, GRID), rows by the second."""
    first, second = (np.linspace(*ends, GRID) for ends in window)
    return first, second, excess(np.stack(np.meshgrid(first, second), axis=-1))


def window(fits):
    """The ranges of both coefficients that show WINDOW and, up to FARTHEST, every path: ((low, high), (low, high))."""
    points = np.vstack([np.transpose(WINDOW), *(fit.path for fit in fits.values())])
    low = np.maximum(np.floor(2 * points.min(axis=0)) / 2, -FARTHEST)
    high = np.minimum(np.ceil(2 * points.max(axis=0)) / 2, FARTHEST)
    return tuple(zip(low.tolist(), high.tolist(), strict=True))
