"""The GLM bug page's parameters: one record, the noise and the regularisation, and where the results are read."""

from typing import ClassVar

import pandas as pd
import param

from explorer.accounting import HockeyStickBound
from explorer.pages import parameters
from explorer.pages.glm.computation import (
    compute_densities,
    compute_divergences,
    compute_leak,
    one_record_mechanism,
    theta_range,
)
from explorer.pages.state import PageState, call, imports, refusal


class GLMState(PageState):
    """Parameters of an objective perturbation with one record (x, y) more or less, and where it is read."""

    presets: ClassVar = {
        "Little curvature": {"noise_std": 5.0, "l2_reg": 20.0, "x": 1.0, "y": 1.0},
        "λ just above β": {"noise_std": 5.0, "l2_reg": 1.1, "x": 1.0, "y": 1.0},
        "λ below β": {"noise_std": 5.0, "l2_reg": 0.5, "x": 1.0, "y": 5.0},
    }
    table_names: ClassVar = ("glm_bug", "glm_bug_densities", "glm_bug_readouts")

    noise_std = parameters.noise_std()
    l2_reg = parameters.l2_reg()
    x = param.Number(
        1.0,
        bounds=(0.01, 10),
        label="x  the record’s feature",
        doc="Sets L = x and β = x². Smaller is more private. A negative x only mirrors the densities.",
    )
    y = param.Number(
        1.0,
        bounds=(0.01, 100),
        label="y  the record’s label",
        doc="The record’s loss is curved near θ = y/x; far from it, it is nearly linear and only shifts the noise. "
        "Neither end is always more private, and no bound depends on y.",
    )
    alpha = param.Number(
        10.0,
        bounds=(1.01, 1000),
        label="α  Rényi order",
        doc="Order of the divergences. They grow with it, since larger orders count rare outcomes more; no effect on "
        "privacy.",
    )
    epsilon = parameters.epsilon(
        0.3,
        bounds=(0.001, 100),
        label="ε  limit of the log-ratio",
        doc="Only where the log-ratio is beyond ±ε does the record count in δ. A smaller ε is the stronger guarantee, "
        "and its δ is larger.",
    )
    dimension = param.Integer(
        100,
        bounds=(1, 10_000),
        label="d  dimension",
        doc="Number of coefficients, for the readouts. Fewer are more private; in a GLM it makes no difference.",
    )

    @property
    def mechanism(self):
        """The ObjectivePerturbation with L = x and beta = x^2."""
        return one_record_mechanism(**self._values("noise_std", "l2_reg", "x"))

    def refusal(self):
        """Why neither analysis of the paper applies, or ""."""
        return refusal(HockeyStickBound, self.mechanism)

    def divergence_arguments(self):
        """Keywords of `compute_divergences` but for the dimensions."""
        return self._values("noise_std", "l2_reg", "x", "alpha")

    def record_arguments(self):
        """Keywords of `compute_densities`."""
        return self._values("noise_std", "l2_reg", "x", "y")

    def leak_arguments(self):
        """Keywords of `compute_leak`."""
        return self._values("noise_std", "l2_reg", "x", "y", "epsilon")

    def arguments(self):
        """Keywords of `curves_and_readouts`."""
        return self._values(*self.shared())

    def curves(self):
        """`compute_divergences` with the current parameters, at DIMENSIONS."""
        return compute_divergences(**self.divergence_arguments())

    def densities(self):
        """`compute_densities` with the current parameters."""
        return compute_densities(**self.record_arguments())

    def leak(self):
        """`compute_leak` with the current parameters."""
        return compute_leak(**self.leak_arguments())

    def readouts(self):
        """The row of `compute_divergences` at the chosen dimension, a Series, and `compute_leak`."""
        row = compute_divergences(**self.divergence_arguments(), dimensions=(self.dimension,)).iloc[0]
        return row, self.leak()

    def theta_range(self):
        """The thetas that the plots show."""
        return theta_range(**self._values("noise_std", "l2_reg", "x"))

    def tables(self):
        """The curves over d, the densities, and the readouts."""
        row, leak = self.readouts()
        readouts = {**row.to_dict(), **leak}
        return dict(zip(self.table_names, (self.curves(), self.densities(), pd.DataFrame([readouts])), strict=True))

    def script(self):
        """Python that leaves the `divergences` over d, their row `chosen`, the `densities`, and the record's `leak`."""
        at_dimension = {**self.divergence_arguments(), "dimensions": (self.dimension,)}
        return "".join(
            (
                imports(compute_densities, compute_divergences, compute_leak),
                "\n",
                call(compute_divergences, self.divergence_arguments(), result="divergences"),
                call(compute_divergences, at_dimension, result="chosen"),
                call(compute_densities, self.record_arguments(), result="densities"),
                call(compute_leak, self.leak_arguments(), result="leak"),
                'print(chosen.to_string(index=False), leak, sep="\\n")\n',
            )
        )

    def _values(self, *names):
        return {name: getattr(self, name) for name in names}
