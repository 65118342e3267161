"""The Half-normal page: where the privacy losses of the Gaussian mechanism and of objective perturbation lie."""

from typing import ClassVar

import numpy as np
import pandas as pd
import param

from explorer.accounting import BoundNotApplicable, HalfNormalPLD, NormalPLD, dominating_pld
from explorer.pages.bounds.state import PRESETS
from explorer.pages.state import ObjectivePerturbationState, round_up

NORMAL, HALF_NORMAL, PERTURBATION = LAWS = ("Normal", "Half-normal mechanism", "Objective perturbation")
POINTS = 201  # even steps of the axis
LEFT = 0.6  # the axis of losses goes this part of its right end to the left of zero


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
        doc="Standard deviation of the random linear term. Larger narrows both losses towards 0: more private."
    )
    l2_reg = param.Number(
        doc="Weight of the ridge penalty on the sum of losses. Larger closes the start-up gap: more private."
    )
    smoothness = param.Number(
        doc="Largest curvature one record can add. Smaller closes the start-up gap: more private."
    )
    lipschitz = param.Number(doc="Largest gradient one record can have. Smaller narrows both losses: more private.")
    monotone_loss = param.Boolean(constant=True)  # of no account to the paper's losses
    epsilon = param.Number(
        0.5,
        bounds=(0.001, 100),
        label="ε  where tails begin",
        doc="Losses beyond ε break the promise; the readouts give their share. Smaller is a stronger promise.",
    )
    loss_max = param.Number(
        1.0,
        bounds=(0.01, 10_000),
        label="ω_max  end of the axis",
        doc="Right end of the plot. “Fit” chooses it so that all densities are in the picture.",
    )
    logarithmic = param.Boolean(
        False,
        label="log density",
        doc="Draw the logarithm of the densities, in which tails far out can be seen.",
    )

    @property
    def shift(self):
        """s^2/2, the part of the start-up gap that the noise's shift makes, nats."""
        return self.mechanism.sensitivity_ratio**2 / 2

    def apply_preset(self, name):
        """Set every parameter of the named preset at once, and an axis that shows all densities."""
        with param.parameterized.batch_call_watchers(self):
            super().apply_preset(name)
            self.fit_axis()

    def fit_axis(self):
        """Move the right end of the axis to where the widest density has nearly vanished, and beyond epsilon."""
        laws, _ = self.laws()
        spread = max(getattr(law, "start", self.shift) + 4 * law.sensitivity_ratio for law in laws.values())
        low, high = self.param.loss_max.bounds
        self.loss_max = float(np.clip(round_up(max(spread, 1.1 * self.epsilon)), low, high))

    def laws(self):
        """The laws of the privacy loss by name, and the reason by name where a theorem does not apply."""
        s = self.mechanism.sensitivity_ratio
        granted = {NORMAL: NormalPLD(sensitivity_ratio=s), HALF_NORMAL: HalfNormalPLD(sensitivity_ratio=s)}
        try:
            return {**granted, PERTURBATION: dominating_pld(self.mechanism)}, {}
        except BoundNotApplicable as reason:
            return granted, {PERTURBATION: str(reason)}

    def axis(self):
        """Losses from left to right, nats: even steps, finer ones where a narrow density is, both sides of its edge,
        and epsilon."""
        low, high, (laws, _) = -LEFT * self.loss_max, self.loss_max, self.laws()
        deviations = self.mechanism.sensitivity_ratio * np.linspace(-6, 6, 121)
        starts = [law.start for name, law in laws.items() if name != NORMAL]
        parts = [np.linspace(low, high, POINTS), self.shift + deviations, [self.epsilon]]
        parts += [start + deviations[deviations >= 0] for start in starts] + [np.nextafter(starts, -np.inf)]
        loss = np.unique(np.concatenate(parts))
        return loss[(loss >= low) & (loss <= high)]

    def curves(self):
        """The densities over the axis of losses, or log10 of them.

        Returns
        -------
        DataFrame: "loss" in nats and one column per law in 1/nats, or log10 of that (-inf where a law has no mass);
        nan throughout where it does not apply
        """
        (laws, _), loss = self.laws(), self.axis()
        curves = {name: laws[name].log_density(loss) if name in laws else np.nan for name in LAWS}
        scale = (lambda x: x / np.log(10)) if self.logarithmic else np.exp
        return pd.DataFrame({"loss": loss, **{name: scale(curve) for name, curve in curves.items()}})

    def density_range(self):
        """Foot and top of the densities' axis: 0 to just above the highest peak, or the six decades below that."""
        peak = 2 / (np.sqrt(2 * np.pi) * self.mechanism.sensitivity_ratio)
        return (np.log10(peak) - 6, np.log10(peak) + 0.5) if self.logarithmic else (0.0, 1.15 * peak)

    def summary(self):
        """What lies beyond the chosen epsilon.

        Returns
        -------
        DataFrame indexed by law: "start", the smallest loss in nats (-inf for the normal), "log10_tail" of
        Pr[loss > epsilon], "log10_delta" of delta at epsilon, "log10_ratio" of that delta to the normal's, and
        "refusal", why a law does not apply (then the numbers are nan) or ""
        """
        laws, refused = self.laws()
        rows = {}
        for name in LAWS:
            row = dict.fromkeys(("start", "log10_tail", "log10_delta"), np.nan)
            if name in laws:
                row = {"start": getattr(laws[name], "start", -np.inf)}
                row["log10_tail"] = float(laws[name].log_tail(self.epsilon)) / np.log(10)
                row["log10_delta"] = float(laws[name].log_delta(self.epsilon)) / np.log(10)
            rows[name] = {**row, "refusal": refused.get(name, "")}
        table = pd.DataFrame.from_dict(rows, orient="index")
        table.insert(3, "log10_ratio", table["log10_delta"] - table.loc[NORMAL, "log10_delta"])
        return table

    def gap(self):
        """The start-up gap -log(1 - beta/lambda) + s^2/2 over every lambda of the slider that exceeds beta.

        Returns
        -------
        DataFrame: "l2_reg", "start-up gap" in nats and "shift", its part s^2/2
        """
        beta, (low, high) = self.smoothness, self.param.l2_reg.bounds
        # towards beta the gap grows without bound: ever closer steps there
        l2_reg = np.unique(np.concatenate([beta * (1 + np.geomspace(1e-6, 1, 100)), np.geomspace(2 * beta, high, 60)]))
        l2_reg = l2_reg[(l2_reg >= low) & (l2_reg <= high)]
        return pd.DataFrame(
            {"l2_reg": l2_reg, "start-up gap": -np.log1p(-beta / l2_reg) + self.shift, "shift": self.shift}
        )

    def tables(self):
        """The densities, what lies beyond epsilon, and the gap at every lambda."""
        readouts = self.summary().rename_axis("law").reset_index()
        return dict(zip(self.table_names, (self.curves(), readouts, self.gap()), strict=True))

    def script(self):
        """Python that computes `densities` by name over `loss`, and prints each law's tail and delta at epsilon."""
        return _SCRIPT.format(
            mechanism=repr(self.mechanism),
            epsilon=self.epsilon,
            low=-LEFT * self.loss_max,
            high=self.loss_max,
            points=POINTS,
        )


_SCRIPT = """\
import numpy as np

from explorer.accounting import (
    BoundNotApplicable,
    HalfNormalPLD,
    NormalPLD,
    ObjectivePerturbation,
    dominating_pld,
)

mechanism = {mechanism}
epsilon = {epsilon!r}
laws = {{
    "Normal": NormalPLD(sensitivity_ratio=mechanism.sensitivity_ratio),
    "Half-normal mechanism": HalfNormalPLD(sensitivity_ratio=mechanism.sensitivity_ratio),
}}
try:
    laws["Objective perturbation"] = dominating_pld(mechanism)
    print(f"start-up gap: {{laws['Objective perturbation'].start:.6g}}")
except BoundNotApplicable as reason:
    print(f"Objective perturbation: {{reason}}")

loss = np.linspace({low!r}, {high!r}, {points})
densities = {{name: np.exp(law.log_density(loss)) for name, law in laws.items()}}
log10_tails = {{name: law.log_tail(epsilon) / np.log(10) for name, law in laws.items()}}
log10_deltas = {{name: law.log_delta(epsilon) / np.log(10) for name, law in laws.items()}}
for name in laws:
    print(f"{{name}}: log10 Pr[loss > epsilon] = {{log10_tails[name]:.6g}}, log10 delta = {{log10_deltas[name]:.6g}}")
"""
