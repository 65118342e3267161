"""The Half-normal page's parameters: one objective perturbation, and the epsilon beyond which privacy losses count."""

from typing import ClassVar

import numpy as np
import param

from explorer.accounting import ObjectivePerturbation
from explorer.pages import parameters
from explorer.pages.bounds.state import PRESETS
from explorer.pages.half_normal.computation import (
    compute_densities,
    compute_gap,
    compute_summary,
    density_range,
    loss_reach,
    privacy_loss_distributions,
    shift,
)
from explorer.pages.state import Code, ObjectivePerturbationState, call, imports, round_up


class HalfNormalState(ObjectivePerturbationState):
    """Parameters of one objective perturbation, and the epsilon beyond which losses count."""

    # The captions of Figure 1 of the paper, and a case in which the start-up gap is nearly everything.
    presets: ClassVar = {
        **{
            name: {key: value for key, value in values.items() if key != "monotone_loss"}
            for name, values in PRESETS.items()
        },
        "λ just above β": {"noise_std": 5.0, "l2_reg": 1.5, "smoothness": 1.0, "lipschitz": 1.0},
    }
    table_names: ClassVar = ("half_normal", "half_normal_readouts", "half_normal_gap")

    noise_std = param.Number(
        doc="Standard deviation of the random linear term. Larger narrows all densities and moves them towards 0: more "
        "private."
    )
    l2_reg = param.Number(
        doc="Weight of the ridge penalty on the sum of losses. Larger makes the start-up gap smaller: more private."
    )
    smoothness = param.Number(
        doc="Largest curvature one record can add. Smaller makes the start-up gap smaller: more private."
    )
    lipschitz = param.Number(
        doc="Largest gradient one record can have. Smaller narrows all densities and moves them towards 0: more "
        "private."
    )
    monotone_loss = param.Boolean(constant=True)  # the paper's theorem does not use it
    epsilon = parameters.epsilon(
        0.5,
        bounds=(0.001, 100),
        label="ε  where tails begin",
        doc="Only privacy losses beyond ε count in δ. A smaller ε is the stronger guarantee, and its δ is larger.",
    )
    loss_max = param.Number(
        1.0,
        bounds=(0.01, 10_000),
        label="ω_max  end of the axis",
        doc="Where the axis of ω ends; no effect on privacy. “Fit the axis” chooses it so that all densities are seen.",
    )
    logarithmic = param.Boolean(
        False,
        label="log density",
        doc="Draw the logarithm of the densities, to see the tails; no effect on privacy.",
    )

    @property
    def shift(self):
        """s^2/2, the part of the start-up gap that the shift of the noise makes, nats."""
        return shift(self.mechanism)

    def apply_preset(self, name):
        """Set every parameter of the named preset at once, and an axis that shows all densities."""
        with param.parameterized.batch_call_watchers(self):
            super().apply_preset(name)
            self.fit_axis()

    def fit_axis(self):
        """Move the right end of the axis to where the rightmost density has nearly vanished, and beyond epsilon."""
        low, high = self.param.loss_max.bounds
        reach = max(loss_reach(self.mechanism), 1.1 * self.epsilon)
        self.loss_max = float(np.clip(round_up(reach), low, high))

    def distributions(self):
        """`privacy_loss_distributions` with the current parameters."""
        return privacy_loss_distributions(self.mechanism)

    def curves(self):
        """`compute_densities` with the current parameters."""
        return compute_densities(self.mechanism, **self.axes())

    def axes(self):
        """Keywords of `compute_densities`."""
        return {"loss_max": self.loss_max, "epsilon": self.epsilon, "logarithmic": self.logarithmic}

    def density_range(self):
        """`computation.density_range` with the current parameters."""
        return density_range(self.mechanism, logarithmic=self.logarithmic)

    def summary(self):
        """`compute_summary` with the current parameters."""
        return compute_summary(self.mechanism, epsilon=self.epsilon)

    def gap(self):
        """`compute_gap` over every lambda of the slider that exceeds beta."""
        return compute_gap(self.mechanism, l2_reg_range=self.param.l2_reg.bounds)

    def tables(self):
        """The densities, what lies beyond epsilon, and the start-up gap at every lambda."""
        readouts = self.summary().rename_axis("distribution").reset_index()
        return dict(zip(self.table_names, (self.curves(), readouts, self.gap()), strict=True))

    def script(self):
        """Python that leaves `densities` over the loss, the `summary` of what lies beyond epsilon, and the `gap`."""
        mechanism = {"mechanism": Code("mechanism")}
        gap = {"l2_reg_range": self.param.l2_reg.bounds}
        return "".join(
            (
                imports(ObjectivePerturbation, compute_densities, compute_gap, compute_summary),
                f"\nmechanism = {self.mechanism!r}\n",
                call(compute_densities, mechanism | self.axes(), result="densities"),
                call(compute_summary, mechanism | {"epsilon": self.epsilon}, result="summary"),
                call(compute_gap, mechanism | gap, result="gap"),
                "print(summary.to_string())\n",
            )
        )
