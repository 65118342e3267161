"""The GLM bug page: what linear structure is worth in d dimensions, and the exact leak of one record in one."""

from typing import ClassVar

import numpy as np
import pandas as pd
import param

from explorer.accounting import HockeyStickBound, ObjectivePerturbation
from explorer.accounting.bounds.renyi import non_glm_rdp, normal_rdp, objective_perturbation_rdp
from explorer.learning import LogCosh
from explorer.learning.densities import log_density, log_hockey_stick
from explorer.pages.state import PageState, refusal

GLM, OTHER, LOWEST = ANALYSES = ("GLM", "Not a GLM", "Gaussian lower bound")
WITHOUT, WITH, RATIO = DENSITIES = ("p(θ|Z)", "p(θ|Z′)", "log-ratio")
DIMENSIONS = np.unique(np.round(np.geomspace(1, 10_000, 33)).astype(int))
POINTS = 401  # even steps of theta in the plot; eight times as many for the integrals
LOSS = LogCosh()  # |f'| < 1 and f'' <= 1: a record (x, y) has L = |x| and beta = x^2


class GLMState(PageState):
    """Parameters of an objective perturbation with one record (x, y) more or less, and where it is read."""

    presets: ClassVar = {
        "Little curvature": {"noise_std": 5.0, "l2_reg": 20.0, "x": 1.0, "y": 1.0},
        "λ just above β": {"noise_std": 5.0, "l2_reg": 1.1, "x": 1.0, "y": 1.0},
        "λ below β": {"noise_std": 5.0, "l2_reg": 0.5, "x": 1.0, "y": 5.0},
    }
    table_names: ClassVar = ("glm_bug", "glm_bug_densities", "glm_bug_readouts")

    noise_std = param.Number(
        5.0,
        bounds=(0.05, 1000),
        label="σ  noise",
        doc="Standard deviation of the random linear term. Larger is more private.",
    )
    l2_reg = param.Number(
        20.0,
        bounds=(0.01, 10_000),
        label="λ  regularisation",
        doc="Weight of the ridge penalty on the sum of losses. Larger is more private.",
    )
    x = param.Number(
        1.0,
        bounds=(0.01, 10),
        label="x  the record's feature",
        doc="Sets L = x and β = x². Smaller is more private. A negative x only mirrors the picture.",
    )
    y = param.Number(
        1.0,
        bounds=(0.01, 100),
        label="y  the record's label",
        doc="Where the record's loss bends: at θ = y/x. Far out the record is a mere shift. No bound depends on it.",
    )
    alpha = param.Number(
        10.0,
        bounds=(1.01, 1000),
        label="α  Rényi order",
        doc="Larger orders look further into the tails; the divergence grows with α.",
    )
    epsilon = param.Number(
        0.3,
        bounds=(0.001, 100),
        label="ε  to hold the log-ratio against",
        doc="Where the log-ratio leaves ±ε the promise is broken. Smaller is a stronger promise.",
    )
    dimension = param.Integer(
        100,
        bounds=(1, 10_000),
        label="d  dimension",
        doc="Number of coefficients, for the readouts. Fewer are more private, unless the model is a GLM.",
    )

    @property
    def mechanism(self):
        """The ObjectivePerturbation with L = x and beta = x^2."""
        return ObjectivePerturbation(
            noise_std=self.noise_std, l2_reg=self.l2_reg, lipschitz=self.x, smoothness=self.x**2
        )

    def refusal(self):
        """Why neither analysis of the paper applies, or ""."""
        return refusal(HockeyStickBound, self.mechanism)

    def divergences(self, dimensions):
        """Renyi divergence of order alpha under each analysis.

        Parameters
        ----------
        dimensions : sequence of int >= 1

        Returns
        -------
        DataFrame: "d" and one column per analysis in nats; nan throughout where lambda <= beta forbids it
        """
        s, kappa = self.mechanism.sensitivity_ratio, self.mechanism.curvature_ratio
        table = pd.DataFrame({"d": dimensions, GLM: np.nan, OTHER: np.nan})
        table[LOWEST] = float(normal_rdp(self.alpha, sensitivity_ratio=s))
        if not self.refusal():
            ratios = {"sensitivity_ratio": s, "curvature_ratio": kappa}
            table[GLM] = float(objective_perturbation_rdp(self.alpha, **ratios))
            table[OTHER] = [float(non_glm_rdp(self.alpha, dimension=int(d), **ratios)) for d in dimensions]
        return table

    def curves(self):
        """`divergences` at DIMENSIONS."""
        return self.divergences(DIMENSIONS)

    def densities(self):
        """Densities of the released theta without (Z, no record) and with the record (Z'), and their log-ratio.

        Returns
        -------
        DataFrame: "theta", the two densities, and log p(theta|Z') - log p(theta|Z)
        """
        theta, without, with_ = self._log_densities(width=5, points=POINTS)
        columns = (theta, np.exp(without), np.exp(with_), with_ - without)
        return pd.DataFrame(dict(zip(("theta", *DENSITIES), columns, strict=True)))

    def leak(self):
        """What this one record leaks, by quadrature of the densities, and what the paper's bound grants.

        Returns
        -------
        dict: "largest_ratio" of |log-ratio| over the plot, "log10_delta" at epsilon, the larger of both directions
        (-inf where the log-ratio stays within), and "log10_granted", nan where the bound does not apply
        """
        theta, without, with_ = self._log_densities(width=12, points=8 * POINTS)
        both = [log_hockey_stick(self.epsilon, theta, *pair) for pair in ((without, with_), (with_, without))]
        granted = np.nan if self.refusal() else float(HockeyStickBound(self.mechanism).log_delta(self.epsilon))
        return {
            "largest_ratio": float(self.densities()[RATIO].abs().max()),
            "log10_delta": float(min(max(both), 0.0)) / np.log(10),
            "log10_granted": granted / np.log(10),
        }

    def readouts(self):
        """The row of `divergences` at the chosen dimension, a Series, and `leak`."""
        return self.divergences([self.dimension]).iloc[0], self.leak()

    def tables(self):
        """The curves over d, the densities, and the readouts."""
        row, leak = self.readouts()
        readouts = {**row.to_dict(), **leak}
        return dict(zip(self.table_names, (self.curves(), self.densities(), pd.DataFrame([readouts])), strict=True))

    def script(self):
        """Python that computes `glm` and `other`, the divergences over `dimensions`, and `log_ratio` over `theta`."""
        low, high = self.theta_range(width=5)
        values = {name: getattr(self, name) for name in ("noise_std", "l2_reg", "x", "y", "alpha", "epsilon")}
        return _SCRIPT.format(**values, dimensions=DIMENSIONS.tolist(), low=low, high=high, points=POINTS)

    def theta_range(self, *, width=5):
        """The thetas that noise of `width` standard deviations can make, with or without the record."""
        reach = (width * self.noise_std + self.x) / self.l2_reg
        return -reach, reach

    def _log_densities(self, *, width, points):
        """theta, finer where the record's loss bends, and both log densities."""
        low, high = self.theta_range(width=width)
        bend = (self.y + np.linspace(-8, 8, points // 2)) / self.x
        theta = np.unique(np.concatenate([np.linspace(low, high, points), bend[(bend > low) & (bend < high)]]))
        setting = {"loss": LOSS, "l2_reg": self.l2_reg, "noise_std": self.noise_std}
        return (
            theta,
            log_density(theta, records=[], **setting),
            log_density(theta, records=[(self.x, self.y)], **setting),
        )


_SCRIPT = """\
import numpy as np

from explorer.accounting.bounds.renyi import non_glm_rdp, objective_perturbation_rdp
from explorer.learning import LogCosh
from explorer.learning.densities import log_density

noise_std, l2_reg, x, y = {noise_std!r}, {l2_reg!r}, {x!r}, {y!r}
ratios = {{"sensitivity_ratio": x / noise_std, "curvature_ratio": x**2 / l2_reg}}
dimensions = {dimensions!r}
if ratios["curvature_ratio"] < 1:
    glm = objective_perturbation_rdp({alpha!r}, **ratios)
    other = np.array([non_glm_rdp({alpha!r}, dimension=d, **ratios) for d in dimensions])
    print(f"Renyi divergence of order {alpha!r}: GLM {{glm:.6g}}, otherwise {{other[0]:.6g}} to {{other[-1]:.6g}}")
else:
    print("l2_reg must exceed smoothness")

theta = np.linspace({low!r}, {high!r}, {points})
setting = {{"loss": LogCosh(), "l2_reg": l2_reg, "noise_std": noise_std}}
log_ratio = log_density(theta, records=[(x, y)], **setting) - log_density(theta, records=[], **setting)
print(f"largest |log-ratio| {{np.abs(log_ratio).max():.6g}}, against epsilon = {epsilon!r}")
"""
